"""Reads configuration files of MCP clients, with a section "toolroll" of our own.

Claude Desktop, Claude Code and Cursor write `{"mcpServers": {NAME: {...}}}`, VS Code `{"servers": {...}}`
with comments. All other keys belong to the client. A wrong key in a server's entry or in our section is an
error with file, line and key.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from toolroll.embedders.named import maker
from toolroll.gateway.configured_hooks import ConfiguredHook
from toolroll.gateway.document import Document, Problems
from toolroll.gateway.options import GatewayOptions, without_secrets
from toolroll.gateway.server_spec import LONGEST_NAME, ServerSpec, Transport, prefix_of
from toolroll.model.errors import InvalidDefinition, InvalidInput, NotFound, nearest
from toolroll.selection.profiles import profile

SECTION = "toolroll"
_SERVERS = ("mcpServers", "servers")
_TRANSPORTS: dict[str, Transport] = {
    **{"stdio": "stdio", "http": "http", "sse": "sse", "openapi": "openapi"},
    **{"streamable-http": "http", "streamableHttp": "http", "streamable_http": "http"},
}
_URL = re.compile(r"(?i)https?://|\$\{")  # or it begins with a reference
# Keys that clients write for themselves: they mean nothing here.
_IGNORED = frozenset(
    (
        *(
            "$schema",
            "alwaysAllow",
            "authorization",
            "autoApprove",
            "autoStart",
            "description",
            "dev",
            "gallery",
        ),
        *(
            "headersHelper",
            "icon",
            "metadata",
            "note",
            "oauth",
            "sandbox",
            "sandboxEnabled",
            "trust",
            "version",
        ),
    )
)


@dataclass(frozen=True, slots=True)
class Configuration:
    """The servers and options of one or more files.

    Attributes:
        servers: enabled servers by name, in the order of the files; guardians first.
        folder: of the file; references and relative paths start there.
        disabled: names of servers that are switched off → why.
        hooks: the hooks that the options name.
    """

    servers: Mapping[str, ServerSpec]
    options: GatewayOptions
    folder: Path
    disabled: Mapping[str, str]
    hooks: tuple[ConfiguredHook, ...] = ()


class _Entry(BaseModel):
    """One server in a client's file. `timeout` is in milliseconds, as clients write it.

    Each client has its own keys for the tools that its user has switched on or off.
    """

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
    disabled: StrictBool = False
    enabled: StrictBool = True
    tools: tuple[str, ...] | None = None
    includeTools: tuple[str, ...] | None = None
    enabledTools: tuple[str, ...] | None = None
    excludeTools: tuple[str, ...] = ()
    disabledTools: tuple[str, ...] = ()

    def included(self) -> tuple[str, ...] | None:
        """Returns the tools that are switched on; None if all are."""
        return _in_all(self.tools, self.includeTools, self.enabledTools)


def read_configuration(path: Path, environ: Mapping[str, str]) -> Configuration:
    """Reads a client's configuration file.

    Raises:
        NotFound: there is no such file.
        InvalidDefinition: the file is wrong; with file, line and key.
    """
    if not path.is_file():
        raise NotFound(f"configuration {str(path)!r}: no such file; `toolroll mcp import CLIENT` makes one")
    document, problems = Document.of(path), Problems()
    found: dict[str, ServerSpec] = {}
    off: dict[str, str] = {}
    options = GatewayOptions()
    with problems:
        document.check_top((*_SERVERS, SECTION))
    with problems:
        if SECTION in document.value:
            options = document.model(GatewayOptions, (SECTION,))
    for key, name, look_up in (("embedder", options.embedder, maker), ("profile", options.profile, profile)):
        with problems:
            try:
                look_up(name)
            except (InvalidInput, NotFound) as error:
                document.fail((SECTION, key), str(error).removeprefix(f"{key} "))
    hooks: list[ConfiguredHook] = []
    for number, reference in enumerate(options.hooks):
        with problems:
            hooks.append(ConfiguredHook.of(reference, partial(document.fail, (SECTION, "hooks", number))))
    names: set[str] = set()
    for key in _SERVERS:
        with problems:
            for name, value in document.mapping((key,)).items():
                with problems:
                    if name in names:
                        document.fail((key, name), f"server {name!r} is there twice")
                    names.add(name)
                    spec, why = server_of(document, (key, name), value)
                    if why:
                        off[name] = why
                    else:
                        found[name] = spec
    for name in options.servers:
        with problems:
            if name not in names:
                told = f"no server is named {name!r}{nearest(name, names)}"
                document.fail((SECTION, "servers", name), told)
    problems.check()
    if not names:
        document.fail((), 'has no servers: it needs {"mcpServers": {NAME: {"command": …}}}')
    configuration = Configuration({}, options, path.resolve().parent, off, tuple(hooks))
    return with_servers(configuration, found.values(), environ)


def with_servers(
    configuration: Configuration, more: Iterable[ServerSpec], environ: Mapping[str, str]
) -> Configuration:
    """Returns the configuration with more servers. Its options apply to them, and guardians come first.

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
            excluded = (*spec.exclude_tools, *given.pop("exclude_tools", ()))
            included = _in_all(spec.include_tools, given.pop("include_tools", None))
            servers[spec.name] = replace(spec, **given, include_tools=included, exclude_tools=excluded)
    prefixes: dict[str, ServerSpec] = {}
    for spec in servers.values():
        if (other := prefixes.setdefault(prefix_of(spec.name).casefold(), spec)) is not spec:
            raise InvalidDefinition(
                f"{spec.place}: server {spec.name!r} has the same prefix as {other.name!r}; rename one"
            )
    ordered = sorted(servers.values(), key=lambda spec: spec.role != "guardian")
    return replace(configuration, servers={spec.name: spec for spec in ordered}, disabled=off)


def server_of(document: Document, path: tuple[str, ...], value: Any) -> tuple[ServerSpec, str]:
    """Returns a server, and why it is switched off; "" if it is not.

    Raises:
        InvalidDefinition: its entry is wrong; with file, line and key.
    """
    name = path[-1]
    if isinstance(value, dict):
        value = {each: value[each] for each in value if each not in _IGNORED}
    entry = document.model(_Entry, path, value)
    url = entry.url or entry.serverUrl or entry.httpUrl
    said = entry.type or entry.transport
    if said is not None and said not in _TRANSPORTS:
        document.fail(
            (*path, "type" if entry.type else "transport"),
            f"is {said!r:.60}, must be stdio, http, sse or openapi{nearest(said, _TRANSPORTS)}",
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
        document.fail((*path, key), f"is {without_secrets(url)!r:.100}, must begin with http:// or https://")
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
        include_tools=entry.included(),
        exclude_tools=(*entry.excludeTools, *entry.disabledTools),
        place=f"{document.file}:{document.line(path)}",
    )
    is_off = entry.disabled or not entry.enabled
    return spec, f"{spec.place}: it is disabled" if is_off else ""


def _in_all(*lists: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Returns the names that are in each of the lists. None, and a list with "*", stand for all names."""
    limits = [each for each in lists if each is not None and "*" not in each]
    return tuple(name for name in limits[0] if all(name in each for each in limits)) if limits else None


def _as_text(value: str | int | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
