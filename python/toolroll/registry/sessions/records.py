"""The stored form of a session: a small JSON object under an organisation and an id.

A version consists of a count and a mark. The count starts at a random number and rises by one with each
write, so no version of a deleted session equals one of its successor. The mark names the process that wrote
the record, if it did not merge it: the process recognises its own write even if the commit was not confirmed.
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
Key: TypeAlias = tuple[str, str]  # organisation and session, as they stand in the store

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
        record: must not be changed.
        version: for `SessionStore.write`; 0 if the session is not in the store yet.
        updated_at: when it last changed.
        problem: why the record cannot be read, and is empty; "" if it can.
    """

    record: Record
    version: int
    updated_at: datetime
    problem: str = ""


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """A session in a list, without its record.

    Attributes:
        org: its organisation; "" for none.
        session: its id; a long one is cut and ends in a digest.
        turn: the number of its last turn; 0 if the record does not say.
        version: changes with each write.
        created_at, updated_at: when it was written first and last.
        expires_at: when it is deleted; None for never.
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
        found = {name: getattr(self, name) for name in self.__slots__}
        return {
            name: value.isoformat() if isinstance(value, datetime) else value for name, value in found.items()
        }


def key_of(org: str, session: str) -> Key:
    """The key of a session in the store. A long id is cut and ends in a digest.

    So does an id with characters that the store cannot hold.

    Raises:
        InvalidInput: the id is empty or no text, or the store cannot hold the organisation's name.
    """
    if not isinstance(session, str):
        raise InvalidInput(f"session is {type(session).__name__}, must be text")
    if not session:
        raise InvalidInput("session is empty, must name the conversation")
    return org_of(org), _distinct(session)


def org_of(org: str) -> str:
    """The organisation's name in the store."""
    return _distinct(words(org, "org"))


def _distinct(text: str) -> str:
    if text.isprintable() and len(text) <= LONGEST_WORD:
        return text
    clean = storable(text)
    if clean == text:
        return word(text)
    # two different ids may become equal by the replacement
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{clean[: LONGEST_WORD - 17]}…{digest}"


def is_shortened(text: str) -> bool:
    """Whether the text looks like a shortened name, which may be another session's."""
    return _SHORTENED.search(text) is not None


def turn_in(record: Record, key: Key) -> int:
    """The number of a record's last turn; 0 if it does not say.

    Raises:
        InvalidInput: the record cannot be stored: it is no JSON object, or too large.
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
            "store names, not texts"
        )
    turn = record.get("turn", 0)
    if not isinstance(turn, int) or isinstance(turn, bool) or not 0 <= turn <= _MOST_TURNS:
        raise InvalidInput(f"{what}: turn is {turn!r:.80}, must be a whole number from 0 to {_MOST_TURNS:,}")
    return turn


def new_mark() -> int:
    """A random number for a process: 31 bits, never 0."""
    return int.from_bytes(os.urandom(4), "big") >> 1 or 1


def first_version(mark: int) -> int:
    """The first version of a session."""
    return new_mark() << _MARK_BITS | mark


def next_version(version: int, mark: int) -> int:
    """The version after this one. mark: the writing process; 0 for a merged record."""
    return ((version >> _MARK_BITS) + 1) << _MARK_BITS | mark


def mark_of(version: int) -> int:
    """The mark in a version; 0 for a merged record."""
    return version & ((1 << _MARK_BITS) - 1)
