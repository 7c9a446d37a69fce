"""The owner of each field of a tool: its plugin, or people.

A plugin owns a field until people change it. Then the field keeps their value, whatever the plugin sends,
until they give it back. A record's `source_values` has the fields that people own, each with the plugin's
last value: people can see both values, and giving a field back needs no new sync.

An import counts as a plugin. People always own the governance (`content.GOVERNED`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from toolroll.model.tools import Tool
from toolroll.registry.editing.content import COLUMNS, FIELDS, content_of, is_same

KEPT = "kept"  # the code of the flag: the plugin sends a new value for a field that people set
SENT = FIELDS[1:]  # the fields that a plugin sends; the name identifies the tool

SourceValues = Mapping[str, Any]  # column of a field that people own → the plugin's last value


class MergeResult(NamedTuple):
    """A tool after a sync. kept: columns in which people's value stays despite a new value of the plugin."""

    tool: Tool
    source_values: dict[str, Any]
    kept: tuple[str, ...]


def merged(sent: Tool, present: Tool, source_values: SourceValues) -> MergeResult:
    """Takes the plugin's fields from `sent`, and people's from `present`. Fields that were not sent stay."""
    new, old, values = content_of(sent), content_of(present), dict(source_values)
    changes: dict[str, Any] = {}
    kept = []
    for name in SENT:
        column = COLUMNS[name]
        if sent.keys is not None and name not in sent.keys:
            continue
        if column not in values:
            if not is_same(new[name], old[name]):
                changes[name] = getattr(sent, name)
        elif not is_same(new[name], values[column]):
            values[column] = new[name]
            if not is_same(new[name], old[name]):
                kept.append(column)
    return MergeResult(replace(present, **changes) if changes else present, values, tuple(kept))


def edited(before: Tool, after: Tool, source_values: SourceValues) -> dict[str, Any]:
    """`source_values` after an edit by people: they own the changed fields.

    If they set a field to the plugin's value, the plugin owns it again.
    """
    old, new, values = content_of(before), content_of(after), dict(source_values)
    for name in SENT:
        column = COLUMNS[name]
        if is_same(old[name], new[name]):
            continue
        sent = values.pop(column, old[name])
        if not is_same(sent, new[name]):
            values[column] = sent
    return values
