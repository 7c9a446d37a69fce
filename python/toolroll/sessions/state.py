"""What conversations hold between turns, as one process has it in memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from toolroll._threads import survive_forks
from toolroll.context import Context
from toolroll.conversation import Conversation, Retention, merge

Key = tuple[str, str]  # organisation, session

NEW = Conversation()


class ConversationState:
    """The state of one conversation in this process; every `Session` of it holds the same one.

    A selection writes what was sent and takes no lock; whatever else changes the state takes turns.
    """

    __slots__ = ("__weakref__", "_lock", "_sent", "held", "retention")

    def __init__(self, conversation: Conversation, retention: Retention, lock: threading.Lock) -> None:
        """lock: for changes; many conversations may share one, it is held for microseconds."""
        self._lock = lock
        self.retention = retention
        self.held = conversation  # what is loaded, called and found counts here; turn and list in `_sent`
        self._sent = (conversation, conversation)  # what was held when a selection was made, and what it kept

    @property
    def now(self) -> Conversation:
        """The state, in the turn that was selected for last."""
        held, (then, sent) = self.held, self._sent
        if held is then:
            return sent
        now = held.at(sent.turn, self.retention, sent.heard)
        return replace(now, listed=sent.listed, picked=sent.picked)

    def sent(self, conversation: Conversation, held: Conversation) -> None:
        """Keeps the turn and the list of a conversation that has selected. held: `held` as it was read."""
        self._sent = (held, conversation)

    def change(self, make: Callable[[Conversation], Conversation]) -> None:
        """Replaces the state by what `make` makes of it. Where that raises, nothing has changed."""
        with self._lock:
            sent = self._sent
            now = make(self.now)
            self.held = now
            if self._sent is sent:  # else a selection was made meanwhile: its turn and list count
                self._sent = (now, now)

    def become(self, other: Conversation, before: Conversation) -> bool:
        """Takes over what storage has of the conversation; whether something had changed here meanwhile.

        before: the state before it was asked. What has changed since is merged.
        """
        with self._lock:
            has_changed = self.now != before
            self.held = merge(self.now, other) if has_changed else other
            self._sent = (self.held, self.held)
            return has_changed


class Conversations(Protocol):
    """Where the state of conversations is kept."""

    def open(self, context: Context, retention: Retention) -> ConversationState:
        """The state of the context's session, a new one if there is none."""

    def note(self, context: Context, state: ConversationState) -> object:
        """Takes note of a change. Called after every one, on the path of a selection: it must not wait."""

    def forget(self, org: str, session: str) -> bool:
        """Deletes what a conversation holds; whether there was any."""


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

    def open(self, context: Context, retention: Retention) -> ConversationState:
        """The conversation of the context's session, a new one if it is not held here."""
        return self.get((context.org, context.session), retention)

    def note(self, context: Context, state: ConversationState) -> None:
        """Does nothing: memory is where the state is."""

    def forget(self, org: str, session: str) -> bool:
        """Deletes what a conversation holds; whether there was any."""
        state = self.pop((org, session))
        return state is not None and state.now != NEW

    def pop(self, key: Key) -> ConversationState | None:
        """Lets go of the conversation."""
        with self._looking:
            return self._live.pop(key, None)

    def __len__(self) -> int:
        return len(self._live)
