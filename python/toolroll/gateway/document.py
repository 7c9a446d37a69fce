"""`Document`: a configuration file in JSON, whose errors have the line, the key and the allowed values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from toolroll.formats.strict_json import decode, line_of, parse
from toolroll.front.configuration_errors import InvalidConfiguration, error_line, kind_of, path_in_file
from toolroll.model.errors import InvalidDefinition, NotFound, nearest

_ModelT = TypeVar("_ModelT", bound=BaseModel)
# Values below these keys may be or contain secrets. Values of unknown keys are never shown.
_SECRET = {
    *("args", "catalog", "command", "command_prefix", "env", "envFile", "headers", "httpUrl", "key"),
    *("openapi", "serverUrl", "tokens_key", "url"),
}


class Problems:
    """Collects the problems of several parts of a configuration into one error."""

    def __init__(self) -> None:
        self._found: list[InvalidDefinition] = []

    def __enter__(self) -> Problems:
        return self

    def __exit__(self, _: object, error: object, __: object) -> bool:
        """Keeps an InvalidDefinition; lets other errors pass."""
        if not isinstance(error, InvalidDefinition):
            return False
        self._found += error.problems if isinstance(error, InvalidConfiguration) else [error]
        return True

    def check(self) -> None:
        """Raises InvalidConfiguration if there were problems."""
        if self._found:
            raise InvalidConfiguration(sorted(self._found, key=lambda each: each.line or 0))


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON file, with the lines of its values.

    Attributes:
        file: its name in messages.
        text: its text, with blanks in place of comments.
    """

    file: str
    text: str
    value: dict[str, Any]

    @classmethod
    def of(cls, path: Path) -> Document:
        """Reads a file. As in VS Code, comments and commas before a closing bracket are allowed.

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
        except RecursionError:
            pass  # `parse` finds the place
        except ValueError:
            text = without_comments(text)
        value = parse(text, file)
        if not isinstance(value, dict):
            raise InvalidDefinition("must be an object", file=file, line=1)
        return cls(file, text, value)

    def line(self, path: Sequence[str | int]) -> int:
        """Returns the line of a value."""
        return line_of(self.text, path)

    def fail(self, path: Sequence[str | int], problem: str) -> NoReturn:
        """Raises InvalidDefinition with the place of a value."""
        raise self._problem(path, problem)

    def _problem(self, path: Sequence[str | int], problem: str) -> InvalidDefinition:
        key = ".".join(map(str, path))
        told = f"{key}: {problem}" if key else problem
        return InvalidDefinition(told, file=self.file, line=self.line(path))

    def mapping(self, path: Sequence[str | int]) -> dict[str, Any]:
        """Returns the object at a path; {} if there is none."""
        value: Any = self.value
        for key in path:
            value = value.get(key, {})
        if not isinstance(value, dict):
            self.fail(path, f"is {kind_of(value)}, must be an object")
        found: dict[str, Any] = value
        return found

    def check_top(self, known: Iterable[str]) -> None:
        """Refuses keys that look like ours. All others belong to the client."""
        known = tuple(known)
        for key in self.value:
            if key not in known and (near := nearest(key, known, 0.8)):
                self.fail((key,), f"is no known key{near}")

    def model(self, kind: type[_ModelT], path: Sequence[str | int], value: Any = None) -> _ModelT:
        """Returns the value at a path as a model.

        Raises:
            InvalidConfiguration: with the line of each wrong key.
        """
        if value is None:
            value = self.mapping(path)
        if not isinstance(value, dict):
            self.fail(path, f"is {kind_of(value)}, must be an object")
        try:
            return kind.model_validate(value)
        except ValidationError as error:
            found: dict[tuple[str | int, ...], list[ErrorDetails]] = {}
            for each in error.errors(include_url=False):
                found.setdefault(tuple(path_in_file(value, each)), []).append(each)
            raise InvalidConfiguration(
                [
                    self._problem((*path, *where), error_line(kind, where, problems, _SECRET))
                    for where, problems in found.items()
                ]
            ) from None


def without_comments(text: str) -> str:
    """Replaces comments, and commas before a closing bracket, by blanks. Line numbers stay."""

    def blank(match: re.Match[str]) -> str:
        found = match[0]
        return found if found[0] == '"' else re.sub(r"[^\n]", " ", found)

    text = re.sub(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', blank, text, flags=re.DOTALL)
    return re.sub(r'"(?:[^"\\\n]|\\.)*"|,(?=\s*[}\]])', blank, text)
