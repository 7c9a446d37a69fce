"""What people should look at before they trust a tool: signs that its text is not what it looks like.

A flag keeps nothing out. It tells whoever approves tools that a description holds characters that no reader
sees, that a name mixes alphabets, or that it looks like the name of another tool. What emoji, Persian and the
scripts of India need of invisible characters is no sign of anything, and not flagged.
"""

from __future__ import annotations

import json
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from toolroll.registry.unicode_tables import CONFUSABLE, IGNORABLE, SCRIPTS
from toolroll.tools import Tool

HIDDEN = "hidden"  # characters that show nothing, or turn the order of others
MARKS = "marks"  # more marks on one letter than any language sets
MIXED_SCRIPT = "mixed_script"  # one word of a name in two alphabets
CONFUSABLE_NAME = "confusable"  # another tool's name looks the same
GOVERNED = "governed"  # a plugin asked for what only people decide

_MOST_MARKS = 4
_PLACES = 3  # how many a message names
_LONGEST_PLACE = 200  # characters


@dataclass(frozen=True, slots=True)
class Flag:
    """One thing to look at: a code for programs, a message for people."""

    code: str
    message: str

    def to_dict(self) -> dict[str, str]:
        """As the store and `--json` hold it."""
        return {"code": self.code, "message": self.message}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Flag:
        """The flag that `to_dict` made this of."""
        return cls(str(data["code"]), str(data["message"]))


