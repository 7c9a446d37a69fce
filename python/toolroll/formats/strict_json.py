"""Strict JSON: files of definitions, with the line of each mistake, and JSON inside a model's reply.

One decoder, the standard library's in C, refuses a key given twice, NaN, infinite numbers and numbers
of more than 400 digits. `parse` reads a whole file and refuses lone surrogates and NUL too; only if it
finds a mistake does a second scan look for the line, so a good file pays nothing for good error messages.
`read` and `read_at` read a value inside other text and say at which character it stops being JSON.
"""

from __future__ import annotations

import json
import json.scanner
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from toolroll.errors import InvalidDefinition

Path = Sequence["str | int"]  # keys and positions from the root of the text to a value

MAX_DEPTH = 128  # of a whole text; a schema inside it may be half as deep (fields.MAX_SCHEMA_DEPTH)
MAX_DIGITS = 400  # of an integer: more than any double has, and far below what takes quadratic time


def decode(content: bytes, file: str) -> str:
    """Turns a file's bytes into text, without the byte order mark that some editors write."""
    try:
        return content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        problem = f"is not UTF-8: byte 0x{content[error.start]:02x} at offset {error.start}"
        raise InvalidDefinition(problem, file=file, line=line) from error


def parse(text: str, file: str | None = None, first_line: int = 1) -> Any:
    """Parses one JSON text.

    Raises InvalidDefinition with file, line and column, counted from `first_line`, where the text is
    malformed or holds what strict JSON refuses.
    """
    try:
        value = _decode(text)
    except json.JSONDecodeError as error:
        raise InvalidDefinition(
            f"is not JSON: {error.msg}", file=file, line=first_line + error.lineno - 1, column=error.colno
        ) from error
    except (_NotStrict, RecursionError, ValueError) as error:
        raise _error(text, file, first_line) from error
    if "\\u" in text and not _is_clean(value):
        raise _error(text, file, first_line)
    return value


class NotJson(ValueError):
    """The text is not strict JSON.

    Attributes:
        position: of the first character that doesn't fit.
    """

    def __init__(self, problem: str, position: int) -> None:
        super().__init__(problem)
        self.position = position


def read(text: str) -> Any:
    """The value of a whole text. Raises NotJson."""
    start = len(text) - len(text.lstrip())
    value, end = read_at(text, start)
    if text[end:].strip():
        raise NotJson("something follows the value", end)
    return value


def read_at(text: str, start: int) -> tuple[Any, int]:
    """The value that begins at `start`, and where it ends. Raises NotJson."""
    try:
        return _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        raise NotJson(error.msg, error.pos) from error
    except _NotStrict as error:
        raise NotJson(str(error), start) from error
    except RecursionError as error:
        raise NotJson("nested too deeply", start) from error


def line_of(text: str, path: Path) -> int:
    """The 1-based line where `path` stands in a JSON text: of the key, or of a list's item.

    A path that is not there gives the line of the longest part of it that is.
    """
    wanted, found, depth = list(path), 0, -1
    for offset, here, _ in _walk(text):
        if len(here) > depth and here == wanted[: len(here)]:
            found, depth = offset, len(here)
            if depth == len(wanted):
                break
    return text.count("\n", 0, found) + 1


