"""Asks the queries of a dataset in other processes, some at a time: each builds the catalog once."""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, field
from functools import lru_cache

from toolroll._version import __version__
from toolroll.embedders.named import EmbedderChoice
from toolroll.lab.evaluation.dataset import Query
from toolroll.lab.evaluation.metrics import Answer
from toolroll.lab.evaluation.runner import answer, select
from toolroll.lab.offline.task import Task
from toolroll.lab.offline.work import On, run
from toolroll.model.tools import Definitions
from toolroll.roll import Toolroll
from toolroll.selection.profiles import Profile

_SOME = 200  # queries of a task


@dataclass(frozen=True, slots=True)
class AskedRoll:
    """The `Toolroll` that is asked, as another process makes it. Equal if the digests are.

    Attributes:
        definitions, embedder, profile: as `Toolroll.from_definitions` takes them.
        depth: of the rankings.
        history: whether earlier messages are passed.
        digest: of all of them.
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
class Answers:
    """The answers to some queries, in their order, and the first failure of a selection; "" for none."""

    answers: tuple[Answer, ...]
    failure: str

    def to_bytes(self) -> bytes:
        """For another process, or for a folder: JSON, which runs no code when it is read."""
        return json.dumps([self.failure, *map(astuple, self.answers)]).encode()

    @classmethod
    def from_bytes(cls, written: bytes) -> Answers:
        """The answers that `to_bytes` wrote."""
        failure, *answers = json.loads(written)
        return cls(
            tuple(
                Answer(tuple(ranked), abstained, confidence, tuple(degraded))
                for ranked, abstained, confidence, degraded in answers
            ),
            failure,
        )


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
    of = f"{__version__} {roll.digest}"
    parts = [tuple(asked[first : first + _SOME]) for first in range(0, len(asked), _SOME)]
    tasks = [Task(f"{of} {part!r}", _ask, (roll, part)) for part in parts]
    for result in run(tasks, on=on, jobs=jobs, kept=kept, progress=progress):
        yield Answers.from_bytes(result)


def _ask(asked: AskedRoll, queries: Sequence[Query]) -> bytes:
    roll = _made(asked)
    picked = [select(roll, query, asked.depth, asked.history) for query in queries]
    failure = next((str(failure) for one in picked for failure in one.failures), "")
    return Answers(tuple(answer(one, asked.depth) for one in picked), failure).to_bytes()


@lru_cache(maxsize=1)
def _made(asked: AskedRoll) -> Toolroll:
    """Made once a process."""
    return Toolroll.from_definitions(asked.definitions, embedder=asked.embedder, profile=asked.profile)
