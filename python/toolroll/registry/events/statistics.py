"""Counts of each tool in each context, as a table for people and for SQL.

The table is a fold over the outcomes in their order, with the half-lives of `toolroll._core.Learned`. Adding
outcomes one by one and rebuilding the table give the same bits. The core's fold cannot serve here: its cells
have hashed keys and no whole numbers, and only processes that select have it.

Sums decay from the time of the event; a late outcome adds what would be left of it. The whole numbers never
decay, and outcomes without weight count in them, too.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa

from toolroll._core import LearningRates
from toolroll._gil import GilYielder, batches
from toolroll.identity import plain_key
from toolroll.learning.effects import Change
from toolroll.registry.events.rows import OutcomeRow, instant, seconds
from toolroll.registry.store import tables
from toolroll.registry.store.bulk_insert import upsert
from toolroll.registry.store.row_reader import Row, read_rows

RATES = LearningRates()
LEVELS = EVERYWHERE, PAGE, CONTEXT, SEED = "everywhere", "page", "context", "seed"
CALLED: frozenset[Any] = frozenset(
    {"succeeded", "failed", "called", "corrected", "wanted_succeeded", "wanted_failed", "wanted"}
)
SUCCEEDED: frozenset[Any] = frozenset({"succeeded", "wanted_succeeded"})
_SOME = 48  # keys in a query: more would hold up selections

_table = tables.arm_statistics


class Key(NamedTuple):
    """A tool in a context, within one organisation."""

    tool: str
    level: str
    context_key: str


class Addition(NamedTuple):
    """What one outcome adds for one tool."""

    successes: float
    failures: float
    calls: float
    expected: float
    shown: int
    called: int
    succeeded: int


@dataclass(slots=True)
class Cell:
    """Sums as they had decayed at `at`, and whole numbers."""

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
        old = new = (1.0, 1.0)  # the shares that are left, of reliability and of lift
        if decays and self.at:
            if at > self.at:
                old = _left(at - self.at)
            else:
                new = _left(self.at - at)
        self.successes = self.successes * old[0] + addition.successes * new[0]
        self.failures = self.failures * old[0] + addition.failures * new[0]
        self.calls = self.calls * old[1] + addition.calls * new[1]
        self.expected = self.expected * old[1] + addition.expected * new[1]
        self.shown += addition.shown
        self.called += addition.called
        self.succeeded += addition.succeeded
        self.at = max(self.at, at)


def _left(age_s: float) -> tuple[float, float]:
    """The share that is left after this time: of reliability, of lift."""
    return 2.0 ** (-age_s / RATES.reliability_half_s), 2.0 ** (-age_s / RATES.lift_half_s)


def additions(outcome: OutcomeRow) -> Iterator[tuple[str, Addition]]:
    """(tool, what the outcome adds for it), in a fixed order."""
    by_name = {change.tool.name: change for change in outcome.changes}
    for tool in outcome.exposure.shown:
        share = tool.expected * outcome.closing_weight if outcome.closes else 0.0
        yield tool.name, _addition(by_name.pop(tool.name, None), share, int(outcome.closes))
    for name, change in by_name.items():
        yield name, _addition(change, 0.0, 0)


def _addition(change: Change | None, share: float, shown: int) -> Addition:
    if change is None:
        return Addition(0.0, 0.0, 0.0, share, shown, 0, 0)
    effect = change.effect()
    return Addition(
        effect.successes,
        effect.failures,
        effect.calls,
        share + effect.expected,
        shown,
        (change.after in CALLED) - (change.before in CALLED),
        (change.after in SUCCEEDED) - (change.before in SUCCEEDED),
    )


def keys_of(outcome: OutcomeRow, tool: str) -> tuple[Key, Key, Key, Key]:
    """The tool's keys, the widest context first; the last is the profile `learned`'s and does not decay."""
    exposure = outcome.exposure
    return (
        Key(tool, EVERYWHERE, ""),
        Key(tool, PAGE, exposure.page),
        Key(tool, CONTEXT, f"{exposure.tier}:{exposure.page}:{exposure.category}"),
        Key(tool, SEED, plain_key(exposure.tier, exposure.page)),
    )


def fold(cells: dict[Key, Cell], outcome: OutcomeRow) -> None:
    """Adds one outcome, unless it was voided."""
    if outcome.voided:
        return
    for tool, addition in additions(outcome):
        for key in keys_of(outcome, tool):
            cell = cells.get(key)
            if cell is None:
                cell = cells[key] = Cell()
            cell.add(addition, outcome.exposure.at, decays=key.level != SEED)


class CellCache:
    """Cells as this process wrote them last, to save reading them again before each batch.

    The cells of an organisation are valid until another process counts one of its outcomes.
    """

    def __init__(self, most: int = 100_000) -> None:
        """most: how many cells are kept; beyond, the organisation that was written longest ago is dropped."""
        self._most, self._size = most, 0
        self._orgs: OrderedDict[str, tuple[tuple[int, int], dict[Key, Cell]]] = OrderedDict()

    def take(self, org: str, state: tuple[int, int]) -> dict[Key, Cell]:
        """Removes the organisation's cells, and returns them if they are of this state, (seq, epoch)."""
        was, cells = self._orgs.pop(org, (None, {}))
        self._size -= len(cells)
        return cells if was == state else {}

    def keep(self, org: str, state: tuple[int, int], cells: dict[Key, Cell]) -> None:
        """Keeps cells that were committed."""
        self._orgs[org] = state, cells
        self._size += len(cells)
        while self._size > self._most:
            _, (_, gone) = self._orgs.popitem(last=False)
            self._size -= len(gone)


