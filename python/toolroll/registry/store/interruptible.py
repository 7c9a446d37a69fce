"""A connection to PostgreSQL whose waits end when its database is closed.

A thread that waits for a server which has stopped answering would otherwise wait for the operating system to
find the connection dead, and so outlive the `close` of its database by many seconds.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from threading import Event
from typing import Any

import psycopg


def connection_class(is_closing: Event) -> type[psycopg.Connection[Any]]:
    """A class of connections: a call or an attempt to connect fails within 0.1 s after `is_closing` is set.

    psycopg 3.2.11 and later resume a waiting call every 0.1 s, so that a signal may interrupt it; the check
    happens there. With other internals psycopg would still work, but a call would wait for the server.
    """

    class Connection(psycopg.Connection[Any]):
        @classmethod
        def _connect_gen(cls, *arguments: Any, **options: Any) -> Any:
            return _until(is_closing, super()._connect_gen(*arguments, **options))

        def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
            try:
                return super().wait(_until(is_closing, gen), *arguments, **options)
            except _Interrupted:
                with suppress(psycopg.Error):
                    self.close()  # so that nobody waits for a rollback
                raise

    return Connection


class _Interrupted(psycopg.OperationalError):
    pass


def _until(is_closing: Event, steps: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """The same steps, but an error instead of the next wait when the database is being closed."""
    try:
        wanted = next(steps)
        while True:
            ready = yield wanted
            if not ready and is_closing.is_set():
                raise _Interrupted("the database was closed meanwhile")
            wanted = steps.send(ready)
    except StopIteration as end:
        return end.value
