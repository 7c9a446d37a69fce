"""Reads one tool of a request's list. Reports no error: the provider decides what it accepts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolroll.formats.sources import dicts
from toolroll.formats.sources.dicts import ToolGroup
from toolroll.formats.sources.fields import FieldError
from toolroll.formats.sources.hosted import is_hosted
from toolroll.model.tools import MAX_NAME, MAX_TEXT, Tool


def group_in(item: Any) -> ToolGroup | None:
    """The tools of an item that holds several; None for any other item."""
    if not isinstance(item, (dict, Mapping)):
        return None
    try:
        return dicts.group_of(item)
    except FieldError:
        return None


def name_in(item: Mapping[str, Any]) -> str:
    """The name in a definition of any provider's form; "" if it has none."""
    function = item.get("function")
    name = (function if isinstance(function, Mapping) else item).get("name")
    return name if isinstance(name, str) else ""


def read_one(item: Any, *, is_declaration: bool = False) -> Tool | None:
    """The tool; None for a hosted tool or an object of no known shape, which is passed on unchanged.

    A definition with a name and an error becomes a tool without parameters, so that rules on its name hold.

    is_declaration: whether it is one of Gemini's function declarations.
    """
    is_mapping = isinstance(item, (dict, Mapping))
    if is_mapping and not is_declaration and is_hosted(item):
        return None
    try:
        if is_mapping:
            return dicts.read_declaration(item) if is_declaration else dicts.read_mapping(item)
        return dicts.read_item(item)
    except FieldError:
        return _named(item) if is_mapping else None


def _named(item: Mapping[str, Any]) -> Tool | None:
    function = item.get("function")
    name = name_in(item)
    if not name:
        return None
    description = (function if isinstance(function, Mapping) else item).get("description")
    description = _unicode(description[:MAX_TEXT]) if isinstance(description, str) else ""
    return Tool(_unicode(name[:MAX_NAME]), description, original=item)


def _unicode(text: str) -> str:
    """The text with a question mark for each lone surrogate."""
    return text.encode("utf-8", "replace").decode()
