"""Tools by the names that callers and models write: known ones, toolkits, and what was meant by others."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from toolroll._core import Bitset
from toolroll.catalog.catalog import Catalog
from toolroll.errors import InvalidInput
from toolroll.formats.meta_tools import META_TOOLS
from toolroll.sessions import replies
from toolroll.tools import Tool

META_NAMES = tuple(tool.name for tool in META_TOOLS)
MOST_TOGETHER = 32  # tools of a toolkit that stands for them
MOST_NEAREST = 3  # unknown names that are told what is near: it takes milliseconds each
_COMPARED = 1_000  # names that a misspelt one is compared with; of a larger catalog those that a search finds
_LONGEST = 4_096  # characters of a list of names
_BETWEEN = re.compile(r"[,;\n]")


@dataclass(frozen=True, slots=True, eq=False)
class VisibleTools:
    """The tools that one caller may have now.

    Attributes:
        catalog: of these tools.
        allowed: rows that the caller may have.
        own: from a name that a tool was sent under to its own; None where it is none's.
        find: what a search for a text finds, names, best first.
    """

    catalog: Catalog
    allowed: Bitset
    own: Callable[[str], str | None]
    find: Callable[[str], Sequence[str]]

    def get(self, name: str | None) -> Tool | None:
        """The tool of this own name, if the caller may have it. None passes for a meta-tool."""
        if name is None or name in META_NAMES:
            return None
        row = self.catalog.names.get(name)
        return self.catalog.tools[row] if row is not None and row in self.allowed else None

    def resolve(self, names: Iterable[str]) -> tuple[list[Tool], dict[str, Sequence[str]]]:
        """The tools of these names, and the other names with the nearest that there are.

        A toolkit's name stands for those of its tools that the caller may have, if they are few.
        """
        tools: dict[str, Tool] = {}
        unknown: dict[str, Sequence[str]] = {}
        for name in names:
            own = self.own(name)
            tool = self.get(own)
            found = self._of_toolkit(name) if tool is None else [tool]
            if not found:
                unknown[name] = self.nearest(name) if len(unknown) < MOST_NEAREST else ()
            tools |= {each.name: each for each in found}
        return list(tools.values()), unknown

    def nearest(self, name: str) -> Sequence[str]:
        """Names spelt like this one, or of what it seems to ask for."""
        found = self.find(name.replace("_", " "))
        names = found
        if len(self.allowed) <= _COMPARED:
            names = [self.catalog.tools[row].name for row in self.allowed.rows().tolist()]
        return replies.near(name, names) or found[:3]

    def is_core(self, tool: Tool) -> bool:
        """Whether the tool is in every selection."""
        row = self.catalog.names[tool.name]
        return row in self.catalog.base or row in self.catalog.pinned

    def _of_toolkit(self, name: str) -> list[Tool]:
        rows = self.catalog.below.get(name)
        if rows is None:
            return []
        tools = [self.catalog.tools[row] for row in rows[self.allowed.holds(rows)].tolist()]
        return tools if len(tools) <= MOST_TOGETHER else []


def listed(names: object) -> list[str]:
    """Names as a list, of a list or of a text with commas.

    Raises:
        InvalidInput: it is neither, or there are none.
    """
    if isinstance(names, str):
        names = _BETWEEN.split(names[:_LONGEST])
    if not isinstance(names, Iterable) or isinstance(names, (bytes, Mapping)):
        raise InvalidInput(f"names: is {names!r:.80}, must be names, as a list or with commas between them")
    wanted = []
    for name in names:
        if not isinstance(name, str):
            raise InvalidInput(f"names: holds {name!r:.80}, must hold names")
        if name.strip():
            wanted.append(name.strip())
    if not wanted:
        raise InvalidInput("names: is empty, must name at least one tool")
    return list(dict.fromkeys(wanted))
