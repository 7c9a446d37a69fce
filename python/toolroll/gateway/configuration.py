"""Configuration files: those that MCP clients have already, with a section "toolroll" of our own.

Claude Desktop, Claude Code and Cursor write `{"mcpServers": {NAME: {...}}}`, VS Code `{"servers": {...}}`
with comments. Everything else in such a file is the client's and is left alone. In what we read, a wrong key
is an error with file, line and key.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from toolroll.errors import InvalidDefinition, NotFound
from toolroll.formats.strict_json import decode, line_of, parse
from toolroll.gateway.options import GatewayOptions
from toolroll.gateway.server_spec import LONGEST_NAME, ServerSpec, Transport, prefix_of

SECTION = "toolroll"
_ModelT = TypeVar("_ModelT", bound=BaseModel)
_SERVERS = ("mcpServers", "servers")
_TRANSPORTS: dict[str, Transport] = {
    "stdio": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamableHttp": "http",
    "streamable_http": "http",
    "sse": "sse",
    "openapi": "openapi",
}
_URL = re.compile(r"(?i)https?://|\$\{")  # or it begins with a reference
# What pydantic's types are called in JSON.
_TYPES = {
    "tuple_type": "a list",
    "dict_type": "an object",
    "string_type": "a text",
    "model_type": "an object",
}
# Keys that clients write for themselves: they mean nothing here.
_IGNORED = frozenset(
    {
        "$schema",
        "alwaysAllow",
        "authorization",
        "autoApprove",
        "autoStart",
        "description",
        "dev",
        "gallery",
        "icon",
        "metadata",
        "note",
        "oauth",
        "sandbox",
        "sandboxEnabled",
        "tools",
        "trust",
        "version",
    }
)


@dataclass(frozen=True, slots=True)
class Configuration:
    """What one or more files say.

    Attributes:
        servers: enabled servers by name, in the order of the files; guardians first.
        disabled: names of servers that are switched off, with why.
        options: of the gateway.
        folder: of the file; references and relative paths start there.
    """

    servers: Mapping[str, ServerSpec]
    options: GatewayOptions
    folder: Path
    disabled: Mapping[str, str]


class _Entry(BaseModel):
    """One server in a client's file. `timeout` is in milliseconds, as clients write it."""

    model_config = ConfigDict(extra="forbid")

    type: str | None = None
    transport: str | None = None
    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str | int | float | bool] = Field(default_factory=dict)
    envFile: str = ""
    cwd: str = ""
    openapi: str | None = None
    url: str | None = None
    serverUrl: str | None = None
    httpUrl: str | None = None
    headers: dict[str, str] = Field(default_factory=dict)
    timeout: float | None = Field(None, gt=0)
    disabled: bool = False
    enabled: bool = True


def read_configuration(path: Path, environ: Mapping[str, str]) -> Configuration:
    """Reads a client's configuration file.

    Raises:
        NotFound: there is no such file.
        InvalidDefinition: with file, line and key of what is wrong.
    """
    if not path.is_file():
        raise NotFound(f"configuration {str(path)!r}: no such file; `toolroll mcp import CLIENT` makes one")
    document = Document.of(path)
    found: dict[str, ServerSpec] = {}
    off: dict[str, str] = {}
    document.check_top((*_SERVERS, SECTION))
    options = document.model(GatewayOptions, (SECTION,)) if SECTION in document.value else GatewayOptions()
    for key in _SERVERS:
        for name, value in document.mapping((key,)).items():
            if name in found or name in off:
                document.fail((key, name), f"server {name!r} is there twice")
            spec, why = _server(document, key, name, value)
            if why:
                off[name] = why
            else:
                found[name] = spec
    if not found and not off:
        document.fail((), 'has no servers: it needs {"mcpServers": {NAME: {"command": …}}}')
    for name in options.servers:
        if name not in found and name not in off:
            document.fail((SECTION, "servers", name), f"no server is named {name!r}{_near(name, found)}")
    return with_servers(Configuration({}, options, path.resolve().parent, off), found.values(), environ)


def with_servers(
    configuration: Configuration, more: Iterable[ServerSpec], environ: Mapping[str, str]
) -> Configuration:
    """The configuration with more servers; its options apply to them, and guardians come first.

    Raises:
        InvalidDefinition: two servers have the same name, or names that give the same prefix.
    """
    servers, off = dict(configuration.servers), dict(configuration.disabled)
    for spec in more:
        if not 0 < len(spec.name) <= LONGEST_NAME:
            raise InvalidDefinition(
                f"{spec.place}: the name of a server has {len(spec.name)} characters, "
                f"must have 1 to {LONGEST_NAME}"
            )
        if spec.name in servers:
            raise InvalidDefinition(
                f"{spec.place}: server {spec.name!r} is there already: {servers[spec.name].place}"
            )
        own = configuration.options.servers.get(spec.name)
        variable = f"{re.sub(r'[^A-Za-z0-9]+', '_', spec.name).upper()}_MCP_ENABLED"
        if environ.get(variable, "").strip().lower() in ("false", "0", "no", "off"):
            off[spec.name] = f"{variable} is {environ[variable]!r}"
        elif own is not None and not own.enabled:
            off[spec.name] = f"{SECTION}.servers.{spec.name}.enabled is false"
        else:
            given = {} if own is None else own.model_dump(exclude_none=True, exclude={"enabled"})
            servers[spec.name] = replace(spec, **given)
    prefixes: dict[str, ServerSpec] = {}
    for spec in servers.values():
        if (other := prefixes.setdefault(prefix_of(spec.name).casefold(), spec)) is not spec:
            raise InvalidDefinition(
                f"{spec.place}: server {spec.name!r} has the same prefix as {other.name!r}; rename one"
            )
    ordered = sorted(servers.values(), key=lambda spec: spec.role != "guardian")
    return replace(configuration, servers={spec.name: spec for spec in ordered}, disabled=off)


