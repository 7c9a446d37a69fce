r"""Finds out without RE2, for most messages, that no pattern matches.

RE2's binding releases the interpreter lock for every call. Another Python thread that takes the lock keeps it
for the switch interval of 5 ms, fifty times as long as a selection takes. So a few short expressions of the
standard library are searched for first. A text must contain each of them for the pattern to match:
`\bs\d{1,2}e\d+\b` needs `s\d{1,2}e\d`. They have no unbounded repeat and few ways to match at one place, so
their time is linear in the text, as RE2's is.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

_parser: Any = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")

_MOST_PATTERNS = 64  # each is asked on its own: of more, RE2 is faster
_MOST_TEXT = 4_000  # characters; a longer text is worth releasing the interpreter for
_MOST_COPIES = 16  # copies of a repeated character in an expression
_MOST_OPTIONAL = 4  # copies that a repeat may have or not, and still join what is around it
_MOST_REPEATS = 2  # such repeats in one expression
_MOST_BRANCHES = 32
_CATEGORIES = {"CATEGORY_DIGIT": r"\d", "CATEGORY_SPACE": r"\s", "CATEGORY_WORD": r"\w"}
# What the two syntaxes read differently: classes by name, and what is reserved in a class of Python's.
_FOREIGN = ("[:", "[[", "--", "&&", "~~", "||")


_LITERAL = re.compile(r"\\?[^\\.\[\](){}*+?|^$]|\\[^A-Za-z0-9]")  # one escaped or plain character

_LETTER_OR_NOT = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|[A-Z]")  # an escape, a class, or an upper-case letter


@dataclass(frozen=True, slots=True, eq=False)
class Requirement:
    """The parts that a text must contain for one pattern to match it.

    Attributes:
        literals: substrings of a lower-case ASCII text, the longest first: the cheapest check.
        lower: expressions for a lower-case ASCII text.
        any_case: expressions for any text; several times as slow.
    """

    literals: tuple[str, ...]
    lower: tuple[re.Pattern[str], ...]
    any_case: tuple[re.Pattern[str], ...]


@dataclass(frozen=True, slots=True, eq=False)
class PatternPrefilter:
    """The requirements of some patterns."""

    needed: tuple[Requirement, ...]

    @classmethod
    def of(cls, patterns: Iterable[str]) -> PatternPrefilter | None:
        """The prefilter for valid RE2 patterns that ignore case; None if one may match any text."""
        needed = [requirement_of(pattern) for pattern in patterns]
        if len(needed) > _MOST_PATTERNS or None in needed:
            return None
        return cls(tuple(one for one in needed if one is not None))

    def may_match(self, text: str) -> bool:
        """False only if no pattern matches."""
        if len(text) > _MOST_TEXT:
            return True
        if text.isascii():  # then lower case is all that ignoring case means
            text = text.lower()
            for needed in self.needed:
                for literal in needed.literals:
                    if literal not in text:
                        break
                else:
                    for expression in needed.lower:
                        if expression.search(text) is None:
                            break
                    else:
                        return True
            return False
        return any(
            all(expression.search(text) is not None for expression in needed.any_case)
            for needed in self.needed
        )


def requirement_of(pattern: str) -> Requirement | None:
    """The requirement of an RE2 pattern; None if nothing is known."""
    if any(sign in pattern for sign in _FOREIGN):
        return None
    try:
        parsed = _parser.parse(pattern, re.IGNORECASE | re.DOTALL)
    except (re.error, OverflowError, RecursionError):
        return None
    runs = _Runs()
    runs.read(parsed)
    if not runs.sources():
        return None
    return Requirement(
        tuple(sorted(runs.literals(), key=len, reverse=True)),
        tuple(re.compile(_lower(source), re.DOTALL) for source in runs.sources()),
        tuple(re.compile(source, re.IGNORECASE | re.DOTALL) for source in runs.sources()),
    )


def _lower(source: str) -> str:
    """The expression for lower-case text. Classes stay, because they have the lower-case letters already."""
    return _LETTER_OR_NOT.sub(lambda found: found[0] if len(found[0]) > 1 else found[0].lower(), source)


class _Runs:
    """The parts of a match, each a sequence of characters without a gap."""

    def __init__(self) -> None:
        self._runs: list[list[str]] = [[]]
        self._repeats = 0  # repeats of variable length in the last run

    def sources(self) -> list[str]:
        return ["".join(run) for run in self._runs if any(run)]

    def literals(self) -> set[str]:
        """The literal parts of the runs, in lower case."""
        found: set[str] = set()
        for run in self._runs:
            plain = ["" if _LITERAL.fullmatch(part) is None else part[-1].lower() for part in run]
            found.update("".join(group) for is_plain, group in groupby(plain, bool) if is_plain)
        return found

    def is_plain(self) -> bool:
        """Whether the whole expression is one sequence of single characters."""
        return len(self._runs) == 1 and not self._repeats

    def read(self, sequence: Iterable[tuple[Any, Any]]) -> None:
        for operation, value in sequence:
            name = str(operation)
            if name == "AT":  # a place, no character
                continue
            if (character := _character(name, value)) is not None:
                self._runs[-1].append(character)
            elif name in ("MAX_REPEAT", "MIN_REPEAT"):
                self._repeat(*value)
            elif name == "SUBPATTERN":
                self.read(value[-1])
            elif name == "BRANCH":
                self._branch(value[1])
            else:
                self._cut()

    def _cut(self, first: str = "") -> None:
        self._runs.append([first] if first else [])
        self._repeats = 0

    def _repeat(self, least: int, most: int, inner: Any) -> None:
        character = _character(str(inner[0][0]), inner[0][1]) if len(inner) == 1 else None
        if character is None:
            self._cut()
            if least:
                self.read(inner)
                self._cut()
            return
        if least > _MOST_COPIES or most - least > _MOST_OPTIONAL or self._repeats == _MOST_REPEATS:
            if least:
                self._runs[-1].append(f"{character}{{{min(least, _MOST_COPIES)}}}")
            if least != most or least > _MOST_COPIES:
                self._cut(character if least else "")
            return
        self._repeats += least != most
        self._runs[-1].append(f"{character}{{{least},{most}}}")

    def _branch(self, branches: list[Any]) -> None:
        plain: list[str] = []
        for branch in branches:
            runs = _Runs()
            runs.read(branch)
            if not runs.is_plain():
                break
            plain.append("".join(runs._runs[0]))
        if len(plain) == len(branches) <= _MOST_BRANCHES:
            self._runs[-1].append(f"(?:{'|'.join(plain)})")
        else:
            self._cut()


def _character(name: str, value: Any) -> str | None:
    """An expression that matches at least the pattern's character; None for more than one character.

    Python's classes contain RE2's, which are ASCII. Negated classes contain less, and non-ASCII letters may
    fold in another way: any character replaces both.
    """
    if name in ("ANY", "NOT_LITERAL"):
        return "."
    if name == "LITERAL":
        return re.escape(chr(value)) if value < 128 else "."
    if name != "IN":
        return None
    members = []
    for operation, member in value:
        kind = str(operation)
        if kind == "LITERAL" and member < 128:
            members.append(re.escape(chr(member)) + _lower_range(member, member))
        elif kind == "RANGE" and member[1] < 128:
            members.append(f"{re.escape(chr(member[0]))}-{re.escape(chr(member[1]))}" + _lower_range(*member))
        elif kind == "CATEGORY" and str(member) in _CATEGORIES:
            members.append(_CATEGORIES[str(member)])
        else:
            return "."
    return f"[{''.join(members)}]"


def _lower_range(first: int, last: int) -> str:
    """The lower case of the letters from A to Z in a range of characters, as members of a class."""
    first, last = max(first, ord("A")), min(last, ord("Z"))
    return f"{chr(first).lower()}-{chr(last).lower()}" if first <= last else ""
