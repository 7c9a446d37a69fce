"""Flags texts that may deceive: invisible characters, mixed alphabets, names that look like another's.

A flag never rejects a tool. It points out a place to reviewers. Invisible characters that emoji, Persian and
the scripts of India need are not flagged.
"""

from __future__ import annotations

import json
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from toolroll.model.tools import Tool

HIDDEN = "hidden"  # characters that are invisible, or reverse the order of others
MARKS = "marks"  # more combining marks on one letter than any language uses
MIXED_SCRIPT = "mixed_script"  # one word of a name uses two alphabets
CONFUSABLE_NAME = "confusable"  # another tool's name looks the same
GOVERNED = "governed"  # a plugin asked for a decision that only people make

_MOST_MARKS = 4
_PLACES = 3  # places that a message lists
_LONGEST_PLACE = 200  # characters


@dataclass(frozen=True, slots=True)
class Flag:
    """One thing to review: a code for programs, a message for people."""

    code: str
    message: str

    def to_dict(self) -> dict[str, str]:
        """The form that the database and `--json` use."""
        return {"code": self.code, "message": self.message}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Flag:
        """Reads the form that `to_dict` writes."""
        return cls(str(data["code"]), str(data["message"]))


class Lookalikes:
    """An index of names by their skeletons, to find a name that looks like another."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names: dict[str, list[str]] = {}
        for name in names:
            self.add(name)

    def add(self, name: str) -> None:
        """Adds a name."""
        for skeleton in skeletons(name):
            self._names.setdefault(skeleton, []).append(name)

    def of(self, name: str) -> str | None:
        """The lowest other name that looks like this one, or None."""
        found = {other for skeleton in skeletons(name) for other in self._names.get(skeleton, ())}
        return min(found - {name}, default=None)


def flags_of(tool: Tool, others: Lookalikes | None = None) -> tuple[Flag, ...]:
    """Flags of the tool's texts and name, at most one of each code; takes a few µs for plain ASCII."""
    of_texts = () if _is_plain(tool) else _text_flags(_texts(tool))
    return (*of_texts, *_name_flags(tool.name, others))


def hidden_characters(name: str, value: Any) -> str:
    """The invisible code points of a JSON value of this name, with their places; "" if it has none."""
    found = _text_flags(_texts_in(name, value))
    return next((flag.message for flag in found if flag.code == HIDDEN), "")


def flags_of_toolkit(
    name: str, content: Mapping[str, Any], others: Lookalikes | None = None
) -> tuple[Flag, ...]:
    """Flags of a toolkit's name, description, keywords and patterns."""
    texts = {
        "name": name,
        "description": content["description"],
        "keywords": [keyword["keyword"] for keyword in content["keywords"]],
        "patterns": content["patterns"],
    }
    found = (each for place, text in texts.items() for each in _texts_in(place, text))
    return (*_text_flags(found), *_name_flags(name, others))


def skeletons(name: str) -> tuple[str, ...]:
    """One or two skeletons of a name (UTS #39): readers easily confuse names that share one.

    A skeleton also ignores case, accents and separators (except between digits), and treats 0 as o,
    1 and i as l. Names with capitals have two, because case may be folded before or after the mapping.
    """
    if not name.isascii():
        name = "".join(map(_without_accent, unicodedata.normalize("NFKD", name)))
    name = _SEPARATORS.sub(_separator, name)
    lower = name.casefold()
    prototypes = _tables().prototypes
    folded_first = lower.translate(prototypes).casefold().translate(_DIGITS)
    if lower == name:
        return (folded_first,)
    folded_last = name.translate(prototypes).casefold().translate(_DIGITS)
    return (folded_first,) if folded_first == folded_last else (folded_first, folded_last)


class _Tables(NamedTuple):
    """Character properties that Python's unicodedata does not have, as tools/make_name_tables.py writes them.

    Attributes:
        ignorable: invisible characters as ranges, first and last.
        scripts: letters as ranges: first, last, script; "" if several scripts share them.
        prototypes: code point of a character → the prototype that it looks like.
    """

    ignorable: list[tuple[int, int]]
    scripts: list[tuple[int, int, str]]
    prototypes: dict[int, str]


