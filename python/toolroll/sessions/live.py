"""Holds the conversations of a process in memory: the newest state of each, which threads replace."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from toolroll.model.conversation import Retention
from toolroll.sessions.state import NEW, LiveConversation

Key = tuple[str, str]  # organisation, session


L = TypeVar("L", bound=LiveConversation)


class Conversations(Protocol):
    """Holds the state of conversations."""

    @property
    def store(self) -> ConversationStore | None:
        """The store that makes changes known to other processes; None in memory."""

    def open(self, key: Key, retention: Retention) -> LiveConversation:
        """The conversation; a new one if there is none. May wait for a store."""

    async def aopen(self, key: Key, retention: Retention) -> LiveConversation:
        """`open` for an event loop."""

    def forget(self, key: Key) -> bool:
        """Deletes the state of a conversation. Returns whether there was any."""

    async def aforget(self, key: Key) -> bool:
        """`forget` for an event loop."""

    def release(self, key: Key) -> None:
        """Drops the memory of a conversation that a store has."""


class ConversationStore(Protocol):
    """Makes the changes of conversations known to every process that asks later."""

    def save(self, live: LiveConversation) -> None:
        """Writes the newest state; may wait for the store. In an event loop it does what `later` does."""

    async def asave(self, live: LiveConversation) -> None:
        """`save` for an event loop."""

    def later(self, live: LiveConversation) -> None:
        """Writes the newest state with the next `save` or a moment later; does not wait."""

    def refresh(self, live: LiveConversation) -> bool:
        """Reads changes of other processes. Returns whether there were any. An event loop reads nothing."""

    async def arefresh(self, live: LiveConversation) -> bool:
        """`refresh` for an event loop."""


class ConversationCache(Generic[L]):
    """The most recently used conversations. Safe to use from many threads."""

    def __init__(self, most: int, make: Callable[[Retention, threading.Lock], L]) -> None:
        self._most, self._make = most, make
        self._looking, self._changing = threading.Lock(), threading.Lock()
        self._live: OrderedDict[Key, L] = OrderedDict()

    def get(self, key: Key, retention: Retention) -> L:
        """The conversation, a new one if it is not held here."""
        with self._looking:
            live = self._live.get(key)
            if live is None:
                live = self._live[key] = self._make(retention, self._changing)
                while len(self._live) > self._most:
                    self._live.popitem(last=False)
            else:
                self._live.move_to_end(key)
            return live

    def pop(self, key: Key) -> L | None:
        """Removes and returns the conversation."""
        with self._looking:
            return self._live.pop(key, None)

    def clear(self) -> None:
        """Removes all conversations."""
        with self._looking:
            self._live.clear()

    @property
    def locks(self) -> tuple[threading.Lock, ...]:
        """The locks to hold during a fork."""
        return (self._looking, self._changing)

    def __len__(self) -> int:
        return len(self._live)


class ConversationsInMemory(ConversationCache[LiveConversation]):
    """Conversations of one process, whose state is in memory only, so nothing waits."""

    store = None

    def __init__(self, most: int) -> None:
        """most: how many conversations are kept."""
        super().__init__(most, LiveConversation)

    def open(self, key: Key, retention: Retention) -> LiveConversation:
        """The conversation; a new one if it is not held here."""
        return self.get(key, retention)

    async def aopen(self, key: Key, retention: Retention) -> LiveConversation:
        """`open` for an event loop."""
        return self.get(key, retention)

    def forget(self, key: Key) -> bool:
        """Deletes the state of a conversation. Returns whether there was any."""
        live = self.pop(key)
        return live is not None and live.state is not NEW

    async def aforget(self, key: Key) -> bool:
        """`forget` for an event loop."""
        return self.forget(key)

    def release(self, key: Key) -> None:
        """Does nothing: no store has the conversation."""
