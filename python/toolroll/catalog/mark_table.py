"""Finds the tools that deal with a mark, or belong to a service that a message names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

import numpy as np

from toolroll._core import Automaton, MarkedRows, find_meanings
from toolroll.catalog.deferred import Deferred
from toolroll.catalog.marks import ENDINGS, MEANINGS
from toolroll.catalog.services import SERVICES, Service
from toolroll.catalog.tool_text import ToolText, words, words_of_tool
from toolroll.catalog.toolkits import frozen_rows, moved_rows
from toolroll.model.arrays import Rows
from toolroll.runtime.gil import GilYielder

_MOST_ROWS = 512  # rows of a meaning; each is scored, and more tell little
_REMEMBERED = 1024  # sets of marks whose answer is kept; forgotten all at once when there are more
_MOST_WORDS = 8  # words in a tool's name; a name with more is written to be found


class MarkHit(NamedTuple):
    """A mark or the name of a service in a message.

    Attributes:
        label: for explanations, "mark 'ticket key'".
        is_service: whether it is a service.
        rows: the tools that deal with it, ascending, at least one.
    """

    label: str
    is_service: bool
    rows: Rows


@dataclass(frozen=True, slots=True, eq=False)
class MarkTable:
    """The tools for each meaning, which is a kind of mark, an ending of a file or a service.

    Attributes:
        rows: meaning → the rows whose name or toolkit has one of its words, ascending. A long
            list is ignored.
        shared: the table of a stacked catalog's shared part.
        behind: the number of rows of the shared part.
    """

    rows: Deferred[Mapping[str | Service, Rows]]
    shared: MarkTable | None = None
    behind: int = 0
    _answers: dict[tuple[str | int, ...], tuple[tuple[MarkHit, ...], MarkedRows] | None] = field(
        default_factory=dict, repr=False
    )

    @classmethod
    def of(
        cls, texts: Sequence[ToolText], shared: MarkTable | None, behind: int, is_deferred: bool
    ) -> MarkTable:
        """The table of these tools. O(characters of the names).

        shared, behind: the shared table before them, and its number of rows. is_deferred: whether the rows
        are computed for the first message with a mark.
        """
        table = cls(Deferred(_rows_for(texts)), shared, behind)
        if not is_deferred:
            table.rows()
        return table

    @classmethod
    def saved(cls, rows: Mapping[str, Rows]) -> MarkTable:
        """The table of a saved catalog. rows: by `meaning_name`. Raises KeyError if a service is unknown."""
        named = {meaning_name(service): service for service in SERVICES}
        known: dict[str | Service, Rows] = {
            named[name] if name.startswith(_SERVICE) else name: found for name, found in rows.items()
        }
        return cls(Deferred(lambda: known))

    def with_changes(self, targets: Rows, added: Rows, texts: Sequence[ToolText]) -> MarkTable:
        """The table of the kept rows and the added ones; for a table without a shared one.

        targets: the new row of each old one, or -1. added: the new rows of the texts, ascending.
        """
        more = _rows_for(texts)()
        rows, yielder = {}, GilYielder()
        for meaning in dict.fromkeys((*self.rows(), *more)):
            moved = moved_rows(self.rows().get(meaning, _NONE), targets, added[more.get(meaning, _NONE)])
            if len(moved):
                rows[meaning] = moved
            yielder()
        return MarkTable(Deferred(lambda: rows))

    def hits(self, text: str, query: str = "") -> tuple[MarkHit, ...]:
        """The marks of a message and the services that it names, if any tool deals with them."""
        found = self.found(text, query)
        return _NO_HITS if found is None else found[0]

    def found(self, text: str, query: str = "") -> tuple[tuple[MarkHit, ...], MarkedRows] | None:
        """The hits of a message, and their rows in the core's form; None without a hit.

        Results are cached, because many messages have the same marks.

        query: the text with corrected spelling. Services are searched for in both, marks only in the text.
        """
        found = _vocabulary().found(text)
        if query and query != text:
            found += tuple([name for name in _vocabulary().found(query) if isinstance(name, int)])
        if not found:
            return None
        try:
            return self._answers[found]  # None is an answer, too
        except KeyError:
            pass
        hits = self._hits(found)
        rows = MarkedRows([hit.rows.tolist() for hit in hits], [hit.is_service for hit in hits])
        if len(self._answers) >= _REMEMBERED:
            self._answers.clear()
        answer = self._answers[found] = (hits, rows) if hits else None
        return answer

    def _hits(self, found: Sequence[str | int]) -> tuple[MarkHit, ...]:
        """The answer of `hits` for these marks and names of services."""
        meanings: dict[str | Service, str] = {}
        for mark in found:
            if isinstance(mark, int):
                service = _vocabulary().service(mark)
                meanings[service] = f"service '{service.names[0]}'"
            else:
                known = mark.lower() if mark[0] == "." else mark
                meanings[known] = f"mark '{known}'"
        return tuple(
            [
                MarkHit(label, isinstance(meaning, Service), rows)
                for meaning, label in meanings.items()
                if len(rows := self._rows_of(meaning))
            ]
        )

    def _rows_of(self, meaning: str | Service) -> Rows:
        own = self.rows().get(meaning, _NONE)
        if len(own) > _MOST_ROWS:
            own = _NONE
        if self.shared is None:
            return own
        return np.concatenate((self.shared._rows_of(meaning), own + np.int32(self.behind)))


def meaning_name(meaning: str | Service) -> str:
    """The name of a meaning in a saved catalog."""
    return f"{_SERVICE}{meaning.names[0]}" if isinstance(meaning, Service) else meaning


_NONE = frozen_rows(())
_SERVICE = "service "
_NO_HITS: tuple[MarkHit, ...] = ()


def _rows_for(texts: Sequence[ToolText]) -> Callable[[], Mapping[str | Service, Rows]]:
    """A function that computes `MarkTable.rows` of these tools. It keeps only their names."""
    names = [(text.toolkit, text.name) for text in texts]

    def make() -> Mapping[str | Service, Rows]:
        meanings_of = _vocabulary().meanings
        rows: defaultdict[str | Service, list[int]] = defaultdict(list)
        for row, (toolkit, name) in enumerate(names):
            for meaning in meanings_of(f"{words(toolkit)} {words_of_tool(name)}"):
                rows[meaning].append(row)
        return {meaning: frozen_rows(found) for meaning, found in rows.items()}

    return make


class _Vocabulary:
    """The words of all meanings in tools' names, and the names of all services in messages."""

    def __init__(self) -> None:
        by_word: defaultdict[str, list[str | Service]] = defaultdict(list)
        for meaning, singulars in {**MEANINGS, **ENDINGS}.items():
            for word in singulars:
                by_word[word].append(meaning)
                by_word[f"{word}s"].append(meaning)
        for service in SERVICES:
            for word in service.servers:
                by_word[word].append(service)
        self._meanings = list(by_word.values())
        self._tools = Automaton(list(by_word), ["word"] * len(by_word))
        self._services = [(name, service) for service in SERVICES for name in service.names]
        self._names = Automaton([name for name, _ in self._services], ["word"] * len(self._services))
        self._common = frozenset(at for at, (name, _) in enumerate(self._services) if not name.islower())

    def meanings(self, name: str) -> Sequence[str | Service]:
        """The meanings whose words are in a tool's name, each once; none if the name has too many."""
        found = self._tools.find(name)
        if len(found) > _MOST_WORDS:
            return ()
        return tuple(dict.fromkeys(meaning for word in found for meaning in self._meanings[word]))

    def found(self, text: str) -> tuple[str | int, ...]:
        """The marks of a message, and the numbers of the names of services in it."""
        found = find_meanings(text, self._names)
        if found and not self._common.isdisjoint(found):
            proper = self._proper(text)
            found = tuple(
                [
                    name
                    for name in found
                    if isinstance(name, str) or name not in self._common or self.service(name) in proper
                ]
            )
        return found

    def service(self, name: int) -> Service:
        """The service of a name."""
        return self._services[name][1]

    def _proper(self, text: str) -> set[Service]:
        """The services named by a common word that has a capital within a sentence."""
        return {
            self.service(name)
            for name, start, _ in self._names.matches(text)
            if name in self._common
            and text[start].isupper()
            and text[:start].rstrip()[-1:] not in ("", ".", "!", "?")
        }


@cache
def _vocabulary() -> _Vocabulary:
    return _Vocabulary()
