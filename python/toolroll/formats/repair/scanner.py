"""Scans a text once, from left to right, in linear time; parses JSON and Python calls in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from toolroll.formats.providers.provider import is_replaced
from toolroll.formats.schemas.names import own_name_of
from toolroll.formats.strict_json import MAX_DIGITS, NotJson, read, read_at

NAME = r"[A-Za-z_][\w.:/-]{0,199}"

_SPACE = re.compile(r"\s*")
_JSON = re.compile(r"\{\s*[\"}]|\[\s*[\[\]{\"0-9tfn-]")  # how an object or an array begins
_PIECE = 4_096
_ATTEMPT = 64  # characters that could be read in the time that it takes to begin
_QUOTED = re.compile(r"(?:\[\s*)?\{\s*'")  # how an object or a list of objects in Python's quotes begins
_PREFIXES = ("functions.", "function.", "default_api.", "tools.", "tool.")
_NUMBERED = re.compile(r":\d{1,4}$")

_NAMES = ("name", "tool", "tool_name", "function", "function_name", "recipient_name", "action")
_ARGUMENTS = (
    "arguments", "parameters", "args", "input", "params", "tool_input", "action_input", "tool_arguments",
)  # fmt: skip
_LISTS = ("tool_calls", "function_calls", "tool_uses", "calls", "toolCalls", "functionCalls", "parts")
_WRAPPERS = ("function", "function_call", "tool_call", "tool_use", "functionCall", "toolCall", "toolUse")
_EXTRAS = frozenset({"id", "type", "index", "call_id", "tool_call_id", "toolUseId"})
_MAX_REPLACED = 64  # names in one text that are compared with the hashes of all tools
_SEPARATORS_IN_NAMES = str.maketrans("", "", "_-. ")
_MAX_CALLS = 64  # calls in one block
_MAX_MARKS = 64  # marks searched in one text; with namespaces, each tag is another mark


class Call(NamedTuple):
    """A tool call.

    Attributes:
        name: the tool's own name, as offered.
        arguments: as the model wrote them; in tag formats every value is text.
    """

    name: str
    arguments: dict[str, Any]


class ScanMatch(NamedTuple):
    """The content at a place of the text.

    Attributes:
        end: its end.
        calls: of offered tools; empty for other content, which is skipped as a whole.
    """

    end: int
    calls: tuple[Call, ...] = ()


class Scan:
    """One scan of a text, with the offered names and the remaining budget of work.

    Attributes:
        text: the whole text.
    """

    def __init__(self, text: str, names: Iterable[str]) -> None:
        self.text = text
        self._names = dict.fromkeys(names)
        self._replaced: dict[str, str | None] = {}
        self._by_letters: dict[str, str | None] | None = None
        self._work = 4 * len(text) + 65_536  # characters that may be read twice, in attempts that fail
        self._next: dict[str, tuple[int, int]] = {}

    def find(self, literal: str, start: int) -> int:
        """The next place of `literal`, or -1. Calls from left to right read the text once in total.

        At most _MAX_MARKS different literals are searched.
        """
        if literal not in self._next and len(self._next) >= _MAX_MARKS:
            return -1
        asked, found = self._next.get(literal, (-1, -2))
        if not (0 <= asked <= start and (found == -1 or start <= found)):
            found = self.text.find(literal, start)
            self._next[literal] = start, found
        return found

    def space(self, start: int) -> int:
        """The first place from `start` that is not white space."""
        match = _SPACE.match(self.text, start)
        assert match is not None
        return match.end()

    def json(self, start: int) -> tuple[Any, int] | None:
        """The JSON object or array at `start`, or an object in Python's quotes, and its end.

        On a failure the decoder counts all lines before it. So a short piece is tried first, and more
        only if the piece was too short.
        """
        if self._work >= 0 and _QUOTED.match(self.text, start):
            return self._literal(start)
        if self._work < 0 or not _JSON.match(self.text, start):
            return None
        piece = self.text[start : start + _PIECE]
        try:
            value, length = read_at(piece, 0)
        except NotJson as error:
            is_cut = len(piece) == _PIECE and (error.position > _PIECE - 8 or "Unterminated" in str(error))
            cost = error.position or 4 * _PIECE  # no position: it was too deep, which costs most
            self._work -= max(_ATTEMPT, cost)
            return self._long_json(start) if is_cut else None
        self._work -= length
        return value, start + length

    def _literal(self, start: int) -> tuple[Any, int] | None:
        reader = _PythonicReader(self.text, start)
        try:
            value = reader.value(0)
        except NotPythonic as error:
            self._work -= 16 * (error.position - start + 1)  # a character costs more here than in JSON
            return None
        self._work -= reader.at - start
        return value, reader.at

    def _long_json(self, start: int) -> tuple[Any, int] | None:
        piece = self.text[start:]
        try:
            value, length = read_at(piece, 0)
        except NotJson:
            self._work -= len(piece)
            return None
        self._work -= length
        return value, start + length

    def pythonic(self, start: int) -> ScanMatch | None:
        """The call in Python's syntax that begins at `start`: ``get_weather(city="Oslo")``."""
        if self._work < 0:
            return None
        try:
            name, arguments, end = read_call(self.text, start)
        except NotPythonic as error:
            self._work -= 16 * (error.position - start + 1)
            return None
        self._work -= end - start
        own = self.own_name(name) or self.own_name(name.removesuffix(".call"))
        return ScanMatch(end, (Call(own, arguments),) if own else ())

    def own_name(self, said: object) -> str | None:
        """The offered tool that a model means.

        The name may have the prefixes and suffixes of some formats, be a tool's sent name, or have other
        capitals and separators if only one tool fits.
        """
        if not isinstance(said, str):
            return None
        name = said.strip().strip("\"'")
        bare = _NUMBERED.sub("", name)
        candidates = [name, bare]
        for prefix in _PREFIXES:
            candidates += [one.removeprefix(prefix) for one in (name, bare) if one.startswith(prefix)]
        for candidate in candidates:
            # A replaced name first: it is no tool's own, unless the caller gave names as they were sent.
            if (own := self._own_of_replaced(candidate)) is not None:
                return own
            if candidate in self._names:
                return candidate
        return next(filter(None, map(self._own_by_letters, candidates)), None)

    def _own_by_letters(self, said: str) -> str | None:
        if self._by_letters is None:
            self._by_letters = {}
            for name in self._names:
                letters = _letters(name)
                self._by_letters[letters] = None if letters in self._by_letters else name
        return self._by_letters.get(_letters(said))

    def _own_of_replaced(self, sent: str) -> str | None:
        if not is_replaced(sent):
            return None
        if sent not in self._replaced and len(self._replaced) < _MAX_REPLACED:
            self._replaced[sent] = own_name_of(sent, self._names)
        return self._replaced.get(sent)

    def calls(self, value: object, strict: bool = False) -> tuple[Call, ...]:
        """The calls of offered tools that a JSON value describes, in any of the shapes models use.

        `strict` requires what distinguishes a call from other data: arguments, and no foreign keys.
        """
        calls: list[Call] = []
        waiting = [value]  # the next one last
        while waiting and len(calls) < _MAX_CALLS:
            one = waiting.pop()
            if isinstance(one, list):
                waiting += one[:_MAX_CALLS][::-1]
            elif isinstance(one, dict):
                inner = next((one[key] for key in _LISTS if isinstance(one.get(key), list)), None)
                inner = inner or next((one[key] for key in _WRAPPERS if isinstance(one.get(key), dict)), None)
                if inner is not None:
                    waiting.append(inner)
                elif (call := self._call(one, strict)) is not None:
                    calls.append(call)
                elif strict:
                    return ()
            elif strict:
                return ()
        return tuple(calls)

    def call(self, name: object, arguments: object) -> Call | None:
        """A call, if the tool was offered and the arguments are an object or its JSON text."""
        own = self.own_name(name)
        if isinstance(arguments, str):
            try:
                arguments = read(arguments) if arguments.strip() else {}
            except NotJson:
                return None
        if own is None or not isinstance(arguments, dict) or _is_schema(arguments):
            return None
        return Call(own, arguments)

    def _call(self, one: Mapping[str, Any], strict: bool) -> Call | None:
        name_key = next((key for key in _NAMES if isinstance(one.get(key), str)), None)
        arguments_key = next((key for key in _ARGUMENTS if key in one), None)
        if name_key is None or (strict and arguments_key is None):
            return None
        if strict and one.keys() - _EXTRAS - {name_key, arguments_key}:
            return None
        arguments = one[arguments_key] if arguments_key is not None else None
        return self.call(one[name_key], {} if arguments is None else arguments)


