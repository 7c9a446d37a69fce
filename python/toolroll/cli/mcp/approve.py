"""`toolroll mcp approve`: approves prompts and resources that a server has added or rewritten."""

from __future__ import annotations

import json
from pathlib import Path

import click

from toolroll.cli.commands import command
from toolroll.cli.mcp.serve import config_option, configuration_of
from toolroll.cli.options import flag
from toolroll.cli.output import note
from toolroll.errors import NotFound


@command("approve", example="toolroll mcp approve tickets --config mcp.json")
@click.argument("server", metavar="SERVER")
@config_option
@flag("--yes", "Ask nothing.")
def approve(server: str, config: Path | None, manifests: Path | None, yes: bool) -> None:
    """Approve the prompts and resources of a server that wait.

    Prints them as the server sent them, and asks. Running gateways show their texts within a second. Tools
    are approved by `toolroll registry approve`.
    """
    from toolroll.gateway.reviewed_offers import ReviewedOffers

    configuration, state = configuration_of(config, manifests)
    if server not in configuration.servers:
        raise NotFound(f"no server is named {server!r}; there are {', '.join(configuration.servers)}")
    offers = ReviewedOffers.of_configuration(configuration, state)
    waiting = offers.waiting(server)
    for kind, items in waiting.items():
        for item in items.values():
            print(f"{kind}: {json.dumps(item, indent=2)}")
    if any(waiting.values()) and not yes and not click.confirm("Approve all of these?", err=True):
        note("nothing was approved")
        return
    offers.approve(server, waiting)
    print(f"{server}: approved")


COMMANDS = (approve,)
