"""Reads the settings from the command line, the environment and a TOML file, and says where each comes from.

The command line precedes the environment, and the environment precedes the file.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_origin

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from toolroll.front.configuration_errors import InvalidConfiguration, error_line, one_of, path_in_file
from toolroll.model.errors import InvalidDefinition, NotFound, nearest
from toolroll.selection.environment_names import SERVER_PREFIX
from toolroll.server.settings import ServerSettings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# Messages omit the values of these: secrets, and URLs that may have a password.
_SECRET = {name for name, field in ServerSettings.model_fields.items() if not field.repr}
_URLS = ("catalog", "read_replica", "listen_url", "upstream", "public_url", "oidc_issuer", "traces_url")
_MISSING = (
    "is missing: name a registry (--catalog URL) or a provider (--upstream URL), or try "
    "`toolroll serve --demo`, which needs none"
)
_HEADER = re.compile(r"\s*\[(?P<list>\[)?\s*(?P<name>[^\s\[\]]+)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"""\s*(?P<quote>["']?)(?P<name>[\w-]+)(?P=quote)\s*=""")
_PLACE_IN_TOML = re.compile(r" \(at line (\d+), column (\d+)\)$")


def read_settings(file: Path | None = None, **options: Any) -> ServerSettings:
    """The settings of a file and of the environment, with the options of the command line that are not None.

    Raises:
        NotFound: there is no such file.
        InvalidDefinition: names everything that is wrong, with its place.
    """
    return SettingSources.read(file, **options).settings()


@dataclass(frozen=True)
class SettingSources:
    """The sources of the settings.

    Attributes:
        options: of the command line.
        environment: setting → the text of its variable.
        file: its name; "" for none.
        text: of the file.
        in_file: the values in it.
    """

    options: Mapping[str, Any]
    environment: Mapping[str, str]
    file: str
    text: str
    in_file: Mapping[str, Any]

    @classmethod
    def read(cls, file: Path | None = None, **options: Any) -> SettingSources:
        """The sources, as they are now.

        Raises:
            NotFound: there is no such file.
            InvalidDefinition: it is no TOML.
        """
        given = {name: value for name, value in options.items() if value is not None}
        names = {SERVER_PREFIX + name.upper(): name for name in ServerSettings.model_fields}
        variables = {names[name.upper()]: text for name, text in os.environ.items() if name.upper() in names}
        text, values = ("", {}) if file is None else _read(file)
        return cls(given, variables, "" if file is None else str(file), text, values)

    @property
    def set_names(self) -> set[str]:
        """The settings that one of the sources sets."""
        return {*self.options, *self.environment, *self.in_file}

    def settings(self) -> ServerSettings:
        """The settings.

        Raises:
            InvalidConfiguration: names everything that is wrong, with its place.
        """
        problems = list(_unknown_variables())
        values = {**self.in_file, **self.environment, **self.options}
        for name in self.environment.keys() - self.options.keys():
            if get_origin(ServerSettings.model_fields[name].annotation) is tuple:
                try:
                    values[name] = json.loads(values[name])
                except ValueError as error:
                    del values[name]
                    problems.append(
                        self.problem((name,), f'is not JSON, must be such as ["a", "b"]: {error}')
                    )
        known = [*ServerSettings.model_fields]
        unknown = [name for name in values if name not in known]  # pydantic takes them in any case
        for name in unknown:
            del values[name]
        if not values.get("catalog") and not values.get("upstream"):
            problems.append(self.problem(("catalog",), _MISSING))
        try:
            settings = ServerSettings(**values)
        except ValidationError as error:
            problems += self._problems_of(error, values)
        problems += (self.problem((name,), f"is no known key{one_of(name, known)}") for name in unknown)
        if problems:
            raise InvalidConfiguration(problems) from None
        return settings

    def problem(self, path: Sequence[str | int], sentence: str) -> InvalidDefinition:
        """A problem of a setting, or of a part of it, at its place."""
        name, *rest = map(str, path)
        part = f"{'.'.join(rest)}: " if rest else ""
        if name in self.options:
            option = name.removesuffix("_s").replace("_", "-")
            return InvalidDefinition(f"option --{option}: {part}{sentence}")
        if name in self.environment:
            return InvalidDefinition(f"environment variable {SERVER_PREFIX}{name.upper()}: {part}{sentence}")
        if not self.file:
            return InvalidDefinition(f"setting {name}: {part}{sentence}")
        line = self._line(path)
        return InvalidDefinition(
            f"{name}{'.' if rest else ''}{part or ': '}{sentence}", file=self.file, line=line
        )

    def _problems_of(self, error: ValidationError, values: Mapping[str, Any]) -> Iterator[InvalidDefinition]:
        found: dict[tuple[str | int, ...], list[ErrorDetails]] = {}
        for each in error.errors(include_url=False):
            found.setdefault(tuple(path_in_file(values, each)), []).append(each)
        secret = {*_SECRET, *(name for name in _URLS if "@" in str(values.get(name)))}
        for path, problems in found.items():
            yield self.problem(path, error_line(ServerSettings, path, problems, secret))

    def _line(self, path: Sequence[str | int]) -> int | None:
        """The line in the file of the deepest key of the path that stands there."""
        places = _lines_of_keys(self.text.splitlines())
        parts = [tuple(path[:length]) for length in range(len(path), 0, -1)]
        return next((places[part] for part in parts if part in places), None)


def _read(file: Path) -> tuple[str, dict[str, Any]]:
    if not file.is_file():
        raise NotFound(f"settings file {str(file)!r:.300}: no such file")
    try:
        text = file.read_text("utf-8")
        return text, tomllib.loads(text)
    except (ValueError, OSError) as error:  # a TOMLDecodeError is a ValueError
        place = _PLACE_IN_TOML.search(str(error))
        line, column = map(int, place.groups()) if place else (None, None)
        message = str(error)[: place.start()] if place else str(error)
        raise InvalidDefinition(
            f"cannot be read: {message}", file=str(file), line=line, column=column
        ) from error


def _lines_of_keys(lines: Sequence[str]) -> dict[tuple[str | int, ...], int]:
    """Path of a key or of a table → its line, counted from 1."""
    places: dict[tuple[str | int, ...], int] = {}
    tables, table = Counter[str](), tuple[str | int, ...]()
    for at, line in enumerate(lines):
        header, key = _HEADER.match(line), _KEY.match(line)
        if (header or key) and _is_whole(lines, at):
            if header:
                name = header["name"]
                table = (name, tables[name]) if header["list"] else (name,)
                tables[name] += 1
            path = table if key is None else (*table, key["name"])
            places.setdefault(path, at + 1)
    return places


def _is_whole(lines: Sequence[str], at: int) -> bool:
    """Whether a line begins in no text and in no list of several lines."""
    try:
        tomllib.loads("\n".join(lines[:at]))
    except ValueError:
        return False
    return True


def _unknown_variables() -> Iterator[InvalidDefinition]:
    """A problem for each variable with the service's prefix that is no setting."""
    known = [SERVER_PREFIX + name.upper() for name in ServerSettings.model_fields]
    for name in sorted(os.environ):
        if name.upper().startswith(SERVER_PREFIX) and name.upper() not in known:
            near = nearest(name.upper()[:100], known)
            yield InvalidDefinition(f"environment variable {name:.100}: is no setting{near}")