def _letters(name: str) -> str:
    return name.translate(_SEPARATORS_IN_NAMES).casefold()


def _is_schema(arguments: Mapping[str, Any]) -> bool:
    """Whether these are a tool's parameter schema instead of arguments."""
    return arguments.get("type") == "object" and isinstance(arguments.get("properties"), dict)


MAX_DEPTH = 32  # nested lists and dictionaries

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*){0,9}")
_SPACE = re.compile(r"\s*")
_BARE_KEY = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*(?=\s{0,9}:)")
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
    """The text is not a call with literal arguments.

    Attributes:
        position: how far it was read.
    """

    def __init__(self, position: int) -> None:
        super().__init__(f"no call, read up to {position}")
        self.position = position


def read_call(text: str, start: int) -> tuple[str, dict[str, Any], int]:
    """The call ``name(key=literal, ...)`` or ``name({key: literal, ...})`` at `start`: name, arguments, end.

    Raises NotPythonic.
    """
    name = _NAME.match(text, start)
    if name is None or text[name.end() : name.end() + 1] != "(":
        raise NotPythonic(start)
    reader = _PythonicReader(text, name.end() + 1)
    arguments: dict[str, Any] = {}
    if reader.text.startswith("{", reader.here()):  # JavaScript's way
        reader.has_bare_keys = True
        arguments = reader.value(0)
        reader.demands(")")
        return name.group(), arguments, reader.at
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


class _PythonicReader:
    def __init__(self, text: str, at: int) -> None:
        self.has_bare_keys = False
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
            key = self._key(depth)
            if not isinstance(key, str) or key in members:
                raise NotPythonic(self.at)
            self.demands(":")
            members[key] = self.value(depth + 1)
        return members

    def _key(self, depth: int) -> Any:
        if self.has_bare_keys and (word := _BARE_KEY.match(self.text, self.here())) is not None:
            self.at = word.end()
            return word.group()
        return self.value(depth + 1)

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
