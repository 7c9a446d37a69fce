"""Decides which content of a tool may serve while a change waits for review.

By default a waiting tool is in no catalog. A plugin may choose to keep serving the approved content. A model
then reads the old text and calls the new tool, so only texts may have changed, and the new annotations must
not warn of more than the approved ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, get_args

from toolroll.model.tools import HINTS, Tool
from toolroll.registry.editing.content import FIELDS, is_same
from toolroll.registry.editing.flags import Flag

# hidden: a tool whose change waits is in no catalog; approved: its approved content serves if it may.
WhileWaiting = Literal["hidden", "approved"]
WHILE_WAITING: tuple[WhileWaiting, ...] = get_args(WhileWaiting)

HINTS_FLAG = "hints"  # the code of `hint_flags`

_LISTED = 6  # hints in the message of a flag
_LONGEST = 40  # characters of a value in it

# No call depends on these; a change of `annotations` is judged by its hints.
_TEXTS = (
    *("display_name", "description", "summary", "when_to_use", "limitations", "tags", "examples"),
    *("icons", "meta", "version", "annotations"),
)
_BINDING = tuple(name for name in FIELDS if name not in _TEXTS)


def may_serve(approved: Tool, waiting: Tool) -> bool:
    """Whether the approved content may serve while the other content waits.

    The same calls must be valid for both, and the waiting annotations must not warn of more than the approved
    ones.
    """
    same_calls = all(is_same(getattr(approved, name), getattr(waiting, name)) for name in _BINDING)
    return same_calls and not warns_of_more(approved, waiting)


def warns_of_more(before: Tool, after: Tool) -> bool:
    """Whether the annotations of the second tool warn of more than the annotations of the first."""
    old, new = before.hints, after.hints
    for name in _changed_hints(before, after):
        if name not in HINTS:
            return True
        reassuring = not HINTS[name]
        if old.get(name) is reassuring and new.get(name) is not reassuring:
            return True
    return False


def hint_flags(before: Tool, after: Tool) -> Iterator[Flag]:
    """The flag for changed annotations: rules may show or hide the tool by them."""
    if changed := _changed_hints(before, after):
        listed = (
            f"{ascii(name)[1:-1]:.{_LONGEST}} was {_hint(before, name)}, is {_hint(after, name)}"
            for name in changed[:_LISTED]
        )
        more = f" and {len(changed) - _LISTED} more" if len(changed) > _LISTED else ""
        yield Flag(HINTS_FLAG, f"{'; '.join(listed)}{more}")


def _changed_hints(before: Tool, after: Tool) -> list[str]:
    """The names of hints that differ, MCP's hints first. A title is no hint."""
    old, new = before.hints, after.hints
    names = [*HINTS, *sorted((old.keys() | new.keys()) - HINTS.keys() - {"title"})]
    return [name for name in names if old.get(name) != new.get(name)]


def _hint(tool: Tool, name: str) -> str:
    value = tool.hints.get(name)
    if value is None:
        return "unknown"
    return ascii(value)[:_LONGEST] if isinstance(value, str) else str(value).lower()
