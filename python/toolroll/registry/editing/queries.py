"""Queries for tools and their versions."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence

import sqlalchemy as sa

from toolroll.model.errors import Conflict, InvalidInput, NotFound
from toolroll.model.tools import STATUSES
from toolroll.registry.editing.governed_rows import Reach, knows_tool
from toolroll.registry.editing.records import REVIEWS, ToolPage, ToolRecord, read_records
from toolroll.registry.editing.versions import ToolVersion, find_version
from toolroll.registry.store import tables
from toolroll.registry.store.database import checked_text

LARGEST_PAGE = 1_000
LONGEST_SEARCH = 200  # characters

_TOOL_ID = re.compile(r"[0-9a-f]{32}")
_tools = tables.tools.c


def find_tool(
    connection: sa.Connection,
    name: str,
    org: str,
    *,
    deleted: bool = False,
    alive: bool = True,
    reach: Reach | None = None,
) -> ToolRecord:
    """The present tool with this tool_id or name; with `deleted`, else the last deleted one.

    reach: the platform's tools that the caller may know; None for all.

    Raises NotFound, which says that it is deleted, or suggests similar names.
    """
    checked_text(name, "name")
    checked_text(org, "org")
    # The tool_id comes first: nobody can choose one, but a name may be chosen to look like a tool_id.
    columns = (_tools.tool_id, _tools.name) if _TOOL_ID.fullmatch(name) else (_tools.name,)
    for column in columns:
        if record := _tool_where(connection, column == name, org, alive, deleted):
            return record
    if alive and (gone := _tool_where(connection, columns[-1] == name, org, False, True)):
        assert gone.deleted_at is not None
        raise NotFound(
            f"tool {name!r:.160}: is deleted, since {gone.deleted_at:%Y-%m-%d %H:%M:%S} UTC, by "
            f"{gone.updated_by or 'somebody'}; `restore` brings it back"
        )
    is_known = alive and org and knows_tool(reach, name)
    if is_known and _tool_where(connection, columns[-1] == name, "", True, False):
        raise NotFound(
            f"tool {name!r:.160}: belongs to the platform, not to {org!r}, which can only pin it "
            "(`registry pins`)"
        )
    kind = "tool" if alive else "deleted tool"
    near = _near(connection, name, org)
    asked = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    raise NotFound(f"{kind} {name!r:.160}: is not in the registry{f' of {org!r}' if org else ''}{asked}")


def _tool_where(
    connection: sa.Connection, where: sa.ColumnElement[bool], org: str, alive: bool, deleted: bool
) -> ToolRecord | None:
    is_deleted = _tools.deleted_at.is_not(None)
    same = [where, _tools.org == org]
    if not (alive and deleted):
        same.append(is_deleted if deleted else sa.not_(is_deleted))
    order = (is_deleted, _tools.revision.desc())  # the present one, else the last deleted one
    return next(read_records(connection, *same, order_by=order, limit=1), None)


def _near(connection: sa.Connection, name: str, org: str) -> list[str]:
    """Similar names of about the same length, among the first 2,000."""
    about = sa.func.length(_tools.name).between(len(name) - 2, len(name) + 2)
    where = (_tools.org == org, _tools.deleted_at.is_(None), about)
    query = sa.select(_tools.name).where(*where).order_by(_tools.name).limit(2_000)
    names = list(connection.execute(query).scalars())
    return difflib.get_close_matches(name, names, n=2, cutoff=0.75)


def read_version(connection: sa.Connection, record: ToolRecord, number: int) -> ToolVersion:
    """One version of a tool. Raises NotFound."""
    if type(number) is not int:
        raise InvalidInput(f"version is {number!r:.80}, must be a whole number")
    is_in_range = 1 <= number <= record.version  # of the column, too
    version = find_version(connection, record.tool.tool_id, number) if is_in_range else None
    if version is None:
        raise NotFound(f"tool {record.name!r}: has no version {number}; its last is {record.version}")
    return version


def check_version(record: ToolRecord, version: int | None) -> ToolRecord:
    """The record. Raises Conflict if it has another version. version: None for any."""
    if version is not None and version != record.version:
        raise Conflict(
            f"tool {record.name!r}: is at version {record.version}, not {version}: "
            f"{record.updated_by or 'somebody'} changed it at {record.updated_at:%Y-%m-%d %H:%M:%S} UTC; "
            "read it again, and apply the change to that version"
        )
    return record


def conditions(
    *, org: str | None, deleted: bool, flagged: bool | None, text: str | None, equal: Mapping[str, str | None]
) -> list[sa.ColumnElement[bool]]:
    """The conditions of `Registry.tools` in SQL. equal: column → the value that it must have, or None."""
    check_choice(equal["status"], STATUSES, "status")
    check_choice(equal["review"], REVIEWS, "review")
    where: list[sa.ColumnElement[bool]] = [
        _tools.deleted_at.is_not(None) if deleted else _tools.deleted_at.is_(None)
    ]
    if org is not None:
        where.append(_tools.org == checked_text(org, "org"))
    for name, value in equal.items():
        if value is not None:
            where.append(_tools[name] == checked_text(value, name))
    if flagged is not None:
        is_empty = sa.cast(_tools.flags, sa.Text) == "[]"
        where.append(sa.not_(is_empty) if flagged else is_empty)
    if text:
        # The databases' lower() folds only ASCII.
        part = checked_text(text, "text", LONGEST_SEARCH).translate(_LOWER)
        where.append(
            sa.func.lower(_tools.name).contains(part, autoescape=True)
            | sa.func.lower(_tools.description).contains(part, autoescape=True)
        )
    return where


def read_page(
    connection: sa.Connection, where: Sequence[sa.ColumnElement[bool]], after: str, limit: int
) -> ToolPage:
    """The page of tools after `after`, by name. The index finds every page equally fast."""
    check_limit(limit)
    if after:
        tool_id, colon, name = checked_text(after, "after").partition(":")
        if not colon:
            raise InvalidInput(f"after is {after!r:.80}, must be the `next` of a page")
        later = sa.tuple_(_tools.name, _tools.tool_id) > sa.tuple_(name, tool_id)
        where = (*where, _tools.name >= name, later)  # the index serves only the first condition
    in_order = (_tools.name, _tools.tool_id)
    records = tuple(read_records(connection, *where, order_by=in_order, limit=limit + 1))
    is_last = len(records) <= limit
    total = None if after else len(records) if is_last else _count(connection, where)
    if is_last:
        return ToolPage(records, total=total)
    last = records[limit - 1].tool
    return ToolPage(records[:limit], f"{last.tool_id}:{last.name}", total)


def _count(connection: sa.Connection, where: Sequence[sa.ColumnElement[bool]]) -> int:
    """The number of rows of `tools` that meet the conditions."""
    count = sa.select(sa.func.count()).select_from(tables.tools).where(*where)
    return connection.execute(count).scalar_one()


def check_limit(limit: int) -> int:
    """The limit. Raises InvalidInput if a page may not be that long."""
    if type(limit) is not int or not 1 <= limit <= LARGEST_PAGE:
        raise InvalidInput(f"limit is {limit!r:.80}, must be from 1 to {LARGEST_PAGE:,}")
    return limit


_LOWER = {ord(upper): upper.lower() for upper in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}


def check_choice(value: str | None, allowed: Iterable[str], what: str) -> None:
    """Raises InvalidInput for a value that is neither None nor among the allowed ones."""
    if value is not None and value not in tuple(allowed):
        raise InvalidInput(f"{what} is {value!r:.80}, must be one of {', '.join(sorted(allowed))}, or None")
