"""Notifies a waiting thread that a registry has changed, faster than frequent polling.

Notifications are hints: they may be duplicated, spurious or lost, with their connection or in a pooler. So
callers must still poll `Database.revision`, and set a timeout that they can accept as a delay.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from contextlib import suppress
from enum import Flag
from typing import Any

from toolroll.errors import InvalidInput
from toolroll.registry.store.database import CHANNEL, OUTCOMES, Database
from toolroll.registry.store.revision import created_at

logger = logging.getLogger(__name__)

POLL_EVERY_S = 0.05  # of SQLite's counter; a poll takes microseconds
LISTEN_FOR_S = 1.0  # between two checks whether it was closed
RECONNECT_AFTER_S = 1.0


class Heard(Flag):
    """What may have changed; nothing is false."""

    NOTHING = 0
    REGISTRY = 1  # what catalogs are built from
    OUTCOMES = 2  # outcomes were taken back
    ANYTHING = REGISTRY | OUTCOMES


# Open connections. The child of a fork keeps those of its parent: to close them would end the parent's.
_open: list[Any] = []


class Signals:
    """Hears that one database has changed, in the thread that waits. One thread may wait at a time.

    It listens for notifications on PostgreSQL. On SQLite it polls a counter that every commit of another
    connection changes.

    Attributes:
        failing: why it hears nothing at the moment; None if it does, or has not tried.
        polling: a lock that is held while SQLite is used. A process takes it to fork, because SQLite's own
            locks would stay locked in the child.
    """

    def __init__(self, database: Database, *, listens: bool = True) -> None:
        """Connects with the first `wait`; without `listens` never, and `wait` only times out."""
        self._database, self._listens = database, listens
        self.failing: str | None = None
        self._begin()

    def _begin(self) -> None:
        self._pid, self._closed = os.getpid(), threading.Event()
        self.polling, self._waiting = threading.Lock(), threading.Lock()
        self._connection: Any = None
        self._seen: tuple[Any, int] | None = None  # SQLite's file, and its counter

    def wait(self, timeout_s: float) -> Heard:
        """Waits for a change since the last call. Returns NOTHING after `timeout_s`, or once closed.

        Returns ANYTHING after a lost connection was opened again. To connect may take longer than that.
        """
        if os.getpid() != self._pid:
            self._begin()
        with self._waiting:
            return self._wait(time.monotonic() + timeout_s)

    def _wait(self, deadline: float) -> Heard:
        while not self._closed.is_set() and (left_s := deadline - time.monotonic()) > 0:
            if not self._listens:
                self._closed.wait(left_s)
                continue
            try:
                if heard := self._hear(min(left_s, LISTEN_FOR_S)):
                    return heard
            except Exception as error:  # of drivers or the network: the next round tries again
                self._lose(error)
                self._closed.wait(min(left_s, RECONNECT_AFTER_S))
        return Heard.NOTHING

    def request_stop(self) -> None:
        """Has `wait` end soon."""
        self._closed.set()

    def close(self, timeout_s: float = 2 * LISTEN_FOR_S) -> None:
        """Ends `wait`, waits that long for its end and closes the connection."""
        self.request_stop()
        if os.getpid() == self._pid and self._waiting.acquire(timeout=max(0.0, timeout_s)):
            self._disconnect()
            self._waiting.release()

    def _hear(self, timeout_s: float) -> Heard:
        if self._connection is None:
            self._connection = self._database.own_connection()
            _open.append(self._connection)
            if self._database.dialect == "postgresql":
                self._connection.autocommit = True
                if self._database.listen_url != self._database.url:
                    self._check(self._connection)
                self._connection.execute(f"LISTEN {CHANNEL}")
                self.failing = None
                return Heard.ANYTHING  # changes before LISTEN
            self._seen = None
        if self._database.dialect == "sqlite":
            return self._poll(timeout_s)
        for notice in self._connection.notifies(timeout=timeout_s, stop_after=1):
            return Heard.OUTCOMES if notice.payload == OUTCOMES else Heard.REGISTRY
        return Heard.NOTHING

    def _poll(self, timeout_s: float) -> Heard:
        deadline = time.monotonic() + timeout_s
        while True:
            with self.polling:
                (count,) = self._connection.execute("PRAGMA data_version").fetchone()
            file = self._database.identity()
            if self._seen is not None and self._seen[0] != file:
                self._disconnect()  # it is to a replaced file
                return Heard.ANYTHING
            if self._seen != (file, count):
                self._seen = file, count
                return Heard.ANYTHING
            left_s = deadline - time.monotonic()
            if left_s <= 0 or self._closed.wait(min(left_s, POLL_EVERY_S)):
                return Heard.NOTHING

    def _lose(self, error: Exception) -> None:
        self._disconnect()
        if not self._closed.is_set():
            self.failing = str(error)[:500]
            logger.info(
                "%s: not listening at the moment: %s", self._database.listen_url, type(error).__name__
            )

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            _open.remove(connection)
            with suppress(Exception):
                connection.close()

    def _check(self, connection: Any) -> None:
        """Raises InvalidInput if the connection is to another registry than the database's."""
        with self._database.reading() as ours:
            made_at = created_at(ours)
        if connection.execute("SELECT created_at FROM registry_state").fetchone() != (made_at,):
            raise InvalidInput(
                f"listen_url {self._database.listen_url}: holds another registry than {self._database.url}"
            )
