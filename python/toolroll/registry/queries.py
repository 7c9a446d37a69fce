"""Finding tools and their versions in the database."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from toolroll.errors import Conflict, InvalidInput, NotFound
from toolroll.registry.records import REVIEWS, Page, Record, record_of
from toolroll.registry.store import tables
from toolroll.registry.store.database import words
from toolroll.registry.versions import Version, version_of
from toolroll.tools import STATUSES

LARGEST_PAGE = 1_000
LONGEST_SEARCH = 200  # characters

_TOOL_ID = re.compile(r"[0-9a-f]{32}")
_tools, _versions = tables.tools.c, tables.tool_versions.c


def found(
    connection: sa.Connection, name: str, org: str, *, deleted: bool = False, alive: bool = True
) -> Record:
    """The tool of that tool_id or name; the one that is there before the one that was deleted last.

    Raises NotFound, which names those whose names come near.
    """
    words(name, "name")
    words(org, "org")
    # Nobody chooses a tool_id, but a name may be chosen to look like another's.
    if _TOOL_ID.fullmatch(name) and (
        record := _held(connection, _tools.tool_id == name, org, alive, deleted)
    ):
        return record
    if record := _held(connection, _tools.name == name, org, alive, deleted):
        return record
    kind = "tool" if alive else "deleted tool"
    near = _near(connection, name, org)
    asked = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    raise NotFound(f"{kind} {name!r:.160}: is not in the registry{f' of {org!r}' if org else ''}{asked}")


def _held(
    connection: sa.Connection, which: sa.ColumnElement[bool], org: str, alive: bool, deleted: bool
) -> Record | None:
    query = sa.select(tables.tools).where(which, _tools.org == org)
    row = connection.execute(query.where(_tools.deleted_at.is_(None))).first() if alive else None
    if row is None and deleted:
        last = query.where(_tools.deleted_at.is_not(None)).order_by(_tools.revision.desc()).limit(1)
        row = connection.execute(last).first()
    return None if row is None else record_of(row)


def _near(connection: sa.Connection, name: str, org: str) -> list[str]:
    """Names of about the same length that look alike; of a large registry, the first few thousand."""
    about = sa.func.length(_tools.name).between(len(name) - 2, len(name) + 2)
    query = sa.select(_tools.name).where(_tools.org == org, _tools.deleted_at.is_(None), about)
    names = connection.scalars(query.order_by(_tools.name).limit(2_000))
    return difflib.get_close_matches(name, names.all(), n=2, cutoff=0.75)


def versions_of(record: Record) -> sa.Select[Any]:
    """All versions of a tool, in no order."""
    return sa.select(tables.tool_versions).where(_versions.tool_id == record.tool.tool_id)


def version_at(connection: sa.Connection, record: Record, number: int) -> Version:
    """One version of a tool. Raises NotFound."""
    if type(number) is not int:
        raise InvalidInput(f"version is {number!r:.80}, must be a whole number")
    query = versions_of(record).where(_versions.version == number)
    row = connection.execute(query).first() if 1 <= number <= record.version else None
    if row is None:
        raise NotFound(f"tool {record.name!r}: has no version {number}; its last is {record.version}")
    return version_of(row)


def expected(record: Record, version: int | None) -> Record:
    """The record, if it is at that version, or none is named. Raises Conflict."""
    if version is not None and version != record.version:
        raise Conflict(
            f"tool {record.name!r}: is at version {record.version}, not {version}: "
            f"{record.updated_by or 'somebody'} changed it at {record.updated_at:%Y-%m-%d %H:%M:%S} UTC; "
            "read it again, and make the change to what it is now"
        )
    return record


def matching(
    *, org: str, deleted: bool, flagged: bool | None, text: str | None, equal: Mapping[str, str | None]
) -> sa.Select[Any]:
    """The tools of an organisation that fit all that is given."""
    _among(equal["status"], STATUSES, "status")
    _among(equal["review"], REVIEWS, "review")
    query = sa.select(tables.tools).where(_tools.org == words(org, "org"))
    query = query.where(_tools.deleted_at.is_not(None) if deleted else _tools.deleted_at.is_(None))
    for name, value in equal.items():
        if value is not None:
            query = query.where(_tools[name] == words(value, name))
    if flagged is not None:
        is_empty = sa.cast(_tools.flags, sa.Text) == "[]"
        query = query.where(sa.not_(is_empty) if flagged else is_empty)
    if text:
        part = words(text, "text", LONGEST_SEARCH).translate(_LOWER)  # as both databases' lower() does
        query = query.where(
            sa.func.lower(_tools.name).contains(part, autoescape=True)
            | sa.func.lower(_tools.description).contains(part, autoescape=True)
        )
    return query


def page(connection: sa.Connection, query: sa.Select[Any], after: str, limit: int) -> Page:
    """The next `limit` of the tools, by name; found by the place in the index, however far in."""
    checked_limit(limit)
    if after:
        tool_id, colon, name = words(after, "after").partition(":")
        if not colon:
            raise InvalidInput(f"after is {after!r:.80}, must be the `next` of a page")
        later = sa.tuple_(_tools.name, _tools.tool_id) > sa.tuple_(name, tool_id)
        query = query.where(_tools.name >= name, later)  # the first of them is what an index knows
    query = query.order_by(_tools.name, _tools.tool_id).limit(limit + 1)
    records = tuple(map(record_of, connection.execute(query)))
    if len(records) <= limit:
        return Page(records)
    last = records[limit - 1].tool
    return Page(records[:limit], f"{last.tool_id}:{last.name}")


def checked_limit(limit: int) -> int:
    """The limit, if a page may be that long. Raises InvalidInput."""
    if type(limit) is not int or not 1 <= limit <= LARGEST_PAGE:
        raise InvalidInput(f"limit is {limit!r:.80}, must be from 1 to {LARGEST_PAGE:,}")
    return limit


_LOWER = {ord(upper): upper.lower() for upper in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}


def _among(value: str | None, allowed: frozenset[str], what: str) -> None:
    if value is not None and value not in allowed:
        raise InvalidInput(f"{what} is {value!r:.80}, must be one of {', '.join(sorted(allowed))}")
