"""What is counted for an outcome, and that it is counted once whatever is said how often."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolroll import Tool
from toolroll.learning.deduplication import MOST_FOUND, NEW_EVENT, deduplicate
from toolroll.learning.effects import EFFECTS, OutcomeChange, deltas
from toolroll.learning.exposure import Exposure, ShownTool
from toolroll.learning.outcomes import KINDS, NOT_SHOWN, Entry, Report
from toolroll.model.errors import InvalidInput
from toolroll.model.identity import scopes, tool_key

A, B, C = (
    ShownTool(name, tool_key(Tool(name)), share) for name, share in (("a", 0.5), ("b", 0.3), ("c", 0.0))
)
EVENT = Exposure("event", "acme", 1_000.0, "user", "home", "pro", "read", (A, B))


def counted(rows):
    return {
        int(row["arm"]): (
            float(row["successes"]),
            float(row["failures"]),
            float(row["calls"]),
            float(row["expected"]),
        )
        for row in rows
    }


def test_a_success_counts_for_its_tool_and_the_expectation_for_all_that_were_shown():
    rows = deltas(EVENT, [OutcomeChange(A, None, "succeeded")], closes=1.0)
    assert counted(rows) == {A.key.arm: (1, 0, 1, 0.5), B.key.arm: (0, 0, 0, 0.3)}
    assert rows["at"].tolist() == [1_000.0, 1_000.0]
    assert tuple(rows[["everywhere", "page", "leaf", "plain"]][0]) == scopes("home", "pro", "read")


def test_a_failed_call_was_wanted_nevertheless():
    assert counted(deltas(EVENT, [OutcomeChange(A, None, "failed")])) == {A.key.arm: (0, 1, 1, 0)}


def test_a_corrected_call_says_nothing_of_the_tool():
    assert len(deltas(EVENT, [OutcomeChange(A, None, "corrected")])) == 0


def test_a_tool_that_was_found_was_hardly_expected():
    assert counted(deltas(EVENT, [OutcomeChange(C, None, "wanted_succeeded")])) == {
        C.key.arm: (1, 0, 1, 0.05)
    }


def test_a_message_goes_with_a_call_and_counts_half_where_it_failed():
    event = replace(EVENT, vector=np.ones(4, np.float16))
    changes = [OutcomeChange(A, None, "succeeded"), OutcomeChange(B, None, "failed")]
    for vector in (0, -1):  # -1: a message of another embedder moves nothing here, and counts alike
        rows = deltas(event, changes, vector=vector)
        assert (rows["vector"].tolist(), rows["pull"].tolist()) == ([vector, vector], [1.0, 0.5])
    assert deltas(EVENT, changes)["pull"].tolist() == [0, 0]


def test_a_message_does_not_go_with_a_call_of_which_nothing_is_known():
    rows = deltas(EVENT, [OutcomeChange(A, None, "called")], vector=0)
    assert rows["vector"].tolist() == [-1] and rows["pull"].tolist() == [0.0]


def test_the_detector_sees_what_is_said_first_and_no_revision():
    assert deltas(EVENT, [OutcomeChange(A, None, "failed")])["verdict"].tolist() == [-1]
    assert deltas(EVENT, [OutcomeChange(A, "failed", "succeeded")])["verdict"].tolist() == [0]


def test_the_detector_sees_what_is_beyond_the_quota_and_nothing_late():
    (row,) = deltas(EVENT, [OutcomeChange(A, None, "failed", 0.0)], vector=0)
    assert (row["verdict"], row["successes"], row["failures"], row["calls"]) == (-1, 0, 0, 0)
    assert (row["vector"], row["pull"]) == (-1, 0)
    assert deltas(EVENT, [OutcomeChange(A, None, "failed", 0.0, is_late=True)]).tolist() == []


@given(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=6))
def test_whatever_was_said_before_only_the_last_word_counts(kinds):
    total = np.zeros(4)
    before = None
    for kind in kinds:
        for row in deltas(EVENT, [OutcomeChange(A, before, kind)]):
            total += [row["successes"], row["failures"], row["calls"], row["expected"]]
        before = kind
    assert total.tolist() == pytest.approx(EFFECTS[before][:4])


# Exactly once.

reports = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from("ab"), st.sampled_from(["succeeded", "failed", "called"])),
        st.booleans(),
    ),
    max_size=6,
)


def play(said, twice=False):
    settled, rows = NEW_EVENT, []
    for entries, is_final in said:
        report = Report("event", tuple(Entry(*each) for each in entries.items()), (), is_final)
        for _ in range(1 + twice):
            step = deduplicate(EVENT, settled, report)
            rows.append(deltas(EVENT, step.changes, float(step.closes)))
            settled = step.settled
    return rows


def total(rows):
    sums: dict[int, np.ndarray] = {}
    for row in (row for part in rows for row in part):
        sums[int(row["arm"])] = sums.get(int(row["arm"]), np.zeros(4)) + [
            row["successes"],
            row["failures"],
            row["calls"],
            row["expected"],
        ]
    return {arm: np.round(each, 9).tolist() for arm, each in sums.items() if np.abs(each).sum() > 1e-9}


@settings(max_examples=200)
@given(reports)
def test_reporting_everything_twice_changes_nothing(said):
    assert total(play(said)) == total(play(said, twice=True))


@settings(max_examples=200)
@given(reports)
def test_many_reports_count_as_their_last_words_in_one(said):
    last: dict[str, str] = {}
    for entries, _ in said:
        last |= entries
    whole = [(last, any(is_final for _, is_final in said))]
    assert total(play(said)) == total(play(whole))


def test_a_tool_that_was_not_shown_cannot_be_reported():
    with pytest.raises(InvalidInput, match="tool 'z' was not shown; shown: a, b"):
        deduplicate(EVENT, NEW_EVENT, Report("event", (Entry("z", "succeeded"),)))


def test_what_was_shown_was_not_found_by_a_search():
    with pytest.raises(InvalidInput, match="'a' was shown, so report it as called"):
        deduplicate(EVENT, NEW_EVENT, Report("event", (Entry("a", "wanted"),)))


def test_the_right_tool_may_be_one_that_was_shown():
    step = deduplicate(EVENT, NEW_EVENT, Report("event", (Entry("a", "corrected"), Entry("b", "meant"))))
    assert [change.after for change in step.changes] == ["corrected", "meant"]


def test_an_event_finds_a_few_tools_at_the_most():
    found = tuple(ShownTool(f"t{i}", tool_key(Tool(f"t{i}")), 0.0) for i in range(MOST_FOUND + 1))
    with pytest.raises(InvalidInput, match="finds 9 tools"):
        deduplicate(EVENT, NEW_EVENT, Report("event", (), found))


def test_what_weighed_nothing_when_it_was_said_weighs_nothing_when_it_is_revised():
    first = deduplicate(EVENT, NEW_EVENT, Report("event", (Entry("a", "failed"),)), lambda name: 0.0)
    then = deduplicate(EVENT, first.settled, Report("event", (Entry("a", "succeeded"),)), lambda name: 1.0)
    assert deltas(EVENT, then.changes).tolist() == []


def test_kinds_that_need_no_showing_are_kinds():
    assert NOT_SHOWN < KINDS
