"""The texts of a turn: the message, its clauses, and the turns before it.

A message may ask for several things, and one vector blurs them: so each clause is searched for alone, too. A
short one ("yes, at 8 please") may mean nothing without the turns before it. So these count too, the less the
more words the message has.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from toolroll._core import Bitset, Speller
from toolroll.catalog.spelling import Correction, DeferredSpeller, corrected
from toolroll.conversation import content_of, field_of, text_of
from toolroll.errors import InvalidInput, quoted

LONGEST = 8_192  # characters that are read: the beginning and the end, where requests stand
MOST_CLAUSES = 4
LEAST_WORDS = 3  # of a clause
LONGEST_CLAUSED = 1_000  # a longer message is a document: its sentences are no requests

LONGEST_EARLIER = 500  # characters of an earlier turn; of the assistant's the end, where it asks
# Weights of earlier turns beside a message of one term; the number of terms that divides them by e.
USER, BEFORE_THAT, ASSISTANT = 1.0, 0.5, 1.0
TERMS = 3.0
_LEAST_WEIGHT = 0.05

# A conjunction is looked for at the beginning of a run of spaces only, or a message of spaces takes 80 ms.
_CLAUSE = re.compile(
    r"(?<=[.!?;])\s+|(?<=[。！？；])\s*|\n+"
    r"|(?:,|(?<![\s,]))\s+(?:and then|and also|then|and|also|plus|as well as|but)\s+|,\s+|[、，]",
    re.IGNORECASE,
)
_MARKS = (", ", ". ", "? ", "! ", "; ", " and ", " then ", " also ", " plus ", " but ", " as well as ")
# Chinese and Japanese have no spaces: two characters are about a word.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]{1,2}|[^\s\u3040-\u30ff\u3400-\u9fff]+")


@dataclass(frozen=True, slots=True)
class Reading:
    """The texts of a turn.

    Attributes:
        text: the message: valid Unicode, of bounded length.
        query: the same with its spelling corrected.
        clauses: pieces of the query that may each ask for something; none where it is one.
        earlier: (text, weight) of turns before this one.
    """

    text: str
    query: str
    clauses: tuple[str, ...] = ()
    earlier: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Reader:
    """Reads messages for one catalog.

    Attributes:
        speller: corrects the spelling; None to read messages as they are.
        corrections: the corrections of a text for a caller who sees these rows only; None if all are seen.
        terms: the words of a text as the lexical index sees them.
        clauses: whether a message is also read clause by clause.
    """

    speller: Speller | DeferredSpeller | None
    terms: Callable[[str], list[str]]
    clauses: bool
    corrections: Callable[[str, Bitset], list[Correction]] | None = None

    def read(
        self, message: str, history: Sequence[object], visible: Callable[[], Bitset] | None = None
    ) -> Reading:
        """The texts of one turn.

        visible: the rows that the caller may have; asked for where a word is misspelt. None for all.

        Raises:
            InvalidInput: message or history are not of their type.
        """
        text = readable(message)
        query = text if self.speller is None else self.speller.correct(text)
        if query != text and visible is not None and self.corrections is not None:
            query = corrected(text, self.corrections(text, visible()))
        earlier: tuple[tuple[str, float], ...] = ()
        if not isinstance(history, (list, tuple, type(None))) or history:
            earlier = _earlier(_said(history), len(set(self.terms(query))))
        return Reading(text, query, clauses(query) if self.clauses else (), earlier)


def readable(message: str) -> str:
    """The message as stages read it: valid Unicode, of bounded length.

    Raises:
        InvalidInput: the message is no str.
    """
    if not isinstance(message, str):
        raise InvalidInput(f"message: is {type(message).__name__}, must be str")
    if len(message) > LONGEST:
        message = f"{message[: LONGEST // 2]} {message[-LONGEST // 2 :]}"
    if not message.isascii():
        try:
            message.encode()
        except UnicodeEncodeError:  # lone surrogates, from a name or an argument that was not UTF-8
            message = message.encode("utf-8", "replace").decode()
    return message


def clauses(text: str) -> tuple[str, ...]:
    """The clauses of a message, at most `MOST_CLAUSES`; none where it is a single one or a document."""
    if len(text) > LONGEST_CLAUSED or not _may_part(text):
        return ()
    pieces = [piece for piece in _CLAUSE.split(text) if len(_WORD.findall(piece)) >= LEAST_WORDS]
    return tuple(pieces[:MOST_CLAUSES]) if len(pieces) > 1 else ()


def parts(text: str) -> tuple[str, ...]:
    """All parts of a message, however short; none where it is a document."""
    if len(text) > LONGEST_CLAUSED:
        return ()
    return tuple([part for part in _CLAUSE.split(text) if part.strip()])


def _may_part(text: str) -> bool:
    """Whether the expression may find anything, at a tenth of its cost; exact for plain text."""
    if not text.isascii() or not text.isprintable():
        return True
    lowered = text.lower()
    return any(mark in lowered for mark in _MARKS)


def _earlier(said: Sequence[tuple[str, str]], terms: int) -> tuple[tuple[str, float], ...]:
    """The user's last two turns and the assistant's last, with their weights beside so many terms."""
    weight = math.exp(-max(terms - 1, 0) / TERMS)
    if weight < _LEAST_WEIGHT:
        return ()
    by_user = [text for role, text in said if role == "user"]
    parts = [(text[:LONGEST_EARLIER], USER * weight) for text in by_user[-1:]]
    parts += [(text[:LONGEST_EARLIER], BEFORE_THAT * weight) for text in by_user[-2:-1]]
    if said and said[-1][0] == "assistant":
        parts.append((said[-1][1][-LONGEST_EARLIER:], ASSISTANT * weight))
    return tuple((readable(text), weight) for text, weight in parts if weight >= _LEAST_WEIGHT)


def _said(history: Sequence[object]) -> list[tuple[str, str]]:
    """(role, text) of what user and assistant wrote, oldest first."""
    if isinstance(history, (str, bytes)) or not isinstance(history, Sequence):
        raise InvalidInput(f"history: is {quoted(history)}, must be a sequence of messages")
    said = []
    for at, message in enumerate(history):
        if isinstance(message, str):
            said.append(("user", message))
            continue
        role = field_of(message, "role")
        if not isinstance(role, str):
            if isinstance(message, Mapping) and "type" in message:
                continue  # OpenAI's Responses has calls and results without a role
            raise InvalidInput(
                f"history[{at}]: is {quoted(message)}, must be a str or a message with role and content"
            )
        text = text_of(content_of(message))
        if role in ("user", "assistant", "model") and text.strip():
            said.append(("user" if role == "user" else "assistant", text))
    return said
