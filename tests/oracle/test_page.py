"""The stage that keeps to the page's toolkits."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.candidates import Candidates
from tests.oracle.page import Page
from tests.strategies import TOOLKITS, callers, candidate_sets, page_mappings
from toolroll import Context
from toolroll._core import Bitset
from toolroll.model.context import Turn
from toolroll.model.rules import PageMapping
from toolroll.selection.policy.pages import PageTable

BELOW = {name: np.array([at, at + 4], np.int32) for at, name in enumerate(TOOLKITS)}
EMAIL = Page(PageTable.of(8, [PageMapping("contacts*", ("email",))], BELOW))
ON_CONTACTS = Turn("", Context(page="contacts/7"))


def in_play(candidates: Candidates) -> list[int]:
    return (candidates.rows if candidates.pool is None else candidates.pool.rows()).tolist()


@given(st.lists(page_mappings(), max_size=4), callers(), candidate_sets())
def test_what_belongs_to_the_page_stays_unless_that_is_nothing(pages, context, candidates):
    table = PageTable.of(8, pages, BELOW)
    after = Page(table)(candidates, Turn("", context))
    found = table.kept(context)
    belongs = [row for row in in_play(candidates) if found is not None and row in found.rows]
    assert in_play(after) == (belongs or in_play(candidates))
    assert after.allowed == candidates.allowed


def test_the_trail_says_which_pattern_kept_a_toolkit():
    after = EMAIL(Candidates.everything(8), ON_CONTACTS)
    assert (after.verb, after.reason) == ("narrow", "page.match")
    assert after.evidence.words == (("email", "page 'contacts*'"),)
    assert in_play(after) == [1, 5]


def test_a_page_without_mappings_hands_the_input_on():
    candidates = Candidates.everything(8)
    assert EMAIL(candidates, Turn("", Context(page="home"))) is candidates
    assert EMAIL(candidates, Turn("", Context())) is candidates


def test_where_nothing_would_remain_the_input_is_handed_on():
    denied = Bitset.of(8, np.array([1, 5], np.int32))
    candidates = Candidates.everything(8).forbid(denied, "policy.deny")
    assert EMAIL(candidates, ON_CONTACTS) is candidates
    columns = candidates.narrow(np.array([0, 2], np.int32), "chosen")
    assert EMAIL(columns, ON_CONTACTS) is columns


def test_a_tool_with_evidence_elsewhere_does_not_stand_for_the_pool():
    """Rows of a pool are only what has evidence: a keyword for another toolkit keeps nobody."""
    scored = Candidates.everything(8).rescore(
        np.array([0.5], np.float32), "route.hit", np.array([0], np.int32)
    )
    assert in_play(EMAIL(scored, ON_CONTACTS)) == [1, 5]
