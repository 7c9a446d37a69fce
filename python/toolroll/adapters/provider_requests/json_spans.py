"""Finds the members of a JSON object and the items of an array in their text.

The standard library's scanner reads each value and returns its end. Unchanged text is copied and never
written again. It takes about as long as `json.loads`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, NamedTuple

_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
_space = re.compile(r"[ \t\n\r]*")


class Item(NamedTuple):
    """A value in a text, which stands at `text[begin:end]`."""

    begin: int
    end: int
    value: Any


class Member(NamedTuple):
    """A member of an object.

    Attributes:
        name: without escapes.
        key: the place where its name begins.
        item: its value.
    """

    name: str
    key: int
    item: Item


ReadMember = Callable[[str, str, int], Item]  # of a name, in a text, at a place


def read_value(text: str, at: int) -> Item:
    """The value that begins here. Raises ValueError if there is none."""
    try:
        value, end = _scan(text, at)
    except StopIteration:
        raise ValueError(f"character {at}: there is no JSON value") from None
    except RecursionError:
        raise ValueError(f"character {at}: the value is nested too deeply") from None
    return Item(at, end, value)


def after_space(text: str, at: int) -> int:
    """The place of the next character that is no white space."""
    found = _space.match(text, at)
    assert found is not None
    return found.end()


def object_members(text: str, at: int, read: ReadMember | None = None) -> tuple[list[Member], int]:
    """The members of the object that begins here, and the place where it ends.

    read: reads a member's value; None for `read_value`.

    Raises:
        ValueError: there is no object.
    """
    members: list[Member] = []
    if text[at : at + 1] != "{":
        raise ValueError(f"character {at}: there is no JSON object")
    at = after_space(text, at + 1)
    while text[at : at + 1] == '"':
        key = at
        name, at = scanstring(text, at + 1, True)
        at = after_space(text, at)
        if text[at : at + 1] != ":":
            break
        at = after_space(text, at + 1)
        item = read_value(text, at) if read is None else read(name, text, at)
        members.append(Member(name, key, item))
        at = after_space(text, item.end)
        if text[at : at + 1] != ",":
            return members, _after(text, at, "}")
        at = after_space(text, at + 1)
    if members or text[at : at + 1] != "}":
        raise ValueError(f"character {at}: a member of a JSON object is missing")
    return members, at + 1


def array_items(
    text: str, at: int, read: Callable[[str, int], Item] = read_value, most: int | None = None
) -> tuple[list[Item], int]:
    """The items of the array that begins here, and the place where it ends.

    read: reads an item. most: how many there may be; None for any number.

    Raises:
        ValueError: there is no array, or it has too many items.
    """
    items: list[Item] = []
    if text[at : at + 1] != "[":
        raise ValueError(f"character {at}: there is no JSON array")
    at = after_space(text, at + 1)
    if text[at : at + 1] == "]":
        return items, at + 1
    while True:
        if len(items) == most:
            raise ValueError(f"character {at}: the array has more than {most:,} items")
        items.append(read(text, at))
        at = after_space(text, items[-1].end)
        if text[at : at + 1] != ",":
            return items, _after(text, at, "]")
        at = after_space(text, at + 1)


def with_members(text: str, members: Sequence[Member], changes: Mapping[str, str | None]) -> str:
    """The text of an object with other values for some of its members; None removes a member.

    All other characters stay as they are. A new name is added as the last member.
    """
    if not members:
        added = ",".join([f"{json.dumps(name)}:{new}" for name, new in changes.items() if new is not None])
        at = text.index("{") + 1
        return text[:at] + added + text[at:]
    pieces = [text[: members[0].key]]
    is_first, before = True, members[0].key
    for member in members:
        new = changes.get(member.name, "")
        if new is not None:
            if not is_first:
                pieces.append(text[before : member.key])
            pieces.append(text[member.key : member.item.begin])
            pieces.append(new or text[member.item.begin : member.item.end])
            is_first = False
        before = member.item.end
    known = {member.name for member in members}
    for name, new in changes.items():
        if new is not None and name not in known:
            pieces.append(("" if is_first else ",") + f"{json.dumps(name)}:{new}")
            is_first = False
    pieces.append(text[before:])
    return "".join(pieces)


def _after(text: str, at: int, end: str) -> int:
    if text[at : at + 1] != end:
        raise ValueError(f"character {at}: {end!r} or a comma is missing")
    return at + 1
