"""The conversations of a `Toolroll` over a store, in this process and in the store.

If the store does not answer, a conversation continues with the state of this process, or starts empty: a chat
never fails because its session cannot be read.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

from toolroll.context import Context
from toolroll.conversation import Conversation, Retention, merge
from toolroll.errors import InvalidInput, StoreUnavailable
from toolroll.registry.sessions.records import MOST_BYTES, Record, is_shortened
from toolroll.registry.sessions.store import SessionStore
from toolroll.registry.sessions.writer import SessionWriter
from toolroll.registry.store.database import Database
from toolroll.sessions.state import ConversationCache, ConversationState

_log = logging.getLogger("toolroll")


class StoredConversations:
    """Reads a conversation when it continues, and writes it in the background when it changes."""

    def __init__(self, database: Database, most: int, lifetime_s: float | None) -> None:
        """most: conversations in memory. lifetime_s: how long the store keeps one after its last change."""
        self._live = ConversationCache(most)
        self._writer = SessionWriter(SessionStore(database, lifetime_s), merged)
        self._is_failing = False

    def open(self, context: Context, retention: Retention) -> ConversationState:
        """The conversation of this context, with the changes of other processes. Waits for the store.

        Raises:
            InvalidInput: no session can have this name.
        """
        key = context.org, context.session
        for text in key:
            if is_shortened(text):
                raise InvalidInput(
                    f"session: {text[-40:]!r} ends like a shortened name, must be the whole name"
                )
        live = self._live.get(key, retention)
        before = live.now
        try:
            stored = self._writer.read(*key)
            self._is_failing = False
        except StoreUnavailable as error:
            if not self._is_failing:
                _log.warning("sessions: continue with the state of this process: %s", error)
            self._is_failing = True
            return live
        found = None if stored is None else _conversation(stored.record, context)
        if found is not None and live.become(found, before):
            self.note(context, live)  # a change during the read lacks what was read
        return live

    def note(self, context: Context, live: ConversationState) -> None:
        """Writes the state of a conversation in the background."""
        self._writer.note(context.org, context.session, partial(live.now.fitting, MOST_BYTES))

    def forget(self, org: str, session: str) -> bool:
        """Deletes the conversation, here and in the store; whether there was one.

        Raises:
            StoreUnavailable: it may still be there.
        """
        was_here = self._live.forget(org, session)
        return self._writer.forget(org, session) or was_here

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
        """How many conversations are in memory and wait for the store, and the last error."""
        return {"held": len(self._live), **self._writer.health()}


def merged(theirs: Record, ours: Record) -> Record:
    """The records that two processes wrote of one conversation, merged."""
    try:
        other = Conversation.from_record(theirs)
    except InvalidInput:  # of a later version, or damaged: ours replaces it
        return ours
    return merge(other, Conversation.from_record(ours)).fitting(MOST_BYTES)


def _conversation(record: Record, context: Context) -> Conversation | None:
    """The state in a record; None if it has another form."""
    if not record:
        return None
    try:
        return Conversation.from_record(record)
    except InvalidInput as error:
        _log.warning("session %r: cannot be read and starts empty: %s", context.session[:80], error)
        return None
