"""The five verbs, against sets and dictionaries."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.candidates import Candidates, Fallback
from tests.strategies import candidate_sets
from toolroll._core import Bitset

SIZE = 8
row_lists = st.lists(st.integers(0, SIZE - 1), unique=True)


def column(rows: list[int]) -> np.ndarray:
    return np.array(rows, np.int32)


def bitset(rows: list[int]) -> Bitset:
    return Bitset.of(SIZE, column(rows))


def in_play(candidates: Candidates) -> set[int]:
    return set((candidates.rows if candidates.pool is None else candidates.pool.rows()).tolist())


def scored(candidates: Candidates) -> dict[int, float]:
    return dict(zip(candidates.rows.tolist(), candidates.scores.tolist(), strict=True))


@given(candidate_sets(), row_lists)
def test_forbid_removes_rows_from_what_is_allowed_and_from_what_is_in_play(candidates, rows):
    after = candidates.forbid(bitset(rows), "why")
    assert set(after.allowed.rows().tolist()) == set(candidates.allowed.rows().tolist()) - set(rows)
    assert in_play(after) == in_play(candidates) - set(rows)
    assert scored(after) == {row: score for row, score in scored(candidates).items() if row not in rows}


@given(candidate_sets(), row_lists)
def test_narrowing_to_a_bitset_keeps_rows_in_play_with_their_scores(candidates, rows):
    after = candidates.narrow(bitset(rows), "why")
    assert in_play(after) == in_play(candidates) & set(rows)
    assert scored(after) == {row: score for row, score in scored(candidates).items() if row in rows}


@given(candidate_sets(), row_lists)
def test_narrowing_to_rows_keeps_their_order_and_their_scores(candidates, rows):
    after = candidates.narrow(column(rows), "why")
    expected = [row for row in rows if row in in_play(candidates)]
    known = scored(candidates)
    assert after.pool is None
    assert after.rows.tolist() == expected
    assert after.scores.tolist() == [known.get(row, 0.0) for row in expected]


@given(candidate_sets(), row_lists)
def test_admit_brings_back_what_is_allowed_and_nothing_else(candidates, rows):
    after = candidates.admit(column(rows), "why")
    assert in_play(after) == in_play(candidates) | (set(rows) & set(candidates.allowed.rows().tolist()))
    for row, score in scored(candidates).items():
        assert scored(after)[row] == score


@given(candidate_sets(), st.data())
def test_what_was_forbidden_never_comes_back_whatever_follows(candidates, data):
    forbidden = data.draw(row_lists)
    after = candidates.forbid(bitset(forbidden), "policy")
    for _ in range(data.draw(st.integers(1, 5))):
        rows = data.draw(row_lists)
        verb = data.draw(st.sampled_from(("admit", "narrow", "narrow_set", "rescore")))
        if verb == "admit":
            after = after.admit(column(rows), "why")
        elif verb == "narrow":
            after = after.narrow(column(rows), "why")
        elif verb == "narrow_set":
            after = after.narrow(bitset(rows), "why")
        elif after.pool is not None:
            after = after.rescore(np.ones(len(rows), np.float32), "why", column(rows))
    assert not in_play(after) & set(forbidden)
    assert not set(after.rows.tolist()) & set(forbidden)


@given(candidate_sets(), row_lists)
def test_a_verb_leaves_its_input_as_it_was(candidates, rows):
    before = in_play(candidates), scored(candidates), candidates.allowed.rows().tolist()
    candidates.forbid(bitset(rows), "a")
    candidates.narrow(column(rows), "b")
    candidates.admit(column(rows), "c")
    assert before == (in_play(candidates), scored(candidates), candidates.allowed.rows().tolist())


@given(candidate_sets(), row_lists)
def test_rescoring_a_pool_counts_only_rows_in_play(candidates, rows):
    if candidates.pool is None:
        return
    after = candidates.rescore(np.full(len(rows), 0.5, np.float32), "why", column(rows))
    assert scored(after) == {row: 0.5 for row in rows if row in in_play(candidates)}
    assert in_play(after) == in_play(candidates)


def test_reorder_permutes_rows_and_scores_together():
    candidates = Candidates.everything(SIZE).narrow(column([3, 1, 2]), "why")
    candidates = candidates.rescore(np.array([0.3, 0.1, 0.2], np.float32), "why")
    after = candidates.reorder(np.array([1, 2, 0]), "why")
    assert after.rows.tolist() == [1, 2, 3]
    assert np.allclose(after.scores, [0.1, 0.2, 0.3])


@given(candidate_sets())
def test_the_trail_leads_from_everything_to_this_set(candidates):
    trail = list(candidates.trail())
    assert trail[-1] is candidates
    assert trail[0].before is None
    assert len(trail[0]) == SIZE


@given(candidate_sets(), st.lists(st.integers(0, 20), unique=True))
def test_arranging_is_admitting_narrowing_and_ordering_at_once(candidates, wanted):
    if candidates.pool is not None:
        candidates = candidates.narrow(candidates.pool.rows(), "columns")
    wanted = [row for row in wanted if row < candidates.allowed.size]
    allowed = [row for row in wanted if row in candidates.allowed]
    after = candidates.arrange(wanted, "x")
    assert after.rows.tolist() == allowed
    assert after.scores.tolist() == [candidates.score(row) for row in allowed]
    assert after.allowed == candidates.allowed and after.before is candidates


def test_the_last_choice_is_the_last_set_that_had_a_row():
    start = Candidates.everything(SIZE)
    page = Bitset.of(SIZE, column([1, 2, 3]))
    narrowed = start.narrow(page, "page")
    empty = narrowed.narrow(Bitset.empty(SIZE), "routes")
    assert empty.last_choice == narrowed.last_choice == page
    assert empty.narrow(column([]), "nothing").last_choice == page
    assert start.forbid(Bitset.full(SIZE), "all").last_choice == Bitset.empty(SIZE)


def test_what_matched_is_the_set_before_the_fallback():
    nothing = Candidates.everything(SIZE).narrow(column([]), "nothing")
    found = nothing.admit(column([2, 1]), "no_match", Fallback(column([2, 1]))).reorder(column([1, 0]), "x")
    assert found.rows.tolist() == [1, 2]
    assert found.matched is nothing
    assert nothing.matched is nothing
