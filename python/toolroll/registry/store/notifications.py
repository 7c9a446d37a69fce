"""Notifies a waiting thread that a registry has changed, faster than frequent polling.

Notifications are hints: they may be duplicated, spurious or lost, with their connection or in a pooler. So
callers must still poll `Database.revision`, and set a timeout that they can accept as a delay.
"""

from __future__ import annotations

import logging
import os
import threading
from contextlib import suppress
from enum import Flag
from typing import Any

from toolroll.errors import InvalidInput
from toolroll.registry.store.database import CHANNEL, OUTCOMES, Database
from toolroll.registry.store.revision import created_at

logger = logging.getLogger(__name__)

POLL_EVERY_S = 0.05  # of SQLite's counter; a poll takes microseconds
LISTEN_FOR_S = 1.0  # between two checks whether `close` was called
RECONNECT_AFTER_S = 1.0


class Heard(Flag):
    """What may have changed; nothing is false."""

    NOTHING = 0
    REGISTRY = 1  # what catalogs are built from
    OUTCOMES = 2  # outcomes were taken back
    ANYTHING = REGISTRY | OUTCOMES


class Signals:
    """Watches one database in a background thread, so a broken network never blocks `wait`.

    The thread listens for notifications on PostgreSQL. On SQLite it polls a counter that every commit of
    another connection changes. One thread may wait at a time.

    Attributes:
        failing: why the thread hears nothing at the moment; None if it does, or has not tried.
        polling: a lock that the thread holds while it uses SQLite. A process takes it to fork, because
            SQLite's own locks would stay locked in the child.
    """

    def __init__(self, database: Database, *, listens: bool = True) -> None:
        """Starts the thread; without `listens` there is no thread, and `wait` only times out."""
        self._database, self._listens = database, listens
        self._pending = Heard.NOTHING
        self.failing: str | None = None
        self._begin()

    def wait(self, timeout_s: float) -> Heard:
        """Waits for a change since the last call. Returns NOTHING after `timeout_s`, or once closed.

        Returns ANYTHING after a lost connection was opened again.
        """
        if os.getpid() != self._pid:
            self._begin()  # a forked child has no threads
        with self._changed:
            self._changed.wait_for(lambda: self._pending or self._closed.is_set(), timeout_s)
            pending, self._pending = self._pending, Heard.NOTHING
            return Heard.NOTHING if self._closed.is_set() else pending

    def request_stop(self) -> None:
        """Has the thread end soon, and wakes the waiting caller."""
        self._closed.set()
        with self._changed:
            self._changed.notify_all()

    def close(self, timeout_s: float = 2 * LISTEN_FOR_S) -> None:
        """Stops the thread and waits that long for its end: in a dead network it may take longer."""
        self.request_stop()
        if self._thread is not None and os.getpid() == self._pid:
            self._thread.join(max(0.0, timeout_s))

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._changed, self._closed = threading.Condition(), threading.Event()
        self.polling = threading.Lock()
        self._thread = threading.Thread(target=self._run, daemon=True) if self._listens else None
        if self._thread is not None:
            self._thread.name = "toolroll-signals"
            self._thread.start()

    def _notify(self, heard: Heard = Heard.ANYTHING) -> None:
        with self._changed:
            self._pending |= heard
            self._changed.notify_all()

    def _run(self) -> None:
        closed = self._closed
        watch = self._poll if self._database.dialect == "sqlite" else self._listen
        while not closed.is_set():
            connection = None
            try:
                connection = self._database.own_connection()
                watch(connection, closed)
            except Exception as error:  # of drivers or the network: the thread tries again
                if not closed.is_set():
                    self.failing = str(error)[:500]
                    logger.info(
                        "%s: not listening at the moment: %s", self._database.listen_url, type(error).__name__
                    )
            finally:
                if connection is not None:
                    with suppress(Exception):
                        connection.close()
            closed.wait(RECONNECT_AFTER_S)

    def _listen(self, connection: Any, closed: threading.Event) -> None:
        connection.autocommit = True
        if self._database.listen_url != self._database.url:
            self._check(connection)
        connection.execute(f"LISTEN {CHANNEL}")
        self.failing = None
        self._notify()  # of changes before LISTEN
        while not closed.is_set():
            for notice in connection.notifies(timeout=LISTEN_FOR_S, stop_after=1):
                self._notify(Heard.OUTCOMES if notice.payload == OUTCOMES else Heard.REGISTRY)

    def _check(self, connection: Any) -> None:
        """Raises InvalidInput if the connection is to another registry than the database's."""
        with self._database.reading() as ours:
            made_at = created_at(ours)
        if connection.execute("SELECT created_at FROM registry_state").fetchone() != (made_at,):
            raise InvalidInput(
                f"listen_url {self._database.listen_url}: holds another registry than {self._database.url}"
            )

    def _poll(self, connection: Any, closed: threading.Event) -> None:
        seen: int | None = None
        file = self._database.identity()
        while not closed.is_set():
            with self.polling:
                (count,) = connection.execute("PRAGMA data_version").fetchone()
            if self._database.identity() != file:
                return  # the connection is to a replaced file
            if count != seen:
                seen = count
                self._notify()
            closed.wait(POLL_EVERY_S)
