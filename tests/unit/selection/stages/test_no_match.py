"""The stage for messages that nothing matches."""

from __future__ import annotations

import numpy as np
import pytest

from tests.table import each_row
from toolroll import Context, Profile, Rule, Tool, Toolkit, Toolroll
from toolroll.embedders.hashing import HashingEmbedder
from toolroll.model.rules import PageMapping
from toolroll.selection.profiles import PROFILES

CRM = [Tool(f"crm_{verb}", f"{verb} a record", toolkit="crm") for verb in ("list", "get", "update", "delete")]
MAIL = [Tool(f"mail_{verb}", f"{verb} a letter", toolkit="mail") for verb in ("send", "read")]
CLOCK = Tool("now", "the time", toolkit="base")
KITS = (Toolkit("crm"), Toolkit("mail"))
BASE = (*KITS, Toolkit("base", base=True))
PAGES = (PageMapping("p", ("crm",)),)
UNKNOWN = "แสดงรายชื่อผู้ติดต่อของฉัน"  # Thai, which no table reads
ON_PAGE = Context(page="p")


class Fickle(HashingEmbedder):
    """Works until it is told otherwise."""

    is_up = True

    def embed_query(self, text):
        if not self.is_up:
            raise RuntimeError("the embedder is away")
        return super().embed_query(text)


def roll_of(tools=(*CRM, *MAIL), kits=KITS, embedder="static", profile="default", **changes) -> Toolroll:
    profile = PROFILES[profile].with_(**{"pass_through_tools": 0, **changes})
    return Toolroll.from_tools(tools, toolkits=kits, pages=PAGES, embedder=embedder, profile=profile)


@each_row("message", [UNKNOWN, "", "   ", "?!", "😀"])
@each_row("profile", ["default", "static", "learned", "merged"])
def test_a_page_gives_its_own_tools(profile, message):
    for tools, kits in (((*CRM, *MAIL), KITS), ((*CRM, *MAIL, CLOCK), BASE)):
        picked = roll_of(tools, kits, profile=profile).select(message, ON_PAGE)
        assert set(picked.names) - {"now"} == {tool.name for tool in CRM}
        assert not picked.has_match
        assert picked.confidence == 0
        assert "fallback: nothing matched" in picked.explain("crm_get")
        assert "no tool seems to apply (0.00)" in picked.summary()
        assert "fallback=4" in picked.log_lines()[0]


def test_k_bounds_it_beside_core_tools_and_the_first_by_name_come_first():
    picked = roll_of((*CRM, *MAIL, CLOCK), BASE).select(UNKNOWN, ON_PAGE, k=2)
    assert picked.names == ("now", "crm_delete", "crm_get")
    assert roll_of().select(UNKNOWN, k=3).names == ("crm_delete", "crm_get", "crm_list")
    assert roll_of().select(UNKNOWN, ON_PAGE, k=0).names == ()


def test_core_tools_are_enough_where_no_page_narrows():
    roll = roll_of((*CRM, *MAIL, CLOCK), BASE)
    assert roll.select(UNKNOWN).names == ("now",)
    assert roll.select(UNKNOWN, always_include=["mail_read"]).names == ("now", "mail_read")
    assert roll.select(UNKNOWN, Context(exclude=("now",)), k=2).names == ("crm_delete", "crm_get")


def test_a_denied_tool_is_no_fallback():
    denied = Rule("no crm", "deny", "user", {"user": "bob"}, toolkit="crm")
    roll = Toolroll.from_tools(
        (*CRM, *MAIL), toolkits=KITS, pages=PAGES, rules=[denied], profile=Profile(pass_through_tools=0)
    )
    assert roll.select(UNKNOWN, Context(user="bob", page="p")).names == ("mail_read", "mail_send")


def test_where_the_profile_says_empty_it_is_empty():
    roll = roll_of(on_no_tool="empty")
    assert roll.select(UNKNOWN, ON_PAGE).names == ()
    assert not roll.select(UNKNOWN, ON_PAGE).has_match


def test_a_message_that_matches_is_selected_for_as_ever():
    picked = roll_of().select("delete that record", ON_PAGE, k=1)
    assert picked.names == ("crm_delete",)
    assert picked.candidates.fallback is None
    assert picked.has_match