@cache
def _tables() -> _Tables:
    file = resources.files("toolroll.registry.editing").joinpath("unicode_tables.json")
    data = json.loads(file.read_text("utf-8"))
    prototypes = {ord(like): prototype for prototype, likes in data["confusable"].items() for like in likes}
    return _Tables(data["ignorable"], data["scripts"], prototypes)


_DIGITS = str.maketrans("0i1", "oll")
_SEPARATORS = re.compile(r"(?:(?<=\d)([\0-/:-@\[-`{-\x7f]+)(?=\d))|[\0-/:-@\[-`{-\x7f]+")


def _without_accent(character: str) -> str:
    """The character in a skeleton: "" for accents and invisible ones, "_" for separators."""
    if character.isalnum():
        return character
    if "\u0300" <= character <= "\u036f" or _is_invisible(ord(character)):
        return ""
    return character if unicodedata.category(character)[0] == "M" else "_"


def _separator(match: re.Match[str]) -> str:
    return "_" if match[1] else ""


def _name_flags(name: str, others: Lookalikes | None) -> Iterator[Flag]:
    if not name.isascii() and (word := _mixed(name)) is not None:
        yield Flag(MIXED_SCRIPT, f"name: {_quoted(word)} mixes {' and '.join(_scripts(word))}")
    if others is not None and (other := others.of(name)) is not None:
        yield Flag(CONFUSABLE_NAME, f"name: {_quoted(name)} looks like {_quoted(other)}")


_texts_json = json.JSONEncoder(ensure_ascii=False).encode
_TEXT_FIELDS = (
    *("name", "display_name", "description", "summary", "when_to_use", "limitations", "tags", "examples"),
    *("parameters", "returns", "annotations", "icons", "meta", "execution"),
)
_all_texts_of = attrgetter(*_TEXT_FIELDS)


def _is_plain(tool: Tool) -> bool:
    """Whether the tool certainly has nothing to flag.

    The JSON encoder is written in C and escapes control characters, so printable ASCII JSON without such an
    escape holds nothing to flag.
    """
    try:
        text = _texts_json(_all_texts_of(tool))
    except (TypeError, ValueError, RecursionError):
        return False
    if not (text.isascii() and text.isprintable() and tool.name.isprintable()):
        return False
    return "\\" not in text or not any(escape in text for escape in ("\\u", "\\b", "\\f", "\\r"))


def _text_flags(texts: Iterable[tuple[str, str]]) -> Iterator[Flag]:
    hidden, marks = list[str](), list[str]()
    for place, text in texts:
        if text.isascii() and text.isprintable():
            continue
        is_name = place == "name"
        hidden += (f"U+{ord(text[at]):04X} in {place} at {at}" for at in _hidden_at(text, is_name))
        if not text.isascii() and (at := _overmarked_at(text)) is not None:
            marks.append(f"{place} at {at}")
    if hidden:
        yield Flag(HIDDEN, f"characters that no reader sees: {_listed(hidden)}")
    if marks:
        yield Flag(MARKS, f"more than {_MOST_MARKS} marks on one letter: {_listed(marks)}")


def _texts(tool: Tool) -> Iterator[tuple[str, str]]:
    """Each text of the tool with its place, including the keys in its schemas."""
    for name in _TEXT_FIELDS:
        yield from _texts_in(name, getattr(tool, name))


