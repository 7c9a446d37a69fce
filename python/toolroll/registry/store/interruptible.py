"""A connection to PostgreSQL that stops waiting when the answer is no longer needed.

A wait ends when the database is closed, when the call is given up (`is_given_up`), or after a time without
data. Otherwise a thread would wait until the operating system finds the connection dead, many seconds after
its database was closed; behind a proxy that still confirms packets, it would wait forever.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import suppress
from threading import Event
from typing import Any

import psycopg

from toolroll.runtime.threads import is_given_up


def connection_class(is_closing: Event, silence_s: float | None = None) -> type[psycopg.Connection[Any]]:
    """A class of connections whose calls fail within 0.1 s after `is_closing` is set.

    Attempts to connect fail, too, and so does a call that a `CallPool` or `give_up_after` gives up.

    silence_s: the longest time without data from the server; None for no limit.

    psycopg 3.2.11 and later resume a waiting call every 0.1 s, so that a signal may interrupt it; the check
    happens there. With other internals psycopg would still work, but a call would wait for the server.
    """

    class Connection(psycopg.Connection[Any]):
        @classmethod
        def _connect_gen(cls, *arguments: Any, **options: Any) -> Any:
            return _until(is_closing, silence_s, super()._connect_gen(*arguments, **options))

        def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
            try:
                return super().wait(_until(is_closing, silence_s, gen), *arguments, **options)
            except _Interrupted:
                with suppress(psycopg.Error):
                    self.close()  # so that nobody waits for a rollback
                raise

    return Connection


class _Interrupted(psycopg.OperationalError):
    pass


def _until(
    is_closing: Event, silence_s: float | None, steps: Generator[Any, Any, Any]
) -> Generator[Any, Any, Any]:
    """Runs the steps; raises an error instead of an unneeded wait."""
    limit_s = float("inf") if silence_s is None else silence_s
    try:
        event = next(steps)
        answered_at = time.monotonic()
        while True:
            ready = yield event
            if ready:
                answered_at = time.monotonic()
            elif is_closing.is_set():
                raise _Interrupted("the database was closed meanwhile")
            elif is_given_up():
                raise _Interrupted("the call was given up meanwhile")
            elif time.monotonic() - answered_at >= limit_s:
                raise _Interrupted(f"no answer in {limit_s:g} s")
            event = steps.send(ready)
    except StopIteration as end:
        return end.value
