"""Example messages that use has taught: which tool was called with success for which message.

A value: every change makes another bank, and what a bank holds is a fold over the additions in their order,
so that it can be rebuilt from any log of them. What is added comes from users and is treated as hostile: it
is cleaned, bounded for each tool and, within a tool, for each source, and can be taken back by tool or
by source. The bank of a whole organisation is small: at most `most_per_tool` short texts for each tool.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from toolroll.errors import InvalidInput
from toolroll.tools import Definitions, Tool

LONGEST = 500  # characters of a message that can be an example; what is longer holds pasted text
MOST_TOOLS = 3  # that one text may stand for: what fits every tool tells none of them apart

_LEAST_WORDS = 3  # "yes please" is no example of anything

_SPACE = re.compile(r"\s+")
_WORD = re.compile(r"[^\W_]+")
_WIDE = re.compile("[\u1100-\u11ff\u2e80-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]")
_JOINERS = "\u200c\u200d"  # spelling needs them, in Persian and Indic scripts


@dataclass(frozen=True, slots=True)
class Grown:
    """An example that use has taught.

    Attributes:
        text: the message, cleaned.
        source: who it came from: a user, an organisation, a reporter; what it means is the caller's.
    """

    text: str
    source: str


@dataclass(frozen=True)
class ExampleBank:
    """Grown examples by tool. Immutable and safe to share; `add` and `remove` return another bank.

    A full tool makes room by dropping the oldest example of the source that has most of them there, so no
    source can crowd out the others, and what a tool is used for may change.

    Attributes:
        most_per_tool: examples of a tool, at the most.
        most_per_source: of these from one source, at the most.
        grown: tool's name → its examples, oldest first; no tool without any.
    """

    most_per_tool: int = 8
    most_per_source: int = 4
    grown: Mapping[str, tuple[Grown, ...]] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for name in ("most_per_tool", "most_per_source"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InvalidInput(f"{name}: is {value!r:.80}, must be a whole number of at least 1")

    def add(self, tool: str, message: str, source: str) -> ExampleBank:
        """With one more example; the same bank where the message is none.

        It is none if the tool has it already (whatever its case and spacing), if it is longer than 500
        characters, or if it has fewer than three words. Costs O(tools with examples).

        Raises:
            InvalidInput: an argument is no text, or tool or source is empty.
        """
        for name, value in (("tool", tool), ("message", message), ("source", source)):
            if not isinstance(value, str) or not (value or name == "message"):
                raise InvalidInput(f"{name}: is {value!r:.80}, must be a non-empty string")
        text = cleaned(message) if len(message) <= 4 * LONGEST else ""
        if len(text) > LONGEST or _words(text) < _LEAST_WORDS:
            return self
        held = self.grown.get(tool, ())
        if any(folded(text) == folded(one.text) for one in held):
            return self
        held = (*held, Grown(text, source))
        if sum(one.source == source for one in held) > self.most_per_source:
            held = _without_oldest(held, source)
        elif len(held) > self.most_per_tool:
            counts = Counter(one.source for one in held)
            most = max(counts.values())
            held = _without_oldest(held, next(one.source for one in held if counts[one.source] == most))
        return replace(self, grown={**self.grown, tool: held})

    def remove(self, *, tool: str | None = None, source: str | None = None) -> ExampleBank:
        """Without the examples of this tool, of this source, or of this source at this tool.

        Raises:
            InvalidInput: neither is given.
        """
        if tool is None and source is None:
            raise InvalidInput("remove: needs a tool, a source or both; a new ExampleBank() is empty")
        grown = {}
        for name, held in self.grown.items():
            if tool is None or name == tool:
                held = tuple(one for one in held if source is not None and one.source != source)
            if held:
                grown[name] = held
        return replace(self, grown=grown)

    def examples(self, tool: str) -> tuple[str, ...]:
        """The grown examples of a tool, newest first: retrieval reads a bounded number from the front."""
        return tuple(one.text for one in reversed(self.grown.get(tool, ())))

    def apply(self, definitions: Definitions) -> Definitions:
        """The definitions with the grown examples behind the tools' own.

        Left out are texts that a tool has as its own, those that stand for more than three tools, and tools
        that are not in these definitions: they stay in the bank, their server may be back tomorrow.
        """
        if not self.grown:
            return definitions
        claims = Counter(folded(one.text) for held in self.grown.values() for one in held)
        return replace(definitions, tools=tuple(self._grown(tool, claims) for tool in definitions.tools))

    def _grown(self, tool: Tool, claims: Mapping[str, int]) -> Tool:
        own = set(map(folded, tool.examples))
        more = [
            text
            for text in self.examples(tool.name)
            if claims[folded(text)] <= MOST_TOOLS and folded(text) not in own
        ]
        return replace(tool, examples=(*tool.examples, *more)) if more else tool

    def __len__(self) -> int:
        """How many examples there are."""
        return sum(map(len, self.grown.values()))

    def records(self) -> Iterator[dict[str, str]]:
        """Plain values, one an example, ready for JSON: `tool`, `text`, `source`."""
        for tool, held in self.grown.items():
            for one in held:
                yield {"tool": tool, "text": one.text, "source": one.source}

    @classmethod
    def from_records(
        cls, records: Iterable[Mapping[str, Any]], *, most_per_tool: int = 8, most_per_source: int = 4
    ) -> ExampleBank:
        """From what `records` gave; every one is checked and bounded as if it were added now.

        Raises:
            InvalidInput: a record lacks a key, or holds something else than text there.
        """
        bank = cls(most_per_tool, most_per_source)
        for at, record in enumerate(records):
            try:
                bank = bank.add(record["tool"], record["text"], record["source"])
            except (KeyError, TypeError) as error:
                raise InvalidInput(
                    f"records[{at}]: is {record!r:.80}, must have tool, text and source"
                ) from error
            except InvalidInput as error:
                raise InvalidInput(f"records[{at}]: {error}") from error
        return bank


def cleaned(message: str) -> str:
    """One line of visible text, NFC: no control, bidirectional, zero-width, tag or private characters."""
    text = _SPACE.sub(" ", message)
    if not text.isascii() or not text.isprintable():
        text = "".join(c for c in text if c in _JOINERS or unicodedata.category(c)[0] != "C")
        text = _SPACE.sub(" ", unicodedata.normalize("NFC", text))
    return text.strip()


def folded(text: str) -> str:
    """What two examples have in common that differ only in case, spacing and end punctuation."""
    text = unicodedata.normalize("NFC", _SPACE.sub(" ", text).casefold())
    return text.strip(" .!?…,;:\"'。！？")


def _words(text: str) -> int:
    """Words; in scripts that are written in syllables or without spaces, characters."""
    wide = len(_WIDE.findall(text))
    return wide or len(_WORD.findall(text))


def _without_oldest(held: tuple[Grown, ...], source: str) -> tuple[Grown, ...]:
    at = next(at for at, one in enumerate(held) if one.source == source)
    return held[:at] + held[at + 1 :]