class Lookalikes:
    """Names by what they look like, so that one more can be held against all of them."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._held: dict[str, list[str]] = {}
        for name in names:
            self.add(name)

    def add(self, name: str) -> None:
        """Counts one more name among those held."""
        for skeleton in skeletons(name):
            self._held.setdefault(skeleton, []).append(name)

    def of(self, name: str) -> str | None:
        """Another name that looks like this one, the lowest; None if there is none."""
        found = {held for skeleton in skeletons(name) for held in self._held.get(skeleton, ())}
        return min(found - {name}, default=None)


def flags_of(tool: Tool, others: Lookalikes | None = None) -> tuple[Flag, ...]:
    """What is odd about the tool's texts and name, at most one flag of each code.

    Names that every reader tells apart from those in `others` pass. A tool in plain ASCII costs a few µs.
    """
    flags: list[Flag] = []
    if not _is_plain(tool):
        flags += _text_flags(_texts(tool))
    flags += _name_flags(tool.name, others)
    return tuple(flags)


def flags_of_toolkit(
    name: str, content: Mapping[str, Any], others: Lookalikes | None = None
) -> tuple[Flag, ...]:
    """The same of a toolkit: its name, its description, and the keywords and patterns that switch it on."""
    words = [keyword["keyword"] for keyword in content["keywords"]]
    texts = [("name", name), ("description", content["description"])]
    texts += ((f"keywords[{at}]", text) for at, text in enumerate(words))
    texts += ((f"patterns[{at}]", text) for at, text in enumerate(content["patterns"]))
    flags = list(_text_flags(texts))
    flags += _name_flags(name, others)
    return tuple(flags)


def skeletons(name: str) -> tuple[str, ...]:
    """What a name looks like, one or two ways: names that share one are easily taken for each other.

    As UTS #39, and in addition without regard to case, accents and separators (but between digits, where they
    part numbers), with 0 for o and 1 for l and i. Two ways since case is folded before and after.
    """
    if not name.isascii():
        name = "".join(map(_bare, unicodedata.normalize("NFKD", name)))
    name = _SEPARATORS.sub(_kept, name)
    lower = name.casefold()
    folded_first = lower.translate(_PROTOTYPES).casefold().translate(_DIGITS)
    if lower == name:
        return (folded_first,)
    folded_last = name.translate(_PROTOTYPES).casefold().translate(_DIGITS)
    return (folded_first,) if folded_first == folded_last else (folded_first, folded_last)


_PROTOTYPES = {ord(like): prototype for prototype, likes in CONFUSABLE.items() for like in likes}
_DIGITS = str.maketrans("0i1", "oll")
_SEPARATORS = re.compile(r"(?:(?<=\d)([\0-/:-@\[-`{-\x7f]+)(?=\d))|[\0-/:-@\[-`{-\x7f]+")


def _bare(character: str) -> str:
    """The character without what skeletons leave out; a separator as "_"."""
    if character.isalnum():
        return character
    if "\u0300" <= character <= "\u036f" or _is_unseen(ord(character)):
        return ""
    return character if unicodedata.category(character)[0] == "M" else "_"


def _kept(match: re.Match[str]) -> str:
    return "_" if match[1] else ""


def _name_flags(name: str, others: Lookalikes | None) -> Iterator[Flag]:
    if not name.isascii() and (word := _mixed(name)) is not None:
        yield Flag(MIXED_SCRIPT, f"name: {_shown(word)} mixes {' and '.join(_scripts(word))}")
    if others is not None and (other := others.of(name)) is not None:
        yield Flag(CONFUSABLE_NAME, f"name: {_shown(name)} looks like {_shown(other)}")


# Whether anything is to be said at all. The JSON of all texts is written in C and escapes controls: what is
# ASCII, printable and without such an escape holds nothing that could be flagged.
_texts_json = json.JSONEncoder(ensure_ascii=False).encode


def _is_plain(tool: Tool) -> bool:
    try:
        text = _texts_json(
            (
                tool.name,
                tool.display_name,
                tool.description,
                tool.summary,
                tool.when_to_use,
                tool.limitations,
                tool.tags,
                tool.examples,
                tool.parameters,
                tool.returns,
            )
        )
    except (TypeError, ValueError, RecursionError):
        return False
    if not (text.isascii() and text.isprintable() and tool.name.isprintable()):
        return False
    return "\\" not in text or not any(escape in text for escape in ("\\u", "\\b", "\\f", "\\r"))


def _text_flags(texts: Iterable[tuple[str, str]]) -> Iterator[Flag]:
    hidden: list[str] = []
    marks: list[str] = []
    for place, text in texts:
        if text.isascii() and text.isprintable():
            continue
        is_name = place == "name"
        hidden += (f"U+{ord(text[at]):04X} in {place} at {at}" for at in _hidden(text, is_name))
        if not text.isascii() and (at := _flooded(text)) is not None:
            marks.append(f"{place} at {at}")
    if hidden:
        yield Flag(HIDDEN, f"characters that no reader sees: {_some(hidden)}")
    if marks:
        yield Flag(MARKS, f"more than {_MOST_MARKS} marks on one letter: {_some(marks)}")


def _texts(tool: Tool) -> Iterator[tuple[str, str]]:
    """Where each text of the tool stands, and the text. Schemas count with their keys."""
    for name in ("name", "display_name", "description", "summary", "when_to_use", "limitations"):
        yield name, getattr(tool, name)
    for name, texts in (("tags", tool.tags), ("examples", tool.examples)):
        yield from ((f"{name}[{at}]", text) for at, text in enumerate(texts))
    for name, schema in (("parameters", tool.parameters), ("returns", tool.returns)):
        # Not recursive: what is nested too deeply or holds itself is refused elsewhere, in better words.
        below: list[tuple[str, Any]] = [(name, schema)]
        seen: set[int] = set()
        while below:
            place, value = below.pop()
            place = place[-_LONGEST_PLACE:]
            if isinstance(value, str):
                yield place, value
            elif isinstance(value, (Mapping, list, tuple)):
                if id(value) in seen:
                    continue
                seen.add(id(value))
                if isinstance(value, Mapping):
                    below += (
                        (f"{place}.{_escaped(key)}", item) for key, item in reversed(list(value.items()))
                    )
                    below += ((f"a key of {place}", key) for key in value if isinstance(key, str))
                else:
                    below += ((f"{place}[{at}]", item) for at, item in reversed(list(enumerate(value))))


def _hidden(text: str, is_name: bool) -> Iterator[int]:
    for at, character in enumerate(text):
        c = ord(character)
        if c < 0x7F and c >= 0x20:
            continue
        if c < 0xA0:
            if not _is_layout(text, at) or is_name:
                yield at
        elif _is_unseen(c) and (is_name or not _is_needed(text, at)):
            yield at


def _is_layout(text: str, at: int) -> bool:
    """A tab or the end of a line, as any text has them."""
    return text[at] in "\t\n" or text[at : at + 2] == "\r\n"


_FIRSTS = [first for first, _ in IGNORABLE]


def _is_unseen(c: int) -> bool:
    at = bisect_right(_FIRSTS, c) - 1
    return at >= 0 and c <= IGNORABLE[at][1]


def _is_needed(text: str, at: int) -> bool:
    """Whether honest text has this invisible character at this place: one, between what it acts on."""
    before, here, after = text[at - 1 : at], text[at], text[at + 1 : at + 2]
    if not before:
        return False
    if here in "\ufe0e\ufe0f":  # an emoji's form
        if before in "0123456789#*":
            return after == "\u20e3"
        return not before.isascii() and unicodedata.category(before) in ("So", "Sm", "Sk", "Po")
    if here not in "\u200c\u200d" or not after:
        return False
    if here == "\u200d" and unicodedata.category(after) in ("So", "Sm"):  # joins emoji into one
        return before == "\ufe0f" or unicodedata.category(before) in ("So", "Sk")
    # Joins, or keeps apart, letters of the scripts from Arabic to Mongolian.
    return all("\u0600" <= c <= "\u18af" and unicodedata.category(c)[0] in "LM" for c in (before, after))


def _flooded(text: str) -> int | None:
    """Where the first letter with too many marks stands."""
    run = 0
    for at, character in enumerate(text):
        run = run + 1 if character > "\u02ff" and unicodedata.category(character)[0] == "M" else 0
        if run > _MOST_MARKS:
            return at - run if at >= run else 0
    return None


_WORDS = re.compile(r"[^\W\d_]+")
_STARTS = [first for first, _, _ in SCRIPTS]
# What one word may hold, as "highly restrictive" of UTS #39 has it: the scripts of one language, and Latin.
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
    """The scripts of a word's letters, in the order in which they appear."""
    found: dict[str, None] = {}
    for character in word:
        first, last, script = SCRIPTS[max(bisect_right(_STARTS, ord(character)) - 1, 0)]
        if script and first <= ord(character) <= last and unicodedata.category(character).startswith("L"):
            found[script] = None
    return list(found)


def _some(places: list[str]) -> str:
    more = len(places) - _PLACES
    return ", ".join(places[:_PLACES]) + (f" and {more} more" if more > 0 else "")


def _shown(text: str) -> str:
    """The text so that its reader sees what it is made of."""
    return repr(text) if text.isascii() else f"'{_escaped(text)}' ({text!a})"


def _escaped(text: object) -> str:
    """Without what no reader sees: it would hide in the message as well."""
    return "".join(
        c if c.isprintable() and not _is_unseen(ord(c)) else f"\\u{{{ord(c):x}}}" for c in str(text)
    )
