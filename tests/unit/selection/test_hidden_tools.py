"""What a caller learns of tools that it may not have: nothing, whether or not they exist."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolroll import Context, Tool, Toolroll
from toolroll.embedders.hashing import HashingEmbedder
from toolroll.model.errors import NotFound, ToolrollError
from toolroll.model.rules import Rule
from toolroll.model.tools import Route, Toolkit
from toolroll.selection.selection import Selection

HIDDEN = "zebra_quokkafication"
WORDS = [
    "invoice",
    "customer",
    "weather",
    "calendar",
    "ticket",
    "contract",
    "payment",
    "deploy",
    "server",
    "merge",
    "report",
    "chart",
]
NAMES = (HIDDEN, "zebra_quokkafcation", "secret_kit", "invoice", "nothing_like_it", "z" * 300)
# The digest of a catalog says that it has changed, and times say what times say. All else is the same.
DIFFERS = {"catalog_revision", "timings_us", "event_id"}

word = st.sampled_from(WORDS)


@st.composite
def catalogs(draw: st.DrawFn) -> tuple[list[Tool], Tool]:
    """Some tools, and one that nobody may have."""
    tools = [
        Tool(
            f"{draw(word)}_{draw(word)}_{at}",
            f"{draw(word)}s the {draw(word)} of a {draw(word)}",
            toolkit=draw(st.sampled_from(("", "kit", "kat"))),
            public=draw(st.booleans()),
        )
        for at in range(draw(st.integers(0, 9)))
    ]
    hidden = Tool(
        HIDDEN,
        f"Quokkafication of the {draw(word)}",
        toolkit=draw(st.sampled_from(("", "kit", "secret_kit"))),
        public=draw(st.booleans()),
        pinned=draw(st.booleans()),
        status=draw(st.sampled_from(("active", "retired"))),
    )
    return tools, hidden


rules_that_hide = st.sampled_from(
    [
        {"effect": "deny", "tool": HIDDEN, "condition": {"all": []}},
        {"effect": "deny", "tool": HIDDEN, "condition": {"role": "intern"}},
        {"effect": "deny", "tool": HIDDEN, "condition": {"org": ""}},
    ]
)


def rolls(tools: list[Tool], hidden: Tool, rule: dict[str, Any]) -> tuple[Toolroll, Toolroll]:
    """The catalog with the hidden tool and the one without."""
    made = Rule("hides", kind="composite", **rule)
    embedder = HashingEmbedder(64)
    return (
        Toolroll.from_tools([*tools, hidden], rules=[made], embedder=embedder),
        Toolroll.from_tools(tools, rules=[made], embedder=embedder),
    )


def told(call: Callable[[], Any]) -> Any:
    """What the call returns or raises, as plain values."""
    try:
        found = call()
    except ToolrollError as error:
        return type(error).__name__, str(error)
    if isinstance(found, Selection):
        # How many tools each reason removed is for operators.
        explained = [line for line in found.explain().splitlines() if " removed: " not in line]
        lines = (*found.log_lines(), found.summary().rpartition(" | ")[0])
        found = {**found.to_dict(), "explained": explained, "lines": lines}
    if isinstance(found, dict):
        return {key: value for key, value in found.items() if key not in DIFFERS}
    return repr(found)


def answers(roll: Toolroll, context: Context, message: str, name: str) -> dict[str, Any]:
    """Everything that does not rank tools by their words."""
    picked = roll.select(message, context)
    session = roll.session("talk", context)
    turn = session.select(message)
    delivery = turn.deliver("openai")
    calls: dict[str, Callable[[], Any]] = {
        "select": lambda: picked,
        "required": lambda: roll.select(message, replace(context, required=(name,))),
        "always": lambda: roll.select(message, context, always_include=(name,), sent=(name,)),
        "everything": lambda: roll.select(message, replace(context, everything=True)),
        "only": lambda: roll.select(message, replace(context, only=(name,))),
        "excluded": lambda: roll.select(message, replace(context, exclude=(name,))),
        "explain": lambda: picked.explain(name),
        "check": lambda: picked.check(name),
        "may": lambda: roll.may(name, context),
        "visible": lambda: list(roll.visible(context)),
        "core": lambda: list(roll.core(context)),
        "unknown_values": lambda: roll.unknown_values(
            replace(context, exclude=(name,), only=(name,), required=(name,))
        ),
        "schemas": lambda: json.dumps(picked.schemas("anthropic")),
        "sent": lambda: json.dumps(delivery.request),
        "delivery.check": lambda: delivery.check(name),
        "session.check": lambda: session.check(name),
        "session.used": lambda: session.used({name: True}),
        "session.load": lambda: session.load([name]),
        "session.loaded": lambda: session.selection,
        "call_tool": lambda: session.answer("call_tool", {"name": name, "arguments": {}}),
    }
    return {what: told(call) for what, call in calls.items()}


@given(catalogs(), rules_that_hide, st.lists(word, max_size=4), st.sampled_from(NAMES))
@settings(max_examples=12, deadline=None)
def test_what_a_caller_is_told_is_the_same_whether_or_not_a_hidden_tool_exists(catalog, rule, message, name):
    with_it, without_it = rolls(*catalog, rule)
    context = Context(user="eve")
    asked = " ".join(message) or "hello"
    assert answers(with_it, context, asked, name) == answers(without_it, context, asked, name)


@given(catalogs(), rules_that_hide, st.lists(word, max_size=4))
@settings(max_examples=12, deadline=None)
def test_no_word_of_a_hidden_tool_is_in_what_ranked_tools_say(catalog, rule, message):
    tools, hidden = catalog
    roll, _ = rolls(tools, hidden, rule)
    context = Context(user="eve")
    asked = " ".join([*message, "quokkafcation"])
    picked = roll.select(asked, context, k=2)
    session = roll.session("talk", context)
    session.select(asked, k=2)
    said = (
        picked.to_dict(),
        picked.explain(),
        picked.summary(),
        picked.log_lines(),
        session.search(asked),
        session.answer("search_tools", {"query": asked}),
        session.answer("call_tool", {"name": "quokkafcation_zebras", "arguments": {}}),
        picked.turn.query,
    )
    assert "quokkafication" not in repr(said).lower() and "secret_kit" not in repr(said)


def test_a_message_is_corrected_by_words_of_tools_that_the_caller_may_have():
    tools = [Tool(HIDDEN, "Quokkafication of animals"), Tool("wombatize", "Wombatization of animals")]
    rule = Rule("staff", "deny", "composite", {"not": {"role": "staff"}}, tool=HIDDEN)
    roll = Toolroll.from_tools(tools, rules=[rule])
    asked = "please do the quokkafcation and the wombatizaton"
    staff, guest = Context(roles=("staff",)), Context(roles=("guest",))
    assert roll.select(asked, staff).spelling_corrections == (
        ("quokkafcation", "quokkafication"),
        ("wombatizaton", "wombatization"),
    )
    picked = roll.select(asked, guest)
    assert picked.spelling_corrections == (("wombatizaton", "wombatization"),)
    assert picked.turn.query == "please do the quokkafcation and the wombatization"


def test_a_keyword_of_a_hidden_toolkit_corrects_nothing():
    tools = [Tool("one", "does a thing", toolkit="zoo"), Tool("two", "does another", toolkit="farm")]
    routes = [Route(("zoo",), ("quokkafication",)), Route(("farm",), ("wombatization",))]
    rule = Rule("no", "deny", "composite", {"all": []}, toolkit="zoo")
    roll = Toolroll.from_tools(tools, toolkits=[Toolkit("zoo"), Toolkit("farm")], routes=routes, rules=[rule])
    picked = roll.select("please do the quokkafcation and the wombatizaton")
    assert picked.spelling_corrections == (("wombatizaton", "wombatization"),)


@pytest.mark.parametrize("status", ["active", "retired"])
def test_an_explanation_knows_a_hidden_tool_no_better_than_one_that_does_not_exist(status):
    rule = Rule("no", "deny", "composite", {"all": []}, tool=HIDDEN)
    roll = Toolroll.from_tools([Tool(HIDDEN, status=status), Tool("other")], rules=[rule])
    picked = roll.select("other")
    for name in (HIDDEN, "no_such_tool"):
        with pytest.raises(NotFound, match="is not in the catalog, or hidden"):
            picked.explain(name)
    assert "no" in roll.why(HIDDEN).reason  # an operator is told
    assert picked.total == 1
