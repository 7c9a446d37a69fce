"""Rows that people edit: toolkits, visibility rules, page mappings, pins.

Each change raises the row's version, so an editor who has read an older version gets a Conflict. Deleting a
row sets a date, so replicas notice it. Each change adds a line with the values before and after to the audit
log, in the same transaction.

Each value is checked once: actor and organisation by `Database.writing`, the reason by `Write.log`, names by
`check_name`, the columns of a row by `check_content`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import datetime
from difflib import get_close_matches
from typing import Any, Generic, TypeVar

import sqlalchemy as sa

from toolroll.model.errors import Conflict, InvalidDefinition, InvalidInput, NotFound
from toolroll.model.identity import canonical_json
from toolroll.registry.editing.content import LONGEST_NAME, storable
from toolroll.registry.store.database import Database, Write, checked_text
from toolroll.registry.store.json_values import as_json
from toolroll.registry.store.row_reader import read_rows

LONGEST_PATTERN = 512  # characters of a page pattern
NEAR_AMONG = 5_000  # names that a misspelt one is compared with; bounds the time of an error message
_PRIORITIES = 2**31  # range of an integer column, in both directions

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reach:
    """The platform's tools and toolkits that the author of a request may know.

    To an organisation's caller, a tool that nobody there may see does not exist: no answer or suggestion
    reveals it, and its name is free (decision 91).

    Attributes:
        tools: name → tool_id.
        toolkits: toolkits that contain one of the tools, directly or in a toolkit below them.
    """

    tools: Mapping[str, str]
    toolkits: Container[str]


def knows_tool(reach: Reach | None, name: str) -> bool:
    """Whether the author may know a tool of the platform. reach: None for all."""
    return reach is None or name in reach.tools


def knows_toolkit(reach: Reach | None, name: str | None) -> bool:
    """Whether the author may know a toolkit of the platform. reach: None for all."""
    return reach is None or name in reach.toolkits


@dataclass(frozen=True, slots=True, kw_only=True)
class GovernedRow:
    """The columns that all editable rows share.

    Attributes:
        version: 1 for a new row; each change adds 1.
        updated_by: the author of the last change.
        deleted_at: None while the row is not deleted.
        revision: the registry's revision at the last change.
    """

    version: int
    created_at: datetime
    updated_at: datetime
    updated_by: str
    deleted_at: datetime | None
    revision: int

    def shared_fields(self) -> Row:
        """The fields of `GovernedRow`, for JSON."""
        return {name: as_json(getattr(self, name)) for name in SHARED_FIELDS}


SHARED_FIELDS = tuple(field.name for field in fields(GovernedRow))


def shared_fields(row: Mapping[str, Any]) -> Row:
    """The columns of a row that are arguments of `GovernedRow`."""
    return {name: row[name] for name in SHARED_FIELDS}


RecordT = TypeVar("RecordT", bound=GovernedRow)


class Author:
    """Somebody who changes a registry. Safe to use from any thread.

    Attributes:
        actor: the author of changes in the audit log.
    """

    def __init__(self, database: Database, actor: str = "") -> None:
        self.actor = actor
        self._database = database


class Editor(Author, Generic[RecordT]):
    """Reads and edits one table on behalf of one person.

    Attributes:
        reach: the platform's tools and toolkits that the author may know; None for all.
    """

    _table: sa.Table
    _noun: str  # for messages
    _kind: str  # the first word of actions in the audit log
    _key = ""  # the column that identifies a row in the audit log, if its subject does not
    _fields: tuple[str, ...]  # the columns that people edit

    def __init__(self, database: Database, actor: str = "", reach: Reach | None = None) -> None:
        super().__init__(database, actor)
        self.reach = reach

    @staticmethod
    def _record(row: Mapping[str, Any]) -> RecordT:
        raise NotImplementedError

    def _insert(self, write: Write, subject: str, content: Row, reason: str, **more: Any) -> Row:
        """Adds and logs a row. more: columns that people do not edit."""
        row = insert(write, self._table, {**more, **content})
        self._log(write, "create", row, subject, reason, after=content)
        return row

    def _update(
        self, write: Write, row: Row, values: Row, subject: str, reason: str, verb: str = "update"
    ) -> Row:
        """Changes and logs the values that differ; abandons the transaction if there are none."""
        if not (values := differences(row, values)):
            write.abandon()
            return row
        before = {name: row[name] for name in values}
        self._log(write, verb, row, subject, reason, before=before, after=values)
        return change(write, self._table, row, values)

    def _delete(self, write: Write, row: Row, subject: str, reason: str) -> Row:
        """Deletes and logs a row."""
        before = {name: row[name] for name in self._fields}
        self._log(write, "delete", row, subject, reason, before=before)
        return change(write, self._table, row, {"deleted_at": write.at})

    def _log(self, write: Write, verb: str, row: Row, subject: str, reason: str, **values: Row) -> None:
        key = {self._key: row[self._key]} if self._key else {}
        write.log(f"{self._kind}.{verb}", subject, {**key, **values}, reason)

    def _row(self, connection: sa.Connection, key: str, org: str | None) -> Row:
        """The row with this name. Raises NotFound, which suggests a similar name."""
        table, org = self._table, org or ""
        rows = rows_of(
            connection, table, table.c.org == org, table.c.name == checked_text(key, f"{self._noun} name")
        )
        if not rows:
            hint = suggestion(key, names_in(connection, table, org))
            raise NotFound(f"{self._noun} {key!r:.80}: is not {place_of(org)}{hint}")
        return rows[0]

    @contextmanager
    def _editing(self, key: str, org: str | None, version: int | None) -> Iterator[tuple[Write, Row]]:
        """A transaction that changes one row, and the row. Raises NotFound and Conflict."""
        with self._database.writing(self.actor, org or "") as write:
            row = self._row(write.connection, key, org)
            write.org = row["org"]  # the audit log names the owner, whoever makes the change
            check_version(row, version, f"{self._noun} {key!r:.80}")
            yield write, row

    def _list(self, org: str | None, deleted: bool, *order: sa.ColumnElement[Any]) -> tuple[RecordT, ...]:
        where = [] if org is None else [self._table.c.org == checked_text(org, "org")]
        if not deleted:
            where.append(self._table.c.deleted_at.is_(None))
        with self._database.reading() as connection:
            return tuple(
                map(self._record, read_rows(connection, list(self._table.c), *where, order_by=order))
            )


def rows_of(connection: sa.Connection, table: sa.Table, *where: sa.ColumnElement[bool]) -> list[Row]:
    """Rows of a table, without deleted ones."""
    return list(read_rows(connection, list(table.c), table.c.deleted_at.is_(None), *where))


def names_in(
    connection: sa.Connection, table: sa.Table, *orgs: str, knows: Callable[[str], bool] = lambda _: True
) -> list[str]:
    """Names of rows for `suggestion`, without deleted rows.

    knows: whether the caller may know a name of the platform.
    """
    where = (table.c.deleted_at.is_(None), table.c.org.in_(orgs))
    rows = read_rows(connection, (table.c.org, table.c.name), *where, limit=NEAR_AMONG)
    return [row["name"] for row in rows if row["org"] or knows(row["name"])]


def suggestion(name: str, names: Iterable[str]) -> str:
    """The end of an error message, "; did you mean …?", or "" if no name is similar."""
    found = get_close_matches(name[:LONGEST_NAME], list(names), n=1)
    return f"; did you mean {found[0]!r}?" if found else ""


def place_of(org: str) -> str:
    """Names an organisation or the platform in a sentence."""
    return f"in organisation {org!r:.80}" if org else "on the platform"


def not_in_reach(org: str) -> str:
    """A sentence: neither the organisation nor the platform has it."""
    return f"neither on the platform nor in organisation {org!r:.80}" if org else "not on the platform"


def insert(write: Write, table: sa.Table, values: Mapping[str, Any]) -> Row:
    """Adds a row, at version 1."""
    row = {
        next(iter(table.primary_key)).name: uuid.uuid4().hex,
        "org": write.org,
        **values,
        "version": 1,
        "created_at": write.at,
        "deleted_at": None,
        **_stamp(write),
    }
    write.connection.execute(sa.insert(table), row)
    write.digests.replace(table, None, row)
    return row


def change(write: Write, table: sa.Table, row: Row, values: Mapping[str, Any]) -> Row:
    """Writes the row's next version, with these values. row: read in the same transaction."""
    identity = next(iter(table.primary_key))
    values = {**values, "version": row["version"] + 1, **_stamp(write)}
    write.connection.execute(sa.update(table).where(identity == row[identity.name]), values)
    after = {**row, **values}
    write.digests.replace(table, row, after)
    return after


