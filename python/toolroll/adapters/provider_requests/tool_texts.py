"""Lists of tools in the text of requests, read into objects, each with its text.

A client sends the same list with each request. A known list is found by comparing its text, which takes
microseconds, and its objects are reused.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolroll.adapters.provider_requests.json_spans import (
    Item,
    array_items,
    object_members,
    read_value,
    with_members,
)
from toolroll.formats.sources.hosted import is_hosted
from toolroll.formats.sources.labels import labels_of
from toolroll.formats.sources.lenient import group_in, name_in

MOST_CHARACTERS = 16 << 20  # of the lists that are kept
MOST_TOOLS = 25_000  # in a list or group: each takes a kilobyte and a tenth of a millisecond, and three bytes
_BEGINNING = 400  # characters by which a list is looked up
_ALIKE = 4  # lists with the same beginning that are kept


@dataclass(frozen=True, slots=True)
class _Group:
    """An item that holds several tools, such as Gemini's function declarations.

    Attributes:
        item: the object.
        key: of the tools in it.
        text: of the item.
        before, behind: the text around the array of tools.
    """

    item: Mapping[str, Any]
    key: str
    text: str
    before: str
    behind: str


@dataclass(frozen=True, slots=True, eq=False)
class ToolTexts:
    """A list of tools in the text of a request.

    Attributes:
        text: of the whole list.
        items: the objects. Their identity counts, so nobody may copy them.
        texts: id of an item, or of a tool in a group → its text.
        groups: items that hold several tools.
        are_functions: whether each item defines a function, or several.
        repeated: names that several tools have. Providers refuse such a list, so these tools are always sent:
            the client then always sees the provider's error.
    """

    text: str
    items: list[Any]
    texts: Mapping[int, str]
    groups: Sequence[_Group]
    are_functions: bool
    repeated: tuple[str, ...]
    _are_clear: list[bool] = field(default_factory=list, repr=False)

    @classmethod
    def read(cls, text: str, at: int) -> ToolTexts:
        """The list that begins here. Raises ValueError if there is none."""
        texts: dict[int, str] = {}
        groups: list[_Group] = []
        found, end = array_items(text, at, lambda text, at: _read_item(text, at, texts, groups), MOST_TOOLS)
        if len(found) + sum(len(group.item[group.key]) for group in groups) > MOST_TOOLS:
            raise ValueError(f"the list has more than {MOST_TOOLS:,} tools")
        items = [one.value for one in found]
        texts.update({id(one.value): text[one.begin : one.end] for one in found})
        are_functions = all(
            isinstance(item, dict)
            and not is_hosted(item)
            and ("type" not in item or item["type"] == "function")
            for item in items
        )
        return cls(text[at:end], items, texts, groups, are_functions, _repeated(items, groups))

    @property
    def are_clear(self) -> bool:
        """Whether no object in it has a member twice, so that all readers read the same. O(n) once."""
        if not self._are_clear:
            self._are_clear.append(_has_no_doubles(self.text))
        return self._are_clear[0]

    def names(self, items: Iterable[Any]) -> frozenset[str]:
        """The names by which a choice may refer to these items."""
        keys = {group.key for group in self.groups}
        found = set()
        for item in items:
            members = (
                [one for key in keys if key in item for one in item[key]] if isinstance(item, dict) else []
            )
            found |= {name_in(one) for one in members if isinstance(one, dict)} or {labels_of(item).own}
        return frozenset(found)

    def count(self, items: Sequence[Any]) -> int:
        """The number of tools in these items."""
        if not self.groups:
            return len(items)
        keys = {group.key for group in self.groups}
        total = 0
        for item in items:
            key = next((key for key in keys if key in item), None) if isinstance(item, dict) else None
            total += 1 if key is None else len(item[key]) + (len(item) > 1)
        return total

    def of(self, items: Iterable[Any]) -> str:
        """The text of a list with some of these items, in the order given. A group keeps only these tools."""
        known = self.texts
        return "[" + ",".join([known.get(id(item)) or self._part(item) for item in items]) + "]"

    def _part(self, item: Mapping[str, Any]) -> str:
        """The text of a group from which tools were removed."""
        for group in self.groups:
            if (
                item.keys() == {group.key} and group.item.keys() != item.keys()
            ):  # nothing is left beside its tools
                if all(id(member) in self.texts for member in item[group.key]):
                    return f"{{{json.dumps(group.key)}:[{self._of_members(item[group.key])}]}}"
                continue
            if any(item.get(name) is not value for name, value in group.item.items() if name != group.key):
                continue
            if group.key not in item:
                members, _ = object_members(group.text, 0)
                return with_members(group.text, members, {group.key: None})
            if all(id(member) in self.texts for member in item[group.key]):
                return f"{group.before}[{self._of_members(item[group.key])}]{group.behind}"
        raise LookupError("an item is none of the list")

    def _of_members(self, members: Iterable[Any]) -> str:
        return ",".join([self.texts[id(member)] for member in members])


def _has_no_doubles(text: str) -> bool:
    def check(members: list[tuple[str, Any]]) -> None:
        if len(members) > 1 and len({name for name, _ in members}) < len(members):
            raise ValueError("a member stands twice")

    try:
        json.loads(text, object_pairs_hook=check)
    except (ValueError, RecursionError):
        return False
    return True


def _repeated(items: Iterable[Any], groups: Iterable[_Group]) -> tuple[str, ...]:
    """The names that occur more than once, in order."""
    tools = [*items, *(tool for group in groups for tool in group.item[group.key])]
    counts = Counter([name_in(tool) for tool in tools if isinstance(tool, dict)])
    return tuple([name for name, count in counts.items() if count > 1 and name])


def _read_item(text: str, at: int, texts: dict[int, str], groups: list[_Group]) -> Item:
    item = read_value(text, at)
    group = group_in(item.value)
    if group is None or not isinstance(item.value[group.key], list):
        return item
    members, end = object_members(text, at)
    (place,) = [member.item for member in members if member.name == group.key]
    found, _ = array_items(text, place.begin, most=MOST_TOOLS)
    texts.update({id(one.value): text[one.begin : one.end] for one in found})
    value = {member.name: member.item.value for member in members}
    value[group.key] = [one.value for one in found]
    groups.append(_Group(value, group.key, text[at:end], text[at : place.begin], text[place.end : end]))
    return Item(at, end, value)


class KnownToolTexts:
    """The most recent lists. Safe to share between threads: each change replaces one entry."""

    def __init__(self, most_characters: int = MOST_CHARACTERS) -> None:
        """Knows none yet."""
        self._most = most_characters
        self._lists: dict[Hashable, tuple[ToolTexts, ...]] = {}
        self._characters = 0

    def read(self, text: str, at: int) -> ToolTexts:
        """The list that begins here, known or new. Raises ValueError if there is none."""
        key = text[at : at + _BEGINNING]
        alike = self._lists.get(key, ())
        for known in alike:
            if text.startswith(known.text, at):
                return known
        read = ToolTexts.read(text, at)
        if len(read.text) * 4 <= self._most:
            self._characters += len(read.text)
            if self._characters > self._most:
                self._lists, self._characters, alike = {}, len(read.text), ()
            self._lists[key] = (read, *alike[: _ALIKE - 1])
        return read
