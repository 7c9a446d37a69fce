"""Conversations as one process holds them, while they go on."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace

from toolroll.conversation import Conversation, Retention, merge

Key = tuple[str, str]  # organisation, session


class Live:
    """The state of one conversation in this process; every `Session` of it holds the same one.

    A selection writes what was sent and takes no lock; whatever else changes the state takes turns.
    """

    __slots__ = ("__weakref__", "_lock", "_sent", "held", "retention")

    def __init__(self, conversation: Conversation, retention: Retention) -> None:
        self._lock = threading.Lock()
        self.retention = retention
        self.held = conversation  # what is loaded, called and found counts here; turn and list in `_sent`
        self._sent = (conversation, conversation)  # what was held when a selection was made, and what it kept

    @property
    def now(self) -> Conversation:
        """The state, in the turn that was selected for last."""
        held, (then, sent) = self.held, self._sent
        if held is then:
            return sent
        return replace(held.at(sent.turn, self.retention), listed=sent.listed, picked=sent.picked)

    def sent(self, conversation: Conversation, held: Conversation) -> None:
        """Keeps the turn and the list of a conversation that has selected. held: `held` as it was read."""
        self._sent = (held, conversation)

    def change(self, make: Callable[[Conversation], Conversation]) -> None:
        """Replaces the state by what `make` makes of it. Where that raises, nothing has changed."""
        with self._lock:
            now = make(self.now)
            self.held = now
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


class LiveConversations:
    """So many conversations, those that were asked for last. Safe to use from many threads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()  # held for one look
        self._live: OrderedDict[Key, Live] = OrderedDict()

    def get(self, key: Key) -> Live | None:
        """The conversation, if it is held here."""
        with self._lock:
            live = self._live.get(key)
            if live is not None:
                self._live.move_to_end(key)
            return live

    def get_or_add(self, key: Key, make: Callable[[], Live]) -> Live:
        """The conversation, made if it is not held yet."""
        with self._lock:
            live = self._live.get(key)
            if live is None:
                live = self._live[key] = make()
                while len(self._live) > self._most:
                    self._live.popitem(last=False)
            else:
                self._live.move_to_end(key)
            return live

    def pop(self, key: Key) -> Live | None:
        """Lets go of the conversation."""
        with self._lock:
            return self._live.pop(key, None)

    def __len__(self) -> int:
        return len(self._live)
