"""Counts of each tool in each context, as a table that people and queries read.

They are the fold over the outcomes, in their order, by the same arithmetic whether a row at a time or all
over again: rebuilding gives the same bits. Sums decay from the time of the event; what is late adds what is
left of it by then. Whole numbers never decay and count whatever was said, also what weighs nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa

from toolroll.identity import plain_key
from toolroll.learning.effects import EFFECTS, Change
from toolroll.registry.events.rows import Counted, instant, seconds
from toolroll.registry.store import tables
from toolroll.registry.store.bulk_insert import upsert
from toolroll.registry.store.gil import GilYielder

RELIABILITY_HALF_S = 14 * 86_400.0  # of successes and failures
LIFT_HALF_S = 30 * 86_400.0  # of calls and expected calls

EVERYWHERE, PAGE, CONTEXT, SEED = "everywhere", "page", "context", "seed"
_CALLED = frozenset(
    {"succeeded", "failed", "called", "corrected", "wanted_succeeded", "wanted_failed", "wanted"}
)
_SUCCEEDED = frozenset({"succeeded", "wanted_succeeded"})
_SOME = 48  # keys of a query: more would hold up selections meanwhile

_table = tables.arm_statistics


class Key(NamedTuple):
    """Whose counts: of one organisation."""

    tool: str
    level: str
    context_key: str


@dataclass(slots=True)
class Cell:
    """Counts, as they had decayed at `at`."""

    successes: float = 0.0
    failures: float = 0.0
    calls: float = 0.0
    expected: float = 0.0
    shown: int = 0
    called: int = 0
    succeeded: int = 0
    at: float = 0.0

    def add(self, addition: Addition, at: float, *, decays: bool) -> None:
        """Adds what happened at `at`, whatever the order."""
        if decays and self.at:
            old = 1.0, 1.0
            new = 1.0, 1.0
            if at > self.at:
                old = _left(at - self.at)
            else:
                new = _left(self.at - at)
        else:
            old = new = 1.0, 1.0
        self.successes = self.successes * old[0] + addition.successes * new[0]
        self.failures = self.failures * old[0] + addition.failures * new[0]
        self.calls = self.calls * old[1] + addition.calls * new[1]
        self.expected = self.expected * old[1] + addition.expected * new[1]
        self.shown += addition.shown
        self.called += addition.called
        self.succeeded += addition.succeeded
        self.at = max(self.at, at)


class Addition(NamedTuple):
    """What one outcome adds for one tool."""

    tool: str
    successes: float
    failures: float
    calls: float
    expected: float
    shown: int
    called: int
    succeeded: int


def _left(age_s: float) -> tuple[float, float]:
    """What is left after so long: of reliability, of lift."""
    return 2.0 ** (-age_s / RELIABILITY_HALF_S), 2.0 ** (-age_s / LIFT_HALF_S)


def additions(outcome: Counted) -> Iterator[Addition]:
    """What it adds, tool by tool, in a fixed order."""
    by_name = {change.tool.name: change for change in outcome.changes}
    names = set()
    for tool in outcome.exposure.shown:
        names.add(tool.name)
        share = tool.expected * outcome.closing_weight if outcome.closes else 0.0
        yield _addition(tool.name, by_name.get(tool.name), share, int(outcome.closes))
    for name, change in by_name.items():
        if name not in names:
            yield _addition(name, change, 0.0, 0)


def _addition(name: str, change: Change | None, share: float, shown: int) -> Addition:
    if change is None:
        return Addition(name, 0.0, 0.0, 0.0, share, shown, 0, 0)
    now, then, weight = EFFECTS[change.after], EFFECTS[change.before], change.weight
    return Addition(
        name,
        weight * (now.successes - then.successes),
        weight * (now.failures - then.failures),
        weight * (now.calls - then.calls),
        share + weight * (now.expected - then.expected),
        shown,
        (change.after in _CALLED) - (change.before in _CALLED),
        (change.after in _SUCCEEDED) - (change.before in _SUCCEEDED),
    )


def keys_of(outcome: Counted, tool: str) -> tuple[Key, Key, Key, Key]:
    """Where its counts belong, the widest first; the last is seed 4's, and does not decay."""
    exposure = outcome.exposure
    return (
        Key(tool, EVERYWHERE, ""),
        Key(tool, PAGE, exposure.page),
        Key(tool, CONTEXT, f"{exposure.tier}:{exposure.page}:{exposure.category}"),
        Key(tool, SEED, plain_key(exposure.tier, exposure.page)),
    )


