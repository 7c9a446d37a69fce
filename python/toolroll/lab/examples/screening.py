"""Screens messages of a model: drops copies, and texts that no person would write.

A model's answer is hostile input: a tool's description may contain instructions to the model.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence

import numpy as np

from toolroll.catalog.plain_text import without_encoded_data
from toolroll.formats.visible_text import is_visible
from toolroll.lab.examples.round_trip import Rejection
from toolroll.model.arrays import Scores
from toolroll.model.embedder import Embedder, vectors_of
from toolroll.model.tools import Tool

LONGEST = 400  # characters of a message
PASSAGE = 8  # words of a description that no message repeats in their order
SAME = 0.95  # cosine from which on two messages are copies of each other

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"  # a letter counts as half a word
)
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
_IDENTIFIER = re.compile(r"\w+[_./:-]\w+|[a-z]+[A-Z]\w*")


class Screen:
    """Screens the messages of one request. tools: of the request; the model has read their texts."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self.tools = tools
        texts = (text for tool in tools for text in (tool.description, tool.summary, tool.when_to_use))
        self._passages = {passage for text in texts for passage in _passages(text)}

    def reason(self, tool: Tool, text: str) -> str:
        """Why a message from `cleaned` is dropped; "" if it is not."""
        if not _WORD.search(text):
            return "says nothing"
        if len(text) > LONGEST:
            return f"is longer than {LONGEST} characters"
        if not is_visible(text):
            return "has control or invisible characters"
        if without_encoded_data(text) != text:
            return "has encoded data"
        if _IDENTIFIER.fullmatch(tool.name) and tool.name.casefold() in text.casefold():
            return "names the tool"
        if any(passage in self._passages for passage in _passages(text)):
            return "repeats the text of a tool"
        return ""


def cleaned(text: str) -> str:
    """The message on one line, without spaces at its ends. Other characters stay as they are."""
    return " ".join(text.split())


def normalised(text: str) -> str:
    """The words of a message, without differences of case, width, spaces and punctuation."""
    return " ".join(_words(text))


class Copies:
    """Finds copies of messages, by their words and by the cosine of their vectors."""

    def __init__(self, embedder: Embedder | None, texts: Iterable[str] = ()) -> None:
        """texts: known messages. embedder: None compares words only."""
        self._embedder = embedder
        self._known: dict[str, str] = {}
        self._vectors: list[Scores] = []
        self._texts: list[str] = []
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        """Adds a known message."""
        self._known.setdefault(normalised(text), text)
        if self._embedder is not None:
            self._texts.append(text)
            self._vectors.append(vectors_of(self._embedder, [text])[0])

    def of(self, text: str) -> str | None:
        """The known message that this one copies; None for a new one."""
        if (known := self._known.get(normalised(text))) is not None:
            return known
        if self._embedder is None or not self._vectors:
            return None
        cosines = np.stack(self._vectors) @ vectors_of(self._embedder, [text])[0]
        nearest = int(np.argmax(cosines))
        return self._texts[nearest] if cosines[nearest] >= SAME else None


def distinct(
    tool: Tool, texts: Sequence[str], near_misses: Collection[str], embedder: Embedder | None
) -> tuple[list[str], list[Rejection]]:
    """The messages that copy no example, near miss, description or other message; and all others."""
    examples = Copies(embedder, tool.examples)
    known = Copies(embedder, filter(None, (tool.description, tool.summary)))
    missing = Copies(embedder, near_misses)
    kept, rejected = [], []
    for text in texts:
        for copies, what in (
            (examples, "copies"),
            (missing, "is a near miss too"),
            (known, "copies the tool's text"),
        ):
            if (copied := copies.of(text)) is not None:
                rejected.append(
                    Rejection(tool.name, text, what if copies is not examples else f"copies {copied!r}")
                )
                break
        else:
            examples.add(text)
            kept.append(text)
    return kept, rejected


def _words(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def _passages(text: str) -> Iterable[tuple[str, ...]]:
    words = _words(text)
    is_unspaced = any(len(word) == 1 and not word.isascii() for word in words)
    length = 2 * PASSAGE if is_unspaced else PASSAGE
    return (tuple(words[at : at + length]) for at in range(len(words) - length + 1))
