"""The conversations of a `Toolroll` over a store: read when they continue, written by compare-and-set.

A conversation is one row with a version. If another process has written it since it was read, its state is
read again, this process's changes are applied to it, and the result is written. If the store does not answer,
a conversation continues with the state in this process, and its changes wait for the store: a chat never
fails because its session cannot be read or written.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias, TypeVar

from toolroll.model.conversation import Retention
from toolroll.model.errors import Failure, InvalidInput, Overloaded, StoreUnavailable
from toolroll.registry.sessions.keys import Key, whole_key_of
from toolroll.registry.sessions.store import SessionStore, StoredSession
from toolroll.registry.store.database import Database
from toolroll.runtime.threads import CallPool, Full, Overdue
from toolroll.sessions.live import ConversationCache
from toolroll.sessions.state import NEW, Change, ConversationState, LiveConversation

_log = logging.getLogger("toolroll")

WAIT_S = 2.0  # the longest wait of an event loop for the store
MOST_WAITING = 10_000  # conversations; beyond, the changes that have waited longest are dropped
_MOST_TRIES = 16  # of a write that other processes are faster than
_AT_ONCE = 256  # waiting conversations that are written on the side
_SLOW_S, _AWAY_S = 1.0, 5.0  # a failure after this time means no answer; the time without calls that follows
_RETRY_S = 0.05  # between two attempts of `flush`
_PRUNE_EVERY_S, _PRUNED = 3_600.0, 500  # how often expired sessions are deleted, and how many at a time

T = TypeVar("T")


class StoredConversation(LiveConversation):
    """A conversation of a store.

    Attributes:
        key: in the store.
        version: of the stored state on which this one is based; 0 for none.
        writing: held while the conversation is read or written.
    """

    __slots__ = ("key", "version", "writing")

    def __init__(self, retention: Retention, lock: threading.Lock) -> None:
        super().__init__(retention, lock)
        self.key: Key = "", ""
        self.version = 0
        self.unwritten = ()
        self.writing = threading.Lock()

    def read(self) -> tuple[ConversationState, int, tuple[Change, ...]]:
        """The state, the stored version on which it is based, and the changes since that version."""
        with self._lock:
            return self.state, self.version, self.unwritten or ()

    def is_written(self, version: int, changes: tuple[Change, ...]) -> None:
        """Records that a state with these changes was written."""
        with self._lock:
            self.version = version
            written = set(map(id, changes))
            self.unwritten = tuple([one for one in self.unwritten or () if id(one) not in written])

    def rebase(self, stored: ConversationState, version: int) -> None:
        """Applies the unwritten changes to a state from the store."""
        while True:
            before, _, changes = self.read()
            state = stored.with_vectors_of(before)
            for change in changes:
                try:
                    state = change(state)
                except InvalidInput as error:  # such as one tool too many
                    _log.info("sessions: a change is lost, another process was faster: %s", error)
            with self._lock:
                if self.state is before:
                    self.state, self.version = state, version
                    return


_StoreCall: TypeAlias = Callable[[StoredConversation], None]


@dataclass(slots=True)
class SessionCounts:
    """Counts of this process.

    Attributes:
        timeouts: calls without an answer in time.
        conflicts: writes that were repeated because another process was faster.
        dropped: conversations whose last changes were lost.
    """

    reads: int = 0
    timeouts: int = 0
    written: int = 0
    conflicts: int = 0
    dropped: int = 0


class StoredConversations:
    """Reads a conversation when it continues, and writes it when it changes. Safe to share between threads.

    The child of a fork begins without conversations: its parent writes the waiting ones.
    """

    def __init__(self, database: Database, calls: CallPool, most: int, lifetime_s: float | None) -> None:
        """Reads nothing yet.

        calls: threads in which event loops wait for the store. most: conversations in memory. lifetime_s: how
            long the store keeps a conversation after its last change.
        """
        self._rows, self._calls = SessionStore(database, lifetime_s), calls
        self._live = ConversationCache(most, StoredConversation)
        self._pruned_at = time.monotonic()
        self.store = self
        self.begin()

    @property
    def locks(self) -> tuple[threading.Lock, ...]:
        """The locks to hold during a fork."""
        return self._live.locks

    def begin(self) -> None:
        """Forgets everything; for the child of a fork."""
        self._live.clear()
        self._waiting: dict[Key, StoredConversation] = {}  # in the order in which they began to wait
        self._counts, self._counting = SessionCounts(), threading.Lock()
        self._failing: str | None = None
        self._away_until = 0.0  # monotonic: no calls of an unresponsive store until then

    # Callers wait for these.

    def open(self, name: tuple[str, str], retention: Retention) -> StoredConversation:
        """The conversation of this organisation and name, with the changes of other processes.

        Raises:
            InvalidInput: no session can have this name.
        """
        live = self._in_memory(name, retention)
        self._attempt(self._read, live)
        return live

    async def aopen(self, name: tuple[str, str], retention: Retention) -> StoredConversation:
        """`open` for an event loop."""
        live = self._in_memory(name, retention)
        await self._aattempt(self._read, live)
        return live

    def _in_memory(self, name: tuple[str, str], retention: Retention) -> StoredConversation:
        key = whole_key_of(*name)
        live = self._waiting.get(key) or self._live.get(key, retention)
        live.key = key
        return live

    def save(self, live: LiveConversation) -> None:
        """Writes the newest state. In an event loop, the write follows a moment later."""
        assert isinstance(live, StoredConversation)
        if _in_event_loop():
            self._wait(live)
        else:
            self._attempt(self._write, live)

    async def asave(self, live: LiveConversation) -> None:
        """Writes the newest state."""
        assert isinstance(live, StoredConversation)
        await self._aattempt(self._write, live)

    def later(self, live: LiveConversation) -> None:
        """Leaves the newest state to the next `save` or `write_waiting`."""
        assert isinstance(live, StoredConversation)
        self._wait(live)

    def refresh(self, live: LiveConversation) -> bool:
        """Reads the changes of other processes; not in an event loop."""
        assert isinstance(live, StoredConversation)
        return not _in_event_loop() and self._attempt(self._read, live)

    async def arefresh(self, live: LiveConversation) -> bool:
        """Reads the changes of other processes."""
        assert isinstance(live, StoredConversation)
        return await self._aattempt(self._read, live)

    def forget(self, name: tuple[str, str]) -> bool:
        """Deletes the conversation, here and in the store. Returns whether there was one.

        Raises:
            StoreUnavailable: it may still be there.
        """
        key = whole_key_of(*name)
        waits, live = self._waiting.pop(key, None), self._live.pop(key)
        was_here = any(one is not None and one.state is not NEW for one in (waits, live))
        return self._rows.forget(key) or was_here

    async def aforget(self, name: tuple[str, str]) -> bool:
        """`forget` for an event loop."""
        return await self._arun(lambda: self.forget(name))

    def release(self, name: tuple[str, str]) -> None:
        """Drops a conversation from memory; its waiting changes are still written."""
        self._live.pop(whole_key_of(*name))

    # Others call these on the side.

    def write_waiting(self) -> None:
        """Writes some waiting conversations, and from time to time deletes expired ones.

        Called by a thread that may wait, after the store has answered.
        """
        for live in list(self._waiting.values())[:_AT_ONCE]:
            if not self._attempt(self._write, live):
                return
        self._failing = None
        is_time = time.monotonic() - self._pruned_at >= _PRUNE_EVERY_S
        if is_time and self._rows.prune(most=_PRUNED) < _PRUNED:
            self._pruned_at = time.monotonic()

    def flush(self, timeout_s: float) -> bool:
        """Waits until all conversations so far are in the store. Returns whether they are."""
        try:
            return not self._waiting or self._calls.run(lambda: self._flush(timeout_s), timeout_s)
        except (Overdue, Full, Overloaded):
            return False

    def _flush(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while self._waiting:
            self.write_waiting()
            if self._waiting:
                if (left := deadline - time.monotonic()) <= 0:
                    return False
                time.sleep(min(left, _RETRY_S))
        return True

    def close(self, timeout_s: float) -> None:
        """Writes as much as possible in this time."""
        if not self.flush(timeout_s):
            self._drop(len(self._waiting), "the store did not take them before the end")

    def health(self) -> dict[str, Any]:
        """The numbers of held and waiting conversations, the counts, and the last error."""
        return {
            "held": len(self._live),
            "waiting": len(self._waiting),
            **asdict(self._counts),
            "failing": self._failing,
        }

    # Underneath.

    def _read(self, live: StoredConversation) -> None:
        self._count("reads")
        with _locked(live):
            self._take(live, self._rows.read(live.key))

    def _take(self, live: StoredConversation, stored: StoredSession | None) -> None:
        """Uses the state of the store, if its version is new to this process."""
        version = 0 if stored is None else stored.version
        if version == live.version:
            return
        state = NEW
        if stored is not None:
            try:
                state = ConversationState.unpack(stored.text)
            except InvalidInput as error:  # of a later version, or damaged
                what = f"session {live.key[1]!r:.80}: cannot be read and begins again: {error}"
                live.failure = Failure("sessions", StoreUnavailable(what))
                _log.warning("organisation %r: %s", live.key[0], what)
        live.rebase(state, version)

    def _write(self, live: StoredConversation) -> None:
        key = live.key
        with _locked(live):
            for _ in range(_MOST_TRIES):
                state, version, changes = live.read()
                if not changes:
                    break
                new = self._rows.write(key, state.conversation.turn, state.pack(), version)
                if new is not None:
                    live.is_written(new, changes)
                    self._count("written")
                    break
                self._count("conflicts")
                self._take(live, self._rows.read(key))
            else:
                raise StoreUnavailable(f"session {key[1]!r:.80}: other processes write it all the time")
        self._waiting.pop(key, None)

    def _attempt(self, call: _StoreCall, live: StoredConversation) -> bool:
        """Calls the store in the caller's thread: another one would cost more. Returns whether it answered.

        The store gives up after two seconds. Then no call waits for it for a while.
        """
        if time.monotonic() < self._away_until:
            return self._fail(live, StoreUnavailable("the store did not answer"))
        started = time.monotonic()
        try:
            call(live)
        except StoreUnavailable as error:
            if time.monotonic() - started >= _SLOW_S:
                self._count("timeouts")
                self._away_until = time.monotonic() + _AWAY_S
            return self._fail(live, error)
        except InvalidInput as error:  # the store cannot hold it, now or later
            self._waiting.pop(live.key, None)
            self._drop(1, str(error))
        self._failing = None
        return True

    async def _aattempt(self, call: _StoreCall, live: StoredConversation) -> bool:
        """`_attempt` in a thread."""
        try:
            return await self._arun(lambda: self._attempt(call, live))
        except StoreUnavailable as error:
            return self._fail(live, error)

    async def _arun(self, call: Callable[[], T]) -> T:
        try:
            return await self._calls.arun(call, WAIT_S)
        except (Overdue, Full, Overloaded) as error:
            self._count("timeouts")
            raise StoreUnavailable(f"sessions: {error}", retry_after_s=1.0) from error

    def _fail(self, live: StoredConversation, error: StoreUnavailable) -> bool:
        if self._failing is None:
            _log.warning("sessions: continue with the state of this process: %s", error)
        self._failing = str(error)
        if live.unwritten:
            self._wait(live)
        return False

    def _wait(self, live: StoredConversation) -> None:
        self._waiting.setdefault(live.key, live)
        if len(self._waiting) > MOST_WAITING:
            self._waiting.pop(next(iter(self._waiting)), None)
            self._drop(1, f"{MOST_WAITING:,} already wait for the store")

    def _count(self, what: str, count: int = 1) -> None:
        with self._counting:
            setattr(self._counts, what, getattr(self._counts, what) + count)

    def _drop(self, count: int, why: str) -> None:
        if not self._counts.dropped:
            _log.warning("sessions: changes are lost: %s", why)
        self._count("dropped", count)


@contextmanager
def _locked(live: StoredConversation) -> Iterator[None]:
    """Holds a conversation's lock, if it is free in time."""
    if not live.writing.acquire(timeout=WAIT_S):
        raise StoreUnavailable(f"session {live.key[1]!r:.80}: is still being read or written")
    try:
        yield
    finally:
        live.writing.release()


def _in_event_loop() -> bool:
    """Whether this thread runs an event loop, which must not wait."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
