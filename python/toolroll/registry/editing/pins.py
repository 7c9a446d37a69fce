"""Pins in the registry: which tools of the platform an organisation always selects.

A pin can also end a pin of the platform. It refers to its tool by tool_id: it survives a renaming, and does
not pass to a new tool with the old name.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from toolroll.catalog.pins import Pin
from toolroll.model.errors import InvalidInput, NotFound
from toolroll.registry.editing import governed_rows
from toolroll.registry.editing.governed_rows import Editor, GovernedRow, Reach, Row
from toolroll.registry.editing.queries import find_tool
from toolroll.registry.editing.records import ToolRecord
from toolroll.registry.store import tables
from toolroll.registry.store.database import checked_text
from toolroll.registry.store.row_reader import read_rows

_TABLE = tables.pins


@dataclass(frozen=True, slots=True, kw_only=True)
class PinRecord(GovernedRow):
    """A pin of an organisation in the registry. tool: the tool's present name."""

    org: str
    tool: str
    pin: Pin

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        pin = self.pin
        content = {"pinned": pin.pinned, "pin_weight": pin.weight}
        return {"org": self.org, "tool": self.tool, "tool_id": pin.tool_id, **content, **self.shared_fields()}


class Pins(Editor[PinRecord]):
    """The pins of a registry. The platform's own are fields of its tools: `pinned` and `pin_weight`."""

    _table, _noun, _kind, _key, _fields = _TABLE, "pin", "pin", "pin_id", ("pinned", "pin_weight")

    def set(
        self, name: str, *, org: str, pinned: bool = True, weight: int = 0, reason: str = ""
    ) -> PinRecord:
        """Pins a tool of the platform for an organisation. Writes nothing if no field differs.

        pinned: whether the organisation always selects the tool. weight: pinned tools with a higher weight
            come first.

        Raises:
            InvalidInput: org is "", or a value is wrong; or the tool is the organisation's own: edit its
                field `pinned`.
            NotFound: the platform has no such tool.
        """
        if not checked_text(org, "org"):
            raise InvalidInput(
                "org is '', must be an organisation; for all of them, update the tool's `pinned`"
            )
        if type(pinned) is not bool or type(weight) is not int or not governed_rows.is_priority(weight):
            raise InvalidInput(
                f"pin: pinned is {pinned!r:.20}, weight {weight!r:.20}; must be True or False, and an integer"
            )
        content = {"pinned": pinned, "pin_weight": weight}
        with self._database.writing(self.actor, org) as write:
            record = _platforms_tool(write.connection, name, org, self.reach)
            tool_id = record.tool.tool_id
            row = _row(write.connection, org, tool_id)
            if row is None:
                row = self._insert(write, record.name, content, reason, tool_id=tool_id)
            else:
                row = self._update(write, row, content, record.name, reason)
            return _record(row, record.name)

    def delete(self, name: str, *, org: str, reason: str = "") -> PinRecord:
        """Deletes an organisation's pin of a tool, by name or tool_id. Raises NotFound."""
        with self._database.writing(self.actor, org) as write:
            row, tool = self._named(write.connection, checked_text(name, "tool name"), org)
            if row is None:
                raise NotFound(f"tool {tool!r:.80}: has no pin {governed_rows.place_of(org)}")
            return _record(self._delete(write, row, tool, reason), tool)

    def _named(self, connection: sa.Connection, name: str, org: str) -> tuple[Row | None, str]:
        """The organisation's pin of a tool, and the tool's name. Raises NotFound if there is no such tool."""
        try:
            record = _known(connection, name, org, self.reach, deleted=True)
        except NotFound:
            if (row := _row(connection, org, name)) is None:
                raise
            return row, name
        return _row(connection, org, record.tool.tool_id), record.name

    def list(self, org: str | None = None, deleted: bool = False) -> tuple[PinRecord, ...]:
        """The pins of an organisation, or all, by organisation, the heaviest first."""
        tools = tables.tools.c
        where = [] if org is None else [_TABLE.c.org == checked_text(org, "org")]
        if not deleted:
            where.append(_TABLE.c.deleted_at.is_(None))
        with self._database.reading() as connection:
            pins = list(read_rows(connection, list(_TABLE.c), *where))
            ids = sa.select(_TABLE.c.tool_id).where(*where)
            found = read_rows(connection, (tools.tool_id, tools.name), tools.tool_id.in_(ids))
            names = {row["tool_id"]: row["name"] for row in found}
        if self.reach is not None:  # hides the names of tools that are out of reach now
            names = {
                tool_id: name if self.reach.tools.get(name) == tool_id else tool_id
                for tool_id, name in names.items()
            }
        records = [_record(row, names[row["tool_id"]]) for row in pins]
        return tuple(
            sorted(
                records, key=lambda it: (it.org, not it.pin.pinned, -it.pin.weight, it.tool, it.pin.tool_id)
            )
        )


def pin_in(row: Mapping[str, Any]) -> Pin:
    """The pin in a row of `pins`."""
    return Pin(row["tool_id"], row["pinned"], row["pin_weight"])


def _platforms_tool(connection: sa.Connection, name: str, org: str, reach: Reach | None) -> ToolRecord:
    try:
        return _known(connection, name, org, reach)
    except NotFound:
        with suppress(NotFound):
            own = find_tool(connection, name, org, reach=reach)
            raise InvalidInput(
                f"tool {own.name!r:.80}: belongs to organisation {org!r:.80}; update its fields `pinned` and "
                "`pin_weight`"
            ) from None
        raise


def _known(
    connection: sa.Connection, name: str, org: str, reach: Reach | None, *, deleted: bool = False
) -> ToolRecord:
    """The platform's tool with this name or tool_id. Raises NotFound, also if its author may not know it."""
    if reach is None:
        return find_tool(connection, name, "", deleted=deleted)
    # No query for other names: its time would tell that the tool exists.
    if name in reach.tools or name in reach.tools.values():
        with suppress(NotFound):
            record = find_tool(connection, name, "", deleted=deleted)
            if reach.tools.get(record.name) == record.tool.tool_id:
                return record
    hint = governed_rows.suggestion(name, reach.tools)
    raise NotFound(f"tool {name!r:.160}: is not on the platform, as far as {org!r:.80} sees it{hint}")


def _row(connection: sa.Connection, org: str, tool_id: str) -> Row | None:
    found = governed_rows.rows_of(connection, _TABLE, _TABLE.c.org == org, _TABLE.c.tool_id == tool_id)
    return found[0] if found else None


def _record(row: Mapping[str, Any], tool: str) -> PinRecord:
    return PinRecord(org=row["org"], tool=tool, pin=pin_in(row), **governed_rows.shared_fields(row))