def _stamp(write: Write) -> Row:
    return {"updated_at": write.at, "updated_by": write.actor, "revision": write.revision}


def check_version(row: Mapping[str, Any], version: int | None, what: str) -> None:
    """Raises Conflict if the row has another version than the caller read. version: None for any."""
    if version is None or version == row["version"]:
        return
    raise Conflict(
        f"{what}: version {version!r:.20} was expected, but it is at {row['version']} since "
        f"{row['updated_at']:%Y-%m-%d %H:%M:%S} UTC, by {row['updated_by']!r:.80}; read it again"
    )


def differences(row: Mapping[str, Any], values: Mapping[str, Any]) -> Row:
    """The values that differ from the row. JSON is compared by its canonical text."""
    return {name: value for name, value in values.items() if not _is_same(row[name], value)}


def checked_changes(changes: Mapping[str, Any], allowed: Iterable[str], what: str) -> Row:
    """A copy of the changes. Raises InvalidInput if they name an unknown field."""
    allowed = tuple(allowed)
    if not isinstance(changes, Mapping):
        raise InvalidInput(f"{what}: changes is {type(changes).__name__}, must be a mapping of fields")
    for name in changes:
        if name not in allowed:
            raise InvalidInput(f"{what}: has no field {name!r:.80}; can be changed: {', '.join(allowed)}")
    return dict(changes)


def check_content(content: Mapping[str, Any], what: str) -> None:
    """Raises InvalidDefinition for columns that one of the databases could not store; see `storable`."""
    if not is_priority(content.get("priority", 0)):
        raise InvalidDefinition(
            f"{what}: priority must be between {-_PRIORITIES:,} and {_PRIORITIES - 1:,}", field="priority"
        )
    try:
        storable(content)
    except InvalidDefinition as error:
        raise InvalidDefinition(f"{what}: {error.problem}") from error


def check_name(name: str, what: str, longest: int = LONGEST_NAME) -> str:
    """The name. Raises InvalidInput if it is empty, too long, or text that no database stores."""
    if not checked_text(name, what, longest):
        raise InvalidInput(f"{what} is empty, must be text")
    return name


def is_priority(priority: int) -> bool:
    """Whether a priority fits into its column."""
    return -_PRIORITIES <= priority < _PRIORITIES


def printable(text: str) -> str:
    """The text on one line, with control and invisible characters escaped."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text
    )


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, (dict, list)) and isinstance(other, (dict, list)):
        return canonical_json(one) == canonical_json(other)
    return bool(one == other)
