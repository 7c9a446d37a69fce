"""Routes, compiled: all keywords in one automaton, all patterns in one RE2 set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import numpy as np

from toolroll._core import Automaton, Bitset
from toolroll.catalog.pattern_prefilter import PatternPrefilter
from toolroll.model.arrays import NO_ROWS, Rows
from toolroll.model.errors import InvalidDefinition, quoted
from toolroll.model.tools import Mode, Route

_PATTERN_MEMORY = 64 << 20  # bytes that RE2 may use for all patterns of a catalog


@dataclass(frozen=True, slots=True, eq=False)
class RouteTable:
    """The compiled routes of a catalog.

    Attributes:
        automaton: keywords of all routes; None if there are none.
        patterns: a compiled `re2.Set` of all routes' patterns; None if there are none.
        keywords: keyword → (its text in an explanation, toolkits that it activates).
        expressions: for each pattern, (its text in an explanation, toolkits that it activates).
        rows: toolkit → its rows, its descendants' rows and their members, ascending.
        size: rows in the catalog.
        definitions: the routes as they were written.
        shared: the routes of a stacked catalog's shared part, which come first; `rows` has their
            toolkits, too.
        prefilter: tells which texts the patterns may match; None if all may.
    """

    automaton: Automaton | None
    patterns: Any  # google-re2 has no type stubs
    keywords: tuple[tuple[str, tuple[str, ...]], ...]
    expressions: tuple[tuple[str, tuple[str, ...]], ...]
    rows: Mapping[str, Rows]
    size: int
    definitions: tuple[Route, ...] = ()
    shared: RouteTable | None = None
    prefilter: PatternPrefilter | None = None

    @classmethod
    def of(
        cls,
        size: int,
        routes: Iterable[Route],
        rows: Mapping[str, Rows],
        shared: RouteTable | None = None,
        keyword_mode: Mode | None = None,
    ) -> RouteTable:
        """Compiles the routes. keyword_mode: of keywords without one; None for their script's default.

        Raises InvalidDefinition for an unknown toolkit, an empty keyword or a pattern that RE2 refuses.
        """
        definitions = tuple(routes)
        texts, modes = [], []
        keywords, expressions, patterns = [], [], []
        for route in definitions:
            _check(route, rows)
            for keyword, mode in zip(route.keywords, route.modes_or(keyword_mode), strict=True):
                texts.append(keyword)
                modes.append(mode)
                keywords.append((f"keyword {_in_quotes(keyword)}", route.toolkits))
            for pattern in route.patterns:
                patterns.append((pattern, route))
                expressions.append((f"pattern {_in_quotes(pattern)}", route.toolkits))
        automaton = _automaton(texts, modes) if texts else None
        compiled = _compile(patterns) if patterns else None
        prefilter = PatternPrefilter.of(pattern for pattern, _ in patterns) if patterns else None
        return cls(
            automaton,
            compiled,
            tuple(keywords),
            tuple(expressions),
            rows,
            size,
            definitions,
            shared,
            prefilter,
        )

    def over(self, size: int, routes: Iterable[Route], rows: Mapping[str, Rows]) -> RouteTable:
        """A table of the same routes for a catalog with changes; nothing is compiled.

        Raises InvalidDefinition for an unknown toolkit.
        """
        for route in routes:
            _check(route, rows)
        return replace(self, size=size, rows=rows)

    def hits(self, text: str, query: str = "") -> dict[str, str]:
        """Toolkit → the first keyword or pattern that activated it. Empty if none did.

        query: the text with corrected spelling. Keywords are searched for in both, patterns only in the text.
        """
        found: dict[str, str] = {} if self.shared is None else self.shared.hits(text, query)
        if self.automaton is not None:
            found_words = self.automaton.find(text)
            if query and query != text:
                found_words += self.automaton.find(query)
            for keyword in found_words:
                word, toolkits = self.keywords[keyword]
                for toolkit in toolkits:
                    found.setdefault(toolkit, word)
        if self.patterns is not None and (self.prefilter is None or self.prefilter.may_match(text)):
            for pattern in self.patterns.Match(text) or ():
                expression, toolkits = self.expressions[pattern]
                for toolkit in toolkits:
                    found.setdefault(toolkit, expression)
        return found

    def has_word(self, word: str, rows: Bitset) -> bool:
        """Whether a keyword that activates one of these rows contains the word."""
        if self.shared is not None and self.shared.has_word(word, rows):
            return True
        return any(
            word in keyword.lower() and bool(rows.holds(self.rows_of(toolkits)).any())
            for keyword, toolkits in self.keywords
        )

    def rows_of(self, toolkits: Iterable[str]) -> Rows:
        """Rows of these toolkits, of their descendants and of their members, ascending, each once."""
        known = [self.rows[toolkit] for toolkit in toolkits if toolkit in self.rows]
        if len(known) == 1:
            return known[0]
        # Not np.unique: it releases the interpreter.
        return Bitset.of(self.size, np.concatenate(known)).rows() if known else NO_ROWS

    def bitset_of(self, toolkits: Iterable[str]) -> Bitset:
        """`rows_of` as a set."""
        return Bitset.of(self.size, self.rows_of(toolkits))


def _in_quotes(text: str) -> str:
    """The text in single quotes, or Python's own form if it has quotes or control characters."""
    return f"'{text}'" if "'" not in text and text.isprintable() else repr(text)


def _check(route: Route, rows: Mapping[str, Rows]) -> None:
    for toolkit in route.toolkits:
        if toolkit not in rows:
            near = get_close_matches(toolkit, rows, 1)
            raise InvalidDefinition(
                f"route: toolkit {toolkit!r:.200} is not in the catalog"
                + (f"; did you mean {near[0]!r}?" if near else ""),
                field="toolkits",
            )
    if any(not keyword.strip() for keyword in route.keywords):
        raise InvalidDefinition(
            f"route to {', '.join(route.toolkits)}: a keyword is empty, must have a visible character",
            field="keywords",
        )


def _automaton(texts: list[str], modes: list[Mode]) -> Automaton:
    """The compiled keywords. Raises InvalidDefinition if a keyword is too long."""
    try:
        return Automaton(texts, modes)
    except ValueError as error:
        for text, mode in zip(texts, modes, strict=True):
            try:
                Automaton([text], [mode])
            except ValueError as one:
                problem = str(one).partition(": ")[2]
                raise InvalidDefinition(
                    f"route: keyword {quoted(text)}: {problem}", field="keywords"
                ) from one
        raise InvalidDefinition(f"route: keywords: {error}", field="keywords") from error


def _compile(patterns: list[tuple[str, Route]]) -> Any:
    import re2  # only catalogs with patterns pay for the import

    options = re2.Options()
    options.case_sensitive = False
    options.log_errors = False
    options.max_mem = _PATTERN_MEMORY
    compiled = re2.Set.SearchSet(options)
    for pattern, route in patterns:
        try:
            compiled.Add(pattern)
        except (re2.error, UnicodeEncodeError) as error:
            reason = error.args[0].decode() if isinstance(error.args[0], bytes) else error
            to = ", ".join(route.toolkits)[:200]
            raise InvalidDefinition(
                f"route to {to}: pattern {quoted(pattern)} is not valid RE2: {str(reason)[:200]}; RE2 has no "
                "look-around and no back-references",
                field="patterns",
            ) from error
    try:
        compiled.Compile()
    except re2.error as error:
        raise InvalidDefinition(
            f"routes: their {len(patterns)} patterns together need more than {_PATTERN_MEMORY >> 20} MB; "
            "use keywords where no pattern is needed",
            field="patterns",
        ) from error
    return compiled
