"""`toolroll mcp doctor|logs`: what is wrong with a server."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import click

from toolroll.cli.commands import command
from toolroll.cli.mcp.serve import config_option, configuration_of
from toolroll.cli.options import json_option, option
from toolroll.cli.output import note, print_list, printable
from toolroll.cli.parameter_types import POSITIVE
from toolroll.model.errors import NotFound


@command("doctor", example="toolroll mcp doctor --config mcp.json")
@config_option
@json_option
def doctor(config: Path | None, manifests: Path | None, json: bool) -> int:
    """Start every server once and say what is wrong with it. Exit status 1 if one cannot be used."""
    import anyio

    from toolroll.gateway.status import check_options, diagnose

    configuration, state = configuration_of(config, manifests)
    logging.getLogger("toolroll.gateway").setLevel(logging.CRITICAL)  # the table says it all
    found = anyio.run(diagnose, configuration, state)
    columns = "SERVER OK TOOLS PROMPTS RESOURCES SECONDS=start_s VERSION=told PROBLEM"
    print_list(json, "servers", found, columns)
    problems = list(check_options(configuration, os.environ))
    for problem in problems:
        note(problem)
    return 0 if not problems and all(one.ok for one in found) else 1


@command("logs", example="toolroll mcp logs git --config mcp.json")
@click.argument("server", metavar="SERVER")
@config_option
@option("--lines -n lines", "How many lines.", type=POSITIVE, default=50, metavar="N")
def logs(server: str, config: Path | None, manifests: Path | None, lines: int) -> None:
    """Show what a server has written to its standard error."""
    from toolroll.gateway.logs import ServerLog
    from toolroll.gateway.places import log_file

    configuration, state = configuration_of(config, manifests)
    if server not in configuration.servers and server not in configuration.disabled:
        raise NotFound(f"no server is named {server!r}; there are {', '.join(configuration.servers)}")
    text = ServerLog(log_file(state, server)).file.text()
    if not text:
        note(f"{server}: has written nothing")
    for line in text.splitlines()[-lines:]:
        print(printable(line))


COMMANDS = (doctor, logs)