def _server(document: Document, key: str, name: str, value: Any) -> tuple[ServerSpec, str]:
    """A server, and why it is switched off; "" where it is not."""
    path = (key, name)
    if isinstance(value, dict):
        value = {each: value[each] for each in value if each not in _IGNORED}
    entry = document.model(_Entry, path, value)
    url = entry.url or entry.serverUrl or entry.httpUrl
    said = entry.type or entry.transport
    if said is not None and said not in _TRANSPORTS:
        document.fail(
            (*path, "type" if entry.type else "transport"),
            f"is {said!r}, must be stdio, http, sse or openapi",
        )
    transport = _TRANSPORTS[said] if said else "openapi" if entry.openapi else "http" if url else "stdio"
    if (transport == "openapi") != bool(entry.openapi):
        document.fail(path, f"server {name!r} is of type openapi if it has the key openapi, and only then")
    if transport == "stdio" and not entry.command:
        document.fail(path, f"server {name!r} needs a command, or a url with type http or sse")
    if transport != "stdio" and url is None:
        document.fail(path, f"server {name!r} is of type {transport}, so it needs a url")
    if said is None and url is not None and entry.command:
        document.fail(path, f"server {name!r} has a command and a url, must have one of them or a type")
    if transport != "stdio" and url is not None and not _URL.match(url):
        key = next(each for each in ("url", "serverUrl", "httpUrl") if getattr(entry, each))
        document.fail((*path, key), f"is {url!r:.100}, must begin with http:// or https://")
    spec = ServerSpec(
        name,
        transport,
        entry.command or "",
        entry.args,
        {each: _as_text(given) for each, given in entry.env.items()},
        entry.envFile,
        entry.cwd,
        openapi=entry.openapi or "",
        url=url or "",
        headers=entry.headers,
        timeout_s=60.0 if entry.timeout is None else max(entry.timeout / 1_000, 0.001),
        place=f"{document.file}:{document.line(path)}",
    )
    is_off = entry.disabled or not entry.enabled
    return spec, f"{spec.place}: it is disabled" if is_off else ""


def _as_text(value: str | int | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _near(name: str, names: Iterable[str]) -> str:
    near = get_close_matches(name, list(names), 1)
    return f"; did you mean {near[0]!r}?" if near else ""


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
        key = ".".join(map(str, path))
        raise InvalidDefinition(f"{key}: {problem}" if key else problem, file=self.file, line=self.line(path))

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
        folded = {key.lower(): key for key in known}
        for key in self.value:
            if key not in known and (near := get_close_matches(key.lower(), folded, 1, 0.8)):
                self.fail((key,), f"is no known key; did you mean {folded[near[0]]!r}?")

    def model(self, kind: type[_ModelT], path: Sequence[str | int], value: Any = None) -> _ModelT:
        """The value at a path as a model.

        Raises:
            InvalidDefinition: for its first wrong key, with the line.
        """
        if value is None:
            value = self.mapping(path)
        if not isinstance(value, dict):
            self.fail(path, f"is {_kind(value)}, must be an object")
        try:
            return kind.model_validate(value)
        except ValidationError as error:
            problem = error.errors(include_url=False, include_input=False)[0]
            where = _existing(value, problem["loc"])
            told = problem["msg"]
            if problem["type"] == "extra_forbidden":
                fields = kind.model_fields if len(where) == 1 else ()
                told = f"is no known key{_near(str(where[-1]), fields)}"
            elif problem["type"] in _TYPES:
                told = f"must be {_TYPES[problem['type']]}"
            self.fail((*path, *where), told)


def _existing(value: Any, path: Sequence[str | int]) -> list[str | int]:
    """The part of a path that leads somewhere; pydantic adds names of types to it."""
    found: list[str | int] = []
    for part in path:
        is_item = isinstance(value, list) and isinstance(part, int) and part < len(value)
        if is_item or (isinstance(value, dict) and part in value):
            value = value[part]
            found.append(part)
    return found


def _kind(value: Any) -> Literal["an object", "a list", "a text", "a number", "true or false", "null"]:
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
