"""A caller of `toolroll mcp --http` opens sessions and uses none of them.

Before, each took 40 kB for half an hour: 20 MB a second. From 10,000 on nobody else got one, and with version 1
of the package `mcp` there was no end. Bar: others come in, and whoever has a session open keeps it.
"""

from __future__ import annotations

import pytest

pytest.importorskip("mcp")

from tests.attacks import bounded
from tests.integration.gateways import http_client, http_server, run, scripted, tool, write_configuration
from toolroll.gateway.configuration import read_configuration
from toolroll.gateway.http_endpoints import MOST
from toolroll.gateway.protocol import httpx_client
from toolroll.gateway.serving import open_gateway

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "a", "version": "1"},
    },
}
PING = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
ACCEPT = {"Accept": "application/json, text/event-stream"}


@pytest.mark.slow
def test_sessions_that_nobody_uses_keep_nobody_out(tmp_path):
    path = write_configuration(tmp_path, {"a": scripted(tools=[tool("echo")])}, mode="all")

    async def go():
        async with (
            open_gateway(read_configuration(path, {}), tmp_path / "state") as (gateway, server),
            http_server(server) as url,
            http_client(url) as early,
            httpx_client(headers=ACCEPT) as attacker,
        ):
            await gateway.known(30)
            opened = []
            for _ in range(bounded(MOST + 100, 12_000)):
                answer = await attacker.post(url, json=INITIALIZE)
                assert answer.status_code == 200
                opened.append(answer.headers["mcp-session-id"])

            async def status(session):
                return (await attacker.post(url, json=PING, headers={"Mcp-Session-Id": session})).status_code

            assert await status(opened[0]) == 404 and await status(opened[-1]) == 200
            assert await early.call("a_echo") == ("echo {}", False)
            async with http_client(url) as late:
                assert await late.call("a_echo") == ("echo {}", False)

    run(go)