def fold(cells: dict[Key, Cell], outcome: Counted) -> None:
    """Adds one outcome, unless it was voided."""
    if outcome.voided:
        return
    for addition in additions(outcome):
        for key in keys_of(outcome, addition.tool):
            cell = cells.get(key)
            if cell is None:
                cell = cells[key] = Cell()
            cell.add(addition, outcome.exposure.at, decays=key.level != SEED)


class Known:
    """Cells as this process wrote them last, so that it need not read them again before each batch.

    Those of an organisation are good for as long as nobody else has counted outcomes of it.
    """

    def __init__(self, most: int = 100_000) -> None:
        """most: cells that are kept; beyond, the organisation that was counted longest ago goes."""
        self._most, self._size = most, 0
        self._held: OrderedDict[str, tuple[tuple[int, int], dict[Key, Cell]]] = OrderedDict()

    def take(self, org: str, state: tuple[int, int]) -> dict[Key, Cell]:
        """The organisation's, if it is in this state, (seq, epoch). They are forgotten until kept again."""
        was, cells = self._held.pop(org, (None, {}))
        self._size -= len(cells)
        return cells if was == state else {}

    def keep(self, org: str, state: tuple[int, int], cells: dict[Key, Cell]) -> None:
        """What was written, once it is committed."""
        self._held[org] = state, cells
        self._size += len(cells)
        while self._size > self._most:
            _, (_, gone) = self._held.popitem(last=False)
            self._size -= len(gone)


def add(connection: sa.Connection, org: str, outcomes: Sequence[Counted], cells: dict[Key, Cell]) -> None:
    """Brings the table up to these outcomes, which follow on those that it holds.

    cells: some of what it holds; those that are missing are read into it, and all brought up.
    """
    wanted: set[Key] = set()
    yielder = GilYielder()
    for outcome in outcomes:
        for addition in additions(outcome):
            wanted.update(keys_of(outcome, addition.tool))
        yielder()
    unknown = sorted(wanted - cells.keys())
    cells.update({key: Cell() for key in unknown})  # unless the table has them
    cells.update(read(connection, org, unknown))
    for outcome in outcomes:
        fold(cells, outcome)
        yielder()
    write(connection, org, {key: cells[key] for key in wanted})


def read(connection: sa.Connection, org: str, keys: Sequence[Key]) -> dict[Key, Cell]:
    """The cells of these keys, as far as they are there."""
    cells: dict[Key, Cell] = {}
    yielder = GilYielder()
    place = sa.tuple_(_table.c.tool, _table.c.level, _table.c.context_key)
    for start in range(0, len(keys), _SOME):
        some = keys[start : start + _SOME]
        # padded, so that the statement is compiled once
        some = [*some, *[some[-1]] * (_SOME - len(some))] if len(keys) > _SOME else some
        query = sa.select(_table).where(_table.c.org == org, place.in_(some))
        cells.update(map(_cell, connection.execute(query)))
        yielder()
    return cells


def everything(connection: sa.Connection, org: str) -> dict[Key, Cell]:
    """All cells of an organisation."""
    return dict(map(_cell, connection.execute(sa.select(_table).where(_table.c.org == org))))


def _cell(row: Any) -> tuple[Key, Cell]:
    return Key(row.tool, row.level, row.context_key), Cell(
        row.successes,
        row.failures,
        row.calls,
        row.expected,
        row.shown,
        row.called,
        row.succeeded,
        seconds(row.updated_at),
    )


def write(connection: sa.Connection, org: str, cells: dict[Key, Cell]) -> None:
    """Keeps the cells."""
    rows = (
        {
            "org": org,
            "tool": key.tool,
            "level": key.level,
            "context_key": key.context_key,
            "successes": cell.successes,
            "failures": cell.failures,
            "calls": cell.calls,
            "expected": cell.expected,
            "shown": cell.shown,
            "called": cell.called,
            "succeeded": cell.succeeded,
            "updated_at": instant(cell.at),
        }
        for key, cell in sorted(cells.items())
    )
    upsert(connection, _table, rows)


def rebuild(connection: sa.Connection, org: str, outcomes: Iterator[Counted]) -> dict[Key, Cell]:
    """Makes the organisation's part of the table anew from all its outcomes, in their order."""
    cells: dict[Key, Cell] = {}
    yielder = GilYielder()
    for outcome in outcomes:
        fold(cells, outcome)
        yielder()
    connection.execute(sa.delete(_table).where(_table.c.org == org))
    write(connection, org, cells)
    return cells
