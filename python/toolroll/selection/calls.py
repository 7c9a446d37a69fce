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

_MOST_NAMES, _LONGEST_NAME = 50, 80  # names in an error, and characters of a name
NO_META: Mapping[str, Tool] = {}


@dataclass(frozen=True, slots=True)
class DeliveryRecord:
    """How a selection reached the model.

    Attributes:
        provider, how: the arguments of `Selection.deliver`.
        shown: own names of the tools that the model may call at once, in the order of the selection.
        meta_tools: the meta-tools that were sent.
    """

    provider: str
    how: How
    shown: tuple[str, ...]
    meta_tools: tuple[Tool, ...] = ()


class Calls(Protocol):
    """The knowledge of policy and conversation for `check_call`.

    Attributes:
        knows_deliveries: whether `shown` can know of a delivery that the selection itself does not know.
    """

    knows_deliveries: bool

    def may(self, name: str, context: Context) -> Tool | None:
        """The tool of this own name; None if the newest policy denies it to this context."""

    def shown(self, event_id: str) -> tuple[str, ...] | None:
        """Own names of the tools that another process delivered for this event; None if no other did."""

    def granted(self) -> Collection[str]:
        """Own names of tools that the conversation has shown in this turn, found or loaded."""

    def is_over(self, event_id: str) -> bool:
        """Whether the turn of this event has ended. An ended turn allows no more calls."""

    def meta_tools(self) -> Mapping[str, Tool]:
        """Name → meta-tool, for the meta-tools that the conversation has sent in this turn."""

    def refresh(self) -> bool:
        """Reads the changes of other processes. Returns whether there were any."""

    def denied(self, reason: Denial) -> object:
        """Counts a refused call."""

    def deliver(self, event_id: str, record: DeliveryRecord, catalog: Catalog) -> object:
        """Records how a selection reached the model. catalog: the selection's."""


class NoConversation:
    """`Calls` outside a conversation: the model may call only the tools that the selection has shown."""

    __slots__ = ()
    knows_deliveries = False

    def shown(self, event_id: str) -> tuple[str, ...] | None:
        """None: no other process knows the selection."""
        return None

    def granted(self) -> Collection[str]:
        """Nothing is found or loaded."""
        return ()

    def is_over(self, event_id: str) -> bool:
        """False: no caller ends a turn."""
        return False

    def meta_tools(self) -> Mapping[str, Tool]:
        """No meta-tool: the delivery knows which ones it sent."""
        return NO_META

    def refresh(self) -> bool:
        """False: there is nothing to read."""
        return False

    def denied(self, reason: Denial) -> None:
        """Does nothing: only an engine counts."""

    def deliver(self, event_id: str, record: DeliveryRecord, catalog: Catalog) -> None:
        """Does nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class FixedCalls(NoConversation):
    """`Calls` under the policy of one decision, for a selection that no engine made.

    Attributes:
        catalog: the decision's.
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
    """The tool that the model may call under this name: the tool's own name or the name that was sent.

    If a tool's own name looks like a replaced name, the tool itself is sent under another name.

    Args:
        name: from the model's reply, so it may be any object.
        shown: own names of the tools that the turn has shown.
        context: the caller's.
        calls: knows the newest policy and the conversation.
        meta_tools: name → meta-tool that was sent; None for the conversation's. No other tool can have their
            names.
        event_id: the selection's event; "" if the conversation knows which tools are shown.

    Raises:
        Denied: the tool does not exist, was not offered, or is no longer allowed by policy.
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
    """The own name of the offered tool with this name; None if no tool was offered under it."""
    if not is_replaced(name):
        return name if name in shown or name in calls.granted() else None
    return own_name_of(name, [*shown, *calls.granted()])


def _offered(names: Collection[str]) -> str:
    some = ", ".join(name_text(name[:_LONGEST_NAME]) for name in list(names)[:_MOST_NAMES])
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"offered: {some}{more}" if some else "offered: none"
