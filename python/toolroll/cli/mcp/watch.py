"""`toolroll mcp status|doctor|logs`: what the servers do."""

from __future__ import annotations

from pathlib import Path

import click

from toolroll.cli.commands import command
from toolroll.cli.mcp.serve import config_option, configuration_of
from toolroll.cli.options import json_option, option
from toolroll.cli.output import note, print_json, print_list, printable, redacted
from toolroll.cli.parameter_types import POSITIVE
from toolroll.errors import NotFound


@command("status", example="toolroll mcp status --config mcp.json")
@config_option
@json_option
def status(config: Path | None, manifests: Path | None, json: bool) -> None:
    """Show what the servers of running gateways do."""
    from toolroll.gateway.places import registry_url
    from toolroll.gateway.status import running

    configuration, state = configuration_of(config, manifests)
    registry = redacted(registry_url(configuration.options, state))
    found = list(running(state))
    if json:
        print_json({"gateways": found, "registry": registry, "calls": str(state / "calls.jsonl")})
        return
    if not found:
        note("no gateway runs with this configuration; `toolroll mcp doctor` tries its servers")
        return
    for gateway in found:
        print(f"process {gateway['pid']}, mode {gateway['mode']}, {gateway['tools']:,} tools")
        servers = [
            {**server, "problem": server["refusal"] or server["reason"] or "; ".join(server["problems"][:3])}
            for server in gateway["servers"]
        ]
        print_list(False, "servers", servers, "SERVER=name STATE STARTS TOOLS HELD PROBLEM")
    print(f"registry  {registry}\ncalls     {state / 'calls.jsonl'}")


@command("doctor", example="toolroll mcp doctor --config mcp.json")
@config_option
@json_option
def doctor(config: Path | None, manifests: Path | None, json: bool) -> int:
    """Start every server once and say what is wrong with it. Exit status 1 if one cannot be used."""
    import anyio

    from toolroll.gateway.diagnosis import diagnose

    configuration, state = configuration_of(config, manifests)
    found = anyio.run(diagnose, configuration, state)
    columns = "SERVER OK TOOLS PROMPTS RESOURCES SECONDS=start_s VERSION=told PROBLEM"
    print_list(json, "servers", found, columns)
    return 0 if all(one.ok for one in found) else 1


@command("logs", example="toolroll mcp logs git --config mcp.json")
@click.argument("server", metavar="SERVER")
@config_option
@option("--lines -n lines", "How many lines.", type=POSITIVE, default=50, metavar="N")
def logs(server: str, config: Path | None, manifests: Path | None, lines: int) -> None:
    """Show what a server has written to its standard error."""
    configuration, state = configuration_of(config, manifests)
    if server not in configuration.servers and server not in configuration.disabled:
        raise NotFound(f"no server is named {server!r}; there are {', '.join(configuration.servers)}")
    path = state / "logs" / f"{server}.log"
    text = path.read_text("utf-8", "replace") if path.is_file() else ""
    if not text:
        note(f"{server}: has written nothing")
    for line in text.splitlines()[-lines:]:
        print(printable(line))


COMMANDS = (status, doctor, logs)
