"""The key of a session in the store: organisation and id, in a form that both databases can store."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import TypeAlias

from toolroll.model.errors import InvalidInput
from toolroll.registry.events.rows import LONGEST_WORD, storable, word
from toolroll.registry.store.database import checked_text

Key: TypeAlias = tuple[str, str]

_SHORTENED = re.compile(r"…[0-9a-f]{16}\Z")


def key_of(org: str, session: str) -> Key:
    """The key of a session. An id that is long or cannot be stored is cut and ends in a digest.

    Raises:
        InvalidInput: the id is empty or no text, or the store cannot hold the organisation's name.
    """
    if not isinstance(session, str):
        raise InvalidInput(f"session is {type(session).__name__}, must be text")
    if not session:
        raise InvalidInput("session is empty, must name the conversation")
    return org_of(org), _distinct(session)


@lru_cache(maxsize=4_096)
def whole_key_of(org: str, session: str) -> Key:
    """`key_of`; also raises InvalidInput for an id that looks cut, which may be another session's."""
    for text in (org, session):
        if _SHORTENED.search(text):
            raise InvalidInput(f"session: {text[-40:]!r} ends like a shortened name, must be the whole name")
    return key_of(org, session)


def org_of(org: str) -> str:
    """The organisation's name in the store."""
    return _distinct(checked_text(org, "org"))


def _distinct(text: str) -> str:
    if text.isprintable() and len(text) <= LONGEST_WORD:
        return text
    clean = storable(text)
    if clean == text:
        return word(text)
    # the replacement may make two ids equal
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{clean[: LONGEST_WORD - 17]}…{digest}"