def add(connection: sa.Connection, org: str, outcomes: Sequence[OutcomeRow], cells: dict[Key, Cell]) -> None:
    """Adds outcomes to the table. They must follow those that it contains.

    cells: some of the table's cells; those that are missing are read into it, and all are updated.
    """
    wanted: set[Key] = set()
    yielder = GilYielder()
    for outcome in outcomes:
        for tool, _ in additions(outcome):
            wanted.update(keys_of(outcome, tool))
        yielder()
    unknown = sorted(wanted - cells.keys())
    cells.update({key: Cell() for key in unknown})  # unless the table has them
    cells.update(read(connection, org, unknown))
    for outcome in outcomes:
        fold(cells, outcome)
        yielder()
    write(connection, org, {key: cells[key] for key in wanted})


def read(connection: sa.Connection, org: str, keys: Sequence[Key]) -> dict[Key, Cell]:
    """The cells of these keys, as far as the table has them. One that cannot be read begins again."""
    cells: dict[Key, Cell] = {}
    place = sa.tuple_(*(_table.c[name] for name in Key._fields))
    for some in batches(keys, _SOME):
        # padded, so that the statement is compiled once
        some = [*some, *[some[-1]] * (_SOME - len(some))] if len(keys) > _SOME else some
        for row in read_rows(connection, list(_table.c), _table.c.org == org, place.in_(some)):
            cells.update((_cell(row),))
    return cells


def everything(connection: sa.Connection, org: str) -> dict[Key, Cell]:
    """All cells of an organisation."""
    rows = read_rows(connection, list(_table.c), _table.c.org == org)
    return dict(_cell(row) for row in rows)


def _cell(row: Row) -> tuple[Key, Cell]:
    counts = {name: row[name] for name in Addition._fields}
    return Key(row["tool"], row["level"], row["context_key"]), Cell(**counts, at=seconds(row["updated_at"]))


def write(connection: sa.Connection, org: str, cells: dict[Key, Cell]) -> None:
    """Writes the cells."""
    rows = (
        {
            "org": org,
            **key._asdict(),
            **{name: getattr(cell, name) for name in Addition._fields},
            "updated_at": instant(cell.at),
        }
        for key, cell in sorted(cells.items())
    )
    upsert(connection, _table, rows)


def rebuild(connection: sa.Connection, org: str, outcomes: Iterable[OutcomeRow]) -> dict[Key, Cell]:
    """Replaces the organisation's part of the table by the fold of all its outcomes, in their order."""
    cells: dict[Key, Cell] = {}
    yielder = GilYielder()
    for outcome in outcomes:
        fold(cells, outcome)
        yielder()
    connection.execute(sa.delete(_table).where(_table.c.org == org))
    write(connection, org, cells)
    return cells
