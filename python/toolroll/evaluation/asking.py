"""Asks the queries of a dataset in other processes, some at a time: each builds the catalog once."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from toolroll._version import __version__
from toolroll.embedders.named import EmbedderChoice
from toolroll.evaluation.dataset import Query
from toolroll.evaluation.metrics import Answer
from toolroll.evaluation.runner import answer, select
from toolroll.offline.task import Task
from toolroll.offline.work import On, run
from toolroll.roll import Toolroll
from toolroll.selection.profiles import Profile
from toolroll.tools import Definitions

_SOME = 200  # queries of a task


@dataclass(frozen=True, slots=True, eq=False)
class AskedRoll:
    """The `Toolroll` that is asked, as another process makes it.

    Attributes:
        definitions, embedder, profile: as `Toolroll.from_definitions` takes them.
        depth: of the rankings.
        history: whether earlier messages are passed.
    """

    definitions: Definitions
    embedder: EmbedderChoice
    profile: Profile
    depth: int
    history: bool


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers to some queries, in their order, and the first failure of a selection; "" for none."""

    answers: tuple[Answer, ...]
    failure: str


def ask_elsewhere(
    roll: AskedRoll,
    asked: Sequence[Query],
    *,
    on: On,
    jobs: int,
    kept: str | None,
    progress: Callable[[int, int], None],
) -> Iterator[Answers]:
    """The answers to all queries, in their order. on, jobs, kept: as for `work.run`."""
    written = pickle.dumps(roll)
    of = f"{__version__} {hashlib.sha256(written).hexdigest()}"
    parts = [tuple(asked[first : first + _SOME]) for first in range(0, len(asked), _SOME)]
    tasks = [Task(f"{of} {part!r}", _ask, (written, part)) for part in parts]
    for result in run(tasks, on=on, jobs=jobs, kept=kept, progress=progress):
        found: Answers = pickle.loads(result)
        yield found


def _ask(written: bytes, queries: Sequence[Query]) -> bytes:
    asked, roll = _made(written)
    picked = [select(roll, query, asked.depth, asked.history) for query in queries]
    failure = next((str(failure) for one in picked for failure in one.failures), "")
    return pickle.dumps(Answers(tuple(answer(one, asked.depth) for one in picked), failure))


@lru_cache(maxsize=1)
def _made(written: bytes) -> tuple[AskedRoll, Toolroll]:
    """Made once a process."""
    asked: AskedRoll = pickle.loads(written)
    roll = Toolroll.from_definitions(asked.definitions, embedder=asked.embedder, profile=asked.profile)
    return asked, roll
