"""`toolroll mcp doctor, logs, sign-in, approve`: one server, or each of them."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import click

from toolroll.cli.commands import command
from toolroll.cli.mcp.serve import config_option, configuration_of
from toolroll.cli.options import flag, json_option, option
from toolroll.cli.output import note, print_list, printable
from toolroll.cli.parameter_types import POSITIVE
from toolroll.cli.registry.review import difference, print_waiting, waiting_tools
from toolroll.model.errors import InvalidInput, NotFound


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
    """Show the standard error of a server."""
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


@command("sign-in", example="toolroll mcp sign-in tickets --config mcp.json")
@click.argument("server", metavar="SERVER")
@config_option
@flag("--no-browser", "Print the link and open no browser.")
def sign_in(server: str, config: Path | None, manifests: Path | None, no_browser: bool) -> None:
    """Sign in at a server that asks for it.

    Opens the browser. The tokens are encrypted and kept; running gateways use them within a minute.
    """
    import webbrowser

    import anyio

    from toolroll.gateway.accounts import ServerAccounts
    from toolroll.gateway.sign_in_tool import sign_in as run

    configuration, state = configuration_of(config, manifests)
    spec = configuration.servers.get(server)
    if spec is None:
        raise NotFound(f"no server is named {server!r}; there are {', '.join(configuration.servers)}")
    account = ServerAccounts.of_configuration(configuration, state).of(spec, "")
    if account is None:
        raise InvalidInput(f"server {server!r}: is a program of this machine, or its url cannot be resolved")

    def show(url: str) -> None:
        note(f"sign in here: {url}")
        if not no_browser:
            webbrowser.open(url)

    anyio.run(run, account, show)
    print(f"{server}: signed in")


@command("approve", example="toolroll mcp approve tickets --config mcp.json")
@click.argument("server", metavar="SERVER")
@config_option
@flag("--yes", "Ask nothing.")
def approve(server: str, config: Path | None, manifests: Path | None, yes: bool) -> None:
    """Approve the tools, prompts and resources of a server that wait.

    Prints them and asks. Approves only the printed ones; running gateways show them within a second.
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
            if not diff:  # the whole tool: its title and annotations matter as its description does
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


COMMANDS = (doctor, logs, sign_in, approve)
