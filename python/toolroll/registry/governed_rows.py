"""What all governed rows have in common: toolkits, visibility rules, page mappings.

Each has a version that every change raises, so that who changes what he has read is told when it has moved on
since; each is deleted by a date, so that replicas see it go; and every change leaves a line in the audit log
with what was before and after, in the same transaction.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from difflib import get_close_matches
from typing import Any

import sqlalchemy as sa

from toolroll.errors import Conflict, InvalidDefinition, InvalidInput, NotFound
from toolroll.identity import canonical_json
from toolroll.registry.content import LONGEST, LONGEST_NAME
from toolroll.registry.store.database import Database, Write, words

LONGEST_PATTERN = 512  # characters of a page pattern
NEAR_AMONG = 5_000  # names that a misspelt one is compared with: not a second's work for a typing error
_PRIORITIES = 2**31  # what an integer column holds, either way

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Governed:
    """A row that people edit.

    Attributes:
        version: 1 when it is made, one more with every change.
        created_at, updated_at: in UTC.
        updated_by: who changed it last.
        deleted_at: when it was deleted; None while it is there.
        revision: the registry's at the last change.
    """

    version: int
    created_at: datetime
    updated_at: datetime
    updated_by: str
    deleted_at: datetime | None
    revision: int

    def stamps(self) -> dict[str, Any]:
        """These fields, for JSON."""
        return {name: _json(getattr(self, name)) for name in STAMPS}


STAMPS = tuple(field.name for field in fields(Governed))


def stamps_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a `Governed` that a row holds."""
    return {name: row[name] for name in STAMPS}


class Editor:
    """One kind of row, edited on behalf of somebody. Safe to use from any thread.

    Attributes:
        actor: who is named in the audit log.
    """

    def __init__(self, database: Database, actor: str = "") -> None:
        self.actor = actor
        self._database = database


def rows_of(connection: sa.Connection, table: sa.Table, *where: sa.ColumnElement[bool]) -> list[Row]:
    """Rows of a table that are not deleted."""
    found = connection.execute(sa.select(table).where(table.c.deleted_at.is_(None), *where))
    return [dict(row) for row in found.mappings()]


def named(connection: sa.Connection, table: sa.Table, org: str, name: str, what: str) -> Row:
    """The row of this name that is not deleted.

    Raises:
        NotFound: there is none; says which name is near.
    """
    rows = rows_of(connection, table, table.c.org == org, table.c.name == words(name, f"{what} name"))
    if rows:
        return rows[0]
    raise NotFound(absent(connection, table, org, name, what))


def absent(connection: sa.Connection, table: sa.Table, org: str, name: str, what: str) -> str:
    """That there is nothing of this name, and what was meant perhaps."""
    return f"{what} {name!r:.80}: is not {whose(org)}{near(name, names_in(connection, table, org))}"


def names_in(connection: sa.Connection, table: sa.Table, *orgs: str) -> list[str]:
    """Names that are not deleted, as many as one is compared with."""
    query = sa.select(table.c.name).where(table.c.deleted_at.is_(None), table.c.org.in_(orgs))
    return list(connection.execute(query.limit(NEAR_AMONG)).scalars())


def near(name: str, names: Iterable[str]) -> str:
    """A hint, "; did you mean …?", where a name is near, else nothing."""
    found = get_close_matches(name[:LONGEST_NAME], list(names), n=1)
    return f"; did you mean {found[0]!r}?" if found else ""


def whose(org: str) -> str:
    """Where a thing of an organisation is, in words."""
    return f"in organisation {org!r:.80}" if org else "on the platform"


def nowhere(org: str) -> str:
    """That neither an organisation nor the platform has a thing, in words."""
    return f"neither on the platform nor in organisation {org!r:.80}" if org else "not on the platform"


def insert(write: Write, table: sa.Table, values: Mapping[str, Any]) -> Row:
    """Adds a row: its first version."""
    identity = next(iter(table.primary_key)).name
    row = {
        identity: uuid.uuid4().hex,
        "org": write.org,
        **values,
        "version": 1,
        "created_at": write.at,
        "deleted_at": None,
        **_touched(write),
    }
    write.connection.execute(sa.insert(table), row)
    return row


