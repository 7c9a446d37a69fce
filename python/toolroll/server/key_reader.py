"""Service keys, accounts and ended sessions, read in the background and kept while the database is away."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from starlette.concurrency import run_in_threadpool

from toolroll.model.errors import ToolrollError
from toolroll.registry.access.accounts import AccountBook, Accounts, EndedSessions
from toolroll.registry.access.service_keys import KeyRing, ServiceKeys
from toolroll.runtime.threads import CallPool

READ_AGAIN_S = 1.0  # the age at which a request has the keys read again, without waiting
STALE_S = 3.0  # the age at which a request waits for the keys
WAIT_S = 1.0  # how long

_log = logging.getLogger("toolroll")


class KeyReader:
    """The registry's service keys, and accounts of people. For the event loop of one process.

    While the database answers, a change made elsewhere counts after `STALE_S` at most. While it does not, the
    last ones stay valid; keys, until they expire.

    Attributes:
        is_failing: whether the last read failed or takes too long.
    """

    def __init__(
        self,
        keys: ServiceKeys,
        clock: Callable[[], float] = time.monotonic,
        accounts: Accounts | None = None,
        sessions: EndedSessions | None = None,
    ) -> None:
        """Reads the keys, the accounts and the ended sessions. Raises StoreUnavailable."""
        self._keys, self._accounts, self._sessions, self._clock = keys, accounts, sessions, clock
        self._ring, self._book, self._ended = self._read_all()
        self._just_ended: set[str] = set()  # in this process, since the last read began
        self._read_at = clock()
        self._reading: asyncio.Task[None] | None = None
        self._pool = CallPool(1, "toolroll-keys")
        self.is_failing = False

    async def ring(self) -> KeyRing:
        """The keys."""
        await self._follow()
        return self._ring

    async def accounts(self) -> AccountBook:
        """The accounts."""
        await self._follow()
        return self._book

    async def has_ended(self, session_id: str) -> bool:
        """Whether somebody has signed out of this session."""
        await self._follow()
        return session_id in self._ended

    async def end(self, session_id: str, actor: str) -> None:
        """Ends a session; in this process at once. Raises StoreUnavailable if it did not end."""
        sessions = self._sessions
        if sessions is not None:
            await run_in_threadpool(
                sessions.end, session_id, actor
            )  # in another pool: a write may wait, and reads of keys must not
            self._just_ended.add(session_id)
            self._ended |= {session_id}

    async def _follow(self) -> None:
        age = self._clock() - self._read_at
        if age > READ_AGAIN_S:
            if self._reading is None or self._reading.done():
                self._reading = asyncio.create_task(self._read())
            if age > STALE_S and not self.is_failing:
                await asyncio.wait({self._reading}, timeout=WAIT_S)
                self.is_failing = not self._reading.done() or self.is_failing

    def _read_all(self) -> tuple[KeyRing, AccountBook, frozenset[str]]:
        book = AccountBook({}) if self._accounts is None else self._accounts.book()
        ended = frozenset[str]() if self._sessions is None else self._sessions.read()
        return self._keys.ring(), book, ended

    async def _read(self) -> None:
        before = frozenset(self._just_ended)
        try:
            self._ring, self._book, ended = await self._pool.arun(self._read_all)
        except ToolrollError as error:
            if not self.is_failing:
                _log.warning("service keys cannot be read, those read last stay valid: %s", error)
            self.is_failing = True
        else:
            if self.is_failing:
                _log.warning("service keys are read again")
            self._ended = ended | self._just_ended
            self._just_ended -= before
            self._read_at, self.is_failing = self._clock(), False
