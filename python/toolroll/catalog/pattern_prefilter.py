r"""Tells most messages that no pattern matches without asking RE2.

RE2's binding releases the interpreter for every call, however short. Another Python thread that gets it keeps
it for the switch interval of 5 ms, fifty times as long as a selection takes. So a few short expressions of
the standard library are searched for first. A text must contain each of them for the pattern to match:
`\bs\d{1,2}e\d+\b` needs `s\d{1,2}e\d`. They have no unbounded repeat and few ways to match at one place,
so their time is linear in the text, as RE2's is.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

_parser: Any = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")

_MOST_PATTERNS = 64  # each is asked on its own: of more, RE2 is faster
_MOST_TEXT = 4_000  # characters; a longer text is worth releasing the interpreter for
_MOST_COPIES = 16  # of a repeated character that are looked for
_MOST_OPTIONAL = 4  # copies that a repeat may have or not, and still join what is around it
_MOST_REPEATS = 2  # such repeats in one expression
_MOST_BRANCHES = 32
_CATEGORIES = {"CATEGORY_DIGIT": r"\d", "CATEGORY_SPACE": r"\s", "CATEGORY_WORD": r"\w"}
# What the two syntaxes read differently: classes by name, and what is reserved in a class of Python's.
_FOREIGN = ("[:", "[[", "--", "&&", "~~", "||")


@dataclass(frozen=True, slots=True, eq=False)
class PatternPrefilter:
    """What texts need to contain for any of some patterns to match.

    Attributes:
        needed: for each pattern expressions; it can only match a text that contains all of them.
    """

    needed: tuple[tuple[re.Pattern[str], ...], ...]

    @classmethod
    def of(cls, patterns: Iterable[str]) -> PatternPrefilter | None:
        """For valid RE2 patterns that ignore case; None if one of them may match any text."""
        needed = [needed_by(pattern) for pattern in patterns]
        return cls(tuple(needed)) if len(needed) <= _MOST_PATTERNS and all(needed) else None

    def may_match(self, text: str) -> bool:
        """False only if no pattern matches."""
        if len(text) > _MOST_TEXT:
            return True
        for expressions in self.needed:
            for expression in expressions:
                if expression.search(text) is None:
                    break
            else:
                return True
        return False


def needed_by(pattern: str) -> tuple[re.Pattern[str], ...]:
    """Expressions that a text must all contain for the RE2 pattern to match it; none if nothing is known."""
    if any(sign in pattern for sign in _FOREIGN):
        return ()
    try:
        parsed = _parser.parse(pattern, re.IGNORECASE | re.DOTALL)
    except (re.error, OverflowError, RecursionError):
        return ()
    runs = _Runs()
    runs.read(parsed)
    return tuple(re.compile(source, re.IGNORECASE | re.DOTALL) for source in runs.sources())


class _Runs:
    """Sequences of characters that a match contains, each without a gap."""

    def __init__(self) -> None:
        self._runs: list[list[str]] = [[]]
        self._repeats = 0  # of variable length in the last run

    def sources(self) -> list[str]:
        return ["".join(run) for run in self._runs if any(run)]

    def is_plain(self) -> bool:
        """Whether all that was read is one sequence of single characters."""
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
    """An expression for one character, or for more than the pattern means; None if it is not one character.

    Python's classes hold what RE2's do and more: RE2's are ASCII. Negated ones hold less, and other letters
    than ASCII's may fold in another way: for those any character stands in.
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
            members.append(re.escape(chr(member)))
        elif kind == "RANGE" and member[1] < 128:
            members.append(f"{re.escape(chr(member[0]))}-{re.escape(chr(member[1]))}")
        elif kind == "CATEGORY" and str(member) in _CATEGORIES:
            members.append(_CATEGORIES[str(member)])
        else:
            return "."
    return f"[{''.join(members)}]"
