"""Picks the few tools that a message needs, out of a catalog of ten to a million."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolroll._version import __version__ as __version__

if TYPE_CHECKING:
    from toolroll.formats import meta_tools as meta_tools
    from toolroll.formats import repair as repair
    from toolroll.formats.sources.dicts import read_tools as read_tools
    from toolroll.formats.sources.folder import read_folder as read_folder
    from toolroll.learning.experiments import Experiment as Experiment
    from toolroll.learning.record_result import RecordResult as RecordResult
    from toolroll.model.context import Context as Context
    from toolroll.model.embedder import Embedder as Embedder
    from toolroll.model.errors import Conflict as Conflict
    from toolroll.model.errors import Denied as Denied
    from toolroll.model.errors import EmbedderUnavailable as EmbedderUnavailable
    from toolroll.model.errors import InvalidDefinition as InvalidDefinition
    from toolroll.model.errors import InvalidInput as InvalidInput
    from toolroll.model.errors import NotFound as NotFound
    from toolroll.model.errors import Overloaded as Overloaded
    from toolroll.model.errors import StoreUnavailable as StoreUnavailable
    from toolroll.model.errors import ToolrollError as ToolrollError
    from toolroll.model.errors import Unavailable as Unavailable
    from toolroll.model.rules import PageMapping as PageMapping
    from toolroll.model.rules import Rule as Rule
    from toolroll.model.tools import Definitions as Definitions
    from toolroll.model.tools import Route as Route
    from toolroll.model.tools import Tool as Tool
    from toolroll.model.tools import Toolkit as Toolkit
    from toolroll.registry.options import Follow as Follow
    from toolroll.registry.options import Recording as Recording
    from toolroll.registry.options import Sessions as Sessions
    from toolroll.registry.registry import Registry as Registry
    from toolroll.roll import Toolroll as Toolroll
    from toolroll.selection.delivery import Delivery as Delivery
    from toolroll.selection.observer import Observer as Observer
    from toolroll.selection.observer import OutcomeReport as OutcomeReport
    from toolroll.selection.policy.policy import Verdict as Verdict
    from toolroll.selection.profiles import Profile as Profile
    from toolroll.selection.selection import Selection as Selection
    from toolroll.selection.steps import NarrowingStep as NarrowingStep
    from toolroll.selection.steps import RerankingStep as RerankingStep
    from toolroll.selection.steps import Step as Step
    from toolroll.selection.steps import StepTurn as StepTurn
    from toolroll.selection.telemetry import Counters as Counters
    from toolroll.selection.visible import VisibleTools as VisibleTools
    from toolroll.sessions.replies import Answer as Answer
    from toolroll.sessions.session import Session as Session
    from toolroll.snapshots.replica import PublishedCatalogs as PublishedCatalogs

# The public names of each module. Each is imported when it is first used, so that `import toolroll` costs a
# millisecond and only programs that select pay for numpy.
_NAMES = {
    "toolroll.formats": "meta_tools repair",
    "toolroll.formats.sources.dicts": "read_tools",
    "toolroll.formats.sources.folder": "read_folder",
    "toolroll.learning.experiments": "Experiment",
    "toolroll.learning.record_result": "RecordResult",
    "toolroll.model.context": "Context",
    "toolroll.model.embedder": "Embedder",
    "toolroll.model.errors": "Conflict Denied EmbedderUnavailable InvalidDefinition InvalidInput NotFound "
    "Overloaded StoreUnavailable ToolrollError Unavailable",
    "toolroll.model.rules": "PageMapping Rule",
    "toolroll.model.tools": "Definitions Route Tool Toolkit",
    "toolroll.registry.options": "Follow Recording Sessions",
    "toolroll.registry.registry": "Registry",
    "toolroll.roll": "Toolroll",
    "toolroll.selection.delivery": "Delivery",
    "toolroll.selection.observer": "Observer OutcomeReport",
    "toolroll.selection.policy.policy": "Verdict",
    "toolroll.selection.profiles": "Profile",
    "toolroll.selection.selection": "Selection",
    "toolroll.selection.steps": "NarrowingStep RerankingStep Step StepTurn",
    "toolroll.selection.telemetry": "Counters",
    "toolroll.selection.visible": "VisibleTools",
    "toolroll.sessions.replies": "Answer",
    "toolroll.sessions.session": "Session",
    "toolroll.snapshots.replica": "PublishedCatalogs",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

_OF_EXTRA_STORE = ("sqlalchemy", "alembic")

# `from toolroll import *` brings the names that need no extra. The others are imported by name.
_OF_EXTRAS = ("PublishedCatalogs", "Registry")
__all__ = ["__version__", *(name for name in _HOMES if name not in _OF_EXTRAS)]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'toolroll' has no attribute {name!r}")
    from importlib import import_module

    try:
        home = import_module(_HOMES[name])
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _OF_EXTRA_STORE:
            raise
        raise ModuleNotFoundError(
            f"toolroll.{name} needs {error.name}: pip install 'toolroll[store]', or 'toolroll[postgres]'",
            name=error.name,
        ) from error
    # A module such as `repair` is no attribute of its package until somebody imports it.
    return getattr(home, name) if hasattr(home, name) else import_module(f"{_HOMES[name]}.{name}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
