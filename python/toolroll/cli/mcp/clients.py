"""`toolroll mcp import, connect`: reads a client's servers, and puts the gateway in their place."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolroll.cli.commands import command
from toolroll.cli.mcp.serve import count_of_servers
from toolroll.cli.options import flag, path_option
from toolroll.cli.output import note
from toolroll.model.errors import NotFound

if TYPE_CHECKING:
    from toolroll.gateway.client_files import ClientFile

_CLIENTS = ("claude-desktop", "claude-code", "cursor", "vscode")


def _client_options(function: Callable[..., Any]) -> Callable[..., Any]:
    client = click.argument("client", metavar="CLIENT", type=click.Choice(_CLIENTS))
    file = path_option("--file", "The client's configuration file.", "where the client has it")
    config = path_option(
        "--config", "The gateway's configuration file.", "the one in your configuration folder"
    )
    return client(file(config(function)))


@command("import", example="toolroll mcp import claude-desktop\ntoolroll mcp import vscode --config mcp.json")
@_client_options
def import_(client: str, file: Path | None, config: Path | None) -> None:
    """Add a client's servers to the gateway's configuration.

    CLIENT is claude-desktop, claude-code, cursor or vscode. Servers that are there already stay as they are.
    """
    from toolroll.gateway.client_files import import_servers, questions

    target = config or _default()
    new, there, refused = import_servers(_file(client, file), target)
    if not (new or there or refused):
        print(f"{target}: nothing to add: the only server of {client} is the gateway")
        return
    print(f"{target}: {count_of_servers(len(new))} added{': ' if new else ''}{', '.join(new)}")
    for problem in refused:
        note(f"left out: {problem}")
    for name, advice in questions(target, new).items():
        note(f"{name} cannot be started yet: {advice}")
    if there:
        note(f"there already: {', '.join(there)}")


@command("connect", example="toolroll mcp connect claude-desktop")
@_client_options
@flag("--keep", "Leave the client its own entries of the gateway's servers.")
def connect(client: str, file: Path | None, config: Path | None, keep: bool) -> None:
    """Write the gateway into a client's configuration.

    It takes the place of the servers that it runs. The file as it was is kept beside it.
    """
    from toolroll.gateway.client_files import connect as write

    source = config or _default()
    if not source.is_file():
        raise NotFound(f"{source}: no such file; `toolroll mcp import {client}` makes it")
    target = _file(client, file)
    copy, out, left = write(target, source, keep, os.environ)
    print(f"{target.path}: runs the gateway{f' in place of {count_of_servers(len(out))}' if out else ''}")
    for name, why in left.items():
        note(f"{client} keeps {name}, which the gateway cannot start: {why}")
    if copy is not None:
        note(f"the file as it was: {copy}")
    note(f"restart {client} to use it")


def _file(client: str, file: Path | None) -> ClientFile:
    from toolroll.gateway.client_files import client_files

    known = client_files()[client]
    return known if file is None else replace(known, path=file)


def _default() -> Path:
    from toolroll.gateway.places import default_configuration

    return default_configuration()


COMMANDS = (import_, connect)
