"""Metrics of rankings and of abstention, as pure functions.

Means over the queries that need a tool:

- recall@k: share of a query's gold tools among the first k.
- complete@k: whether all gold tools are among the first k; hit@k: whether any is.
- ndcg@k: gold tools weigh 1 / log2(place + 1), over the best that k places allow.
- mrr: 1 / place of the first gold tool; 0 if none is ranked.

Queries without a suitable tool count for abstention only.

Source: Järvelin & Kekäläinen, "Cumulated gain-based evaluation of IR techniques", 2002, for NDCG.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from toolroll.lab.evaluation.dataset import Query

Column = npt.NDArray[np.float64]

FALSE_REFUSALS = 0.05  # in `Abstention.recognised_at_5_percent`
_RESAMPLES = 2_000
_CELLS = 1 << 20  # of one block of resamples


@dataclass(frozen=True, slots=True)
class RankedAnswer:
    """The answer to one query.

    Attributes:
        ranked: names, best first.
        abstained: whether the answer was that no tool applies.
        confidence: in the existence of a suitable tool, on any scale.
        degraded: failed parts of the selection.
    """

    ranked: tuple[str, ...]
    abstained: bool
    confidence: float
    degraded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Abstention:
    """How well selections abstain if no tool applies. A metric without queries is None.

    Attributes:
        messages: queries without a suitable tool.
        precision: share of refusals that were right.
        recall: refused share of these queries; false_refusals: of the other queries.
        auroc: chance that a query with a suitable tool has higher confidence than one without; ties count
            half.
        recognised_at_5_percent: share of these queries below the threshold that refuses 5 % of the others: an
            upper bound, since the threshold is fitted on the test data.
    """

    messages: int
    precision: float | None
    recall: float | None
    false_refusals: float | None
    auroc: float | None
    recognised_at_5_percent: float | None


@dataclass(frozen=True, slots=True)
class Figures:
    """All metrics of one set of answers; tuples have one value for each of `ks`. None: no query.

    answerable: queries that need a tool. recall_interval: 95 %, by bootstrap.
    """

    queries: int
    answerable: int
    ks: tuple[int, ...]
    recall: tuple[float | None, ...]
    recall_interval: tuple[tuple[float, float] | None, ...]
    complete: tuple[float | None, ...]
    hit: tuple[float | None, ...]
    ndcg: tuple[float | None, ...]
    mrr: float | None
    abstention: Abstention

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; each k is a string."""

        def by_k(values: Sequence[Any]) -> dict[str, Any]:
            return {str(k): value for k, value in zip(self.ks, values, strict=True)}

        return {
            "queries": self.queries,
            "answerable": self.answerable,
            "recall": by_k(self.recall),
            "recall_interval": by_k([pair and list(pair) for pair in self.recall_interval]),
            "complete": by_k(self.complete),
            "hit": by_k(self.hit),
            "ndcg": by_k(self.ndcg),
            "mrr": self.mrr,
            "abstention": asdict(self.abstention),
        }


def figures(
    queries: Sequence[Query], answers: Sequence[RankedAnswer], ks: Sequence[int], seed: int = 0
) -> Figures:
    """The metrics of one answer for each query. Deterministic, including the intervals."""
    pairs = list(zip(queries, answers, strict=True))
    places = [gold_places(query, answer.ranked) for query, answer in pairs if query.gold]
    hits = [np.array([(found < k).mean() for found in places]) for k in ks]
    intervals = _intervals(np.array(hits), seed)
    return Figures(
        queries=len(pairs),
        answerable=len(places),
        ks=tuple(ks),
        recall=tuple(_mean(column) for column in hits),
        recall_interval=intervals,
        complete=tuple(_mean(column == 1) for column in hits),
        hit=tuple(_mean(column > 0) for column in hits),
        ndcg=tuple(_mean(np.array([_ndcg(found, k) for found in places])) for k in ks),
        mrr=_mean(np.array([1 / (found.min() + 1) for found in places])),
        abstention=abstention(queries, answers),
    )


def gold_places(query: Query, ranked: Sequence[str]) -> Column:
    """0-based place of each gold tool or of its first alternative; infinite if unranked."""
    place: dict[str, float] = {}
    for at, name in enumerate(ranked):
        place.setdefault(name, at)
    return np.array(
        [
            min(place.get(name, math.inf) for name in (gold, *query.alternatives.get(gold, ())))
            for gold in query.gold
        ]
    )


def recall(query: Query, found: Sequence[str]) -> float:
    """Share of a query's gold tools, or their alternatives, among the tools found."""
    return float(np.isfinite(gold_places(query, found)).mean())


def abstention(queries: Sequence[Query], answers: Sequence[RankedAnswer]) -> Abstention:
    """The metrics of abstention."""
    served = [answer for query, answer in zip(queries, answers, strict=True) if query.gold]
    others = [answer for query, answer in zip(queries, answers, strict=True) if not query.gold]
    right = sum(answer.abstained for answer in others)
    wrong = sum(answer.abstained for answer in served)
    high = np.sort([answer.confidence for answer in served])
    low = np.sort([answer.confidence for answer in others])
    both = len(high) > 0 and len(low) > 0
    return Abstention(
        messages=len(others),
        precision=right / (right + wrong) if others and right + wrong else None,
        recall=right / len(others) if others else None,
        false_refusals=wrong / len(served) if served else None,
        auroc=auroc(high, low) if both else None,
        recognised_at_5_percent=recognised(high, low, FALSE_REFUSALS) if both else None,
    )


def auroc(positive: Column, negative: Column) -> float:
    """Chance that a positive is above a negative; ties count half. O((n + m) log m); neither may be empty."""
    negative = np.sort(negative)
    below = np.searchsorted(negative, positive, "left") + np.searchsorted(negative, positive, "right")
    return float(below.sum() / 2 / (len(positive) * len(negative)))


def recognised(positive: Column, negative: Column, allowed: float) -> float:
    """Share of negatives below the highest threshold with at most `allowed` of the positives below it."""
    positive = np.sort(positive)
    return float((negative < positive[math.floor(allowed * len(positive))]).mean())


def _ndcg(places: Column, k: int) -> float:
    gained = (1 / np.log2(places[places < k] + 2)).sum()
    return float(gained / (1 / np.log2(np.arange(min(len(places), k)) + 2)).sum())


def _mean(column: npt.NDArray[Any]) -> float | None:
    return float(column.mean()) if len(column) else None


def _intervals(columns: Column, seed: int) -> tuple[tuple[float, float] | None, ...]:
    """Percentiles 2.5 and 97.5 of the mean of each row, over queries drawn with replacement."""
    n = columns.shape[1]
    if not n:
        return (None,) * len(columns)
    generator = np.random.default_rng(seed)
    means: list[Column] = []
    for at in range(0, _RESAMPLES, block := max(1, _CELLS // n)):
        drawn = generator.integers(0, n, (min(block, _RESAMPLES - at), n))
        means.append(np.stack([column[drawn].mean(1) for column in columns], 1))
    low, high = np.percentile(np.concatenate(means), (2.5, 97.5), axis=0).tolist()
    return tuple(zip(low, high, strict=True))