class _NotStrict(ValueError):
    """The decoder met something that strict JSON refuses."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _NotStrict("a key is given twice in one object")
    return members


def _float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise _NotStrict(f"{digits:.20} is too large")
    return value


def _int(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise _NotStrict(f"a number has {len(digits)} digits")
    return int(digits)


def _constant(name: str) -> Any:
    raise _NotStrict(f"{name} is no number in JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_float, parse_int=_int, parse_constant=_constant
)
_scan: Callable[[str, int], tuple[Any, int]] = json.scanner.make_scanner(_DECODER)  # type: ignore[arg-type]


def _decode(text: str) -> Any:
    if text[:1] == "{":  # a line of a .jsonl file: spares the decoder's two searches for white space
        try:
            value, end = _scan(text, 0)
        except StopIteration:  # a value is missing: the decoder says it better
            return _DECODER.decode(text)
        if end == len(text):
            return value
    return _DECODER.decode(text)


def _is_clean(value: Any) -> bool:
    """Whether no string in `value` holds NUL or half of a surrogate pair; may say False for a clean one."""
    try:
        text = json.dumps(value, ensure_ascii=False)
        text.encode()
    except (UnicodeEncodeError, RecursionError):
        return False
    return "\\u0000" not in text or _first_problem(text) is None


def _error(text: str, file: str | None, first_line: int) -> InvalidDefinition:
    offset, problem = _first_problem(text) or (0, "is not JSON that can be read")
    line_start = text.rfind("\n", 0, offset) + 1
    return InvalidDefinition(
        problem,
        file=file,
        line=first_line + text.count("\n", 0, offset),
        column=offset - line_start + 1,
    )


def _first_problem(text: str) -> tuple[int, str] | None:
    for offset, path, kind in _walk(text):
        if kind == "duplicate":
            return offset, f"key {path[-1]!r} is given twice in one object"
        if kind == "deep":
            return offset, f"is nested deeper than {MAX_DEPTH} levels"
        if kind == "number" and (problem := _number_problem(text, offset)):
            return offset, problem
        if kind in ("key", "string") and (problem := _string_problem(text, offset)):
            return offset, problem
    return None


def _number_problem(text: str, offset: int) -> str | None:
    match = _TOKEN.match(text, offset)
    assert match is not None
    digits = match.group()
    if digits in ("NaN", "Infinity", "-Infinity"):
        return f"{digits} is not JSON, must be a finite number"
    if len(digits) > MAX_DIGITS:
        return f"a number has {len(digits)} digits, must have at most {MAX_DIGITS}"
    if digits.lstrip("-").isdigit() or not math.isinf(float(digits)):
        return None
    return f"{digits} is too large, must be a finite number"


def _string_problem(text: str, offset: int) -> str | None:
    match = _TOKEN.match(text, offset)
    assert match is not None
    value = json.loads(match.group())
    if "\0" in value:
        return "a string holds NUL (\\u0000)"
    try:
        value.encode()
    except UnicodeEncodeError as error:
        return f"a string holds half of a surrogate pair (\\u{ord(value[error.start]):04x})"
    return None


_Kind = Literal["key", "duplicate", "string", "number", "value", "deep"]

_TOKEN = re.compile(
    r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],]|-?(?:Infinity|[0-9][0-9.eE+-]*)|true|false|null|NaN', re.DOTALL
)


def _walk(text: str) -> Iterator[tuple[int, list[str | int], _Kind]]:
    """Yields offset, path and kind of every key and value, in the order of the text.

    The path is one list that changes as the scan goes on. The text has been parsed before, or is
    nested so deeply that the parser gave up; so no token is ever out of place before that depth.
    """
    path: list[Any] = []  # of the key or value being read; None where an object's next key is due
    seen: list[set[str] | None] = []  # keys of each object that is open, None for a list
    for match in _TOKEN.finditer(text):
        token, offset = match.group(), match.start()
        if token in "{[":
            yield offset, path, "value"
            if len(path) == MAX_DEPTH:
                yield offset, path, "deep"
                return
            path.append(None if token == "{" else 0)
            seen.append(set() if token == "{" else None)
        elif token in "}]":
            path.pop()
            seen.pop()
        elif token == ",":
            path[-1] = None if seen[-1] is not None else path[-1] + 1
        elif path and path[-1] is None and (keys := seen[-1]) is not None:
            key = path[-1] = json.loads(token)
            yield offset, path, "duplicate" if key in keys else "key"
            keys.add(key)
        else:
            kind: _Kind = "string" if token[0] == '"' else "value"
            yield offset, path, "number" if token[0] in "-0123456789NI" else kind
