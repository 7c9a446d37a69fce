"""`ListedTools`: a framework's list of tools, and what a catalog reads of it."""

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
# What a tool says of itself: a dictionary as it is, what `ReadTool` returns of another object.
Said: TypeAlias = "Mapping[str, Any] | tuple[Any, Any, Any] | None"
_VALUES = frozenset({str, list, tuple, int, float, bool, type(None)})  # of JSON
_HANDED_ON: Mapping[str, Any] = {"type": "handed_on"}  # stands for an object of no known kind


class _Divided(NamedTuple):
    """Places in a list: of what is handed on, and of each row of its catalog; whether there are groups."""

    in_front: Sequence[int]
    by_row: Mapping[int, Sequence[int]]
    has_groups: bool


class ListedTools:
    """A framework's list of tools, and what the catalog reads of it.

    Attributes:
        objects: the framework's own.
        said: what they say of themselves.
        content: their names, in order; "" for what has none.
        first: the list that has said the same before; itself where none has.
        items: what the catalog reads, one each.
        names: of the tools that are selected from; empty until a catalog was made.
        memory_bytes: of the list and its catalog, by estimate; 0 until a catalog was made.
    """

    __slots__ = ("_divided", "content", "first", "items", "memory_bytes", "names", "objects", "said")

    def __init__(
        self,
        objects: tuple[Any, ...],
        said: list[Said],
        content: tuple[str, ...],
        first: ListedTools | None = None,
    ) -> None:
        """first: another list that says the same."""
        self.objects, self.content = objects, content
        self.first: ListedTools = self if first is None else first
        self.memory_bytes = 0
        self.said: list[Said] = said if first is None else first.said
        self.items: list[Mapping[str, Any]] = list(map(_item_of, said)) if first is None else first.items
        self.names: frozenset[str] = frozenset() if first is None else first.names
        self._divided: _Divided | None = None if first is None else first._divided

    @property
    def is_read(self) -> bool:
        """Whether a catalog was made of it, so that no tool has to be embedded."""
        return bool(self.names)

    def of(self, selection: Selection) -> tuple[Any, ...]:
        """The selected objects: first those that are handed on in any case."""
        tool_list = selection.turn.tool_list
        assert tool_list is not None  # it is over this list
        if self._divided is None:
            self._divided = _divided(tool_list)
        in_front, by_row, has_groups = self._divided
        if has_groups:
            return selection.tools  # a group comes back with some of its members
        objects, places, withheld = self.objects, tool_list.places, tool_list.withheld
        found = [objects[at] for at in in_front if places[at].hosted not in withheld]
        found += [objects[at] for row in selection.rows.tolist() for at in by_row.get(row, ())]
        return tuple(found)


def _divided(tool_list: ToolList) -> _Divided:
    """Tells the tools that are selected from, by row, from the others."""
    in_front: list[int] = []
    by_row: dict[int, list[int]] = {}
    for at, place in enumerate(tool_list.places):
        if place.hosted >= 0 or place.key:
            in_front.append(at)
        else:
            by_row.setdefault(place.rows[0], []).append(at)
    return _Divided(in_front, by_row, any(tool_list.places[at].key for at in in_front))


def read_object(tool: Any) -> tuple[Any, Any, Any] | None:
    """What a framework's tool or an annotated function says of itself; None for an object of another kind.

    Raises:
        FieldError: it cannot say what its parameters are.
    """
    if not inspect.isroutine(tool):
        return described(tool)
    read = read_callable(tool)
    return read.name, read.description, read.parameters


def said_by(tools: Sequence[Any], read: ReadTool) -> list[Said]:
    """What the tools say of themselves."""
    kinds = set(map(type, tools))
    if kinds == {dict}:
        return list(tools)
    if not any([issubclass(kind, Mapping) for kind in kinds]):
        try:
            said: list[Said] = list(map(read, tools))
            return said if kinds.isdisjoint(_VALUES) else list(map(_value_or, said, tools))
        except FieldError:
            pass  # of one of them
    return [_said_by(tool, read) for tool in tools]


def _said_by(tool: Any, read: ReadTool) -> Said:
    if isinstance(tool, Mapping):
        return tool
    try:
        return _value_or(read(tool), tool)
    except FieldError:
        name = getattr(tool, "name", None) or getattr(tool, "__name__", None)
        return name, getattr(tool, "description", None) or getattr(tool, "__doc__", None), None


def _value_or(said: Said, tool: Any) -> Said:
    """What a tool says of itself; a value of JSON that says nothing stands for itself: it may be a name."""
    return {**_HANDED_ON, "value": tool} if said is None and type(tool) in _VALUES else said


def name_of(said: Said) -> str:
    """The name of a function; "" for what is none."""
    if said is None:
        return ""
    name = name_in(said) if isinstance(said, Mapping) else said[0]
    return name if isinstance(name, str) else ""


def _item_of(said: Said) -> Mapping[str, Any]:
    """What the catalog reads of a tool."""
    if isinstance(said, Mapping):
        return said
    if said is None or not isinstance(said[0], str) or not said[0]:
        return _HANDED_ON
    name, description, parameters = said
    item = {"name": name, "description": description if isinstance(description, str) else ""}
    if isinstance(parameters, Mapping) and parameters:
        item["parameters"] = parameters
    return item


def objects_of(tools: Any) -> tuple[Any, ...]:
    """The tools of a list."""
    if isinstance(tools, (str, bytes, Mapping)) or not isinstance(tools, Iterable):
        raise InvalidInput(f"tools: is {quoted(tools)}, must be a list of the agent's tools")
    return tuple(tools)
