"""What conversations hold between turns, as one process has it in memory."""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, TypeVar

from toolroll._threads import survive_forks
from toolroll.context import Context
from toolroll.conversation import Conversation, Retention, merge
from toolroll.errors import Failure, InvalidInput
from toolroll.sessions.turn_record import TurnRecord, merged_records

Key = tuple[str, str]  # organisation, session

NEW = Conversation()

T = TypeVar("T")


class ConversationSnapshot(NamedTuple):
    """Everything that a conversation holds at one moment, as it is stored.

    Attributes:
        conversation: its turn, its tools and its list.
        turns: what its last turns have shown, newest first.
    """

    conversation: Conversation
    turns: tuple[TurnRecord, ...] = ()

    def to_record(self, most_bytes: int) -> dict[str, Any]:
        """Plain values of at most so many bytes as JSON; the least valuable are left out."""
        kept = list(self.turns)
        while True:
            turns = [turn.to_record() for turn in kept]
            size = len(json.dumps(turns))
            if size <= most_bytes // 2 or not kept:
                return {**self.conversation.fitting(most_bytes - size), "turns": turns}
            kept.pop()

    @classmethod
    def from_record(cls, record: Any) -> ConversationSnapshot:
        """From what `to_record` gave. Turns that cannot be read are left out.

        Raises:
            InvalidInput: the conversation cannot be read.
        """
        conversation = Conversation.from_record(record)
        turns = []
        listed = record.get("turns", ())
        for one in listed if isinstance(listed, list) else ():
            try:
                turns.append(TurnRecord.from_record(one))
            except InvalidInput:
                continue
        return cls(conversation, merged_records(turns, (), conversation.turn))

    def merged(self, other: ConversationSnapshot) -> ConversationSnapshot:
        """What two processes hold of one conversation; the same whichever way round they are given."""
        conversation = merge(self.conversation, other.conversation)
        return ConversationSnapshot(conversation, merged_records(self.turns, other.turns, conversation.turn))


class ConversationState:
    """The state of one conversation in this process; every `Session` of it holds the same one.

    A selection writes its turn and its list and takes no lock; whatever else changes the state takes turns.

    Attributes:
        held: what is loaded, called and found counts here; turn and list are in the last selection.
        fresh_at: when the state was last equal to the stored one, monotonic seconds.
        failure: why it began again although storage had it; None once a selection has named that.
        retention: how long the conversation keeps its tools.
    """

    __slots__ = ("__weakref__", "_lock", "_selected", "failure", "fresh_at", "held", "retention")

    def __init__(self, conversation: Conversation, retention: Retention, lock: threading.Lock) -> None:
        """lock: for changes; many conversations may share one, it is held for microseconds."""
        self._lock = lock
        self.retention = retention
        self.fresh_at = float("-inf")
        self.held = conversation
        self.failure: Failure | None = None
        # What was held at the last selection, what the selection kept, and what the turns have shown.
        self._selected: tuple[Conversation, Conversation, tuple[TurnRecord, ...]]
        self._selected = (conversation, conversation, ())

    @property
    def now(self) -> Conversation:
        """The conversation, in the turn that was selected for last."""
        held, (then, sent, _) = self.held, self._selected
        if held is then:
            return sent
        now = held.at(sent.turn, self.retention, sent.heard)
        return replace(now, listed=sent.listed, picked=sent.picked)

    @property
    def turns(self) -> tuple[TurnRecord, ...]:
        """What the last turns have shown, newest first."""
        return self._selected[2]

    @property
    def snapshot(self) -> ConversationSnapshot:
        """The whole state at this moment."""
        return ConversationSnapshot(self.now, self._selected[2])

    def select(self, conversation: Conversation, held: Conversation, turns: tuple[TurnRecord, ...]) -> None:
        """Keeps the turn and the list of a conversation that has selected. held: `held` as it was read."""
        self._selected = (held, conversation, turns)

    def change(self, make: Callable[[Conversation], Conversation]) -> None:
        """Replaces the conversation by what `make` makes of it. Where that raises, nothing has changed."""
        with self._lock:
            selected = self._selected
            now = make(self.now)
            self.held = now
            if self._selected is selected:  # else a selection was made meanwhile: its turn and list count
                self._selected = (now, now, selected[2])

    def change_turn(self, event_id: str, make: Callable[[TurnRecord], TurnRecord]) -> None:
        """Replaces the record of one event by what `make` makes of it, if it is still there."""
        with self._lock:
            held, conversation, turns = self._selected
            changed = tuple([make(turn) if turn.event_id == event_id else turn for turn in turns])
            self._selected = (held, conversation, changed)

    def become(self, other: ConversationSnapshot, before: ConversationSnapshot) -> bool:
        """Takes over what storage has of the conversation; whether something had changed here meanwhile.

        before: the state before storage was asked. What has changed since is merged.
        """
        with self._lock:
            here = self.snapshot
            has_changed = here != before
            both = here.merged(other) if has_changed else other
            known = {turn.event_id: turn for turn in here.turns if turn.vector}
            turns = tuple([_with_vector(turn, known.get(turn.event_id)) for turn in both.turns])
            self.held = both.conversation
            self._selected = (self.held, self.held, turns)
            return has_changed


