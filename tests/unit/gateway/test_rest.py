"""The plain requests of the gateway: what a server answers is JSON, or the answer says why it is not."""

from __future__ import annotations

import math
from typing import Any

import pytest

pytest.importorskip("mcp")
from mcp.server.transport_security import TransportSecuritySettings
from starlette.testclient import TestClient

from toolroll.gateway.http_endpoints import RestEndpoint


class Server:
    """Answers with what it was given."""

    def __init__(self, result: Any) -> None:
        self.result = result

    async def answer(self, incoming: Any) -> Any:
        return self.result


def nested(depth: int) -> list:
    value: list = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (
            {"structuredContent": {"mean": math.nan}},
            "it.structuredContent.mean is nan, must be a finite number",
        ),
        (
            {"tools": [{"name": "a"}, {"name": "b", "inputSchema": {"maximum": math.inf}}]},
            "it.tools.b.inputSchema.maximum is inf, must be a finite number",
        ),
        ({"content": [{"text": "\ud800"}]}, "it.content.0.text holds a lone surrogate, must be Unicode text"),
        ({"content": nested(100_000)}, "is nested too deeply"),
    ],
)
def test_what_json_does_not_have_is_a_problem_that_says_where_it_is(result: Any, says: str) -> None:
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    client = TestClient(RestEndpoint(Server(result), "tools/call", security))  # type: ignore[arg-type]
    answer = client.post("/tools/call", json={"name": "a"})
    assert answer.status_code == 502 and says in answer.json()["detail"]


def test_what_is_json_is_answered_as_it_is() -> None:
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    client = TestClient(RestEndpoint(Server({"content": ["→"]}), "tools/call", security))  # type: ignore[arg-type]
    assert client.post("/tools/call", json={"name": "a"}).json() == {"content": ["→"]}
