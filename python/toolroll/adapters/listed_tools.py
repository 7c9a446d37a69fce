"""`ListedTools`: a framework's list of tools, and the definitions that a catalog reads."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from toolroll.formats.sources.callables import read_callable
from toolroll.formats.sources.fields import FieldError
from toolroll.formats.sources.lenient import name_in
from toolroll.formats.sources.objects import described
from toolroll.model.errors import InvalidInput, quoted
from toolroll.model.tool_list import ToolList
from toolroll.selection.selection import Selection

ReadTool = Callable[[Any], "tuple[Any, Any, Any] | None"]
# Describes a tool: a dictionary itself, or the result of `ReadTool` for another object.
Description: TypeAlias = "Mapping[str, Any] | tuple[Any, Any, Any] | None"
_VALUES = frozenset({str, list, tuple, int, float, bool, type(None)})  # of JSON
_HANDED_ON: Mapping[str, Any] = {"type": "handed_on"}  # stands for an object of an unknown kind


class _Places(NamedTuple):
    """Positions in a list: of the objects that are always sent, and of the objects in each catalog row.

    has_groups: whether an object holds several tools.
    """

    in_front: Sequence[int]
    by_row: Mapping[int, Sequence[int]]
    has_groups: bool


class ListedTools:
    """A framework's list of tools, and the definitions that the catalog reads.

    Attributes:
        objects: the framework's own objects.
        descriptions: of the objects.
        content: their names, in order; "" for an object without a name.
        first: an earlier list with the same descriptions; this one if there is none.
        items: definitions for the catalog, one for each object.
        names: of the tools in the catalog; empty until it is made.
        memory_bytes: estimated, of the list and its catalog; 0 until the catalog is made.
    """

    __slots__ = ("_places", "content", "descriptions", "first", "items", "memory_bytes", "names", "objects")

    def __init__(
        self,
        objects: tuple[Any, ...],
        descriptions: list[Description],
        content: tuple[str, ...],
        first: ListedTools | None = None,
    ) -> None:
        """first: another list with the same descriptions."""
        self.objects, self.content = objects, content
        self.first: ListedTools = self if first is None else first
        self.memory_bytes = 0
        self.descriptions: list[Description] = descriptions if first is None else first.descriptions
        self.items: list[Mapping[str, Any]] = (
            list(map(_item_of, descriptions)) if first is None else first.items
        )
        self.names: frozenset[str] = frozenset() if first is None else first.names
        self._places: _Places | None = None if first is None else first._places

    @property
    def is_read(self) -> bool:
        """Whether its catalog exists, so that no tool has to be embedded."""
        return bool(self.names)

    def of(self, selection: Selection) -> tuple[Any, ...]:
        """The objects that are always sent, then the selected ones."""
        tool_list = selection.turn.tool_list
        assert tool_list is not None  # it is over this list
        if self._places is None:
            self._places = _places(tool_list)
        in_front, by_row, has_groups = self._places
        if has_groups:
            return selection.tools  # a group returns with some of its members
        objects, places, withheld = self.objects, tool_list.places, tool_list.withheld
        found = [objects[at] for at in in_front if places[at].hosted not in withheld]
        found += [objects[at] for row in selection.rows.tolist() for at in by_row.get(row, ())]
        return tuple(found)


def _places(tool_list: ToolList) -> _Places:
    """The places of selectable tools, by row, and of all other tools."""
    in_front: list[int] = []
    by_row: dict[int, list[int]] = {}
    for at, place in enumerate(tool_list.places):
        if place.hosted >= 0 or place.key:
            in_front.append(at)
        else:
            by_row.setdefault(place.rows[0], []).append(at)
    return _Places(in_front, by_row, any(tool_list.places[at].key for at in in_front))


def read_object(tool: Any) -> tuple[Any, Any, Any] | None:
    """Describes a framework's tool or an annotated function; None for an object of another kind.

    Raises:
        FieldError: the function's parameters have no schema.
    """
    if not inspect.isroutine(tool):
        return described(tool)
    read = read_callable(tool)
    return read.name, read.description, read.parameters


def descriptions_of(tools: Sequence[Any], read: ReadTool) -> list[Description]:
    """The descriptions of the tools."""
    kinds = set(map(type, tools))
    if kinds == {dict}:
        return list(tools)
    if not any([issubclass(kind, Mapping) for kind in kinds]):
        try:
            found: list[Description] = list(map(read, tools))
            return found if kinds.isdisjoint(_VALUES) else list(map(_value_or, found, tools))
        except FieldError:
            pass  # of one of them
    return [_description_of(tool, read) for tool in tools]


def _description_of(tool: Any, read: ReadTool) -> Description:
    if isinstance(tool, Mapping):
        return tool
    try:
        return _value_or(read(tool), tool)
    except FieldError:
        name = getattr(tool, "name", None) or getattr(tool, "__name__", None)
        return name, getattr(tool, "description", None) or getattr(tool, "__doc__", None), None


def _value_or(description: Description, tool: Any) -> Description:
    """The description; the value itself for a JSON value without one, which may be a name."""
    return {**_HANDED_ON, "value": tool} if description is None and type(tool) in _VALUES else description


def name_of(description: Description) -> str:
    """The name of a function; "" for anything else."""
    if description is None:
        return ""
    name = name_in(description) if isinstance(description, Mapping) else description[0]
    return name if isinstance(name, str) else ""


def _item_of(description: Description) -> Mapping[str, Any]:
    """The definition of a tool for the catalog."""
    if isinstance(description, Mapping):
        return description
    if description is None or not isinstance(description[0], str) or not description[0]:
        return _HANDED_ON
    name, text, parameters = description
    item = {"name": name, "description": text if isinstance(text, str) else ""}
    if isinstance(parameters, Mapping) and parameters:
        item["parameters"] = parameters
    return item


def objects_of(tools: Any) -> tuple[Any, ...]:
    """The tools of a list."""
    if isinstance(tools, (str, bytes, Mapping)) or not isinstance(tools, Iterable):
        raise InvalidInput(f"tools: is {quoted(tools)}, must be a list of the agent's tools")
    return tuple(tools)
