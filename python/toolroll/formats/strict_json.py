"""Strict JSON: definition files, with the line of each error, and JSON inside a model's reply.

The standard library's decoder in C, with hooks that reject duplicate keys, NaN, infinite numbers and numbers
of more than 400 digits. `parse` reads a whole file and rejects lone surrogates and NUL too. Only after an
error does a second scan look for its line, so valid files pay nothing for good messages. `read` and `read_at`
read a value inside other text and give the position of an error.
"""

from __future__ import annotations

import json
import json.scanner
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from toolroll.model.errors import InvalidDefinition

Path = Sequence["str | int"]  # keys and positions from the root of the text to a value

MAX_DEPTH = 128  # levels of a whole text; a schema inside it may have half as many (fields.MAX_SCHEMA_DEPTH)
MAX_DIGITS = 400  # digits of an integer: more than any double has, and few enough to parse quickly


def decode(content: bytes, file: str) -> str:
    """Decodes a file's bytes as UTF-8, without a byte order mark."""
    try:
        return content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        problem = f"is not UTF-8: byte 0x{content[error.start]:02x} at offset {error.start}"
        raise InvalidDefinition(problem, file=file, line=line) from error


def parse(text: str, file: str | None = None, first_line: int = 1) -> Any:
    """Parses one JSON text.

    Raises InvalidDefinition with file, line (counted from `first_line`) and column if the text is not strict
    JSON.
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
        position: the place of the error.
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
    """The value that begins at `start`, and its end. Raises NotJson."""
    try:
        return _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        raise NotJson(error.msg, error.pos) from error
    except _NotStrict as error:
        raise NotJson(str(error), start) from error
    except RecursionError as error:
        raise NotJson("nested too deeply", start) from error


def line_of(text: str, path: Path) -> int:
    """The 1-based line of `path` in a JSON text: of the key, or of a list's item.

    For a missing path, the line of its longest prefix that is present.
    """
    wanted, found, depth = list(path), 0, -1
    for offset, here, _ in _walk(text):
        if len(here) > depth and here == wanted[: len(here)]:
            found, depth = offset, len(here)
            if depth == len(wanted):
                break
    return text.count("\n", 0, found) + 1


class Span(NamedTuple):
    """The place of a value in a text.

    Attributes:
        key: the start of its key; for an item of a list, the start of the item.
        start, end: of the value; the end is exclusive.
    """

    key: int
    start: int
    end: int


def places_of(text: str, paths: Iterable[Path]) -> dict[tuple[str | int, ...], Span]:
    """The places of values in a valid JSON text, in one scan. Paths without a value are left out."""
    wanted = {tuple(path) for path in paths}
    lengths = {len(path) for path in wanted}
    keys: dict[tuple[str | int, ...], int] = {}
    found = {}
    for offset, here, kind in _walk(text):
        if len(here) not in lengths or (path := tuple(here)) not in wanted:
            continue
        if kind in ("key", "duplicate"):
            keys[path] = offset
        else:
            found[path] = Span(keys.get(path, offset), offset, read_at(text, offset)[1])
    return found


class _NotStrict(ValueError):
    """JSON that is valid but not strict."""


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
    raise _NotStrict(f"{name} is not a number in JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_float, parse_int=_int, parse_constant=_constant
)
_scan: Callable[[str, int], tuple[Any, int]] = json.scanner.make_scanner(_DECODER)  # type: ignore[arg-type]


def _decode(text: str) -> Any:
    if text[:1] == "{":  # a line of a .jsonl file: skips the decoder's two searches for white space
        try:
            value, end = _scan(text, 0)
        except StopIteration:  # a value is missing: the decoder has the better message
            return _DECODER.decode(text)
        if end == len(text):
            return value
    return _DECODER.decode(text)


def _is_clean(value: Any) -> bool:
    """Whether no string in `value` holds NUL or a lone surrogate; may be False for a clean value."""
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
        problem, file=file, line=first_line + text.count("\n", 0, offset), column=offset - line_start + 1
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
        return f"a string holds a lone surrogate (\\u{ord(value[error.start]):04x})"
    return None


_Kind = Literal["key", "duplicate", "string", "number", "value", "deep"]

_TOKEN = re.compile(
    r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],]|-?(?:Infinity|[0-9][0-9.eE+-]*)|true|false|null|NaN', re.DOTALL
)


def _walk(text: str) -> Iterator[tuple[int, list[str | int], _Kind]]:
    """Yields offset, path and kind of every key and value, in the order of the text.

    The path is one list that the scan updates in place. The text has been parsed before, or is nested too
    deeply for the parser, so no token is misplaced before that depth.
    """
    path: list[Any] = []  # the path of the key or value being read; None before an object's next key
    seen: list[set[str] | None] = []  # keys of each open object, None for a list
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
