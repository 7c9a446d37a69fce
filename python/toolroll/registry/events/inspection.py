"""Looks through stored events and outcomes for rows that cannot be read, a few rows at a time.

A selection reads no events, and a process that began from a checkpoint reads no old outcomes. Damage would
be found weeks later, by somebody who needs a report. Each process reads all rows in turn, a few at a time, so
selections do not notice.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import sqlalchemy as sa

from toolroll.registry.events.details import EntryReader, EventReader
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database
from toolroll.registry.store.row_reader import Row
from toolroll.registry.store.unreadable_rows import Conditions, UnreadableRows, readable

SOME = 500  # rows of each table in one step
_TABLES = (tables.selection_events, tables.outcomes)


class Inspection:
    """A pass over the rows of both tables, then the next one. Used by one thread."""

    def __init__(self, database: Database) -> None:
        """Reads nothing yet."""
        self._database = database
        self._after: dict[str, tuple[Any, ...]] = {}  # table → the key of the last row that was read
        self._found = {table.name: (UnreadableRows(), UnreadableRows()) for table in _TABLES}

    def step(self) -> None:
        """Reads some rows of each table.

        Raises:
            StoreUnavailable: the store cannot be read.
        """
        for table in _TABLES:
            with self._database.reading() as connection:
                self._read(connection, table)

    def unreadable(self) -> UnreadableRows:
        """The rows that the last pass and the present one could not read."""
        found = UnreadableRows()
        for before, now in self._found.values():
            found.update(before if len(before) >= len(now) else now)
        return found

    def _read(self, connection: sa.Connection, table: sa.Table) -> None:
        where = self._next(connection, table)
        before, now = self._found[table.name]
        if where is None:
            self._after.pop(table.name, None)
            self._found[table.name] = now, UnreadableRows()
            return
        now = UnreadableRows()
        now.update(self._found[table.name][1])
        query = sa.select(table).where(*readable(connection, list(table.c), where, now))
        rows = [row._asdict() for row in connection.execute(query)]
        if table is tables.selection_events:
            now.made(table, EventReader(connection), rows)
        else:
            now.made(table, partial(_entries, EntryReader(connection)), rows)
        self._found[table.name] = before, now

    def _next(self, connection: sa.Connection, table: sa.Table) -> Conditions | None:
        """The conditions on the next rows; None behind the last one."""
        # On SQLite, a key may be damaged, too.
        is_sqlite = connection.dialect.name == "sqlite"
        key = (sa.literal_column("rowid"),) if is_sqlite else tuple(table.primary_key)
        place: Any = sa.tuple_(*key) if len(key) > 1 else key[0]
        after = self._after.get(table.name)
        where = [] if after is None else [place > (after if len(key) > 1 else after[0])]
        query = sa.select(*key).select_from(table).where(*where).order_by(*key).limit(SOME)
        keys = connection.execute(query).all()
        if not keys:
            return None
        last = self._after[table.name] = tuple(keys[-1])
        return [*where, place <= (last if len(key) > 1 else last[0])]


def _entries(reader: EntryReader, rows: list[Row]) -> list[Any]:
    return reader(row["details"] for row in rows)
