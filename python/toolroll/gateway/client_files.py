"""The configuration files of MCP clients: imports their servers, and puts the gateway in their place."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from toolroll.gateway.configuration import SECTION, read_configuration, server_of
from toolroll.gateway.document import Document
from toolroll.gateway.references import input_advice, input_reference
from toolroll.gateway.server_spec import LONGEST_NAME, prefix_of
from toolroll.gateway.status import problem_of
from toolroll.model.errors import Conflict, InvalidDefinition, InvalidInput, NotFound
from toolroll.runtime.files import replace_file

OWN_NAME = "toolroll"  # of the gateway's entry in a client's file


@dataclass(frozen=True, slots=True)
class ClientFile:
    """A client's configuration file with its servers.

    Attributes:
        key: the key of the servers in the file.
        project: the folder of the project whose servers the file also has; None for a client without
            projects.
    """

    path: Path
    key: str
    project: Path | None = None

    def places(self, content: Mapping[str, Any]) -> list[tuple[str, ...]]:
        """Returns the paths of servers in the file's content: for all projects, and for this project."""
        found: list[tuple[str, ...]] = [(self.key,)]
        projects, project = content.get("projects"), str(self.project)
        if (
            self.project is not None
            and isinstance(projects, dict)
            and isinstance(projects.get(project), dict)
        ):
            found.append(("projects", project, self.key))
        return found


def client_files(
    platform: str = sys.platform, environ: Mapping[str, str] = os.environ
) -> dict[str, ClientFile]:
    """Returns the files of known clients on this system."""
    home = Path(environ.get("HOME") or Path.home())
    if platform == "darwin":
        programs = home / "Library" / "Application Support"
    elif platform == "win32":
        programs = Path(environ.get("APPDATA") or home / "AppData" / "Roaming")
    else:
        programs = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    return {
        "claude-desktop": ClientFile(programs / "Claude" / "claude_desktop_config.json", "mcpServers"),
        "claude-code": ClientFile(home / ".claude.json", "mcpServers", Path.cwd()),
        "cursor": ClientFile(home / ".cursor" / "mcp.json", "mcpServers"),
        "vscode": ClientFile(programs / "Code" / "User" / "mcp.json", "servers"),
    }


class ImportReport(NamedTuple):
    """The result of an import.

    Attributes:
        new: names of the added servers.
        there: names of the servers that the configuration already had.
        refused: problems of the skipped entries.
    """

    new: list[str]
    there: list[str]
    refused: list[str]


def import_servers(client: ClientFile, target: Path) -> ImportReport:
    """Adds a client's servers to the gateway's configuration. Known servers stay unchanged.

    Skips entries that the gateway cannot read.

    Raises:
        NotFound: the client has no such file, or no servers in it.
        InvalidDefinition: a file cannot be read.
    """
    if not client.path.is_file():
        raise NotFound(f"{client.path}: no such file; name the client's file with --file")
    document = Document.of(client.path)
    servers: dict[str, Any] = {}
    places: dict[str, tuple[str, ...]] = {}
    for place in client.places(document.value):  # a project's own entry counts, as in the client
        servers |= document.mapping(place)
        places |= {name: (*place, name) for name in document.mapping(place)}
    if not servers:
        raise NotFound(f"{client.path}: has no servers under {client.key!r}")
    servers = {name: entry for name, entry in servers.items() if not _is_gateway(name, entry)}
    content = Document.of(target).value if target.is_file() else {}
    known = content.setdefault("mcpServers", {})
    taken = {name for key in ("mcpServers", "servers") for name in content.get(key, {})}
    prefixes = {prefix_of(name).casefold(): name for name in taken}
    found = ImportReport([], [name for name in servers if name in taken], [])
    for name in (name for name in servers if name not in taken):
        try:
            _check(document, places[name], servers[name], prefixes)
        except InvalidDefinition as error:
            found.refused.append(str(error))
        else:
            prefixes[prefix_of(name).casefold()] = name
            known[name] = servers[name]
            found.new.append(name)
    if found.new:
        _write(target, content)
    return found


