"""`toolroll mcp sign-in`: signs in at a server that asks for it."""

from __future__ import annotations

from pathlib import Path

import click

from toolroll.cli.commands import command
from toolroll.cli.mcp.serve import config_option, configuration_of
from toolroll.cli.options import flag
from toolroll.cli.output import note
from toolroll.model.errors import InvalidInput, NotFound


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


COMMANDS = (sign_in,)
