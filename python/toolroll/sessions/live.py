"""The conversations that a process has in memory: the newest state of each, which threads replace."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from toolroll._threads import survive_forks
from toolroll.context import Context
from toolroll.conversation import Retention
from toolroll.errors import Failure
from toolroll.sessions.state import NEW, Change, ConversationState

Key = tuple[str, str]  # organisation, session


class LiveConversation:
    """One conversation in this process; every `Session` of it holds the same one.

    Attributes:
        state: the newest state, which `apply` replaces.
        retention: how long the conversation keeps its tools.
        failure: why it began again although storage had it; None once a selection has named that.
    """

    __slots__ = ("__weakref__", "_lock", "failure", "retention", "state")

    def __init__(self, retention: Retention, lock: threading.Lock) -> None:
        """lock: held to replace the state; many conversations may share one."""
        self._lock = lock
        self.retention = retention
        self.state = NEW
        self.failure: Failure | None = None

    def apply(self, change: Change) -> ConversationState:
        """Changes the newest state, again if another thread was faster. Where `change` raises, nothing is."""
        while True:
            before = self.state
            after = change(before)
            with self._lock:
                if self.state is before:
                    self.state = after
                    return after


L = TypeVar("L", bound=LiveConversation)


class Conversations(Protocol):
    """Where the state of conversations is kept."""

    @property
    def store(self) -> ConversationStore | None:
        """What makes changes known to other processes; None where there are none."""

    def open(self, context: Context, retention: Retention) -> LiveConversation:
        """The context's conversation, a new one if there is none; may wait for a store."""

    async def aopen(self, context: Context, retention: Retention) -> LiveConversation:
        """`open` for an event loop."""

    def forget(self, context: Context) -> bool:
        """Deletes what a conversation holds; whether there was any."""

    async def aforget(self, context: Context) -> bool:
        """`forget` for an event loop."""

    def release(self, context: Context) -> None:
        """Drops what is in memory of a conversation that a store has."""


class ConversationStore(Protocol):
    """What makes the changes of conversations known to every process that asks from then on."""

    def save(self, context: Context, live: LiveConversation) -> None:
        """Writes the newest state; may wait for the store. In an event loop it is `later`."""

    async def asave(self, context: Context, live: LiveConversation) -> None:
        """`save` for an event loop."""

    def later(self, context: Context, live: LiveConversation) -> None:
        """Has the newest state written with the next `save`, or a moment later; does not wait."""

    def refresh(self, context: Context, live: LiveConversation) -> bool:
        """Reads what other processes have changed; whether it did. In an event loop it does not."""

    async def arefresh(self, context: Context, live: LiveConversation) -> bool:
        """`refresh` for an event loop."""


class ConversationCache(Generic[L]):
    """So many conversations, those that were asked for last. Safe to use from many threads."""

    def __init__(self, most: int, make: Callable[[Retention, threading.Lock], L]) -> None:
        self._most, self._make = most, make
        self._looking, self._changing = threading.Lock(), threading.Lock()
        self._live: OrderedDict[Key, L] = OrderedDict()
        survive_forks(self, lambda own: (own._looking, own._changing), lambda own: None)

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
        """Lets go of the conversation."""
        with self._looking:
            return self._live.pop(key, None)

    def clear(self) -> None:
        """Lets go of all of them."""
        with self._looking:
            self._live.clear()

    def __len__(self) -> int:
        return len(self._live)


class ConversationsInMemory:
    """Conversations of one process: memory is where the state is, so nothing ever waits."""

    store = None

    def __init__(self, most: int) -> None:
        """most: conversations that are kept."""
        self._live = ConversationCache(most, LiveConversation)

    def open(self, context: Context, retention: Retention) -> LiveConversation:
        """The conversation of the context's session, a new one if it is not held here."""
        return self._live.get((context.org, context.session), retention)

    async def aopen(self, context: Context, retention: Retention) -> LiveConversation:
        """`open` for an event loop."""
        return self.open(context, retention)

    def forget(self, context: Context) -> bool:
        """Deletes what a conversation holds; whether there was any."""
        live = self._live.pop((context.org, context.session))
        return live is not None and live.state is not NEW

    async def aforget(self, context: Context) -> bool:
        """`forget` for an event loop."""
        return self.forget(context)

    def release(self, context: Context) -> None:
        """Does nothing: no store has the conversation."""

    def __len__(self) -> int:
        return len(self._live)
