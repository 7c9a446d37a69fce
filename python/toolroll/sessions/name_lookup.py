"""Finds tools by a name from a caller or a model: a tool's name, a toolkit's name, or a misspelt one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from toolroll.formats.meta_tools import META_TOOLS
from toolroll.formats.providers.provider import is_replaced
from toolroll.formats.schemas import own_name_of
from toolroll.model.errors import InvalidInput, quoted
from toolroll.model.tools import Tool
from toolroll.selection.visible import VisibleTools
from toolroll.sessions import replies

META_NAMES = tuple(tool.name for tool in META_TOOLS)
MOST_TOGETHER = 32  # tools of a toolkit that stands for them
MOST_NEAREST = 3  # unknown names that are told what is near: it takes milliseconds each
_COMPARED = 1_000  # names that a misspelt one is compared with; of a larger catalog those that a search finds
_LONGEST = 4_096  # characters of a list of names
_BETWEEN = re.compile(r"[,;\n]")


@dataclass(frozen=True, slots=True, eq=False)
class NameLookup:
    """Finds tools by name, among the tools that one caller may have.

    Attributes:
        visible: the tools that the caller may have.
        find: searches for a text and returns names, best first.
    """

    visible: VisibleTools
    find: Callable[[str], Sequence[str]]

    def own(self, name: str) -> str | None:
        """The own name of the tool that a model calls by this name; None if there is none.

        A name in the form of a replaced name is never a tool's own name here. Otherwise a tool with that own
        name would get the calls of another tool as soon as the other one is removed.
        """
        return own_name_of(name, self.visible) if is_replaced(name) else name

    def get(self, name: str | None) -> Tool | None:
        """The tool of this own name, if the caller may have it. No tool passes for a meta-tool."""
        return None if name is None or name in META_NAMES else self.visible.get(name)

    def resolve(self, names: Iterable[str]) -> tuple[list[Tool], dict[str, Sequence[str]]]:
        """The tools of these names, and unknown name → the nearest existing names.

        A toolkit's name stands for its visible tools, if they are few.
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
        """Names with a similar spelling, or the best results of a search for the name."""
        found = self.find(name.replace("_", " "))
        names = self.visible.names if len(self.visible) <= _COMPARED else found
        return replies.near(name, names) or found[:3]

    def _of_toolkit(self, name: str) -> list[Tool]:
        """The tools of a toolkit, including its members."""
        catalog, allowed = self.visible.catalog, self.visible.rows
        rows = catalog.routes.rows.get(name)
        if rows is None:
            return []
        tools = [catalog.tools[row] for row in rows[allowed.holds(rows)].tolist()]
        return tools if len(tools) <= MOST_TOGETHER else []


def listed(names: object) -> list[str]:
    """Names as a list, from a list or from a text with commas.

    Raises InvalidInput if it is neither, or it is empty.
    """
    if isinstance(names, str):
        names = _BETWEEN.split(names[:_LONGEST])
    if not isinstance(names, Iterable) or isinstance(names, (bytes, Mapping)):
        raise InvalidInput(f"names: is {quoted(names)}, must be names, as a list or with commas between them")
    wanted = []
    for name in names:
        if not isinstance(name, str):
            raise InvalidInput(f"names: holds {quoted(name)}, must hold names")
        if name.strip():
            wanted.append(name.strip())
    if not wanted:
        raise InvalidInput("names: is empty, must name at least one tool")
    return list(dict.fromkeys(wanted))