def change(write: Write, table: sa.Table, row: Row, values: Mapping[str, Any]) -> Row:
    """The row's next version, with these values."""
    identity = next(iter(table.primary_key))
    values = {**values, "version": row["version"] + 1, **_touched(write)}
    write.connection.execute(sa.update(table).where(identity == row[identity.name]), values)
    return {**row, **values}


def delete(write: Write, table: sa.Table, row: Row) -> Row:
    """The row's next version, deleted."""
    return change(write, table, row, {"deleted_at": write.at})


def _touched(write: Write) -> Row:
    return {"updated_at": write.at, "updated_by": write.actor, "revision": write.revision}


def check_version(row: Mapping[str, Any], version: int | None, what: str) -> None:
    """Refuses to change what somebody else has changed since it was read.

    Raises:
        Conflict: it has another version; says since when and by whom.
    """
    if version is None or version == row["version"]:
        return
    raise Conflict(
        f"{what}: version {version!r:.20} was expected, but it is at {row['version']} since "
        f"{row['updated_at']:%Y-%m-%d %H:%M:%S} UTC, by {row['updated_by']!r:.80}; read it again"
    )


def differing(row: Mapping[str, Any], values: Mapping[str, Any]) -> Row:
    """Of the values those that the row does not have already. JSON counts as it is written."""
    return {name: value for name, value in values.items() if not _is_same(row[name], value)}


def before_and_after(row: Mapping[str, Any], values: Mapping[str, Any]) -> Row:
    """What the audit log keeps of a change."""
    return {"before": {name: row[name] for name in values}, "after": dict(values)}


def fields_of(changes: Mapping[str, Any], allowed: Iterable[str], what: str) -> Row:
    """The changes that somebody asked for, if there are such fields.

    Raises:
        InvalidInput: a field is unknown.
    """
    allowed = tuple(allowed)
    if not isinstance(changes, Mapping):
        raise InvalidInput(f"{what}: changes is {type(changes).__name__}, must be a mapping of fields")
    for name in changes:
        if name not in allowed:
            raise InvalidInput(f"{what}: has no field {name!r:.80}; can be changed: {', '.join(allowed)}")
    return dict(changes)


def check_kept(value: Any, what: str) -> None:
    """Refuses what one of the two databases could not hold.

    Raises:
        InvalidDefinition: it is too long, or holds NUL, half of a surrogate pair or what is not JSON.
    """
    try:
        size = len(canonical_json(value).encode())
    except InvalidDefinition as error:
        raise InvalidDefinition(f"{what}: {error.problem}") from error
    if size > LONGEST:
        raise InvalidDefinition(f"{what}: takes {size:,} bytes as JSON, must be at most {LONGEST:,}")
    if _has_nul(value):
        raise InvalidDefinition(f"{what}: holds a NUL character, which no database keeps")


def check_name(name: str, what: str, longest: int = LONGEST_NAME) -> str:
    """A name as it will be kept, letter by letter.

    Raises:
        InvalidInput: it is empty, too long, or no text that a database keeps.
    """
    if not words(name, what, longest):
        raise InvalidInput(f"{what} is empty, must be text")
    return name


def check_priority(priority: int, what: str) -> None:
    """Raises InvalidDefinition for a priority that no column holds."""
    if not -_PRIORITIES <= priority < _PRIORITIES:
        raise InvalidDefinition(
            f"{what}: priority must be between {-_PRIORITIES:,} and {_PRIORITIES - 1:,}",
            field="priority",
        )


def plain(value: Any) -> Any:
    """A value as JSON gives it back: dicts and lists, whatever mappings and tuples it was made of."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def printable(text: str) -> str:
    """The text on one line, with what a terminal would obey or not show written out."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text
    )


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, (dict, list)) and isinstance(other, (dict, list)):
        return canonical_json(one) == canonical_json(other)
    return bool(one == other)


def _has_nul(value: Any) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, Mapping):
        return any(_has_nul(key) or _has_nul(item) for key, item in value.items())
    return isinstance(value, (list, tuple)) and any(map(_has_nul, value))


def _json(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value
