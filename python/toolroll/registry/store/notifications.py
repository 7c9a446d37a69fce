"""Hears that a registry has changed, sooner than by asking again and again.

What is heard is a hint. It may come twice, or without a change, and it may not come at all: a notification is
lost with its connection, and a pooler between us and PostgreSQL may drop them. So whoever waits here asks for
`Database.revision` afterwards in any case, and waits no longer than it can bear to be behind.
"""

from __future__ import annotations

import logging
import os
import threading
from contextlib import suppress
from typing import Any

from toolroll.registry.store.database import CHANNEL, Database

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 0.05  # at SQLite's counter; a look takes microseconds
LISTEN_FOR_S = 1.0  # at a time, to notice that nobody wants to hear any more
RECONNECT_AFTER_S = 1.0


class Signals:
    """Waits for changes of one database, in a thread of its own: no network, however broken, holds up `wait`.

    On PostgreSQL it listens; on SQLite it looks at a counter that every commit of another connection moves.
    One thread may wait at a time.

    Attributes:
        looking: held while SQLite is at work; who forks holds it, since SQLite's own locks would stay shut in
            the child.
    """

    def __init__(self, database: Database, *, deaf: bool = False) -> None:
        """Begins to listen; `deaf` hears nothing, which leaves the polling."""
        self._database, self._deaf = database, deaf
        self._pending = False
        self._begin()

    def wait(self, timeout_s: float) -> bool:
        """Whether something may have changed since the last call; returns as soon as it may have.

        True after a connection was lost and found again too. False after `timeout_s`, or once closed.
        """
        if os.getpid() != self._pid:
            self._begin()  # threads stay behind in a fork
        with self._heard:
            self._heard.wait_for(lambda: self._pending or self._closed.is_set(), timeout_s)
            pending, self._pending = self._pending, False
            return pending and not self._closed.is_set()

    def close(self) -> None:
        """Stops listening, and wakes who waits."""
        self._closed.set()
        with self._heard:
            self._heard.notify_all()
        if self._thread is not None and os.getpid() == self._pid:
            self._thread.join(2 * LISTEN_FOR_S)  # a thread in a dead network is left to its fate

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._heard, self._closed = threading.Condition(), threading.Event()
        self.looking = threading.Lock()
        self._thread = None if self._deaf else threading.Thread(target=self._run, daemon=True)
        if self._thread is not None:
            self._thread.name = "toolroll-signals"
            self._thread.start()

    def _tell(self) -> None:
        with self._heard:
            self._pending = True
            self._heard.notify_all()

    def _run(self) -> None:
        closed = self._closed
        hear = self._look if self._database.dialect == "sqlite" else self._listen
        while not closed.is_set():
            connection = None
            try:
                connection = self._database.connect_alone()
                hear(connection, closed)
            except Exception as error:  # of drivers and of the network: the next try may do better
                if not closed.is_set():
                    logger.info(
                        "%s: not listening for a moment: %s", self._database.url, type(error).__name__
                    )
            finally:
                if connection is not None:
                    with suppress(Exception):
                        connection.close()
            closed.wait(RECONNECT_AFTER_S)

    def _listen(self, connection: Any, closed: threading.Event) -> None:
        connection.autocommit = True
        connection.execute(f"LISTEN {CHANNEL}")
        self._tell()  # of what was said before anybody listened
        while not closed.is_set():
            for _ in connection.notifies(timeout=LISTEN_FOR_S, stop_after=1):
                self._tell()

    def _look(self, connection: Any, closed: threading.Event) -> None:
        seen: int | None = None
        file = self._database.identity()
        while not closed.is_set():
            with self.looking:
                (count,) = connection.execute("PRAGMA data_version").fetchone()
            if self._database.identity() != file:
                return  # the connection is to a file that has no name any more
            if count != seen:
                seen = count
                self._tell()
            closed.wait(LOOK_EVERY_S)
