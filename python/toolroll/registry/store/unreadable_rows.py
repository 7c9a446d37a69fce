"""Reports over the rows that can be read; the others are counted and named.

One damaged row must not fail a report over a million sound ones, and no report may leave a row out without a
word. Damage is found in two places: by the database, where a value is of another kind than its column, and by
the code that makes an object of a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import sqlalchemy as sa

from toolroll.errors import quoted
from toolroll.registry.store.column_kinds import are_readable
from toolroll.registry.store.errors import is_damage
from toolroll.registry.store.row_reader import Row, UnreadableRow

_NAMED = 5  # rows of an organisation that a sentence names
_LOOKED_AT = 200  # rows whose keys are read
_NOUNS = {
    "selection_events": "event",
    "outcomes": "outcome",
    "sessions": "session",
    "tool_versions": "version",
    "arm_statistics": "statistic",
    "changes": "change",
    "experiments": "experiment",
}

Conditions: TypeAlias = "Sequence[sa.ColumnElement[bool]]"
T = TypeVar("T")
RowT = TypeVar("RowT")


@dataclass(slots=True)
class _Found:
    count: int = 0
    names: list[str] = field(default_factory=list)


class UnreadableRows:
    """Rows that cannot be read: how many of each table and organisation, and the keys of some."""

    def __init__(self) -> None:
        """None yet."""
        self._found: dict[tuple[str, str], _Found] = {}

    def add(self, table: sa.Table, org: object, *key: object, count: int = 1) -> None:
        """Adds rows. org: their organisation; None if it cannot be read. key: of one of them, or nothing."""
        whose = "" if org == "" else " of an unknown organisation" if org is None else f" of {quoted(org)}"
        found = self._found.setdefault((table.name, whose if "org" in table.c else ""), _Found())
        found.count += count
        if key and len(found.names) < _NAMED:
            name = " ".join(map(str, key))
            found.names.append(name if name.isprintable() and len(name) <= 80 else quoted(name))

    def update(self, other: UnreadableRows) -> None:
        """Adds the rows of another report."""
        for key, more in other._found.items():
            found = self._found.setdefault(key, _Found())
            found.count += more.count
            found.names += more.names[: _NAMED - len(found.names)]

    def without(self, table: sa.Table, rows: Iterable[Row | UnreadableRow]) -> list[Row]:
        """The rows of `read_rows` that it could read; adds the others."""
        sound = []
        for row in rows:
            if isinstance(row, UnreadableRow):
                self._lose(table, row.values)
            else:
                sound.append(row)
        return sound

    def made(self, table: sa.Table, make: Callable[[Sequence[Row]], list[T]], rows: Sequence[Row]) -> list[T]:
        """What `make` makes of the rows, one object of each; adds those of which it cannot."""
        return each_readable(make, rows, lambda row, error: self._lose(table, row))

    def _lose(self, table: sa.Table, row: Row) -> None:
        key = [row.get(column.name) for column in _keys(table)]
        self.add(table, row.get("org"), *(() if None in key else key))

    def __len__(self) -> int:
        """How many rows."""
        return sum(found.count for found in self._found.values())

    def __iter__(self) -> Iterator[str]:
        """A sentence for each table and organisation."""
        for (table, whose), found in sorted(self._found.items()):
            noun = _NOUNS.get(table, f"row of {table}")
            if found.count != 1:
                noun = f"rows of {table}" if table not in _NOUNS else f"{noun}s"
            names = ", ".join(found.names) + (", …" if found.count > len(found.names) else "")
            yield f"{found.count:,} {noun}{whose} cannot be read" + (f": {names}" if found.names else "")


def each_readable(
    make: Callable[[Sequence[RowT]], list[T]], rows: Sequence[RowT], lost: Callable[[RowT, Exception], None]
) -> list[T]:
    """What `make` makes of the rows, without those that it cannot read.

    make: makes one object of each row. lost: gets each row that cannot be read, and the error.
    """
    if not rows:
        return []
    try:
        return make(rows)
    except Exception as error:
        if not is_damage(error):
            raise
        if len(rows) == 1:
            lost(rows[0], error)
            return []
    middle = len(rows) // 2
    first = each_readable(make, rows[:middle], lost)
    return first + each_readable(make, rows[middle:], lost)


def over_readable(
    connection: sa.Connection,
    columns: Sequence[sa.Column[Any]],
    where: Conditions,
    report: Callable[[Conditions], T],
    unreadable: UnreadableRows | None,
) -> T:
    """What a report makes of the rows that can be read.

    Args:
        connection: sees one state of the database.
        columns: of one table: all that the report reads.
        where: the conditions on the rows of the report.
        report: called with conditions, once or twice; it has read its rows when it returns.
        unreadable: gets the rows that are left out.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: the database does not answer.
    """
    lost = UnreadableRows()
    try:
        made = report(readable(connection, columns, where, lost, checks_text=False))
    except Exception as error:
        if not is_damage(error):
            raise
        lost = UnreadableRows()
        made = report(readable(connection, columns, where, lost))
    if unreadable is not None:
        unreadable.update(lost)
    return made


def readable(
    connection: sa.Connection,
    columns: Sequence[sa.Column[Any]],
    where: Conditions,
    unreadable: UnreadableRows | None,
    *,
    checks_text: bool = True,
) -> Conditions:
    """The conditions on the rows whose values in these columns can be read.

    unreadable: gets the other rows. checks_text: see `are_readable`.
    """
    table, dialect = columns[0].table, connection.dialect.name
    is_sound = are_readable(tuple(columns), dialect, checks_text)
    lost = [*where, sa.not_(is_sound)]
    count = sa.func.count().label("lost")
    named = [_if_readable(column, dialect) for column in _keys(table)]
    org = _if_readable(table.c.org, dialect) if "org" in table.c else sa.null()
    counted = sa.select(org.label("org"), count).select_from(table).where(*lost)
    if "org" in table.c:
        counted = counted.group_by(org)
    counts = [row for row in connection.execute(counted) if row.lost]
    if not counts:
        return where
    if unreadable is not None:
        for row in counts:
            unreadable.add(table, row.org, count=row.lost)
        keys = sa.select(org, *named).select_from(table).where(*lost).limit(_LOOKED_AT)
        for whose, *key in connection.execute(keys):
            if None not in key:
                unreadable.add(table, whose, *key, count=0)
    return [*where, is_sound]


def _if_readable(column: sa.Column[Any], dialect: str) -> sa.ColumnElement[Any]:
    """The value; NULL if it cannot be read."""
    return sa.case((are_readable((column,), dialect), column))


def _keys(table: sa.Table) -> list[sa.Column[Any]]:
    """The columns that name a row within its organisation."""
    return [column for column in table.primary_key if column.name not in ("org", "at")]