class Conversations(Protocol):
    """Where the state of conversations is kept."""

    def open(
        self, context: Context, retention: Retention, max_age_s: float | None = None
    ) -> ConversationState:
        """The state of the context's session, a new one if there is none; may wait for a store.

        max_age_s: how old the state of this process may be; None for the usual age.
        """

    async def aopen(
        self, context: Context, retention: Retention, max_age_s: float | None = None
    ) -> ConversationState:
        """`open` for an event loop."""

    def save(self, context: Context, state: ConversationState) -> None:
        """Makes a change known to every process that asks from now on; may wait for a store.

        In a thread that runs an event loop it does not wait: the change is known a moment later.
        """

    async def asave(self, context: Context, state: ConversationState) -> None:
        """`save` for an event loop."""

    def refresh(self, context: Context, state: ConversationState) -> bool:
        """Reads again what other processes have changed; whether there was a store to read.

        In a thread that runs an event loop nothing is read.
        """

    async def arefresh(self, context: Context, state: ConversationState) -> bool:
        """`refresh` for an event loop."""

    def forget(self, org: str, session: str) -> bool:
        """Deletes what a conversation holds; whether there was any."""

    async def aforget(self, org: str, session: str) -> bool:
        """`forget` for an event loop."""

    def release(self, org: str, session: str) -> None:
        """Drops what is in memory of a conversation that a store has."""


class ConversationCache:
    """So many conversations, those that were asked for last. Safe to use from many threads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._looking, self._changing = threading.Lock(), threading.Lock()
        self._live: OrderedDict[Key, ConversationState] = OrderedDict()
        survive_forks(self, lambda own: (own._looking, own._changing), lambda own: None)

    def get(self, key: Key, retention: Retention) -> ConversationState:
        """The conversation, a new one if it is not held here."""
        with self._looking:
            live = self._live.get(key)
            if live is None:
                live = self._live[key] = ConversationState(NEW, retention, self._changing)
                while len(self._live) > self._most:
                    self._live.popitem(last=False)
            else:
                self._live.move_to_end(key)
            return live

    def pop(self, key: Key) -> ConversationState | None:
        """Lets go of the conversation."""
        with self._looking:
            return self._live.pop(key, None)

    def __len__(self) -> int:
        return len(self._live)


class ConversationsInMemory:
    """Conversations of one process: memory is where the state is, so nothing ever waits."""

    def __init__(self, most: int) -> None:
        """most: conversations that are kept."""
        self._live = ConversationCache(most)

    def open(
        self, context: Context, retention: Retention, max_age_s: float | None = None
    ) -> ConversationState:
        """The state of the context's session, a new one if it is not held here."""
        return self._live.get((context.org, context.session), retention)

    async def aopen(
        self, context: Context, retention: Retention, max_age_s: float | None = None
    ) -> ConversationState:
        """`open` for an event loop."""
        return self.open(context, retention)

    def save(self, context: Context, state: ConversationState) -> None:
        """Does nothing."""

    async def asave(self, context: Context, state: ConversationState) -> None:
        """Does nothing."""

    def refresh(self, context: Context, state: ConversationState) -> bool:
        """False: there is nothing to read."""
        return False

    async def arefresh(self, context: Context, state: ConversationState) -> bool:
        """False: there is nothing to read."""
        return False

    def forget(self, org: str, session: str) -> bool:
        """Deletes what a conversation holds; whether there was any."""
        state = self._live.pop((org, session))
        return state is not None and state.now != NEW

    async def aforget(self, org: str, session: str) -> bool:
        """`forget` for an event loop."""
        return self.forget(org, session)

    def release(self, org: str, session: str) -> None:
        """Does nothing: no store has the conversation."""

    def __len__(self) -> int:
        return len(self._live)


def _with_vector(turn: TurnRecord, known: TurnRecord | None) -> TurnRecord:
    """The record with its message's vector, which only the process that selected has."""
    if known is None or turn.vector:
        return turn
    return turn._replace(vector=known.vector, space=known.space)


def is_older(state: ConversationState, max_age_s: float) -> bool:
    """Whether the state was last equal to the stored one longer ago than this."""
    return time.monotonic() - state.fresh_at >= max_age_s
