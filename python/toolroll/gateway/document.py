"""`Document`: a configuration file in JSON, which says where each wrong key stands and what is allowed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from toolroll.errors import InvalidDefinition, NotFound
from toolroll.formats.strict_json import decode, line_of, parse

_ModelT = TypeVar("_ModelT", bound=BaseModel)
_LONGEST_VALUE = 60  # characters of a wrong value that a message shows
# What stands below these keys may be a secret, or hold one. A value of an unknown key is never shown.
_SECRET = {
    *("args", "catalog", "command", "command_prefix", "env", "envFile", "headers", "httpUrl", "key"),
    *("openapi", "serverUrl", "tokens_key", "url"),
}
# What pydantic's types of errors ask for, in JSON's words.
_WANTED = {
    "bool": "true or false",
    "dict": "an object",
    "float": "a number",
    "int": "a whole number",
    "list": "a list",
    "model": "an object",
    "string": "a text",
    "tuple": "a list",
}
_BOUNDS = {
    "greater_than": "> {gt:g}",
    "greater_than_equal": ">= {ge:g}",
    "less_than": "< {lt:g}",
    "less_than_equal": "<= {le:g}",
    "string_too_short": "at least {min_length} characters long",
    "string_too_long": "at most {max_length} characters long",
    "string_pattern_mismatch": "a text that matches {pattern}",
    "literal_error": "{expected}",
}


class InvalidConfiguration(InvalidDefinition):
    """A configuration file is wrong in one or more places.

    Attributes:
        problems: each of them. The message has a line for each.
    """

    def __init__(self, problems: Sequence[InvalidDefinition]) -> None:
        first = problems[0]
        super().__init__(first.problem, file=first.file, line=first.line)
        self.problems = tuple(problems)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.problems,)

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))


class Problems:
    """Collects what is wrong in several parts of a configuration, to tell all of it at once."""

    def __init__(self) -> None:
        self._found: list[InvalidDefinition] = []

    def __enter__(self) -> Problems:
        return self

    def __exit__(self, _: object, error: object, __: object) -> bool:
        """Keeps an InvalidDefinition; other errors go on."""
        if not isinstance(error, InvalidDefinition):
            return False
        self._found += error.problems if isinstance(error, InvalidConfiguration) else [error]
        return True

    def check(self) -> None:
        """Raises InvalidConfiguration, if anything was found."""
        if self._found:
            raise InvalidConfiguration(sorted(self._found, key=lambda each: each.line or 0))


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON file, with the lines of its values.

    Attributes:
        file: its name in messages.
        text: as it is, with blanks in place of comments.
        value: the object in it.
    """

    file: str
    text: str
    value: dict[str, Any]

    @classmethod
    def of(cls, path: Path) -> Document:
        """Reads a file; comments and commas before a closing bracket are allowed, as VS Code writes them.

        Raises:
            InvalidDefinition: it is no JSON object.
        """
        file = str(path)
        try:
            text = decode(path.read_bytes(), file)
        except OSError as error:
            raise NotFound(f"configuration {file!r}: cannot be read: {error.strerror}") from error
        try:
            json.loads(text)
        except ValueError:
            text = without_comments(text)
        value = parse(text, file)
        if not isinstance(value, dict):
            raise InvalidDefinition("must be an object", file=file, line=1)
        return cls(file, text, value)

    def line(self, path: Sequence[str | int]) -> int:
        """The line of a value."""
        return line_of(self.text, path)

    def fail(self, path: Sequence[str | int], problem: str) -> NoReturn:
        """Raises InvalidDefinition with the place of a value."""
        raise self._problem(path, problem)

    def _problem(self, path: Sequence[str | int], problem: str) -> InvalidDefinition:
        key = ".".join(map(str, path))
        told = f"{key}: {problem}" if key else problem
        return InvalidDefinition(told, file=self.file, line=self.line(path))

    def mapping(self, path: Sequence[str | int]) -> dict[str, Any]:
        """The object at a path; {} where there is none."""
        value: Any = self.value
        for key in path:
            value = value.get(key, {})
        if not isinstance(value, dict):
            self.fail(path, f"is {_kind(value)}, must be an object")
        found: dict[str, Any] = value
        return found

    def check_top(self, known: Iterable[str]) -> None:
        """Refuses keys that are nearly ours; all others are the client's."""
        known = tuple(known)
        for key in self.value:
            if key not in known and (near := nearest(key, known, 0.8)):
                self.fail((key,), f"is no known key{near}")

    def model(self, kind: type[_ModelT], path: Sequence[str | int], value: Any = None) -> _ModelT:
        """The value at a path as a model.

        Raises:
            InvalidConfiguration: for its wrong keys, with the line of each.
        """
        if value is None:
            value = self.mapping(path)
        if not isinstance(value, dict):
            self.fail(path, f"is {_kind(value)}, must be an object")
        try:
            return kind.model_validate(value)
        except ValidationError as error:
            found: dict[tuple[str | int, ...], list[ErrorDetails]] = {}
            for each in error.errors(include_url=False):
                found.setdefault(tuple(_written(value, each)), []).append(each)
            raise InvalidConfiguration(
                [
                    self._problem((*path, *where), _told(kind, where, problems))
                    for where, problems in found.items()
                ]
            ) from None


