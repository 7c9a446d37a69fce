"""Signals that a registry has changed, at less cost than a query.

Signals are hints: they may be duplicated, spurious or lost, with their connection or in a pooler. So callers
must still poll `Database.revision`.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from contextlib import suppress
from enum import Flag
from typing import Any

from toolroll.model.errors import InvalidInput
from toolroll.registry.store.database import CHANNEL, OUTCOMES, Database
from toolroll.registry.store.revision import created_at
from toolroll.runtime.threads import give_up_after

logger = logging.getLogger(__name__)

POLL_EVERY_S = 0.05  # how often a caller asks; an answer takes microseconds
# The least pause after a failed attempt to connect, also in multiples of its duration.
RECONNECT_AFTER_S, _RECONNECT_SHARE = 1.0, 5.0
_CONNECT_S = 5.0  # the longest wait for a connection


class Signal(Flag):
    """The parts of a registry that may have changed; NOTHING is false."""

    NOTHING = 0
    REGISTRY = 1  # rows of catalogs and policy
    OUTCOMES = 2  # outcomes were taken back
    ANYTHING = REGISTRY | OUTCOMES


# Open connections. The child of a fork keeps its parent's: closing them would close them in the parent.
_open: list[Any] = []


class Signals:
    """Listens for changes of one database. One thread may ask at a time; `hear` does not wait for changes.

    It listens for notifications on PostgreSQL. On SQLite it reads a counter that every commit of another
    connection changes.

    Attributes:
        failing: why it gets no signals at the moment, or None.
        hearing: a lock held during `hear`. A process holds it during a fork, because SQLite's own locks would
            stay locked in the child.
    """

    def __init__(self, database: Database, *, listens: bool = True) -> None:
        """Connects with the first `hear`. listens: if False, `hear` always returns NOTHING."""
        self._database, self.listens = database, listens
        self.failing: str | None = None
        self._begin()

    def _begin(self) -> None:
        self._pid, self._is_closed = os.getpid(), False
        self.hearing = threading.Lock()
        self._connection: Any = None
        self._connect_at = 0.0  # monotonic
        self._seen: tuple[Any, int] | None = None  # SQLite's file, and its counter

    def hear(self) -> Signal:
        """The known changes since the last call. Never fails. Connecting may take seconds.

        Returns ANYTHING after a lost connection was opened again.
        """
        if os.getpid() != self._pid:
            self._begin()
        if not self.listens:
            return Signal.NOTHING
        with self.hearing:
            began = time.monotonic()
            if self._is_closed or (self._connection is None and began < self._connect_at):
                return Signal.NOTHING
            try:
                return self._hear()
            except Exception as error:  # of drivers or the network: a later call tries again
                self._lose(error)
                now = time.monotonic()
                self._connect_at = now + max(RECONNECT_AFTER_S, _RECONNECT_SHARE * (now - began))
        return Signal.NOTHING

    def close(self, timeout_s: float = 1.0) -> None:
        """Closes the connection; waits up to `timeout_s` for the end of a running `hear`."""
        self._is_closed = True
        if os.getpid() == self._pid and self.hearing.acquire(timeout=max(0.0, timeout_s)):
            self._disconnect()
            self.hearing.release()

    def _hear(self) -> Signal:
        if self._connection is None:
            with give_up_after(_CONNECT_S):
                self._connect()
            if self._database.dialect == "postgresql":
                return Signal.ANYTHING  # changes before LISTEN
        if self._database.dialect == "sqlite":
            return self._counter()
        signal = Signal.NOTHING
        for notice in self._connection.notifies(timeout=0):
            signal |= Signal.OUTCOMES if notice.payload == OUTCOMES else Signal.REGISTRY
        return signal

    def _connect(self) -> None:
        self._connection, self._seen = self._database.own_connection(), None
        _open.append(self._connection)
        if self._database.dialect == "postgresql":
            self._connection.autocommit = True
            if self._database.listen_url != self._database.url:
                self._check(self._connection)
            self._connection.execute(f"LISTEN {CHANNEL}")
            self.failing = None

    def _counter(self) -> Signal:
        (count,) = self._connection.execute("PRAGMA data_version").fetchone()
        file = self._database.identity()
        if self._seen is not None and self._seen[0] != file:
            self._disconnect()  # it is to a replaced file
            return Signal.ANYTHING
        if self._seen != (file, count):
            self._seen = file, count
            return Signal.ANYTHING
        return Signal.NOTHING

    def _lose(self, error: Exception) -> None:
        self._disconnect()
        if not self._is_closed:
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
        """Raises InvalidInput if the connection leads to another registry than the database's."""
        with self._database.reading() as ours:
            made_at = created_at(ours)
        if connection.execute("SELECT created_at FROM registry_state").fetchone() != (made_at,):
            raise InvalidInput(
                f"listen_url {self._database.listen_url}: holds another registry than {self._database.url}"
            )
