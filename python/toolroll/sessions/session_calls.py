"""The state and policy that the selections, deliveries and checks of one session share."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from toolroll.catalog.catalog import Catalog
from toolroll.formats.meta_tools import META_TOOLS
from toolroll.learning.exposure import ShownTool
from toolroll.model.context import Context
from toolroll.model.tools import Tool
from toolroll.selection.calls import NO_META, DeliveryRecord, Denial
from toolroll.selection.engine import Engine
from toolroll.selection.snapshot import Snapshot
from toolroll.selection.visible import VisibleTools
from toolroll.sessions.live import ConversationStore
from toolroll.sessions.name_lookup import META_NAMES
from toolroll.sessions.state import LiveConversation

_OWN_META: Mapping[str, Tool] = {tool.name: tool for tool in META_TOOLS}


class SessionCalls:
    """`Calls` for a session and its selections.

    Attributes:
        context: the caller's; the session may replace it.
    """

    knows_deliveries = True

    def __init__(
        self, engine: Engine, store: ConversationStore | None, context: Context, live: LiveConversation
    ) -> None:
        self.context = context
        self._engine, self._store, self._live = engine, store, live
        self._meta = _OWN_META
        self._visible: tuple[Snapshot, Context, VisibleTools] | None = None

    def visible(self) -> VisibleTools:
        """The tools that this caller may have now.

        Computed once for a snapshot and a context: rules, settings and catalog change with the snapshot. Only
        a caller's own mutable collection of settings may change unseen.
        """
        snapshot, context, known = self._engine.serving, self.context, self._visible
        if known is not None and known[0] is snapshot and known[1] is context:
            return known[2]
        visible = self._engine.visible(context)
        if context.has_fixed_settings:
            self._visible = snapshot, context, visible
        return visible

    # `Calls`

    def may(self, name: str, context: Context) -> Tool | None:
        """The tool, if this caller may have it. A tool of the catalog never replaces a meta-tool."""
        return None if name in META_NAMES else self.visible().get(name)

    def shown(self, event_id: str) -> tuple[str, ...] | None:
        """The tools of the turn's delivery, in any process."""
        turn = next((one for one in self._live.state.turns if one.event_id == event_id), None)
        return turn.names if turn is not None and turn.provider else None

    def granted(self) -> Collection[str]:
        """The tools that the conversation has shown in this turn, found or loaded."""
        state = self._live.state
        now, open_turns = state.conversation, state.open_turns
        if now.is_whole and open_turns:
            return self.visible()
        shown = [name for turn in open_turns for name in (*turn.names, *turn.added)]
        return dict.fromkeys((*shown, *now.found, *[one.name for one in now.loaded]))

    def is_over(self, event_id: str) -> bool:
        """Whether the turn has ended or another has begun, in any process."""
        return all(turn.event_id != event_id for turn in self._live.state.open_turns)

    def meta_tools(self) -> Mapping[str, Tool]:
        """The meta-tools of the open turn's delivery. Another process knows only the built-in ones."""
        open_turns = self._live.state.open_turns
        if not open_turns or not open_turns[0].meta_tools:
            return NO_META
        return {name: self._meta[name] for name in open_turns[0].meta_tools if name in self._meta}

    def refresh(self) -> bool:
        """Reads the tools that other processes found and loaded. Returns whether anything changed."""
        return self._store is not None and self._store.refresh(self._live)

    def denied(self, reason: Denial) -> None:
        """Counts a refused call in the engine."""
        self._engine.denied(reason)

    def deliver(self, event_id: str, record: DeliveryRecord, catalog: Catalog) -> None:
        """Keeps the delivery in the record of the turn."""
        state = self._live.state
        turn = next((one for one in state.turns if one.event_id == event_id), None)
        if turn is None:
            return
        self._meta = {**self._meta, **{tool.name: tool for tool in record.meta_tools}}
        selected, now = {*turn.names, *turn.selected}, state.conversation
        since = {*now.found, *(one.name for one in now.loaded)} - selected  # granted by themselves
        added = (*turn.added, *[name for name in record.shown if name in since and name not in turn.added])
        record = replace(record, shown=tuple([name for name in record.shown if name not in since]))
        if turn.is_delivered(record) and added == turn.added:
            return
        others = {
            name: ShownTool(name, catalog.tool_key(catalog.names[name]), 0.0)
            for name in record.shown
            if name not in turn.names
        }
        self._live.apply(
            lambda state: state.with_turn(lambda one: one.delivered(record, added, others), event_id)
        )
        if self._store is not None:
            self._store.save(self._live)
