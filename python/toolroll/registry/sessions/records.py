"""What a session is outside of the process that holds it: a small JSON object under organisation and id.

A version is a count above a mark. The count rises by one with each write and begins at a random number, so
no version of a session that was forgotten is one of its successor's. The mark says which process wrote, where
what it wrote was its own alone: that process knows it again, even where it never heard that it was committed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from toolroll.errors import InvalidInput
from toolroll.registry.events.rows import LONGEST_WORD, storable, word
from toolroll.registry.store.database import words

Record: TypeAlias = Mapping[str, Any]  # plain JSON values
Key: TypeAlias = tuple[str, str]  # organisation and session, as the store has them

MOST_BYTES = 64 * 1024  # of a record as JSON
_SHORTENED = re.compile(r"…[0-9a-f]{16}\Z")
LIFETIME_S = 30 * 24 * 3_600.0  # of a session that is not written to any more
_MOST_TURNS = 2**31 - 1
_MARK_BITS = 31
_ENCODE = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session as it was read.

    Attributes:
        record: what it holds; not to be changed.
        version: what `write` wants to hear; 0 for what is not in the store yet. It says nothing else.
        updated_at: when it was last written, or noted.
    """

    record: Record
    version: int
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """A session in a list, without its record.

    Attributes:
        org: whose it is; "" for nobody's.
        session: its id; of a long one the beginning and a digest.
        turn: the turn it has come to; 0 where its record does not say.
        version: moves on with each write.
        created_at, updated_at: when it was written first and last.
        expires_at: from when on it counts as gone; None for never.
    """

    org: str
    session: str
    turn: int
    version: int
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "org": self.org,
            "session": self.session,
            "turn": self.turn,
            "version": self.version,
            "created_at": self.created_at.isoformat(),
            "updated_at": self.updated_at.isoformat(),
            "expires_at": None if self.expires_at is None else self.expires_at.isoformat(),
        }


def key_of(org: str, session: str) -> Key:
    """Under what the store has a session: its id, shortened where it is long.

    Ids that differ only in what the store cannot keep are told apart by a digest.

    Raises:
        InvalidInput: the id is empty or no text, or the organisation is none that the store can keep.
    """
    if not isinstance(session, str):
        raise InvalidInput(f"session is {type(session).__name__}, must be text")
    if not session:
        raise InvalidInput("session is empty, must name the conversation")
    return org_of(org), _distinct(session)


def org_of(org: str) -> str:
    """The organisation as the store has it."""
    return _distinct(words(org, "org"))


def _distinct(text: str) -> str:
    if text.isprintable() and len(text) <= LONGEST_WORD:
        return text
    clean = storable(text)
    if clean == text:
        return word(text)
    # what cannot be kept is replaced, and others may be replaced by the same
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{clean[: LONGEST_WORD - 17]}…{digest}"


def is_shortened(text: str) -> bool:
    """Whether the text looks like what a longer one is kept as: who names it so may mean another's."""
    return _SHORTENED.search(text) is not None


def turn_in(record: Record, key: Key) -> int:
    """The turn that a record has come to; 0 where it does not say.

    Raises:
        InvalidInput: the record cannot be kept: it is no object of JSON, or is too large.
    """
    what = f"session {key[1]!r:.80}"
    if not isinstance(record, Mapping):
        raise InvalidInput(f"{what}: its record is {type(record).__name__}, must be a mapping")
    try:
        size = len(_ENCODE(dict(record)).encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{what}: its record is no JSON: {error}") from error
    if size > MOST_BYTES:
        raise InvalidInput(
            f"{what}: its record has {size:,} bytes as JSON, must have at most {MOST_BYTES:,}: "
            "let it hold names, not texts"
        )
    turn = record.get("turn", 0)
    if not isinstance(turn, int) or isinstance(turn, bool) or not 0 <= turn <= _MOST_TURNS:
        raise InvalidInput(f"{what}: turn is {turn!r:.80}, must be a whole number from 0 to {_MOST_TURNS:,}")
    return turn


def new_mark() -> int:
    """Of a process: one of two thousand million, never 0."""
    return int.from_bytes(os.urandom(4), "big") >> 1 or 1


def first_version(mark: int) -> int:
    """Of a session that is new."""
    return new_mark() << _MARK_BITS | mark


def next_version(version: int, mark: int) -> int:
    """The one behind it. mark: of who writes what is its own alone; 0 for all else."""
    return ((version >> _MARK_BITS) + 1) << _MARK_BITS | mark


def mark_of(version: int) -> int:
    """Who wrote it; 0 where that does not matter."""
    return version & ((1 << _MARK_BITS) - 1)
