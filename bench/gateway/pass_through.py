"""A server that passes each request on to another one and does nothing else, made with the same package.

`python -m bench.gateway.pass_through COMMAND ARGUMENT…`
"""

from __future__ import annotations

import sys

import anyio
from mcp import MCPError

from toolroll.gateway.client import Client, open_stdio
from toolroll.gateway.protocol import METHOD_NOT_FOUND, Json
from toolroll.gateway.server_side import Incoming, ServerSide


async def _refuse(method: str, params: Json) -> Json:
    raise MCPError(METHOD_NOT_FOUND, method)


async def _ignore(method: str, params: Json) -> None:
    """No notification matters here."""


async def main(command: str, *arguments: str) -> None:
    """Serves standard input and output until the client leaves."""
    process = open_stdio(command, list(arguments), {}, None, sys.stderr)
    async with process as streams, Client(streams, _refuse, _ignore) as client:
        await client.initialize()

        async def passed(incoming: Incoming) -> Json:
            params = {key: value for key, value in incoming.params.items() if key != "_meta"}
            return await client.request(incoming.method, params)

        answers = dict.fromkeys(("tools/list", "tools/call"), passed)
        await ServerSide("pass-through", "1", "", answers).run_stdio()


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