def _texts_in(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Each text of a JSON value of this name with its place, including keys."""
    # Not recursive: another check refuses schemas that are too deep or contain themselves.
    waiting: list[tuple[str, Any]] = [(name, value)]
    seen: set[int] = set()
    while waiting:
        place, value = waiting.pop()
        place = place[-_LONGEST_PLACE:]
        if isinstance(value, str):
            yield place, value
        elif isinstance(value, (Mapping, list, tuple)):
            if id(value) in seen:
                continue
            seen.add(id(value))
            if isinstance(value, Mapping):
                waiting += ((f"{place}.{_escaped(key)}", item) for key, item in reversed(list(value.items())))
                waiting += ((f"a key of {place}", key) for key in value if isinstance(key, str))
            else:
                waiting += ((f"{place}[{at}]", item) for at, item in reversed(list(enumerate(value))))


def _hidden_at(text: str, is_name: bool) -> Iterator[int]:
    for at, character in enumerate(text):
        c = ord(character)
        if c < 0x7F and c >= 0x20:
            continue
        if c < 0xA0:
            if not _is_layout(text, at) or is_name:
                yield at
        elif _is_invisible(c) and (is_name or not _is_needed(text, at)):
            yield at


def _is_layout(text: str, at: int) -> bool:
    """Whether the character is a tab or a line end, which any text may have."""
    return text[at] in "\t\n" or text[at : at + 2] == "\r\n"


def _is_invisible(c: int) -> bool:
    ranges = _tables().ignorable
    at = bisect_right(ranges, c, key=itemgetter(0)) - 1
    return at >= 0 and c <= ranges[at][1]


def _is_needed(text: str, at: int) -> bool:
    """Whether ordinary text needs the invisible character here, between characters that it affects."""
    before, here, after = text[at - 1 : at], text[at], text[at + 1 : at + 2]
    if not before:
        return False
    if here in "\ufe0e\ufe0f":  # selects the form of an emoji
        if before in "0123456789#*":
            return after == "\u20e3"
        return not before.isascii() and unicodedata.category(before) in ("So", "Sm", "Sk", "Po")
    if here not in "\u200c\u200d" or not after:
        return False
    if here == "\u200d" and unicodedata.category(after) in ("So", "Sm"):  # joins emoji into one
        return before == "\ufe0f" or unicodedata.category(before) in ("So", "Sk")
    # Joins or separates letters of the scripts from Arabic to Mongolian.
    return all("\u0600" <= c <= "\u18af" and unicodedata.category(c)[0] in "LM" for c in (before, after))


def _overmarked_at(text: str) -> int | None:
    """The place of the first letter with too many combining marks."""
    run = 0
    for at, character in enumerate(text):
        run = run + 1 if character > "\u02ff" and unicodedata.category(character)[0] == "M" else 0
        if run > _MOST_MARKS:
            return at - run if at >= run else 0
    return None


_WORDS = re.compile(r"[^\W\d_]+")
# Scripts that one word may mix, as in the "highly restrictive" profile of UTS #39.
_TOGETHER = (
    frozenset(("Latin", "Han", "Hiragana", "Katakana")),
    frozenset(("Latin", "Han", "Hangul")),
    frozenset(("Latin", "Han", "Bopomofo")),
)


def _mixed(name: str) -> str | None:
    for match in _WORDS.finditer(name):
        scripts = set(_scripts(match[0]))
        if len(scripts) > 1 and not any(scripts <= together for together in _TOGETHER):
            return match[0]
    return None


def _scripts(word: str) -> list[str]:
    """The scripts of a word's letters, in order of appearance."""
    found: dict[str, None] = {}
    ranges = _tables().scripts
    for character in word:
        first, last, script = ranges[max(bisect_right(ranges, ord(character), key=itemgetter(0)) - 1, 0)]
        if script and first <= ord(character) <= last and unicodedata.category(character).startswith("L"):
            found[script] = None
    return list(found)


def _listed(places: list[str]) -> str:
    more = len(places) - _PLACES
    return ", ".join(places[:_PLACES]) + (f" and {more} more" if more > 0 else "")


def _quoted(text: str) -> str:
    """The text in quotes; also in ASCII escapes if it has other characters."""
    return repr(text) if text.isascii() else f"'{_escaped(text)}' ({text!a})"


def _escaped(text: object) -> str:
    """The text with invisible characters escaped, since a message would hide them, too."""
    return "".join(
        c if c.isprintable() and not _is_invisible(ord(c)) else f"\\u{{{ord(c):x}}}" for c in str(text)
    )
