"""Asks the messages of a dataset, here or in other processes, and measures times.

The first pass would fill caches for the second. So a timed message gets trailing spaces: no cache of message
vectors knows that text, and no embedder reads the spaces. Each distinct text is timed once a round.
"""

from __future__ import annotations

import gc
import hashlib
import json
import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from toolroll._version import __version__
from toolroll.embedders.named import EmbedderChoice
from toolroll.lab.evaluation.dataset import Query, sample
from toolroll.lab.evaluation.metrics import RankedAnswer
from toolroll.lab.offline.work import On, Task, run
from toolroll.model.context import Context
from toolroll.model.tools import Definitions
from toolroll.roll import Toolroll
from toolroll.selection.profiles import Profile
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
        messages: distinct ones.
        with_embedding: of the whole call of `select`; without_embedding: the same without the embedder's
            time.
    """

    messages: int
    rounds: int
    with_embedding: Times
    without_embedding: Times


def select(roll: Toolroll, query: Query, k: int, history: bool) -> Selection:
    """The selection for one message, with every toolkit configured."""
    return roll.select(
        query.text,
        Context(only=query.candidates, settings=roll.catalog.switches.keys),
        k,
        history=query.history if history else (),
    )


def answer(picked: Selection, depth: int) -> RankedAnswer:
    """The ranking behind a selection, even if the selection abstained. A fallback has no ranking."""
    ranking = step = picked.candidates.matched
    while not len(step.rows) and step.before is not None:
        step = step.before
    if step.pool is not None:  # scores of routes only: nothing was ranked
        step = ranking
    order = np.argsort(-step.scores, kind="stable")[:depth]
    rows = step.rows[order].tolist()
    return RankedAnswer(
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


_SOME = 200  # queries of a task


@dataclass(frozen=True, slots=True)
class RollRecipe:
    """The arguments with which another process makes the same `Toolroll`. Equal digests mean equal recipes.

    depth: of the rankings. history: whether earlier messages are passed.
    """

    definitions: Definitions = field(compare=False)
    embedder: EmbedderChoice = field(compare=False)
    profile: Profile = field(compare=False)
    depth: int = field(compare=False)
    history: bool = field(compare=False)
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        values = (self.definitions, self.embedder, self.profile, self.depth, self.history)
        object.__setattr__(self, "digest", hashlib.sha256(pickle.dumps(values)).hexdigest())


@dataclass(frozen=True, slots=True)
class RankedAnswers:
    """The answers to some queries, in order. failure: the first failure of a selection; "" for none."""

    answers: tuple[RankedAnswer, ...]
    failure: str

    def to_bytes(self) -> bytes:
        """As JSON, which runs no code when it is read."""
        return json.dumps([self.failure, *map(astuple, self.answers)]).encode()

    @classmethod
    def from_bytes(cls, written: bytes) -> RankedAnswers:
        """Reverses `to_bytes`."""
        failure, *answers = json.loads(written)
        return cls(
            tuple(
                RankedAnswer(tuple(ranked), abstained, confidence, tuple(degraded))
                for ranked, abstained, confidence, degraded in answers
            ),
            failure,
        )


def ask_elsewhere(
    roll: RollRecipe,
    asked: Sequence[Query],
    *,
    on: On,
    jobs: int,
    kept: str | None,
    progress: Callable[[int, int], None],
) -> Iterator[RankedAnswers]:
    """The answers to all queries, in order. on, jobs, kept: as for `work.run`."""
    of = f"{__version__} {roll.digest}"
    parts = [tuple(asked[first : first + _SOME]) for first in range(0, len(asked), _SOME)]
    tasks = [Task(f"{of} {part!r}", _ask, (roll, part)) for part in parts]
    for result in run(tasks, on=on, jobs=jobs, kept=kept, progress=progress):
        yield RankedAnswers.from_bytes(result)


def _ask(asked: RollRecipe, queries: Sequence[Query]) -> bytes:
    roll = _made(asked)
    picked = [select(roll, query, asked.depth, asked.history) for query in queries]
    failure = next((str(failure) for one in picked for failure in one.failures), "")
    return RankedAnswers(tuple(answer(one, asked.depth) for one in picked), failure).to_bytes()


@lru_cache(maxsize=1)
def _made(asked: RollRecipe) -> Toolroll:
    """The roll of a recipe, made once in each process."""
    return Toolroll.from_definitions(asked.definitions, embedder=asked.embedder, profile=asked.profile)
