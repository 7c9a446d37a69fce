"""Which tools of a catalog deal with a mark, or belong to a service that a message names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from toolroll._core import Automaton, find_marks
from toolroll._gil import GilYielder
from toolroll.arrays import Rows
from toolroll.catalog.deferred import Deferred
from toolroll.catalog.marks import ENDINGS, MEANINGS
from toolroll.catalog.services import SERVICES, Service
from toolroll.catalog.tool_text import ToolText, words
from toolroll.catalog.toolkits import frozen_rows, moved_rows

_MOST_ROWS = 512  # of a meaning: each is scored for the message, and so many say little
_MOST_WORDS = 8  # in a tool's name: one that has them all is written to be found


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
        rows: meaning → the rows whose name or toolkit has one of its words, ascending; counted only where
            they are few.
        shared: of a stacked catalog, the table of the shared part.
        behind: the number of rows of that part.
    """

    rows: Deferred[Mapping[str | Service, Rows]]
    shared: MarkTable | None = None
    behind: int = 0

    @classmethod
    def of(
        cls, texts: Sequence[ToolText], shared: MarkTable | None, behind: int, is_deferred: bool
    ) -> MarkTable:
        """The table of these tools, behind so many rows of a shared one. O(characters of the names).

        is_deferred: whether the rows are computed for the first message with a mark.
        """
        table = cls(Deferred(_rows_for(texts)), shared, behind)
        if not is_deferred:
            table.rows()
        return table

    def with_changes(self, targets: Rows, added: Rows, texts: Sequence[ToolText]) -> MarkTable:
        """Of the kept rows and the added ones; for a table without a shared one.

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

    def hits(self, text: str, query: str = "") -> list[MarkHit]:
        """The marks of a message and the services that it names, if any tool deals with them.

        query: the text with its spelling corrected. Services may be in either, marks only in the text.
        """
        meanings: dict[str | Service, str] = {}
        for mark in find_marks(text):
            known = mark.lower() if mark[0] == "." else mark
            meanings[known] = f"mark '{known}'"
        services = _vocabulary().services(text)
        if query and query != text:
            services += _vocabulary().services(query)
        for service in services:
            meanings[service] = f"service '{service.names[0]}'"
        return [
            MarkHit(label, isinstance(meaning, Service), rows)
            for meaning, label in meanings.items()
            if len(rows := self._rows_of(meaning))
        ]

    def _rows_of(self, meaning: str | Service) -> Rows:
        own = self.rows().get(meaning, _NONE)
        if len(own) > _MOST_ROWS:
            own = _NONE
        if self.shared is None:
            return own
        return np.concatenate((self.shared._rows_of(meaning), own + np.int32(self.behind)))


_NONE = frozen_rows(())


def _rows_for(texts: Sequence[ToolText]) -> Callable[[], Mapping[str | Service, Rows]]:
    """Computes `MarkTable.rows` of these tools; keeps their names alone."""
    names = [(text.toolkit, text.name) for text in texts]

    def make() -> Mapping[str | Service, Rows]:
        meanings_of = _vocabulary().meanings
        rows: defaultdict[str | Service, list[int]] = defaultdict(list)
        for row, (toolkit, name) in enumerate(names):
            for meaning in meanings_of(f"{words(toolkit)} {words(name)}"):
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
        names = [(name, service) for service in SERVICES for name in service.names]
        self._services = [(service, not name.islower()) for name, service in names]
        self._names = Automaton([name for name, _ in names], ["word"] * len(names))

    def meanings(self, name: str) -> Sequence[str | Service]:
        """Meanings of which a tool's name has a word, each once; none where it has too many words."""
        found = self._tools.find(name)
        if len(found) > _MOST_WORDS:
            return ()
        return tuple(dict.fromkeys(meaning for word in found for meaning in self._meanings[word]))

    def services(self, text: str) -> list[Service]:
        """The services that a message names."""
        found = self._names.find(text)
        return [
            service
            for service, is_common in (self._services[name] for name in found)
            if not is_common or self._is_proper(text, service)
        ]

    def _is_proper(self, text: str, service: Service) -> bool:
        """Whether a name that is also a common word begins with a capital, within a sentence."""
        return any(
            self._services[name] == (service, True)
            and text[start].isupper()
            and text[:start].rstrip()[-1:] not in ("", ".", "!", "?")
            for name, start, _ in self._names.matches(text)
        )


@cache
def _vocabulary() -> _Vocabulary:
    return _Vocabulary()
