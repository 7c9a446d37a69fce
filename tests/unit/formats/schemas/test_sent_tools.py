"""Lists that are kept converted, beside a conversion that keeps nothing; their JSON beside the standard library's."""

from __future__ import annotations

import gc
import json
import threading
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.table import each_row
from tests.unit.formats.schemas.test_strict_schema import JUNK
from toolroll import InvalidInput, Tool, Toolroll
from toolroll.formats.providers import PROVIDERS
from toolroll.formats.providers import provider as provider_module
from toolroll.formats.schemas import Form, convert, provider_names, sent, sent_tools
from toolroll.formats.schemas.conversion import converted
from toolroll.formats.schemas.names import provider_name
from toolroll.formats.sources.dicts import read_tools

FORMS = [(provider, Form(returns=returns)) for provider in PROVIDERS for returns in (False, True)]
FORMS += [
    ("openai", Form(strict=True)),
    ("openai_responses", Form(strict=True)),
    ("gemini", Form(json_schema=True)),
]
DEFERRING = ("openai_responses", "anthropic")

EPHEMERAL = {"type": "ephemeral"}
SCHEMAS = st.dictionaries(
    st.sampled_from(["type", "properties", "required", "anyOf", "allOf", "$ref", "$defs", "enum", "title"]), JUNK, max_size=5
)  # fmt: skip
PLAIN_TOOLS = st.builds(
    Tool,
    st.sampled_from(["a", "mail.send", "날씨", "x" * 70, "b__0123456789abcdef"]),
    st.sampled_from(["", "Sends “mail”.", "한국어\u2028\x00"]),
    st.none() | SCHEMAS,
    returns=st.none() | SCHEMAS,
    display_name=st.sampled_from(["", "Mail"]),
)
ORIGINALS = st.builds(
    lambda name, schema, more: read_tools([{"name": name, "input_schema": schema, **more}]).tools[0],
    st.sampled_from(["c", "d"]),
    st.just({"type": "object", "properties": {}}),
    st.fixed_dictionaries(
        {},
        optional={
            "cache_control": st.just(EPHEMERAL),
            "defer_loading": st.booleans(),
            "strict": st.just(True),
        },
    ),
)
LISTS = st.lists(PLAIN_TOOLS | ORIGINALS, max_size=5, unique_by=lambda tool: tool.name)


def uncached(tools: list[Tool], provider: str, form: Form, deferred: frozenset[str]) -> list[dict[str, Any]]:
    """The list to send, made anew and without any shortcut."""
    names = provider_names([tool.name for tool in tools], provider)
    made = [
        deepcopy(converted(tool, provider, name, form).copy) for tool, name in zip(tools, names, strict=True)
    ]
    if provider in DEFERRING:
        marks = []
        for tool, schema in zip(tools, made, strict=True):
            schema.pop("defer_loading", None)
            if tool.name in deferred:
                marks.append(schema.pop("cache_control", None))
                schema["defer_loading"] = True
        marks = [mark for mark in marks if mark]
        if marks and not any("cache_control" in schema for schema in made):
            loaded = [schema for tool, schema in zip(tools, made, strict=True) if tool.name not in deferred]
            loaded[-1]["cache_control"] = marks[-1]
    return [{"function_declarations": made}] if provider == "gemini" and made else made


def as_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")


@given(LISTS, st.sampled_from(FORMS), st.data())
def test_a_kept_list_is_the_one_that_is_made_anew(tools, to, data):
    provider, form = to
    names = [tool.name for tool in tools]
    deferred: frozenset[str] = frozenset()
    if provider in DEFERRING and names:
        deferred = data.draw(
            st.frozensets(st.sampled_from(names), max_size=len(names) - (provider == "anthropic"))
        )
    expected = uncached(tools, provider, form, deferred)
    for _ in range(2):  # converted, and found again
        made = sent_tools(tools, provider, form, deferred)
        assert made.schemas() == expected and made.text() == as_json(expected)
        assert repr(made.schemas()) == repr(expected), "in another order"
        assert made.names == provider_names(names, provider)
        for schema in made.schemas():
            schema.clear()


@each_row(("provider", "form"), FORMS)
def test_a_callers_change_reaches_no_other_list(provider, form):
    shared = {"type": "string", "enum": ["a"]}
    tools = [Tool("one", "", {"type": "object", "properties": {"one": shared, "two": shared}}), Tool("two")]
    before, text = sent_tools(tools, provider, form).schemas(), sent_tools(tools, provider, form).text()

    def spoil(value: Any) -> None:
        for part in list(value.values() if isinstance(value, dict) else value):
            if isinstance(part, (dict, list)):
                spoil(part)
        value.clear()

    spoil(sent_tools(tools, provider, form).schemas())
    assert sent_tools(tools, provider, form).schemas() == before
    assert sent_tools(tools[::-1], provider, form).text() != text == sent_tools(tools, provider, form).text()
    assert shared == {"type": "string", "enum": ["a"]}


@each_row("count", [0, 1, 499, 500, 501, 1_501])
def test_a_long_list_is_copied_whole(count):
    made = sent_tools([Tool(f"tool_{i}") for i in range(count)], "mcp")
    assert [schema["name"] for schema in made.schemas()] == [f"tool_{i}" for i in range(count)]


def test_half_of_a_surrogate_pair_is_written_as_its_escape():
    tool = Tool("a", "", {"type": "object", "description": "\\\ud800\\", "properties": {}})
    text = sent_tools([tool], "mcp").text()
    assert b"\\\\\\ud800\\\\" in text
    assert json.loads(text) == sent_tools([tool], "mcp").schemas()


