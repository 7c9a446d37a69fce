"""`toolroll mcp approve`: approves what a server has added or rewritten since its first list."""

from __future__ import annotations

import json
from pathlib import Path

import click

from toolroll.cli.commands import command
from toolroll.cli.mcp.serve import config_option, configuration_of
from toolroll.cli.options import flag
from toolroll.cli.output import note
from toolroll.cli.registry.review import difference, print_waiting, waiting_tools
from toolroll.model.errors import NotFound


@command("approve", example="toolroll mcp approve tickets --config mcp.json")
@click.argument("server", metavar="SERVER")
@config_option
@flag("--yes", "Ask nothing.")
def approve(server: str, config: Path | None, manifests: Path | None, yes: bool) -> None:
    """Approve the tools, prompts and resources of a server that wait.

    Prints them and asks. Only what was printed is approved; running gateways show it within a second.
    """
    from toolroll.formats.schemas import sent_tools
    from toolroll.gateway.places import registry_url
    from toolroll.gateway.reviewed_offers import ReviewedOffers
    from toolroll.registry.registry import Registry

    configuration, state = configuration_of(config, manifests)
    if server not in configuration.servers:
        raise NotFound(f"no server is named {server!r}; there are {', '.join(configuration.servers)}")
    offers = ReviewedOffers.of_configuration(configuration, state)
    waiting = offers.waiting(server)
    url = registry_url(configuration.options, state)
    with Registry.open(url, actor="toolroll mcp approve", create=False) as registry:
        tools = tuple(waiting_tools(registry, "", server))
        for record in tools:
            diff = difference(registry, record)
            print_waiting(record, diff)
            if not diff:  # all of it: title, annotations and the rest count as the description does
                print(f"tool: {json.dumps(sent_tools((record.tool,), 'mcp').schemas()[0], indent=2)}")
        for kind, items in waiting.items():
            for item in items.values():
                print(f"{kind}: {json.dumps(item, indent=2)}")
        if not tools and not any(waiting.values()):
            raise NotFound(f"server {server!r}: nothing waits for approval")
        if not yes and not click.confirm("Approve all of these?", err=True):
            note("nothing was approved")
            return
        for record in tools:
            registry.approve(record.name, version=record.version)
    if any(waiting.values()):
        offers.approve(server, waiting)
    print(f"{server}: approved")


COMMANDS = (approve,)
