"""Describes the errors of a configuration: each wrong key, its place, its value and the allowed ones."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, get_args

from pydantic import AfterValidator, BaseModel
from pydantic_core import ErrorDetails, PydanticCustomError

from toolroll.model.errors import InvalidDefinition, nearest

_LONGEST_VALUE = 60  # characters of a wrong value that a message shows
# What pydantic's types of errors ask for, in JSON's words.
_WANTED = {
    "bool": "true or false",
    "datetime": "a time, such as 2026-03-01T12:00:00Z",
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
    "too_short": "a list of {min_length} or more",
    "too_long": "a list of {max_length} or less",
    "string_too_long": "at most {max_length} characters long",
    "worded": "{wanted}",
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


def matching(pattern: str, wanted: str) -> AfterValidator:
    """A validator: the text is empty or matches the whole pattern. wanted: the pattern in words."""
    compiled = re.compile(pattern)

    def check(text: str) -> str:
        if text and not compiled.fullmatch(text):
            raise PydanticCustomError("worded", "must be {wanted}", {"wanted": wanted})
        return text

    return AfterValidator(check)


def path_in_file(value: Any, problem: ErrorDetails) -> Iterator[str | int]:
    """The part of an error's path that is in the file, with a missing key as its last part.

    Pydantic adds names of types to the path.
    """
    last = len(problem["loc"]) - 1
    for at, part in enumerate(problem["loc"]):
        is_item = isinstance(value, list) and isinstance(part, int) and part < len(value)
        if is_item or (isinstance(value, dict) and part in value):
            value = value[part]
            yield part
        elif problem["type"] == "missing" and at == last:
            yield part


def one_of(name: str, names: Sequence[str]) -> str:
    """The most similar known name, or all known names, to end a message with."""
    return nearest(name, names) or (f", must be one of {', '.join(names)}" if names else "")


def error_line(
    kind: type[BaseModel],
    path: Sequence[str | int],
    problems: Sequence[ErrorDetails],
    secret: Collection[str],
) -> str:
    """The error of the value at a path below a model, in one line.

    secret: keys whose values, and everything below them, are not shown. Values of unknown keys are never
        shown.
    """
    first = problems[0]
    if first["type"] == "missing":
        return "is missing"
    if first["type"] == "extra_forbidden":
        return f"is no known key{one_of(str(path[-1]), keys_at(kind, path[:-1]))}"
    if first["type"] == "value_error":
        return str(first.get("ctx", {}).get("error") or first["msg"])
    return f"is {_value_text(path, first['input'], secret)}, {demand(problems)}"


def demand(problems: Sequence[ErrorDetails]) -> str:
    """The allowed values, from all errors of a value, and the most similar name."""
    several = list(dict.fromkeys(map(_requirement, problems)))
    wanted = f"{', '.join(several[:-1])} or {several[-1]}" if len(several) > 1 else several[0]
    value = problems[0]["input"]
    near = nearest(value, filter(None, re.findall("'([^']*)'", wanted))) if isinstance(value, str) else ""
    return f"must be {wanted}{near}"


def _requirement(problem: ErrorDetails) -> str:
    """The value that pydantic requires."""
    bound = _BOUNDS.get(problem["type"])
    if bound is not None:
        return bound.format(**problem.get("ctx", {}))
    return _WANTED.get(problem["type"].partition("_")[0], f"valid: {problem['msg']}")


def _value_text(path: Sequence[str | int], value: Any, secret: Collection[str]) -> str:
    """A wrong value for a message. Lists, objects and possible secrets appear as their kind only."""
    if isinstance(value, (dict, list)) or value is None or any(str(part) in secret for part in path):
        return kind_of(value)
    shown = json.dumps(value, ensure_ascii=False)
    return shown if len(shown) <= _LONGEST_VALUE else f"{shown[:_LONGEST_VALUE]}…"


def keys_at(kind: type[BaseModel], path: Sequence[str | int]) -> tuple[str, ...]:
    """The keys of the model at this path below another; () if the path leads to no model."""
    found: Any = kind
    for part in path:
        found = _field(found, part) if _is_model(found) else _item(found)
        if type(None) in get_args(found):  # it may be left out: `Model | None`
            found = get_args(found)[0]
    if not _is_model(found):
        return ()
    return tuple(field.alias or name for name, field in found.model_fields.items())


def _field(model: type[BaseModel], key: object) -> Any:
    """The type of the field that has this name or alias; None without one."""
    fields = model.model_fields.items()
    return next((field.annotation for name, field in fields if key in (name, field.alias)), None)


def _item(kind: Any) -> Any:
    """The type of the items of a list, or of the values of an object; None for any other."""
    items = [each for each in get_args(kind) if each is not ...]
    return items[-1] if items else None


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def kind_of(value: Any) -> str:
    """The name of a value's type in JSON."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, (int, float)):
        return "a number"
    return "a text" if isinstance(value, str) else "a list" if isinstance(value, list) else "an object"
