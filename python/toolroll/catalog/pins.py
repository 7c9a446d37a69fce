"""Pins of an organisation: a tool of the platform that it always selects, or no longer does."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from toolroll.catalog.catalog import Catalog
from toolroll.catalog.deferred import Deferred
from toolroll.catalog.toolkits import frozen_rows
from toolroll.model.tools import Tool


@dataclass(frozen=True, slots=True)
class Pin:
    """Replaces `pinned` and `pin_weight` of a platform's tool for one organisation.

    Attributes:
        tool_id: the tool's.
        pinned: whether the organisation always selects it.
        weight: pinned tools with a higher weight come first.
    """

    tool_id: str
    pinned: bool = True
    weight: int = 0


def with_pins(catalog: Catalog, pins: Iterable[tuple[Tool, Pin]]) -> Catalog:
    """The catalog with other pinned tools, and with another revision if they differ.

    It shares the given catalog's indexes. A pin of a tool that the catalog lacks, or that an own tool of the
    same name hides, changes nothing.
    """
    weights = {row: catalog.tools[row].pin_weight for row in catalog.pinned.tolist()}
    for tool, pin in pins:
        row = catalog.names.get(tool.name)
        if row is None or catalog.tools[row].tool_id != tool.tool_id:
            continue
        weights.pop(row, None)
        if pin.pinned:
            weights[row] = pin.weight
    rows = sorted(weights, key=lambda row: (-weights[row], row))
    if rows == catalog.pinned.tolist():
        return catalog
    names = [catalog.tools[row].name for row in rows]
    return replace(
        catalog,
        pinned=frozen_rows(rows),
        _revision=Deferred(
            lambda: hashlib.sha256(f"{catalog.revision} pinned {names}".encode()).hexdigest()[:16]
        ),
        _texts={},
    )
