"""Members: how a toolkit reaches tools of others, and what it does not reach."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.table import each_row
from toolroll import Context, Profile, Route, Rule, Tool, Toolkit, Toolroll
from toolroll.catalog.catalog import Catalog
from toolroll.catalog.toolkits import is_meant, rows_of_members
from toolroll.model.errors import InvalidDefinition
from toolroll.model.tools import MOST_MEMBERS, Definitions
from toolroll.selection.profiles import PROFILES

letters = st.text("ab_", max_size=6)
patterns = st.text("ab_*", min_size=1, max_size=7)


def oracle(pattern: str, name: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name, re.DOTALL) is not None


@given(patterns, st.lists(letters, unique=True, max_size=12).map(sorted))
def test_a_pattern_means_what_its_regular_expression_does(pattern, names):
    found = rows_of_members([Toolkit("kit", members=(pattern,))], {"kit": Toolkit("kit")}, names)
    expected = [row for row, name in enumerate(names) if oracle(pattern, name)]
    assert list(found.get("kit", ())) == expected
    assert [is_meant(pattern, name) for name in names] == [oracle(pattern, name) for name in names]


@each_row("name", ["a[0-9]b", "a?b", ".+", "a\\b", "날씨_조회"])
def test_every_character_but_the_star_is_itself(name):
    assert is_meant(name, name)
    assert not is_meant(name, name + "x")
    assert is_meant(f"{name}*", f"{name}x")
    assert not is_meant("a?b", "acb") and not is_meant("a[0-9]b", "a0b")


def test_a_hostile_pattern_takes_linear_time():
    name, pattern = "a" * 200_000 + "b", "*a" * 500 + "*c"
    begun = time.process_time()
    assert not is_meant(pattern, name)
    assert is_meant("*a" * 500 + "*b", name)
    assert time.process_time() - begun < 1


def test_a_prefix_is_looked_up_and_not_searched_for():
    names = sorted(f"tool_{at:06}" for at in range(100_000))
    kit = Toolkit("kit", members=tuple(f"tool_{at:06}" for at in range(0, 100_000, 100)))
    begun = time.process_time()
    found = rows_of_members([kit], {"kit": kit}, names)
    assert len(found["kit"]) == 1_000
    assert time.process_time() - begun < 1


def test_a_list_of_members_becomes_a_tuple():
    assert Toolkit("kit", members=["memory_*"]).members == ("memory_*",)  # type: ignore[arg-type]


@each_row("members", ["memory_*", {"memory_*"}, (7,), ("",), [None], None])
def test_members_that_are_no_tuple_of_names_are_refused(members):
    with pytest.raises(InvalidDefinition, match="members is"):
        Toolkit("kit", members=members)


def test_more_members_than_a_catalog_would_look_up_are_refused():
    Toolkit("kit", members=("x",) * MOST_MEMBERS)
    with pytest.raises(InvalidDefinition, match=r"1,001 members, must be at most 1,000; a pattern"):
        Toolkit("kit", members=("x",) * (MOST_MEMBERS + 1))


TOOLS = (
    Tool("memory_find", "Finds what is remembered", toolkit="memorizer"),
    Tool("memory_keep", "Remembers", toolkit="memorizer"),
    Tool("mail_send", "Sends a mail", toolkit="mail"),
    Tool("other", "Something else"),
)
KITS = (
    Toolkit("memorizer", settings_keys=("memory_url",)),
    Toolkit("group", members=("memory_*", "mail_send", "not_there")),
    Toolkit("above"),
    Toolkit("below", parent="above", members=("other",)),
)
ROUTES = (Route(("group",), ("recall",)), Route(("above",), ("anything",)))
NARROW = Profile(retrieve="none", routes="narrow", no_hit=(), pass_through_tools=0)
SET = Context(settings=("memory_url",))


def roll_of(**options) -> Toolroll:
    return Toolroll.from_tools(
        TOOLS, toolkits=KITS, routes=ROUTES, profile=NARROW, embedder="none", **options
    )


def test_a_hit_switches_members_on_with_the_toolkits_own_tools():
    assert roll_of().select("recall it", SET).names == ("mail_send", "memory_find", "memory_keep")


def test_a_toolkit_reaches_the_members_of_those_below_it():
    assert roll_of().select("anything", SET).names == ("other",)


def test_a_member_needs_what_its_own_toolkit_needs():
    assert roll_of().select("recall it", Context()).names == ("mail_send",)


def test_a_rule_that_names_a_toolkit_does_not_reach_its_members():
    denied = Rule("none of the group", "deny", "composite", {"not": {"user": "ann"}}, toolkit="group")
    names = roll_of(rules=[denied]).select("recall it", SET).names
    assert names == ("mail_send", "memory_find", "memory_keep")


def test_a_denied_tool_does_not_come_in_as_a_member():
    denied = Rule("no memory", "deny", "composite", {"not": {"user": "ann"}}, toolkit="memorizer")
    bob, ann = Context(user="bob", settings=SET.settings), Context(user="ann", settings=SET.settings)
    roll = roll_of(rules=[denied])
    assert roll.select("recall it", bob).names == ("mail_send",)
    assert "memory_find" in roll.select("recall it", ann)


def test_members_of_a_base_toolkit_are_in_every_selection():
    kits = (*KITS[:1], Toolkit("always", base=True, members=("memory_find",)))
    profile = PROFILES["on_demand"].with_(on_no_tool="empty")
    roll = Toolroll.from_tools(TOOLS, toolkits=kits, profile=profile, embedder="none")
    assert roll.select("hello", SET).names == ("memory_find",)
    assert roll.select("hello").names == ()


def test_an_explanation_says_which_hit_brought_a_member():
    picked = roll_of().select("recall it", SET)
    assert "keyword 'recall'" in picked.explain("memory_find")
    assert picked.activated == {
        "group": "keyword 'recall'",
        "mail": "keyword 'recall'",
        "memorizer": "keyword 'recall'",
    }


def test_a_revision_tells_members_and_is_what_it_was_without_any():
    definitions = Definitions(
        (Tool("a", toolkit="k"),), (Toolkit("k", "d", settings_keys=("x",)),), (Route(("k",), ("w",)),)
    )
    assert Catalog.build(definitions, None).revision == "c88ce9169404cd8b"
    revisions = {
        Catalog.build(Definitions(TOOLS, (Toolkit("kit", members=members),)), None).revision
        for members in ((), ("mail_*",), ("mail_send",))
    }
    assert len(revisions) == 3
