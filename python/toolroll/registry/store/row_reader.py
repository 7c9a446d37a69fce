"""Reads rows of which some may be damaged: those become `UnreadableRow`s, and all others are read.

A driver or a type raises while it fetches a damaged row, and then none of the rows after it. SQLite stores a
value of any kind in any column, so that a flag may be text. A database that does not answer is no damage: its
errors are raised.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy import exc

from toolroll._gil import batches
from toolroll.errors import quoted
from toolroll.registry.store.column_kinds import are_of_their_kind, has_its_kind
from toolroll.registry.store.errors import is_damage

_SOME = 200  # rows in a query, where one row of the table is damaged

Row: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class UnreadableRow:
    """A row of which some columns cannot be read.

    Attributes:
        values: the columns that can be read; after `checksums.verified` those that can be believed.
        problem: which row it is, which columns cannot be read, and why.
        stored: the columns that can be read.
        where: finds the row, whatever its key is; None where its key can be read.
    """

    values: Row
    problem: str
    stored: Row = field(default_factory=dict)
    where: sa.ColumnElement[bool] | None = None


def place_of(table: sa.Table, values: Row) -> str:
    """A row in a message: its table, key, name and organisation, as far as they can be read."""
    keys = [values[column.name] for column in table.primary_key if column.name in values]
    facts = [quoted(values["name"])] if "name" in values else []
    if "org" in values and "org" not in table.primary_key:
        facts.append(f"of organisation {quoted(values['org'])}" if values["org"] else "of the platform")
    what = f"row {', '.join(map(quoted, keys))}" if keys else "a row"
    return f"{table.name}: {what}" + (f" ({', '.join(facts)})" if facts else "")


def read_rows(
    connection: sa.Connection,
    columns: Sequence[sa.Column[Any]],
    *where: sa.ColumnElement[bool],
    order_by: Sequence[sa.ColumnElement[Any]] = (),
    limit: int | None = None,
    has_checksum: bool = False,
    has_kinds: bool | None = None,
) -> Iterator[Row | UnreadableRow]:
    """These columns of a table's rows.

    has_checksum: whether the caller verifies the rows (see checksums.py), which also finds values of another
        kind. Their JSON is text then.
    has_kinds: whether a value of another kind than its column makes the row unreadable; None: unless the
        caller verifies the rows.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: the database does not answer.
    """
    reader, read = _Reader(connection, columns, where, order_by, limit, has_checksum, has_kinds), 0
    try:
        for row in reader.quickly():
            yield row
            read += 1
        return
    except Exception as error:
        if not is_damage(error):
            raise
    yield from islice(reader.one_by_one(), read, None)


class _Reader:
    def __init__(
        self,
        connection: sa.Connection,
        columns: Sequence[sa.Column[Any]],
        where: Sequence[sa.ColumnElement[bool]],
        order_by: Sequence[sa.ColumnElement[Any]],
        limit: int | None,
        has_checksum: bool,
        has_kinds: bool | None,
    ) -> None:
        self._connection, self._columns = connection, tuple(columns)
        self._has_kinds = not has_checksum if has_kinds is None else has_kinds
        self._read: tuple[sa.ColumnElement[Any], ...] = self._columns
        if has_checksum:
            self._read = tuple(_as_text(column, connection.dialect.name) for column in columns)
        self._where, self._order, self._limit = tuple(where), tuple(order_by), limit
        self._table = columns[0].table
        self._is_sqlite = connection.dialect.name == "sqlite"
        # On SQLite, each value of a row may be damaged, its key included.
        self._key: tuple[sa.ColumnElement[Any], ...] = (
            (sa.literal_column("rowid"),) if self._is_sqlite else tuple(self._table.primary_key)
        )

    def quickly(self) -> Iterator[Row]:
        """All rows. Raises where one of them is damaged."""
        is_checked = self._is_sqlite and self._has_kinds
        is_sound = are_of_their_kind(self._columns) if is_checked else sa.true()
        query = sa.select(*self._read, is_sound)
        names = [column.name for column in self._columns]
        query = query.where(*self._where).order_by(*self._order).limit(self._limit)
        for row in self._connection.execute(query):
            if not row[-1]:
                raise ValueError("a value is of another kind than its column")
            yield dict(zip(names, row, strict=False))

    def _wrong_kinds(self) -> dict[tuple[Any, ...], list[str]]:
        """Key → columns with a value of another kind than theirs."""
        if not self._is_sqlite:
            return {}
        found: dict[tuple[Any, ...], list[str]] = {}
        tests = [~has_its_kind(column) for column in self._columns]
        query = sa.select(*self._key, *tests).select_from(self._table)
        for row in self._connection.execute(query.where(*self._where, sa.or_(*tests))):
            names = [column.name for column, test in zip(self._columns, row[1:], strict=True) if test]
            found[(row[0],)] = names
        return found

    def one_by_one(self) -> Iterator[Row | UnreadableRow]:
        """All rows, in their order."""
        wrong = self._wrong_kinds()
        query = sa.select(*self._key).select_from(self._table).where(*self._where)
        query = query.order_by(*self._order).limit(self._limit)
        keys = [tuple(row) for row in self._connection.execute(query)]
        for some in batches(keys, _SOME):
            whole: dict[tuple[Any, ...], Row] = {}
            if not any(key in wrong for key in some):
                whole = self._whole(some)
            for key in some:
                found = whole.get(key) or (None if key in wrong else self._whole([key]).get(key))
                yield found or self._in_part(key, wrong.get(key, ()))

    def _whole(self, keys: Sequence[tuple[Any, ...]]) -> dict[tuple[Any, ...], Row]:
        """Key → row; nothing where one of the rows is damaged."""
        query = sa.select(*self._read, *self._key).select_from(self._table).where(self._is_among(keys))
        count = len(self._columns)
        names = [column.name for column in self._columns]
        try:
            return {
                tuple(row[count:]): dict(zip(names, row[:count], strict=True))
                for row in self._connection.execute(query)
            }
        except Exception as error:
            if not is_damage(error):
                raise
            return {}

    def _in_part(self, key: tuple[Any, ...], wrong: Sequence[str]) -> UnreadableRow:
        values: dict[str, Any] = {}
        problems = []
        for column, read in zip(self._columns, self._read, strict=True):
            if column.name in wrong:
                problems.append(f"{column.name} is of another kind")
                continue
            try:
                query = sa.select(read).where(self._is_among([key]))
                values[column.name] = self._connection.execute(query).scalar_one()
            except exc.NoResultFound:  # two rows of one key, or none
                problems.append(f"{column.name} is not found")
            except Exception as error:
                if not is_damage(error):
                    raise
                problems.append(f"{column.name}: {str(getattr(error, 'orig', error))[:200]}")
        problem = f"{place_of(self._table, values)} is damaged: {'; '.join(problems)}"
        return UnreadableRow(values, problem, values, self._is_among([key]))

    def _is_among(self, keys: Sequence[tuple[Any, ...]]) -> sa.ColumnElement[bool]:
        if len(self._key) == 1:
            return self._key[0].in_([key[0] for key in keys])
        return sa.tuple_(*self._key).in_(keys)


def _as_text(column: sa.Column[Any], dialect: str) -> sa.ColumnElement[Any]:
    """The column; the text of its JSON."""
    if not isinstance(column.type, sa.JSON):
        return column
    return sa.cast(column, sa.Text) if dialect == "postgresql" else sa.type_coerce(column, sa.Text)
