"""The conversations of a `Toolroll` over a store, in this process and in the store.

Without `max_age_s`, a conversation is read from the store when it is opened, and a change is in the store
when the call that made it returns: every process sees the same. With it, this process believes what it has in
memory for so long, and writes in the background: for hosts that send the requests of one conversation to one
process. If the store does not answer, a conversation continues with the state of this process, or starts
empty: a chat never fails because its session cannot be read or written.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, TypeVar

from toolroll.context import Context
from toolroll.conversation import Retention
from toolroll.errors import Failure, InvalidInput, StoreUnavailable
from toolroll.registry.sessions.records import MOST_BYTES, Record, StoredSession, is_shortened
from toolroll.registry.sessions.store import SessionStore
from toolroll.registry.sessions.writer import SessionWriter
from toolroll.registry.store.database import Database
from toolroll.registry.store.errors import DamagedRow
from toolroll.sessions.state import NEW, ConversationCache, ConversationSnapshot, ConversationState, is_older

_log = logging.getLogger("toolroll")

T = TypeVar("T")


class StoredConversations:
    """Reads a conversation when it continues, and writes it when it changes."""

    def __init__(
        self, database: Database, most: int, lifetime_s: float | None, max_age_s: float = 0.0
    ) -> None:
        """Reads nothing yet.

        Args:
            database: the store.
            most: conversations in memory.
            lifetime_s: how long the store keeps one after its last change.
            max_age_s: for how long the state of this process is believed.
        """
        self._live = ConversationCache(most)
        self._writer = SessionWriter(SessionStore(database, lifetime_s), merged)
        self._max_age_s = max_age_s
        self._is_failing = False

    def open(
        self, context: Context, retention: Retention, max_age_s: float | None = None
    ) -> ConversationState:
        """The conversation of this context, with the changes of other processes.

        Raises:
            InvalidInput: no session can have this name.
        """
        live = self._known(context, retention)
        if is_older(live, self._max_age_s if max_age_s is None else max_age_s):
            self._read(context, live)
        return live

    async def aopen(
        self, context: Context, retention: Retention, max_age_s: float | None = None
    ) -> ConversationState:
        """`open` for an event loop."""
        live = self._known(context, retention)
        if is_older(live, self._max_age_s if max_age_s is None else max_age_s):
            await self._aread(context, live)
        return live

    def save(self, context: Context, state: ConversationState) -> None:
        """Writes the conversation: now, or in the background with `max_age_s` and in an event loop."""
        if self._max_age_s or _in_event_loop():
            self._note(context, state)
            return
        before = state.snapshot
        try:
            theirs = self._writer.save(context.org, context.session, _record_of(state))
        except (StoreUnavailable, InvalidInput) as error:
            self._fail(context, state, error)
        else:
            self._take_over(context, state, theirs, before)

    async def asave(self, context: Context, state: ConversationState) -> None:
        """Writes the conversation, now; in the background with `max_age_s`."""
        if self._max_age_s:
            self._note(context, state)
            return
        before = state.snapshot
        try:
            theirs = await self._writer.asave(context.org, context.session, _record_of(state))
        except (StoreUnavailable, InvalidInput) as error:
            self._fail(context, state, error)
        else:
            self._take_over(context, state, theirs, before)

    def refresh(self, context: Context, state: ConversationState) -> bool:
        """Reads the conversation again; not in an event loop."""
        if _in_event_loop():
            return False
        self._read(context, state)
        return True

    async def arefresh(self, context: Context, state: ConversationState) -> bool:
        """Reads the conversation again."""
        await self._aread(context, state)
        return True

    def forget(self, org: str, session: str) -> bool:
        """Deletes the conversation, here and in the store; whether there was one.

        Raises:
            StoreUnavailable: it may still be there.
        """
        was_here = self._pop(org, session)
        return self._writer.forget(org, session) or was_here

    async def aforget(self, org: str, session: str) -> bool:
        """`forget` for an event loop."""
        was_here = self._pop(org, session)
        return await self._writer.aforget(org, session) or was_here

    def release(self, org: str, session: str) -> None:
        """Drops what is in memory of a conversation; what waits for the store is still written."""
        self._live.pop((org, session))

    def flush(self, timeout_s: float) -> bool:
        """Whether all conversations so far are in the store; waits that long for it."""
        return self._writer.flush(timeout_s)

    def drain(self, timeout_s: float) -> None:
        """Writes what it can in this time; then stops writing soon."""
        self._writer.drain(timeout_s)

    def close(self, timeout_s: float) -> None:
        """Writes what it can in this time, and stops the threads."""
        self._writer.close(timeout_s)

    def health(self) -> dict[str, Any]:
        """How many conversations are in memory and wait for the store, the last error, and lost ones."""
        return {"held": len(self._live), **self._writer.health()}

    def _known(self, context: Context, retention: Retention) -> ConversationState:
        key = context.org, context.session
        for text in key:
            if is_shortened(text):
                raise InvalidInput(
                    f"session: {text[-40:]!r} ends like a shortened name, must be the whole name"
                )
        return self._live.get(key, retention)

    def _read(self, context: Context, live: ConversationState) -> None:
        before = live.snapshot
        try:
            stored = self._writer.read(context.org, context.session)
        except StoreUnavailable as error:
            self._fail(context, live, error)
        else:
            self._take_over_stored(context, live, stored, before)

    async def _aread(self, context: Context, live: ConversationState) -> None:
        before = live.snapshot
        try:
            stored = await self._writer.aread(context.org, context.session)
        except StoreUnavailable as error:
            self._fail(context, live, error)
        else:
            self._take_over_stored(context, live, stored, before)

    def _take_over_stored(
        self,
        context: Context,
        live: ConversationState,
        stored: StoredSession | None,
        before: ConversationSnapshot,
    ) -> None:
        if stored is not None and stored.problem:
            self._lose(context, live, stored.problem)
        self._take_over(context, live, None if stored is None else stored.record, before)

    def _take_over(
        self,
        context: Context,
        live: ConversationState,
        record: Record | None,
        before: ConversationSnapshot,
    ) -> None:
        """Takes over what the store has. before: the state here, before the store was asked."""
        self._is_failing = False
        try:
            found = ConversationSnapshot.from_record(record) if record else None
        except InvalidInput as error:  # of a later version, or damaged
            self._lose(context, live, str(error))
            found = None
        if found is not None and live.become(found, before):
            self._note(context, live)  # a change meanwhile lacks what was read
        live.fresh_at = time.monotonic()

    def _note(self, context: Context, live: ConversationState) -> None:
        self._writer.note(context.org, context.session, _record_of(live))

    def _lose(self, context: Context, live: ConversationState, problem: str) -> None:
        """Notes that a stored conversation cannot be read, so that its next selection says so."""
        what = f"session {context.session!r:.80}"
        live.failure = Failure("sessions", DamagedRow(f"{what}: cannot be read and begins again: {problem}"))
        _log.warning("%s of %r: cannot be read and begins again: %s", what, context.org, problem)

    def _fail(
        self, context: Context, live: ConversationState, error: StoreUnavailable | InvalidInput
    ) -> None:
        if isinstance(error, DamagedRow):
            self._lose(context, live, str(error))
            return
        if not self._is_failing:
            _log.warning("sessions: continue with the state of this process: %s", error)
        self._is_failing = True

    def _pop(self, org: str, session: str) -> bool:
        state = self._live.pop((org, session))
        return state is not None and state.now != NEW


def merged(theirs: Record, ours: Record) -> Record:
    """The records that two processes wrote of one conversation, merged."""
    try:
        other = ConversationSnapshot.from_record(theirs)
    except InvalidInput:  # of a later version, or damaged: ours replaces it
        return ours
    return ConversationSnapshot.from_record(ours).merged(other).to_record(MOST_BYTES)


def _record_of(live: ConversationState) -> Callable[[], Record]:
    """Makes the newest record at the time of writing, so that no later write can bring an older one."""
    return lambda: live.snapshot.to_record(MOST_BYTES)


def _in_event_loop() -> bool:
    """Whether this thread runs an event loop, in which nothing may wait."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
