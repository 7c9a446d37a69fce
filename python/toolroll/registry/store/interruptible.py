"""A connection to PostgreSQL whose waits end when its database is closed, or after a time of their own.

A thread that waits for a server which has stopped answering would otherwise wait for the operating system to
find the connection dead, and so outlive the `close` of its database by many seconds.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import suppress
from threading import Event
from typing import Any

import psycopg


def connection_class(is_closing: Event, timeout_s: float | None = None) -> type[psycopg.Connection[Any]]:
    """A class of connections: a call or an attempt to connect fails within 0.1 s after `is_closing` is set.

    timeout_s: it also fails when it has waited for so long; None for no limit.

    psycopg 3.2.11 and later resume a waiting call every 0.1 s, so that a signal may interrupt it; the check
    happens there. With other internals psycopg would still work, but a call would wait for the server.
    """

    class Connection(psycopg.Connection[Any]):
        @classmethod
        def _connect_gen(cls, *arguments: Any, **options: Any) -> Any:
            return _until(is_closing, timeout_s, super()._connect_gen(*arguments, **options))

        def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
            try:
                return super().wait(_until(is_closing, timeout_s, gen), *arguments, **options)
            except _Interrupted:
                with suppress(psycopg.Error):
                    self.close()  # so that nobody waits for a rollback
                raise

    return Connection


class _Interrupted(psycopg.OperationalError):
    pass


def _until(
    is_closing: Event, timeout_s: float | None, steps: Generator[Any, Any, Any]
) -> Generator[Any, Any, Any]:
    """The same steps, but an error instead of the next wait when the database is being closed or overdue."""
    deadline = float("inf") if timeout_s is None else time.monotonic() + timeout_s
    try:
        wanted = next(steps)
        while True:
            ready = yield wanted
            if not ready and is_closing.is_set():
                raise _Interrupted("the database was closed meanwhile")
            if not ready and time.monotonic() >= deadline:
                raise _Interrupted(f"no answer in {timeout_s:g} s")
            wanted = steps.send(ready)
    except StopIteration as end:
        return end.value
