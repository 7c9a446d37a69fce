"""`toolroll mcp`: many MCP servers behind one. Its commands are in the files beside it."""

from __future__ import annotations

from typing import Any

import click

from toolroll.cli.commands import DefaultGroup
from toolroll.cli.mcp import clients, serve, servers, status


class GatewayGroup(DefaultGroup):
    """The commands of the gateway: `toolroll mcp --config mcp.json` runs `serve`."""

    default = "serve"

    def invoke(self, ctx: click.Context) -> Any:
        """Runs a command, and says which extra a missing package belongs to."""
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] == "toolroll":
                raise
            raise click.ClickException(
                f"the gateway needs {error.name}: pip install 'toolroll[mcp]'"
            ) from error


command = GatewayGroup(
    "mcp",
    help="Run many MCP servers behind one.\n\n"
    "Takes the configuration file that MCP clients have, starts every server in it, and is one server to the "
    "client. It shows the few tools that matter, refuses what policy denies, and learns from the calls.",
    example="toolroll mcp import claude-desktop\n"
    "toolroll mcp connect claude-desktop\n"
    "toolroll mcp --config mcp.json --http 127.0.0.1:8000",
)
for _module in (serve, status, servers, clients):
    for _command in _module.COMMANDS:
        command.add_command(_command)
