"""Whose each field of a tool is: its plugin's, or people's.

A field is the plugin's until people change it. From then on it keeps what people set, whatever the plugin
sends, until they give it back. A record's `source_values` names the fields of people, each with what the
plugin last sent for it: so people see both values, and giving a field back needs no new sync.

An import is a plugin in this respect. Governance (`content.GOVERNED`) is always people's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from toolroll.model.tools import Tool
from toolroll.registry.editing.content import COLUMNS, FIELDS, content_of, is_same

KEPT = "kept"  # the code of the flag: the plugin sends something new for a field that people set
SENT = FIELDS[1:]  # the fields that a plugin sends; a name is no field, it says which tool is meant

SourceValues = Mapping[str, Any]  # column of a field that people own → what the plugin last sent for it


class Merged(NamedTuple):
    """What a tool becomes when its plugin sends it.

    Attributes:
        kept: the columns in which the plugin sends something new and people's value stays.
    """

    tool: Tool
    source_values: dict[str, Any]
    kept: tuple[str, ...]


def merged(sent: Tool, present: Tool, source_values: SourceValues) -> Merged:
    """The plugin's fields as it sends them, people's as they are. A field that it does not send stays."""
    said, held, values = content_of(sent), content_of(present), dict(source_values)
    changes: dict[str, Any] = {}
    kept = []
    for name in SENT:
        column = COLUMNS[name]
        if sent.keys is not None and name not in sent.keys:
            continue
        if column not in values:
            if not is_same(said[name], held[name]):
                changes[name] = getattr(sent, name)
        elif not is_same(said[name], values[column]):
            values[column] = said[name]
            if not is_same(said[name], held[name]):
                kept.append(column)
    return Merged(replace(present, **changes) if changes else present, values, tuple(kept))


def edited(before: Tool, after: Tool, source_values: SourceValues) -> dict[str, Any]:
    """`source_values` after people changed the tool: what they changed is theirs.

    A field to which they gave the plugin's value is the plugin's again.
    """
    old, new, values = content_of(before), content_of(after), dict(source_values)
    for name in SENT:
        column = COLUMNS[name]
        if is_same(old[name], new[name]):
            continue
        said = values.pop(column, old[name])
        if not is_same(said, new[name]):
            values[column] = said
    return values