def test_of_tools_below_the_threshold_the_nearest_stay_unless_there_are_core_tools():
    free = roll_of().select("send a letter", k=2).names
    picked = roll_of(threshold=100.0).select("send a letter", k=2)
    assert picked.names == free
    assert not picked.has_match
    beside_core = roll_of((*CRM, *MAIL, CLOCK), BASE, threshold=100.0).select("send a letter", k=2)
    assert beside_core.names == ("now",)


def test_tools_that_worked_come_first():
    roll = roll_of()
    for user in "abcdefgh":
        picked = roll.select("list or update a record", Context(page="p", user=user))
        roll.record(picked, {"crm_update": True, "crm_delete": False}, reporter=user)
    found = roll.select(UNKNOWN, ON_PAGE, k=1).candidates.fallback
    assert [roll.catalog.tools[row].name for row in found.rows.tolist()] == ["crm_update"]


def test_in_a_conversation_the_tools_of_earlier_turns_stay_and_none_is_added():
    session = roll_of().session("one")
    first = session.select("send a letter", k=1).names
    assert session.select(UNKNOWN, k=1).names == first
    fresh = roll_of().session("two", ON_PAGE)
    assert set(fresh.select(UNKNOWN).names) == {tool.name for tool in CRM}
    assert set(fresh.select("").names) == {tool.name for tool in CRM}


def test_profiles_without_retrieval_have_a_fallback_too():
    for profile in ("on_demand", "layers"):
        picked = roll_of(profile=profile).select("hello", k=2)
        assert picked.names == ("crm_delete", "crm_get")
        assert not picked.has_match
        assert picked.confidence is None
        assert "no tool seems to apply (0.00)" in picked.summary()


def test_a_toolkit_that_a_keyword_names_is_handed_on_where_nothing_in_it_ranks():
    from toolroll import Route

    roll = Toolroll.from_tools(
        (*CRM, *MAIL), toolkits=KITS, routes=[Route(("mail",), ("จดหมาย",))],
        profile=Profile(routes="narrow", pass_through_tools=0),
    )  # fmt: skip
    assert roll.select("จดหมาย").names == ("mail_read", "mail_send")


@pytest.mark.parametrize("profile", ["learned", "merged"])
def test_words_rank_where_there_is_no_embedder(profile):
    picked = roll_of(profile=profile, embedder="none").select("update", k=1)
    assert picked.names == ("crm_update",)
    assert picked.has_match
    assert "lexical" in picked.explain("crm_update")
    assert "found by its words alone" in picked.explain("crm_update")


@pytest.mark.parametrize("profile", ["learned", "merged"])
def test_words_rank_while_the_embedder_is_away(profile):
    embedder = Fickle(64)
    roll = roll_of(profile=profile, embedder=embedder)
    assert roll.catalog.dim == 64
    embedder.is_up = False
    picked = roll.select("update", k=1)
    assert picked.names == ("crm_update",)
    assert picked.degraded == ("embedder",)
    assert set(roll.select("hm", ON_PAGE).names) == {tool.name for tool in CRM}


def test_what_words_find_is_in_the_scale_of_words():
    """A profile of vectors alone is calibrated by vectors: without one, words need their own curve."""
    by_vectors = roll_of(profile="merged", embedder="none").select("update the record", k=3)
    by_words = roll_of(embedder="none", profile="static", affinity=0.0).select("update the record", k=3)
    assert by_vectors.names == by_words.names
    assert np.allclose(by_vectors.candidates.scores, by_words.candidates.scores)
    assert by_vectors.confidence == pytest.approx(by_words.confidence)


def test_too_little_confidence_by_words_is_no_match_either():
    roll = roll_of(profile="learned", embedder="none", least_confidence=1.0, on_no_tool="empty")
    assert roll.select("update the record").names == ()
    tell = roll_of(profile="learned", embedder="none", least_confidence=1.0).select("update the record")
    assert tell.names and not tell.has_match


@each_row("profile", list(PROFILES))
def test_a_search_finds_by_words_and_says_where_nothing_fits(profile):
    session = roll_of(profile=profile, embedder="none").session("one")
    assert session.search("update", k=1)[0].name == "crm_update"
    assert session.search(UNKNOWN) == ()
    answer = session.answer("search_tools", {"queries": [UNKNOWN]})
    assert answer.tools == ()
    assert answer.text.startswith("No tool fits")
