"""Calls in Python's syntax, with literals as arguments. Nothing is compiled, and nothing run.

The standard library's parser would do for the literals, but it does not say where the call ends, warns about
some texts and recurses without bound on others.
"""

from __future__ import annotations

import re
from typing import Any

from toolroll.guards.json_text import MAX_DIGITS

MAX_DEPTH = 32  # of lists and dictionaries within each other

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*){0,9}")
_SPACE = re.compile(r"\s*")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_QUOTE = re.compile(r"'''|\"\"\"|'|\"")
_PIECES = {quote: re.compile(rf"(?:[^\\{quote}\n]|\\.)*{quote}", re.DOTALL) for quote in "'\""}
_LONG = {
    quote: re.compile(rf"(?:[^\\{quote}]|\\.|{quote}(?!{quote}{quote}))*{quote * 3}", re.DOTALL)
    for quote in "'\""
}
_ESCAPE = re.compile(
    r"\\(\n|[\\'\"abfnrtv]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U000[0-9a-fA-F]{5}|U0010[0-9a-fA-F]{4})"
)
_ESCAPED = {"\n": "", "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_WORDS = {"True": True, "False": False, "None": None, "true": True, "false": False, "null": None}


class NotPythonic(ValueError):
    """The text is no call with literal arguments.

    Attributes:
        position: as far as it was read.
    """

    def __init__(self, position: int) -> None:
        super().__init__(f"no call, read up to {position}")
        self.position = position


def read_call(text: str, start: int) -> tuple[str, dict[str, Any], int]:
    """The call ``name(key=literal, ...)`` at `start`: name, arguments, end. Raises NotPythonic."""
    name = _NAME.match(text, start)
    if name is None or text[name.end() : name.end() + 1] != "(":
        raise NotPythonic(start)
    reader = _Reader(text, name.end() + 1)
    arguments: dict[str, Any] = {}
    while not reader.takes(")"):
        if arguments:
            reader.demands(",")
            if reader.takes(")"):  # a comma after the last argument
                break
        key = _NAME.match(text, reader.here())
        if key is None or key.group() in arguments:
            raise NotPythonic(reader.at)
        reader.at = key.end()
        reader.demands("=")
        arguments[key.group()] = reader.value(0)
    return name.group(), arguments, reader.at


class _Reader:
    def __init__(self, text: str, at: int) -> None:
        self.text = text
        self.at = at

    def here(self) -> int:
        match = _SPACE.match(self.text, self.at)
        assert match is not None
        self.at = match.end()
        return self.at

    def takes(self, mark: str) -> bool:
        if self.text.startswith(mark, self.here()):
            self.at += len(mark)
            return True
        return False

    def demands(self, mark: str) -> None:
        if not self.takes(mark):
            raise NotPythonic(self.at)

    def value(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise NotPythonic(self.at)
        if self.takes("["):
            return self._items("]", depth)
        if self.takes("("):
            return self._items(")", depth)
        if self.takes("{"):
            return self._members(depth)
        if (quote := _QUOTE.match(self.text, self.here())) is not None:
            return self._string(quote.group())
        if (number := _NUMBER.match(self.text, self.at)) is not None:
            self.at = number.end()
            return _number(number.group(), self.at)
        word = _NAME.match(self.text, self.at)
        if word is None or word.group() not in _WORDS:
            raise NotPythonic(self.at)
        self.at = word.end()
        return _WORDS[word.group()]

    def _items(self, end: str, depth: int) -> list[Any]:
        items: list[Any] = []
        while not self.takes(end):
            if items:
                self.demands(",")
                if self.takes(end):
                    break
            items.append(self.value(depth + 1))
        return items

    def _members(self, depth: int) -> dict[Any, Any]:
        members: dict[Any, Any] = {}
        while not self.takes("}"):
            if members:
                self.demands(",")
                if self.takes("}"):
                    break
            key = self.value(depth + 1)
            if not isinstance(key, str) or key in members:
                raise NotPythonic(self.at)
            self.demands(":")
            members[key] = self.value(depth + 1)
        return members

    def _string(self, quote: str) -> str:
        start = self.at + len(quote)
        pieces = (_LONG if len(quote) == 3 else _PIECES)[quote[0]].match(self.text, start)
        if pieces is None:
            raise NotPythonic(len(self.text) if len(quote) == 3 else start)
        self.at = pieces.end()
        return _ESCAPE.sub(_unescaped, self.text[start : self.at - len(quote)])


def _unescaped(match: re.Match[str]) -> str:
    said = match.group(1)
    return chr(int(said[1:], 16)) if said[0] in "xuU" else _ESCAPED.get(said, said)


def _number(digits: str, at: int) -> int | float:
    if len(digits) > MAX_DIGITS:
        raise NotPythonic(at)
    bare = digits.lstrip("+-")
    number = int(digits) if bare.isdigit() else float(digits)
    if abs(number) == float("inf"):
        raise NotPythonic(at)
    return number
