"""Keeps the gateway's knowledge of each client in one object, until the client's session ends."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

import anyio

from toolroll.gateway.caller import Caller

_MOST = 50_000  # clients; the one that was not heard of for longest makes room
_MOST_KEPT = 64_000_000  # characters of all results that can be read on

Resource = tuple[str, str, str]  # server, user whose connection it is, URI


@dataclass(slots=True)
class KnownClient:
    """One client.

    Attributes:
        found: names from its last search; None before its first search.
        is_answered: whether a call has followed that search.
        unwritten: an event for each outcome, set when it is written.
        listener: a request over which its connection can get notifications.
        list_digest: the digest of the list that it read last.
        subscriptions: resources whose changes are sent to its connection.
        results: ids of its results that have further pages.
        is_watched: whether the end of its session will be noticed.
    """

    found: frozenset[str] | None = None
    is_answered: bool = False
    unwritten: list[anyio.Event] = field(default_factory=list)
    listener: Caller | None = None
    list_digest: bytes = b""
    subscriptions: set[Resource] = field(default_factory=set)
    results: list[str] = field(default_factory=list)
    is_watched: bool = False

    @property
    def is_busy(self) -> bool:
        """Whether other code still refers to it."""
        return self.is_watched or bool(self.subscriptions or self.unwritten)


class Clients:
    """All clients, by the key of their conversation.

    Attributes:
        kept: characters of all results that have further pages.
    """

    def __init__(self) -> None:
        self._clients: OrderedDict[str, KnownClient] = OrderedDict()
        self._results: OrderedDict[str, tuple[str, str]] = OrderedDict()  # id → client, text
        self.kept = 0

    def __len__(self) -> int:
        return len(self._clients)

    def __iter__(self) -> Iterator[tuple[str, KnownClient]]:
        """A copy: clients may come and go meanwhile."""
        return iter(list(self._clients.items()))

    def get(self, key: str) -> KnownClient | None:
        """Returns a known client, or None."""
        return self._clients.get(key)

    def of(self, key: str) -> KnownClient:
        """Returns the client; creates it if it is unknown."""
        client = self._clients.setdefault(key, KnownClient())
        self._clients.move_to_end(key)
        if len(self._clients) > _MOST:
            self.forget(next(name for name, each in self._clients.items() if not each.is_busy))
        return client

    def forget(self, key: str) -> KnownClient | None:
        """Drops a client and returns it, so that the caller can end its subscriptions."""
        client = self._clients.pop(key, None)
        for result_id in () if client is None else client.results:
            self.kept -= len(self._results.pop(result_id, ("", ""))[1])
        return client

    def keep_result(self, key: str, text: str) -> str:
        """Keeps a result while it is among the newest 64 million characters; returns its id."""
        result_id = secrets.token_hex(6)
        self._results[result_id] = key, text
        self.of(key).results.append(result_id)
        self.kept += len(text)
        while self.kept > _MOST_KEPT:
            old, (owner, dropped) = self._results.popitem(last=False)
            self.kept -= len(dropped)
            if (client := self.get(owner)) is not None:
                client.results.remove(old)
        return result_id

    def result(self, key: str, result_id: str) -> str | None:
        """Returns a result of this client, or None if it is unknown or was dropped."""
        owner, text = self._results.get(result_id, ("", ""))
        return text if owner == key and text else None
