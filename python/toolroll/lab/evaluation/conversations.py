"""Measures sessions on dialogs: recall of each turn's tools, and the share that a prompt cache would serve.

Every dialog is played three times over one catalog: each message alone, each with its history, and as a
session that records the calls of each turn. A growing list of tools has a higher recall and costs more,
so its length is reported, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from toolroll.embedders.named import EmbedderChoice
from toolroll.lab.evaluation.dataset import Dataset, Examples, Query, Split, divide, with_examples
from toolroll.lab.evaluation.metrics import recall
from toolroll.lab.evaluation.runner import Progress
from toolroll.model.context import Context
from toolroll.model.errors import InvalidInput, quoted
from toolroll.roll import Toolroll
from toolroll.selection.profiles import Profile
from toolroll.selection.profiles import profile as named
from toolroll.selection.selection import Selection

WAYS = ("message", "history", "session")


@dataclass(frozen=True, slots=True)
class PlayedDialogs:
    """The measurements of one way of playing all dialogs.

    Attributes:
        way: "message", "history" or "session".
        recall: mean share of a turn's tools that were sent, over turns that call any; complete: share of
            turns in which all were sent.
        tools, most_tools: tools sent in a turn, mean and maximum; tokens: mean tokens of their schemas.
        cached: share of the schemas' tokens before the first difference from the turn before, which a prefix
            cache would serve; without first turns. cached_with_first: including first turns.
    """

    way: str
    recall: float
    complete: float
    tools: float
    most_tools: int
    tokens: float
    cached: float
    cached_with_first: float


@dataclass(frozen=True, slots=True)
class DialogResults:
    """The measurements of a folder. k: tools that retrieval found in a turn. played: one for each way."""

    folder: str
    k: int
    max_tools: int | None
    dialogs: int
    turns: int
    played: tuple[PlayedDialogs, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, rounded."""
        played = {one.pop("way"): one for one in map(asdict, self.played)}
        rounded = {way: {name: round(value, 4) for name, value in one.items()} for way, one in played.items()}
        return {**asdict(self), "played": rounded}


def converse(
    dataset: Dataset,
    *,
    profile: str | Profile = "static",
    parameters: Mapping[str, object] | None = None,
    embedder: EmbedderChoice = "static",
    k: int = 15,
    max_tools: int | None = None,
    split: Split = "test",
    examples: Examples = "none",
    progress: Progress | None = None,
) -> DialogResults:
    """Plays the dialogs of a folder: queries with the same `context.dialog`, in the order of `context.turn`.

    k: tools that retrieval finds in a turn. max_tools: the most tools sent. The other arguments are as for
    `evaluate`.

    Raises:
        InvalidInput: no query belongs to a dialog, or an argument is out of range.
    """
    settings = (named(profile) if isinstance(profile, str) else profile).with_(**dict(parameters or {}))
    asked, teachers = divide(dataset.queries, split, examples)
    dialogs = dialogs_of(asked)
    if not dialogs:
        raise InvalidInput(f"dataset {dataset.name!r}: no query of split {split!r} has a context.dialog")
    definitions = with_examples(dataset.definitions, teachers, keep=examples != "none")
    report = progress or (lambda what, done, of: None)
    roll = Toolroll.from_definitions(
        definitions,
        embedder=embedder,
        profile=settings,
        progress=lambda done, of: report("embedding", done, of),
    )
    ways: Mapping[str, Callable[[str, Sequence[Query]], Iterable[Selection]]] = {
        "message": lambda name, asked: (
            roll.select(query.text, _context(roll, query), k, max_tools=max_tools) for query in asked
        ),
        "history": lambda name, asked: (
            roll.select(query.text, _context(roll, query), k, max_tools=max_tools, history=query.history)
            for query in asked
        ),
        "session": lambda name, asked: _session(roll, name, asked, k, max_tools),
    }
    played = []
    for at, way in enumerate(WAYS):
        counts = _DialogSums()
        for done, (name, turns) in enumerate(dialogs.items()):
            report("playing", at * len(dialogs) + done, len(WAYS) * len(dialogs))
            counts.dialog(turns, ways[way](name, turns))
        played.append(counts.played(way))
    count = sum(map(len, dialogs.values()))
    return DialogResults(dataset.name, k, max_tools, len(dialogs), count, tuple(played))


def dialogs_of(queries: Iterable[Query]) -> dict[str, list[Query]]:
    """Dialog → its queries in the order of their turns."""
    dialogs: defaultdict[str, list[Query]] = defaultdict(list)
    for query in queries:
        if (name := query.context.get("dialog")) is not None:
            dialogs[str(name)].append(query)
    return {name: sorted(turns, key=_number) for name, turns in dialogs.items()}


def table(results: Sequence[DialogResults]) -> str:
    """Results for people."""
    lines = []
    for result in results:
        limit = "" if result.max_tools is None else f", at most {result.max_tools} sent"
        lines += [
            f"{result.folder}: {result.dialogs} dialogs, {result.turns} turns, k={result.k}{limit}",
            "            recall  complete  tools   most  tokens  cached  with first turns",
        ]
        lines += [
            f"  {one.way:<8} {one.recall:>8.3f} {one.complete:>9.3f} {one.tools:>6.1f} {one.most_tools:>6} "
            f"{one.tokens:>7.0f} {one.cached:>7.1%} {one.cached_with_first:>17.1%}"
            for one in result.played
        ]
    return "\n".join(lines)


def _session(
    roll: Toolroll, name: str, turns: Sequence[Query], k: int, max_tools: int | None
) -> Iterable[Selection]:
    session = roll.session(name, learns=False)
    for query in turns:
        session.context = _context(roll, query, name)
        yield session.select(
            query.text, k, history=query.history, turn=_number(query) + 1, max_tools=max_tools
        )
        session.used(query.gold)
        session.end_turn()


def _context(roll: Toolroll, query: Query, session: str = "") -> Context:
    return Context(only=query.candidates, settings=roll.catalog.switches.keys, session=session)


def _number(query: Query) -> int:
    number = query.context.get("turn")
    if type(number) is not int or number < 0:
        raise InvalidInput(
            f"query {query.id!r}: context.turn is {quoted(number)}, must be its number, from 0"
        )
    return number


class _DialogSums:
    """The counts of one way."""

    def __init__(self) -> None:
        self.recalls: list[float] = []
        self.sizes: list[int] = []
        self.tokens = self.cached = self.first_tokens = 0

    def dialog(self, turns: Sequence[Query], selections: Iterable[Selection]) -> None:
        """Counts one dialog."""
        before: list[tuple[str, int]] | None = None
        for query, picked in zip(turns, selections, strict=True):
            if query.gold:
                self.recalls.append(recall(query, picked.names))
            costs = picked.catalog.costs[picked.rows].tolist()
            sent = list(zip(picked.names, costs, strict=True))
            self.sizes.append(len(sent))
            self.tokens += sum(costs)
            if before is None:
                self.first_tokens += sum(costs)
            for one, other in zip(sent, before or (), strict=False):
                if one != other:
                    break
                self.cached += one[1]
            before = sent

    def played(self, way: str) -> PlayedDialogs:
        """The measurements of this way."""
        return PlayedDialogs(
            way,
            _mean(self.recalls),
            _mean([each == 1.0 for each in self.recalls]),
            _mean(self.sizes),
            max(self.sizes, default=0),
            self.tokens / max(len(self.sizes), 1),
            self.cached / max(self.tokens - self.first_tokens, 1),
            self.cached / max(self.tokens, 1),
        )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