def _check(document: Document, place: tuple[str, ...], entry: Any, prefixes: Mapping[str, str]) -> None:
    """Raises InvalidDefinition if a configuration with these prefixes cannot take the entry."""
    name = place[-1]
    server_of(document, place, entry)
    if not 0 < len(name) <= LONGEST_NAME:
        document.fail(place, f"the name of a server must have 1 to {LONGEST_NAME} characters")
    if other := prefixes.get(prefix_of(name).casefold()):
        document.fail(place, f"server {name!r} has the same prefix as {other!r}; rename one")


def questions(servers: Path, names: Iterable[str]) -> dict[str, str]:
    """Returns the replacements, by server, of values for which VS Code asks its user."""
    entries = Document.of(servers).mapping(("mcpServers",))
    found = {name: input_reference(json.dumps(entries.get(name))) for name in names}
    return {name: input_advice(asked) for name, asked in found.items() if asked}


class ConnectReport(NamedTuple):
    """The result of `connect`.

    Attributes:
        copy: the copy of the former file; None if there was no file, or nothing changed.
        out: names of the removed entries.
        left: servers that the client keeps because the gateway cannot start them → the reason.
    """

    copy: Path | None
    out: list[str]
    left: dict[str, str]


def connect(client: ClientFile, configuration: Path, keep: bool, environ: Mapping[str, str]) -> ConnectReport:
    """Replaces, in a client's file, the servers that the gateway runs by the gateway.

    keep: whether the client keeps its entries of these servers.

    Raises:
        Conflict: a client's entry has the gateway's name, but runs another program.
        InvalidDefinition: a file cannot be read.
    """
    content = Document.of(client.path).value if client.path.is_file() else {}
    servers = content.setdefault(client.key, {})
    if not isinstance(servers, dict):
        raise InvalidInput(f"{client.path}: {client.key} must be an object")
    if OWN_NAME in servers and not _is_gateway(OWN_NAME, servers[OWN_NAME]):
        raise Conflict(f"{client.path}: its server {OWN_NAME!r} is another program; rename that entry")
    ours = read_configuration(configuration, environ)
    problems = {name: problem_of(spec, environ, ours.folder) for name, spec in ours.servers.items()}
    out: list[str] = []
    left: dict[str, str] = {}
    for *above, last in client.places(content) if not keep else ():
        holder = content
        for key in above:
            holder = holder[key]
        if isinstance(found := holder.get(last), dict):
            left |= {name: problem for name in found if (problem := problems.get(name))}
            gone = [name for name in found if problems.get(name) == "" and name != OWN_NAME]
            holder[last] = {name: entry for name, entry in found.items() if name not in gone}
            out += [name for name in gone if name not in out]
    servers = content[client.key]
    command, *arguments = _own_command()
    entry: dict[str, Any] = {
        "command": command,
        "args": [*arguments, "mcp", "--config", str(configuration.resolve())],
    }
    if client.key == "servers":
        entry = {"type": "stdio", **entry}
    servers[OWN_NAME] = entry
    if client.path.is_file() and content == Document.of(client.path).value:
        return ConnectReport(None, [], left)  # it is there already
    copy = _copy(client.path)
    _write(client.path, content)
    return ConnectReport(copy, out, left)


def _own_command() -> list[str]:
    program = shutil.which("toolroll")
    return [os.path.abspath(program)] if program else [sys.executable, "-m", "toolroll"]


def _is_gateway(name: str, entry: Any) -> bool:
    """Whether an entry runs a gateway, which must not run itself."""
    if not isinstance(entry, dict):
        return False
    words = [entry.get("command"), *(entry.get("args") or ())]
    return "mcp" in words and any("toolroll" in os.path.basename(str(word)) for word in words)


def _copy(path: Path) -> Path | None:
    if not path.is_file():
        return None
    name = f"{path.name}.{time.strftime('%Y%m%d-%H%M%S')}"
    for number in count():
        copy = path.with_name(f"{name}{f'-{number}' if number else ''}.before-{SECTION}")
        if not copy.exists():
            break
    shutil.copy2(path, copy)
    return copy


def _write(path: Path, content: Mapping[str, Any]) -> None:
    """Writes a file that only its owner may read, since it may contain secrets."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.touch(0o600)
    replace_file(path, (json.dumps(content, ensure_ascii=False, indent=2) + "\n").encode())
