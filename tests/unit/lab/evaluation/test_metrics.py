"""Figures against the obvious way to count them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolroll.lab.evaluation.dataset import Query
from toolroll.lab.evaluation.metrics import RankedAnswer, figures, recall

KS = (1, 2, 3, 5)
NAMES = tuple("abcdef")


@st.composite
def judged(draw: st.DrawFn) -> tuple[list[Query], list[RankedAnswer]]:
    queries, answers = [], []
    some = st.lists(st.sampled_from(NAMES), unique=True, max_size=3)
    for at in range(draw(st.integers(1, 6))):
        gold = tuple(draw(some))
        same = {name: tuple(draw(some)) for name in gold if draw(st.booleans())}
        queries.append(Query(str(at), "", gold, alternatives=same))
        ranked = tuple(draw(st.lists(st.sampled_from(NAMES), unique=True)))
        score = draw(st.sampled_from((0.0, 0.25, 0.5, 1.0)))
        answers.append(RankedAnswer(ranked, draw(st.booleans()), score))
    return queries, answers


def place(query: Query, gold: str, ranked: tuple[str, ...]) -> float:
    right = {gold, *query.alternatives.get(gold, ())}
    return next((at for at, name in enumerate(ranked, 1) if name in right), math.inf)


def mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


@given(judged())
def test_every_figure_is_what_counting_one_by_one_gives(world):
    queries, answers = world
    found = figures(queries, answers, KS)
    served = [
        (q, a, [place(q, g, a.ranked) for g in q.gold])
        for q, a in zip(queries, answers, strict=True)
        if q.gold
    ]
    for at, k in enumerate(KS):
        assert found.recall[at] == pytest.approx(
            mean([sum(p <= k for p in ps) / len(ps) for _, _, ps in served])
        )
        assert found.complete[at] == pytest.approx(mean([float(max(ps) <= k) for _, _, ps in served]))
        assert found.hit[at] == pytest.approx(mean([float(min(ps) <= k) for _, _, ps in served]))
        ndcg = []
        for _, _, ps in served:
            best = sum(1 / math.log2(i + 1) for i in range(1, min(len(ps), k) + 1))
            ndcg.append(sum(1 / math.log2(p + 1) for p in ps if p <= k) / best)
        assert found.ndcg[at] == pytest.approx(mean(ndcg), abs=1e-12)
    assert found.mrr == pytest.approx(mean([1 / min(ps) for _, _, ps in served]))
    assert (found.queries, found.answerable) == (len(queries), len(served))


@given(judged())
def test_the_recall_of_one_answer_is_what_its_places_give(world):
    for query, answer in zip(*world, strict=True):
        if query.gold:
            (whole,) = figures([query], [answer], (len(NAMES),)).recall
            assert recall(query, answer.ranked) == whole


@given(judged())
def test_refusals_and_auroc_are_what_counting_pairs_gives(world):
    queries, answers = world
    found = figures(queries, answers, KS).abstention
    high = [a for q, a in zip(queries, answers, strict=True) if q.gold]
    low = [a for q, a in zip(queries, answers, strict=True) if not q.gold]
    right, wrong = sum(a.abstained for a in low), sum(a.abstained for a in high)
    assert found.messages == len(low)
    assert found.recall == (right / len(low) if low else None)
    assert found.false_refusals == (wrong / len(high) if high else None)
    assert found.precision == (right / (right + wrong) if low and right + wrong else None)
    pairs = [(a.confidence > b.confidence) + (a.confidence == b.confidence) / 2 for a in high for b in low]
    assert found.auroc == (pytest.approx(mean(pairs)) if pairs else None)
    if pairs:
        allowed = max(
            (sum(b.confidence < t for b in low) / len(low))
            for t in [a.confidence for a in high]
            if sum(a.confidence < t for a in high) <= 0.05 * len(high)
        )
        assert found.recognised_at_5_percent == pytest.approx(allowed)


def test_a_set_worked_by_hand():
    queries = [
        Query("1", "", ("a",)),
        Query("2", "", ("b", "c"), alternatives={"c": ("d",)}),
        Query("3", "", ("e",)),
        Query("4", "", ()),
    ]
    answers = [
        RankedAnswer(("x", "a"), False, 0.9),
        RankedAnswer(("b", "x", "d"), False, 0.8),
        RankedAnswer((), True, 0.0),
        RankedAnswer(("x",), True, 0.1),
    ]
    found = figures(queries, answers, (1, 3))
    assert found.recall == pytest.approx(((0 + 1 / 2 + 0) / 3, (1 + 1 + 0) / 3))
    assert found.complete == pytest.approx((0, 2 / 3))
    assert found.mrr == pytest.approx((1 / 2 + 1 + 0) / 3)
    ndcg = (1 / math.log2(3), (1 + 1 / 2) / (1 + 1 / math.log2(3)), 0)
    assert found.ndcg == pytest.approx(((0 + 1 + 0) / 3, sum(ndcg) / 3))
    assert found.abstention.precision == 1 / 2
    assert found.abstention.recall == 1
    assert found.abstention.false_refusals == 1 / 3
    assert found.abstention.auroc == pytest.approx(2 / 3)


def test_an_interval_holds_its_mean_is_narrower_for_more_queries_and_is_the_same_twice():
    def of(n: int):
        queries = [Query(str(at), "", ("a",)) for at in range(n)]
        answers = [RankedAnswer(("a",) if at % 3 else ("b",), False, 1.0) for at in range(n)]
        return figures(queries, answers, (1,))

    few, many = of(30), of(3_000)
    for found in (few, many):
        low, high = found.recall_interval[0]
        assert low < found.recall[0] < high
    width = [high - low for low, high in (few.recall_interval[0], many.recall_interval[0])]
    assert width[1] == pytest.approx(2 * 1.96 * math.sqrt(2 / 9 / 3_000), rel=0.1)  # of a share, large n
    assert width[1] < width[0] / 5
    assert of(30) == few
