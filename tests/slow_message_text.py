"""Messages as their definition reads them: a regular expression for clauses, a step for each part."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from toolroll._core import Bm25Index, MultilingualTable, Speller, latin_share

LONGEST = 8_192
MOST_CLAUSES = 4
LEAST_WORDS = 3
LONGEST_CLAUSED = 1_000

LONGEST_EARLIER = 500
USER, BEFORE_THAT, ASSISTANT = 1.0, 0.5, 1.0
TERMS = 3.0
_LEAST_WEIGHT = 0.05

_CLAUSE = re.compile(
    r"(?<=[.!?;])\s+|(?<=[。！？；])\s*|\n+"
    r"|(?:,|(?<![\s,]))\s+(?:and then|and also|then|and|also|plus|as well as|but)\s+|,\s+|[、，]",
    re.IGNORECASE,
)
# Chinese and Japanese have no spaces: two characters are about a word.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]{1,2}|[^\s\u3040-\u30ff\u3400-\u9fff]+")

_terms = Bm25Index.build([[""]], [1.0]).terms

Part = tuple[str, "npt.NDArray[np.float32] | None", float, float]


@dataclass(frozen=True)
class SlowReading:
    """What the core's `Reading` holds."""

    text: str
    query: str
    vector: npt.NDArray[np.float32] | None
    trust: float
    clauses: tuple[Part, ...]
    earlier: tuple[Part, ...]


def read(
    message: str,
    said: Sequence[tuple[str, str]],
    speller: Speller | None,
    may_show: Callable[[str], bool] | None = None,
    has_clauses: bool = True,
    table: MultilingualTable | None = None,
    is_english: bool = False,
) -> SlowReading:
    """said: (role, text) of turns, oldest first. may_show: whether a correction may say the word."""
    text = readable(message)
    found = [] if speller is None else speller.corrections(text)
    if may_show is not None:
        found = [one for one in found if may_show(one[2])]
    query = corrected(text, found)

    def part(text: str, weight: float) -> Part:
        trust = latin_share(text) if is_english and not text.isascii() else 1.0
        return text, None if table is None else table.embed(text), trust, weight

    _, vector, trust, _ = part(query, 1.0)
    pieces = clauses(query) if has_clauses else ()
    before = earlier(said, len(set(_terms(query)))) if said else ()
    return SlowReading(
        text,
        query,
        vector,
        trust,
        tuple(part(piece, 1.0) for piece in pieces),
        tuple(part(*one) for one in before),
    )


def readable(message: str) -> str:
    """The message as stages read it: valid Unicode, of bounded length."""
    if len(message) > LONGEST:
        message = f"{message[: LONGEST // 2]} {message[-LONGEST // 2 :]}"
    try:
        message.encode()
    except UnicodeEncodeError:
        message = message.encode("utf-8", "replace").decode()
    return message


def corrected(text: str, corrections: Sequence[tuple[int, int, str]]) -> str:
    """The text with these corrections made, which are in their order."""
    pieces, at = [], 0
    for begin, end, word in corrections:
        pieces += [text[at:begin], word]
        at = end
    return "".join([*pieces, text[at:]])


def clauses(text: str) -> tuple[str, ...]:
    """The clauses of a message, at most `MOST_CLAUSES`; none where it is a single one or a document."""
    if len(text) > LONGEST_CLAUSED:
        return ()
    pieces = [piece for piece in _CLAUSE.split(text) if len(_WORD.findall(piece)) >= LEAST_WORDS]
    return tuple(pieces[:MOST_CLAUSES]) if len(pieces) > 1 else ()


def parts(text: str) -> tuple[str, ...]:
    """All parts of a message, however short; none where it is a document."""
    if len(text) > LONGEST_CLAUSED:
        return ()
    return tuple([part for part in _CLAUSE.split(text) if part.strip()])


def earlier(said: Sequence[tuple[str, str]], terms: int) -> tuple[tuple[str, float], ...]:
    """The user's last two turns and the assistant's last, with their weights beside so many terms."""
    weight = math.exp(-max(terms - 1, 0) / TERMS)
    if weight < _LEAST_WEIGHT:
        return ()
    by_user = [text for role, text in said if role == "user"]
    found = [(text[:LONGEST_EARLIER], USER * weight) for text in by_user[-1:]]
    found += [(text[:LONGEST_EARLIER], BEFORE_THAT * weight) for text in by_user[-2:-1]]
    if said and said[-1][0] == "assistant":
        found.append((said[-1][1][-LONGEST_EARLIER:], ASSISTANT * weight))
    return tuple((readable(text), weight) for text, weight in found if weight >= _LEAST_WEIGHT)
