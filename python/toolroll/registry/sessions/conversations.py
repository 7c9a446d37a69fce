"""The conversations of a `Toolroll` over a store: as this process holds them, and as the store has them.

Where the store does not answer, a conversation goes on with what is known here, or anew: a chat never fails
because of what its session remembers.
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
    """Reads a conversation when it is asked for, and writes it in the background when it changes."""

    def __init__(self, database: Database, most: int, lifetime_s: float | None) -> None:
        """most: held in memory. lifetime_s: for how long one is kept that nobody goes on with."""
        self._live = ConversationCache(most)
        self._keeper = SessionWriter(SessionStore(database, lifetime_s), merged)
        self._is_failing = False

    def open(self, context: Context, retention: Retention) -> ConversationState:
        """The conversation of this context, with what other processes have made of it. Waits for the store.

        Raises:
            InvalidInput: no session can have this name.
        """
        key = context.org, context.session
        for text in key:
            if is_shortened(text):
                raise InvalidInput(
                    f"session: {text[-40:]!r} ends as names do that were shortened, must be the whole name"
                )
        live = self._live.get(key, retention)
        before = live.now
        try:
            stored = self._keeper.read(*key)
            self._is_failing = False
        except StoreUnavailable as error:
            if not self._is_failing:
                _log.warning("sessions: go on with what is known here: %s", error)
            self._is_failing = True
            return live
        found = None if stored is None else _conversation(stored.record, context)
        if found is not None and live.become(found, before):
            self.note(context, live)  # what was noted meanwhile had not seen what was read
        return live

    def note(self, context: Context, live: ConversationState) -> None:
        """Takes what a conversation holds now. Waits for nothing."""
        self._keeper.note(context.org, context.session, partial(live.now.fitting, MOST_BYTES))

    def forget(self, org: str, session: str) -> bool:
        """Deletes the conversation, here and in the store; whether there was one.

        Raises:
            StoreUnavailable: it may still be there.
        """
        was_here = self._live.forget(org, session)
        return self._keeper.forget(org, session) or was_here

    def flush(self, timeout_s: float) -> bool:
        """Whether all that was noted before is in the store; waits for it so long."""
        return self._keeper.flush(timeout_s)

    def close(self) -> None:
        """Writes what it can."""
        self._keeper.close()

    def health(self) -> dict[str, Any]:
        """How many conversations wait for the store, and what fails."""
        return {"held": len(self._live), **self._keeper.health()}


def merged(theirs: Record, ours: Record) -> Record:
    """What two processes wrote of one conversation, as one record."""
    try:
        other = Conversation.from_record(theirs)
    except InvalidInput:  # of a later version, or damaged: it is written over
        return ours
    return merge(other, Conversation.from_record(ours)).fitting(MOST_BYTES)


def _conversation(record: Record, context: Context) -> Conversation | None:
    """The state in a record; None where it is none of ours."""
    if not record:
        return None
    try:
        return Conversation.from_record(record)
    except InvalidInput as error:
        _log.warning("session %r: begins anew: %s", context.session[:80], error)
        return None
