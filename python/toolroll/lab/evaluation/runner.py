"""Runs labelled messages against a catalog: once for the answers, and again for the times.

The first pass would fill caches for the second. So a message is timed with trailing spaces, which no cache of
message vectors has seen and no embedder reads, and each distinct text once a round.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from toolroll.lab.evaluation.dataset import Query, sample
from toolroll.lab.evaluation.metrics import Answer
from toolroll.model.context import Context
from toolroll.roll import Toolroll
from toolroll.selection.selection import Selection

TIMED = 1_000  # the most messages that are timed
ROUNDS = 3
_ENOUGH_S = 5.0  # a longer round is the only one: disturbances are small in comparison
_WARM_UP = 50

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Times:
    """Percentiles over messages, in microseconds."""

    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True)
class Latency:
    """Times of single selections, warm, without garbage collection.

    A message's time is the median over the rounds, which removes disturbances by other processes.

    Attributes:
        messages: number of distinct messages.
        rounds: how often each was timed.
        with_embedding: the whole call of `select`.
        without_embedding: the same calls without the time of the embedder.
    """

    messages: int
    rounds: int
    with_embedding: Times
    without_embedding: Times


def select(roll: Toolroll, query: Query, k: int, history: bool) -> Selection:
    """The selection for one message, with every toolkit configured.

    history: whether earlier messages are passed.
    """
    return roll.select(
        query.text,
        Context(only=query.candidates, settings=roll.catalog.switches.keys),
        k,
        history=query.history if history else (),
    )


def answer(picked: Selection, depth: int) -> Answer:
    """The ranking behind a selection; of a refused one, what would have been selected.

    Tools that are a fallback are no ranking, so where nothing matched there is none.
    """
    ranking = step = picked.candidates.matched
    while not len(step.rows) and step.before is not None:
        step = step.before
    if step.pool is not None:  # scores of routes only: nothing was ranked
        step = ranking
    order = np.argsort(-step.scores, kind="stable")[:depth]
    rows = step.rows[order].tolist()
    return Answer(
        ranked=tuple(picked.catalog.tools[row].name for row in rows),
        abstained=not picked.names or not picked.has_match,
        confidence=picked.confidence or 0.0,
        degraded=picked.degraded,
    )


def time_messages(
    roll: Toolroll, asked: Sequence[Query], depth: int, history: bool, seed: int, report: Progress
) -> Latency:
    """Times the messages, or `TIMED` of them drawn from the seed."""
    distinct = tuple({query.text: query for query in asked}.values())
    timed = sample(distinct, TIMED, seed)
    for query in timed[:_WARM_UP]:
        select(roll, _fresh(query, ROUNDS), depth, history)
    whole, embedding = np.empty((2, ROUNDS, len(timed)))
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    rounds = 0
    started = time.perf_counter()
    try:
        while rounds < ROUNDS and (not rounds or time.perf_counter() - started < _ENOUGH_S):
            for at, query in enumerate(timed):
                report("timing", rounds * len(timed) + at, ROUNDS * len(timed))
                fresh = _fresh(query, rounds)
                start = time.perf_counter_ns()
                picked = select(roll, fresh, depth, history)
                whole[rounds, at] = time.perf_counter_ns() - start
                embedding[rounds, at] = sum(ns for stage, ns in picked.timings if stage == "embed")
            rounds += 1
    finally:
        if was_enabled:
            gc.enable()
    whole, embedding = whole[:rounds], embedding[:rounds]
    return Latency(len(timed), rounds, _times(whole), _times(whole - embedding))


def _fresh(query: Query, turn: int) -> Query:
    return replace(query, text=query.text + " " * (turn + 1))


def _times(nanoseconds: npt.NDArray[np.float64]) -> Times:
    by_message = np.median(nanoseconds, axis=0) / 1e3
    return Times(*np.percentile(by_message, (50, 95, 99)).tolist())
