"""Small numbers that stand for tools in events and outcomes.

A tool's name and keys take forty bytes or more, its number one or two. A number never changes its meaning:
rows are only added, one for each text that a tool ever had.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa

from toolroll.learning.exposure import ShownTool
from toolroll.model.identity import ToolKey
from toolroll.registry.store import tables
from toolroll.registry.store.bulk_insert import add_missing
from toolroll.registry.store.row_reader import Row, read_rows
from toolroll.runtime.gil import GilYielder, batches

_SOME = 128  # keys in a query
_MOST_KNOWN = 200_000  # tools whose number a process remembers
_SIGN = 1 << 63

_table = tables.logged_tools


class LoggedTool(NamedTuple):
    """A tool's name, and the keys of its `ToolKey`."""

    name: str
    arm: int
    intent: int
    group: int

    @classmethod
    def of(cls, tool: ShownTool) -> LoggedTool:
        """From a shown or found tool."""
        return cls(tool.name, *tool.key)

    def shown(self, expected: float) -> ShownTool:
        """The shown tool, with its expected calls."""
        return ShownTool(self.name, ToolKey(self.arm, self.intent, self.group), expected)


class ToolNumbers:
    """Caches the numbers of tools between batches. For one thread.

    If a backup replaced the database, numbers may stand for other tools. So each row has a random stamp, and
    `of` first checks the stamp of the last row in the cache.
    """

    def __init__(self) -> None:
        """Begins with an empty cache."""
        self._known: dict[LoggedTool, int] = {}
        self._last: tuple[int, int | None] | None = None  # number and stamp of the last row

    def of(self, connection: sa.Connection, tools: Iterable[LoggedTool]) -> Mapping[LoggedTool, int]:
        """The numbers of tools; adds new ones. Discard this object if the transaction fails."""
        self._check(connection)
        known = self._known
        unknown = {tool for tool in tools if tool not in known}
        if unknown:
            self._find(connection, unknown)
            missing = sorted(unknown - known.keys())
            if missing:
                add_missing(connection, _table, map(_row, missing))
                self._find(connection, set(missing))
        return known

    def _check(self, connection: sa.Connection) -> None:
        if self._last is None:
            return
        number, stamp = self._last
        query = sa.select(_table.c.stamp).where(_table.c.number == number)
        if connection.execute(query).scalar() != stamp or len(self._known) > _MOST_KNOWN:
            self._known, self._last = {}, None

    def _find(self, connection: sa.Connection, tools: set[LoggedTool]) -> None:
        yielder = GilYielder()
        for some in batches(sorted({signed(tool.intent) for tool in tools}), _SOME):
            for row in read_rows(connection, list(_table.c), _table.c.intent.in_(some)):
                yielder()
                self._known[_tool(row)] = row["number"]
                if self._last is None or row["number"] > self._last[0]:
                    self._last = row["number"], row["stamp"]


class LoggedToolReader:
    """Reads tools by their numbers within one transaction, each one once."""

    def __init__(self, connection: sa.Connection) -> None:
        """Reads nothing yet."""
        self._connection = connection
        self._known: dict[int, LoggedTool] = {}

    def read(self, numbers: Iterable[int]) -> None:
        """Reads the tools of unknown numbers."""
        for some in batches(sorted(set(numbers) - self._known.keys()), _SOME):
            for row in read_rows(self._connection, list(_table.c), _table.c.number.in_(some)):
                self._known[row["number"]] = _tool(row)

    def __getitem__(self, number: int) -> LoggedTool:
        """The tool with a number from `read`. Raises ValueError if its row is missing or damaged."""
        tool = self._known.get(number)
        if tool is None:
            raise ValueError(f"row {number} of logged_tools is damaged, or is not there")
        return tool


def _row(tool: LoggedTool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "arm": signed(tool.arm),
        "intent": signed(tool.intent),
        "tool_group": signed(tool.group),
        "stamp": int.from_bytes(os.urandom(6), "little"),
    }


def _tool(row: Row) -> LoggedTool:
    return LoggedTool(row["name"], *(unsigned(row[name]) for name in ("arm", "intent", "tool_group")))


def signed(number: int) -> int:
    """64 bits as the signed number that both databases store."""
    return number - 2 * _SIGN if number >= _SIGN else number


def unsigned(number: int) -> int:
    """Reverses `signed`."""
    return number + 2 * _SIGN if number < 0 else number
