"""Picks the few tools that a message needs, out of a catalog of ten to a million."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolroll.catalog.catalog import Catalog as Catalog
    from toolroll.context import Context as Context
    from toolroll.errors import ToolrollError as ToolrollError
    from toolroll.learning.experiments import Experiment as Experiment
    from toolroll.registry.registry import Registry as Registry
    from toolroll.roll import Toolroll as Toolroll
    from toolroll.rules import PageMapping as PageMapping
    from toolroll.rules import Rule as Rule
    from toolroll.selection.profiles import Parameters as Parameters
    from toolroll.selection.selection import Selection as Selection
    from toolroll.sessions.session import Session as Session
    from toolroll.tools import Route as Route
    from toolroll.tools import Tool as Tool
    from toolroll.tools import Toolkit as Toolkit

__version__ = "0.1.0"

# Where each public name lives. They are imported when first used, so that `import toolroll` costs a
# millisecond and numpy is paid for by those who select.
_HOMES = {
    "Catalog": "toolroll.catalog.catalog",
    "Context": "toolroll.context",
    "Experiment": "toolroll.learning.experiments",
    "PageMapping": "toolroll.rules",
    "Parameters": "toolroll.selection.profiles",
    "Registry": "toolroll.registry.registry",
    "Route": "toolroll.tools",
    "Rule": "toolroll.rules",
    "Selection": "toolroll.selection.selection",
    "Session": "toolroll.sessions.session",
    "Tool": "toolroll.tools",
    "Toolkit": "toolroll.tools",
    "Toolroll": "toolroll.roll",
    "ToolrollError": "toolroll.errors",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'toolroll' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
