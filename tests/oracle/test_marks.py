"""What tools gain by the marks of a message and the services that it names."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.candidates import Candidates
from tests.oracle.marks import Marks
from tests.table import each_row
from toolroll import Context, Tool, Toolkit, Toolroll
from toolroll._core import Bitset
from toolroll.catalog.mark_table import MarkTable
from toolroll.catalog.tool_text import texts_of
from toolroll.model.arrays import Part
from toolroll.model.context import Turn
from toolroll.selection.profiles import PROFILES

TOOLS = (
    Tool("read_sheet", "Reads cells", toolkit="excel"),
    Tool("read_page", "Reads a page", toolkit="notion"),
    Tool("search_pages", "Searches pages", toolkit="notion"),
    Tool("read_issue", "Reads an issue", toolkit="tracker"),
    Tool("notion_issue", "Makes an issue of a page", toolkit="tracker"),
    Tool("play_song", "Plays a song", toolkit="music"),
)
TABLE = MarkTable.of(texts_of(TOOLS), None, 0, is_deferred=False)
STAGE = Marks(TABLE, services=0.25, marks=0.125)
CLAUSES: tuple[Part, ...] = (("read it", None, 1.0, 1.0), ("then play a song", None, 1.0, 1.0))


def scores(after: Candidates) -> dict[str, float]:
    rows, column = after.rows.tolist(), after.scores.tolist()
    return {TOOLS[row].name: score for row, score in zip(rows, column, strict=True)}


def gained(text: str, clauses: tuple[Part, ...] = (), stage: Marks = STAGE) -> dict[str, float]:
    return scores(stage(Candidates.everything(len(TOOLS)), Turn(text, Context(), clauses=clauses)))


def test_the_tools_of_a_service_gain_its_weight_and_those_of_a_mark_theirs():
    assert gained("look it up in notion") == {"read_page": 0.25, "search_pages": 0.25, "notion_issue": 0.25}
    assert gained("what does PAY-310 say") == {"read_issue": 0.125, "notion_issue": 0.125}


def test_a_tool_gains_once_and_by_the_greatest_weight():
    both = gained("PAY-310, #12 and notion")
    assert (both["notion_issue"], both["read_issue"]) == (0.25, 0.125)


def test_of_several_clauses_a_mark_counts_half_and_a_service_whole():
    assert gained("read PAY-310, then play a song", CLAUSES)["read_issue"] == 0.0625
    assert gained("read it in notion, then play a song", CLAUSES)["read_page"] == 0.25


def test_a_damped_tool_gains_less():
    damping = np.array([1, 0.5, 1, 1, 1, 1], np.float32)
    after = gained("notion", stage=Marks(TABLE, 0.25, 0.125, damping))
    assert (after["read_page"], after["search_pages"]) == (0.125, 0.25)


@given(
    st.lists(st.sampled_from(("notion", "PAY-310", "#12", "costs.xlsx", "song", "excel")), max_size=5),
    st.dictionaries(st.integers(0, 5), st.sampled_from((0.5, 1.0)), max_size=4),
    st.sets(st.integers(0, 5)),
    st.booleans(),
)
def test_scores_are_what_a_loop_over_all_hits_gives(words, known, allowed, has_clauses):
    text = " ".join(words)
    pool = Bitset.of(6, np.array(sorted(allowed), np.int32))
    rows = np.array(sorted(row for row in known if row in allowed), np.int32)
    before = Candidates.everything(6).narrow(pool, "x")
    before = before.rescore(np.array([known[row] for row in rows.tolist()], np.float32), "route.hit", rows)
    after = STAGE(before, Turn(text, Context(), clauses=CLAUSES if has_clauses else ()))
    expected = {row: known[row] for row in rows.tolist()}
    best: dict[int, float] = {}
    for hit in TABLE.hits(text):
        weight = 0.25 if hit.is_service else 0.0625 if has_clauses else 0.125
        for row in hit.rows.tolist():
            if row in allowed:
                best[row] = max(best.get(row, 0.0), weight)
    for row, weight in best.items():
        expected[row] = expected.get(row, 0.0) + weight
    assert dict(zip(after.rows.tolist(), after.scores.tolist(), strict=True)) == expected
    assert after.hits == max(best.values(), default=0.0)
    if after is not before:
        terms = sum(column for _, _, column in after.evidence.terms)
        assert dict(zip(after.evidence.rows.tolist(), terms.tolist(), strict=True)) == best


def test_a_message_without_a_mark_and_rows_that_are_chosen_stay_as_they_are():
    everything = Candidates.everything(len(TOOLS))
    assert STAGE(everything, Turn("play a song", Context())) is everything
    chosen = everything.narrow(np.array([1], np.int32), "chosen")
    assert STAGE(chosen, Turn("notion", Context())) is chosen


MAIL = [
    Tool("create_item", "Creates a new item in the mailbox", toolkit="ms365"),
    *(Tool(f"create_item_{i}", "Creates a new item in the mailbox", toolkit=f"kit_{i}") for i in range(12)),
]


def test_a_service_decides_among_tools_that_fit_alike_and_the_explanation_says_so():
    roll = Toolroll.from_tools(MAIL, toolkits=[Toolkit("ms365")])
    picked = roll.select("create a new item in Outlook", k=3)
    assert picked.names[0] == "create_item"
    assert "service 'outlook' 0.15" in picked.explain("create_item")
    assert "service" not in roll.select("create a new item", k=3).explain()


def test_a_service_that_is_there_adds_to_the_confidence():
    with_service, without = (
        Toolroll.from_tools(MAIL, profile=PROFILES["default"].with_(services=weight)).select(
            "something with Outlook", k=3
        )
        for weight in (0.15, 0.0)
    )
    assert with_service.confidence > without.confidence


def test_a_denied_tool_gains_nothing():
    roll = Toolroll.from_tools(MAIL)
    picked = roll.select("create a new item in Outlook", Context(exclude=("create_item",)), k=20)
    assert "create_item" not in picked.names
    assert "service" not in picked.explain()


@each_row("name", ["domains", "on_demand", "layers", "learned", "merged"])
def test_the_profiles_of_the_seeds_read_no_marks(name):
    assert (PROFILES[name].services, PROFILES[name].marks) == (0.0, 0.0)