def nearest(name: str, names: Iterable[str], cutoff: float = 0.6) -> str:
    """A question for the name that was probably meant, to end a message with; "" if none is near."""
    folded = {each.lower(): each for each in names}
    near = get_close_matches(name.lower(), folded, 1, cutoff)
    return f"; did you mean {folded[near[0]]!r}?" if near else ""


def _written(value: Any, problem: ErrorDetails) -> Iterator[str | int]:
    """The part of an error's path that is in the file, with the key that is missing.

    Pydantic adds names of types to it.
    """
    for part in problem["loc"]:
        is_item = isinstance(value, list) and isinstance(part, int) and part < len(value)
        if is_item or (isinstance(value, dict) and part in value):
            value = value[part]
            yield part
        elif problem["type"] == "missing":
            yield part


def _told(kind: type[BaseModel], path: Sequence[str | int], problems: Sequence[ErrorDetails]) -> str:
    """What is wrong with the value at a path, in one line without a secret."""
    first = problems[0]
    if first["type"] == "missing":
        return "is missing"
    if first["type"] == "extra_forbidden":
        keys = _keys(kind, path[:-1])
        told = nearest(str(path[-1]), keys) or f", must be one of {', '.join(keys)}"
        return f"is no known key{told}"
    if first["type"] == "value_error":
        return str(first.get("ctx", {}).get("error") or first["msg"])
    several = list(dict.fromkeys(map(_wanted, problems)))
    wanted = f"{', '.join(several[:-1])} or {several[-1]}" if len(several) > 1 else several[0]
    value = first["input"]
    near = nearest(value, filter(None, re.findall("'([^']*)'", wanted))) if isinstance(value, str) else ""
    return f"is {_shown(path, value)}, must be {wanted}{near}"


def _wanted(problem: ErrorDetails) -> str:
    """What pydantic wants in place of a value."""
    bound = _BOUNDS.get(problem["type"])
    if bound is not None:
        return bound.format(**problem.get("ctx", {}))
    return _WANTED.get(problem["type"].partition("_")[0], f"valid: {problem['msg']}")


def _shown(path: Sequence[str | int], value: Any) -> str:
    """A wrong value as a message shows it: lists, objects and what may be secret by their kind alone."""
    if isinstance(value, (dict, list)) or value is None or not _SECRET.isdisjoint(map(str, path)):
        return _kind(value)
    shown = json.dumps(value, ensure_ascii=False)
    return shown if len(shown) <= _LONGEST_VALUE else f"{shown[:_LONGEST_VALUE]}…"


def _keys(kind: type[BaseModel], path: Sequence[str | int]) -> tuple[str, ...]:
    """The keys of the model that is at this path below another."""
    found: Any = kind
    for part in path:
        found = found.model_fields[part].annotation if _is_model(found) else get_args(found)[-1]
        if type(None) in get_args(found):  # it may be left out: `Model | None`
            found = get_args(found)[0]
    return tuple(found.model_fields) if _is_model(found) else ()


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _kind(value: Any) -> str:
    """What JSON calls a value of this type."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, (int, float)):
        return "a number"
    return "a text" if isinstance(value, str) else "a list" if isinstance(value, list) else "an object"


def without_comments(text: str) -> str:
    """The text with blanks in place of comments and of commas before a closing bracket; lines stay."""

    def blank(match: re.Match[str]) -> str:
        found = match[0]
        return found if found[0] == '"' else re.sub(r"[^\n]", " ", found)

    text = re.sub(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', blank, text, flags=re.DOTALL)
    return re.sub(r'"(?:[^"\\\n]|\\.)*"|,(?=\s*[}\]])', blank, text)