def test_an_object_that_json_does_not_have_is_an_error_in_json_alone():
    tool = Tool("a", "", {"type": "object", "properties": {}, "x": object()})
    made = sent_tools([Tool("b"), tool], "mcp")
    assert made.schemas()[1]["inputSchema"]["x"] is tool.parameters["x"]
    with pytest.raises(InvalidInput, match="tools: cannot be written as JSON: 'a' holds an object"):
        made.text()


@each_row("provider", PROVIDERS)
@each_row("number", [float("nan"), float("inf")])
def test_a_number_that_json_does_not_have_costs_no_other_tool_its_place(provider, number):
    bad = Tool(
        "bad",
        "",
        {"type": "object", "properties": {"x": {"type": "number", "default": number, "minimum": number}}},
    )
    for made in (sent_tools([bad, Tool("good")], provider), sent_tools([bad], provider)):
        assert json.loads(made.text()) == made.schemas()
        json.dumps(made.schemas(), allow_nan=False)
    json.dumps(convert(bad, provider), allow_nan=False)


def test_names_whose_hashes_meet_are_sent_apart_in_a_list_that_was_kept(monkeypatch):
    tools = [Tool("a.b"), Tool("a,b"), Tool("c")]
    provider_name.cache_clear()
    whole = provider_module.name_hash
    monkeypatch.setattr(provider_module, "name_hash", lambda name: "0" * 16 + whole(name)[16:])
    for _ in range(2):
        made = sent_tools(tools, "openai", are_distinct=True)
        names = [schema["function"]["name"] for schema in made.schemas()]
        assert len({*names}) == 3 and all(len(name.rpartition("__")[2]) == 40 for name in names[:2])
        assert made.text() == as_json(made.schemas())
        assert made.names == provider_names(["a.b", "a,b", "c"], "openai")
    provider_name.cache_clear()


def test_what_is_kept_is_bounded_and_what_is_asked_for_stays():
    cache = sent._Cache(20_000)
    favourite = Tool("favourite")
    first = cache.find((favourite,), "mcp", Form())[0]
    for i in range(2_000):
        cache.find((Tool(f"tool_{i}", "Says something."),), "mcp", Form())
        if i % 100 == 0:
            assert cache.find((favourite,), "mcp", Form())[0] is first
    kept = [one for part in (cache._new, cache._old) for known in part.values() for one in known.values()]
    assert 20_000 <= sum(len(one.text) for one in {one.name: one for one in kept}.values()) <= 41_000


def test_a_tool_is_never_taken_for_one_that_is_gone():
    for i in range(3_000):  # a freed tool's address is soon another one's
        tool = Tool(f"tool_{i}")
        assert sent_tools([tool], "mcp").schemas()[0]["name"] == tool.name
    gc.collect()


def test_threads_that_convert_the_same_tools_get_the_same_lists():
    tools = [Tool(f"tool_{i}", f"Says {i}.") for i in range(200)]
    expected, wrong = as_json(uncached(tools, "openai", Form(), frozenset())), []
    cache, begun = sent._Cache(2_000), threading.Barrier(4)

    def run() -> None:
        begun.wait()
        for _ in range(20):
            text = sent.SentTools("openai", cache.find(tuple(tools), "openai", Form())).text()
            if text != expected:
                wrong.append(text)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


HOSTED = [{"type": "web_search"}, {"type": "mcp", "server_label": "s", "headers": {"a": ["b"]}}]
FUNCTION = {"type": "function", "function": {"name": "send", "description": "Sends mail.", "parameters": {"type": "object", "properties": {}}}}  # fmt: skip


@each_row("provider", PROVIDERS)
def test_a_selections_json_has_the_hosted_tools_behind_the_others(provider):
    roll = Toolroll.from_tools([HOSTED[0], FUNCTION, HOSTED[1]])
    for picked in (
        roll.select("send mail"),
        roll.select("send mail", k=0, max_tools=0),
        Toolroll.demo().with_tools([FUNCTION, *HOSTED]).select("send mail"),
    ):
        assert picked.schemas(provider)[-2:] == HOSTED
        assert picked.schemas_json(provider) == as_json(picked.schemas(provider))
        picked.schemas(provider)[-1]["headers"]["a"].clear()
        assert HOSTED[1]["headers"]["a"] == ["b"]


def test_a_hosted_tool_that_is_no_json_is_a_clear_error():
    for wrong, why in ((object(), "holds an object"), (float("nan"), "not JSON compliant")):
        picked = Toolroll.from_tools([FUNCTION, {"type": "web_search", "x": wrong}]).select("send mail")
        with pytest.raises(InvalidInput, match=f"a hosted tool cannot be written as JSON: .*{why}"):
            picked.schemas_json("openai")


@each_row(("provider", "form"), FORMS)
def test_a_selections_json_is_that_of_its_schemas(provider, form):
    options: dict[str, Any] = {
        "strict": form.strict,
        "json_schema": form.json_schema,
        "returns": form.returns,
    }
    for message in ("Will it rain in Oslo?", "send a mail", "play some music"):
        picked = Toolroll.demo().select(message, k=12)
        assert picked.schemas_json(provider, **options) == as_json(picked.schemas(provider, **options))
    if provider in DEFERRING:
        assert picked.schemas_json(provider, deferred=picked.names[1:]) == as_json(
            picked.schemas(provider, deferred=picked.names[1:])
        )
