"""Whether a model may call a tool: one decision, shared by selections, deliveries and sessions.

A tool may be called if it was shown in the turn, or found or loaded by the conversation, and if the newest
policy allows it. Listing asks the same policy, so that nothing that is hidden can be called.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from toolroll._core import Bitset
from toolroll.catalog.catalog import Catalog
from toolroll.formats.foreign_text import name_text
from toolroll.formats.providers import How
from toolroll.formats.providers.provider import is_replaced
from toolroll.formats.schemas import own_name_of
from toolroll.model.context import Context
from toolroll.model.errors import Denied, quoted
from toolroll.model.tools import Tool

# Why something was denied: a tool that the turn did not offer, one that policy does not allow any more, and a
# receipt that was not signed here, has expired or is another organisation's.
Denial: TypeAlias = Literal["not_offered", "not_allowed", "receipt"]

_MOST_NAMES, _LONGEST_NAME = 50, 80  # in an error
NO_META: Mapping[str, Tool] = {}


@dataclass(frozen=True, slots=True)
class DeliveryRecord:
    """How a selection reached the model.

    Attributes:
        provider, how: as in `Selection.deliver`.
        shown: own names of the tools that the model may call at once, in the order of the selection.
        meta_tools: the meta-tools that were sent.
    """

    provider: str
    how: How
    shown: tuple[str, ...]
    meta_tools: tuple[Tool, ...] = ()


class Calls(Protocol):
    """What a check asks for beside what was shown.

    Attributes:
        knows_deliveries: whether `shown` may know more than the selection.
    """

    knows_deliveries: bool

    def may(self, name: str, context: Context) -> Tool | None:
        """The tool of this own name, if the newest policy allows it to this context."""

    def shown(self, event_id: str) -> tuple[str, ...] | None:
        """Own names of the tools that another process has delivered for this event; None for none."""

    def granted(self) -> Collection[str]:
        """Own names of tools that the conversation has shown in this turn, found or loaded."""

    def is_over(self, event_id: str) -> bool:
        """Whether the turn of this event has ended: then it grants nothing any more."""

    def meta_tools(self) -> Mapping[str, Tool]:
        """Name → meta-tool, of those that the conversation was sent in this turn."""

    def refresh(self) -> bool:
        """Reads additions of other processes. Returns whether there was anything to read."""

    def denied(self, reason: Denial) -> object:
        """Counts a check that refuses."""

    def deliver(self, event_id: str, record: DeliveryRecord, catalog: Catalog) -> object:
        """Takes note of how a selection reached the model. catalog: of the selection."""


class NoConversation:
    """`Calls` without a conversation: only the tools that the selection has shown may be called."""

    __slots__ = ()
    knows_deliveries = False

    def shown(self, event_id: str) -> tuple[str, ...] | None:
        """None: no other process knows the selection."""
        return None

    def granted(self) -> Collection[str]:
        """Nothing is found or loaded."""
        return ()

    def is_over(self, event_id: str) -> bool:
        """False: nobody ends a turn."""
        return False

    def meta_tools(self) -> Mapping[str, Tool]:
        """None: the delivery knows its own."""
        return NO_META

    def refresh(self) -> bool:
        """False: there is nothing to read."""
        return False

    def denied(self, reason: Denial) -> None:
        """Does nothing: no engine counts."""

    def deliver(self, event_id: str, record: DeliveryRecord, catalog: Catalog) -> None:
        """Does nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class FixedCalls(NoConversation):
    """The policy of one decision, for a selection that no engine made.

    Attributes:
        catalog: of the decision.
        allowed: rows that its hard stages left.
    """

    catalog: Catalog
    allowed: Bitset

    def may(self, name: str, context: Context) -> Tool | None:
        """The tool, if the decision allowed it."""
        row = self.catalog.names.get(name)
        return self.catalog.tools[row] if row is not None and row in self.allowed else None


def check_call(
    name: object,
    context: Context,
    shown: Collection[str],
    calls: Calls,
    meta_tools: Mapping[str, Tool] | None = None,
    event_id: str = "",
) -> Tool:
    """The tool that the model may call under this name, its own or one that it was sent under.

    A name that looks like a replaced one is no tool's own: a tool that has it is sent under another name.

    Args:
        name: from the model's reply, so it may be anything.
        context: the caller's.
        shown: own names of the tools that the turn has shown.
        calls: answers for the newest policy, and for the conversation.
        meta_tools: name → meta-tool, of those that were sent; None for those of the conversation. No other
            tool can have their names.
        event_id: of the selection that has shown the tools; "" where the conversation says what is shown.

    Raises:
        Denied: the tool was not offered, or policy does not allow it any more, or there is none.
    """
    if event_id and calls.is_over(event_id):
        shown, meta_tools = (), None
    meta_tools = calls.meta_tools() if meta_tools is None else meta_tools
    if not isinstance(name, str):
        calls.denied("not_offered")
        raise Denied(f"tool {quoted(name)}: is no name; {_offered((*shown, *meta_tools))}")
    if name in meta_tools:
        return meta_tools[name]
    own = _own(name, shown, calls)
    if own is None and calls.refresh():
        own = _own(name, shown, calls)
    if own is None:
        calls.denied("not_offered")
        offered = dict.fromkeys((*shown, *calls.granted(), *meta_tools))
        raise Denied(f"tool {quoted(name)}: was not offered in this turn; {_offered(offered)}")
    tool = calls.may(own, context)
    if tool is None:
        calls.denied("not_allowed")
        raise Denied(f"tool {quoted(name)}: was offered in this turn and is not allowed any more")
    return tool


def _own(name: str, shown: Collection[str], calls: Calls) -> str | None:
    """The own name of a tool that was offered; None if none was offered under this name."""
    if not is_replaced(name):
        return name if name in shown or name in calls.granted() else None
    return own_name_of(name, [*shown, *calls.granted()])


def _offered(names: Collection[str]) -> str:
    some = ", ".join(name_text(name[:_LONGEST_NAME]) for name in list(names)[:_MOST_NAMES])
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"offered: {some}{more}" if some else "offered: none"
