"""Page patterns, compiled to toolkits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from toolroll._core import Bitset
from toolroll.formats.visible_text import is_blank
from toolroll.model.argument_checks import LONE_SURROGATE, is_unicode
from toolroll.model.arrays import NO_ROWS, Rows
from toolroll.model.context import Context
from toolroll.model.errors import InvalidDefinition, quoted
from toolroll.model.rules import PageMapping, pattern_problem

_REMEMBERED = 1024  # pages whose answer is kept; forgotten all at once when there are more
_LONGEST_REMEMBERED = 512  # a page is the caller's text: whole documents are not kept as keys


def matches(pattern: str, page: str) -> bool:
    """Whether the pattern matches the page, letter by letter; "*" matches every page."""
    starts, ends = pattern.startswith("*"), pattern.endswith("*")
    if starts and ends:
        return pattern[1:-1] in page
    if starts:
        return page.endswith(pattern[1:])
    if ends:
        return page.startswith(pattern[:-1])
    return page == pattern


def check(page: PageMapping) -> None:
    """Checks the shape of one mapping.

    Raises:
        InvalidDefinition: the pattern has '*' inside or is empty, no toolkit is named, or a type is wrong.
    """
    pattern, toolkits = page.pattern, page.toolkits

    def wrong(field: str, problem: str) -> InvalidDefinition:
        return InvalidDefinition(f"page mapping {quoted(pattern)}: {problem}", field=field)

    if not isinstance(pattern, str):
        raise wrong("pattern", f"pattern is {quoted(pattern)}, must be a string")
    if not isinstance(page.org, str):
        raise wrong("org", f"org is {quoted(page.org)}, must be a string")
    if problem := pattern_problem(pattern):
        raise wrong("pattern", f"pattern {problem}")
    if not is_unicode(pattern):
        raise wrong("pattern", f"pattern {LONE_SURROGATE}")
    if not isinstance(toolkits, (tuple, list)) or not all(isinstance(name, str) for name in toolkits):
        raise wrong("toolkits", f"toolkits is {quoted(toolkits)}, must be names of toolkits")
    if not toolkits or "" in toolkits:
        raise wrong("toolkits", "must name at least one toolkit, and none by ''")
    for place, text in (*(("toolkits", name) for name in toolkits), ("org", page.org)):
        if not is_unicode(text):
            raise wrong(place, f"{place}: {quoted(text)} {LONE_SURROGATE}")
    if type(page.priority) is not int:
        raise wrong("priority", f"priority is {quoted(page.priority)}, must be a whole number")


class OnPage(NamedTuple):
    """The toolkits of a page.

    Attributes:
        rows: the tools of these toolkits and of the toolkits below them.
        toolkits: names, by the highest priority of their mappings, then by name.
        words: toolkit → its mapping, such as "page 'contacts*'".
    """

    rows: Bitset
    toolkits: tuple[str, ...]
    words: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, eq=False)
class PageTable:
    """Finds the toolkits of a page. Safe to read from many threads.

    Attributes:
        size: rows in the catalog.
        mappings: organisation → its mappings, highest priority first; "" has the platform's.
        below: toolkit → rows of its tools and of the toolkits below it.
    """

    size: int
    mappings: Mapping[str, tuple[PageMapping, ...]]
    below: Mapping[str, Rows]
    _answers: dict[tuple[str, str], OnPage | None] = field(default_factory=dict, repr=False)
    _sets: dict[tuple[str, ...], Bitset] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, size: int, pages: Iterable[PageMapping], below: Mapping[str, Rows]) -> PageTable:
        """Checks and sorts the mappings. A toolkit that is not in `below` matches no row.

        Raises:
            InvalidDefinition: see `check`.
        """
        mappings: dict[str, list[PageMapping]] = {}
        for page in pages:
            check(page)
            mappings.setdefault(page.org, []).append(page)
        return cls(
            size,
            {
                org: tuple(sorted(own, key=lambda page: (-page.priority, page.pattern, tuple(page.toolkits))))
                for org, own in mappings.items()
            },
            below,
        )

    def kept(self, context: Context) -> OnPage | None:
        """The toolkits of the context's page, by the mappings of the platform and of its organisation.

        None if the context has no page, or if no mapping matches it.
        """
        page = context.page
        if not self.mappings or is_blank(page):
            return None
        # The answer depends on nothing else. Organisations without mappings share theirs.
        asked = (context.org if context.org in self.mappings else "", page)
        try:
            return self._answers[asked]  # None is an answer, too
        except KeyError:
            pass
        answer = self._find(*asked)
        if len(page) <= _LONGEST_REMEMBERED:
            if len(self._answers) >= _REMEMBERED:
                self._answers.clear()
                self._sets.clear()
            self._answers[asked] = answer
        return answer

    def _find(self, org: str, page: str) -> OnPage | None:
        mappings = self.mappings.get("", ())
        if org:
            mappings += self.mappings[org]
        hits = [mapping for mapping in mappings if matches(mapping.pattern, page)]
        if not hits:
            return None
        best: dict[str, tuple[int, str]] = {}  # toolkit → the mapping it comes from, as (-priority, pattern)
        for mapping in hits:
            place = (-mapping.priority, mapping.pattern)
            for name in mapping.toolkits:
                best[name] = min(place, best.get(name, place))
        names = tuple(sorted(best, key=lambda name: (best[name][0], name)))
        words = tuple((name, f"page {best[name][1]!r}") for name in names)
        return OnPage(self._rows_of(names), names, words)

    def _rows_of(self, names: tuple[str, ...]) -> Bitset:
        """The rows of these toolkits. Pages with the same toolkits share one set."""
        rows = self._sets.get(names)
        if rows is None:
            found = [self.below[name] for name in names if name in self.below]
            rows = Bitset.of(self.size, np.concatenate([NO_ROWS, *found]))
            self._sets[names] = rows
        return rows


NO_PAGES = PageTable(0, {}, {})
