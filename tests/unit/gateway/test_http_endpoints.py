"""The sessions and the plain requests of the gateway over HTTP."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("mcp")

import anyio
from mcp.server.transport_security import TransportSecuritySettings
from starlette.testclient import TestClient

from toolroll.gateway.http_endpoints import HttpSessions, RestEndpoint


class Sessions:
    """An application that has sessions, as the package's does."""

    def __init__(self):
        self.open, self.numbers, self.hold = {}, itertools.count(), anyio.Event()

    async def __call__(self, scope, receive, send):
        named = dict(scope["headers"]).get(b"mcp-session-id")
        status, headers = 200, []
        if named is None:
            named = str(next(self.numbers)).encode()
            self.open[named], headers = scope.get("user"), [(b"mcp-session-id", named)]
        elif named not in self.open or self.open[named] is not scope.get("user"):
            status = 404
        elif scope["method"] == "DELETE":
            del self.open[named]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        if scope["method"] == "GET":
            await self.hold.wait()


def user_of(name):
    return SimpleNamespace(access_token=SimpleNamespace(caller=SimpleNamespace(org="acme", user=name)))


def test_whoever_has_most_sessions_loses_the_one_that_was_used_longest_ago():
    async def go():
        inner, (ann, bob) = Sessions(), map(user_of, ("ann", "bob"))
        app = HttpSessions(inner, 4)

        async def ask(user, session=None, method="POST"):
            statuses = []

            async def send(message):
                statuses.append(message["status"])

            headers = [] if session is None else [(b"mcp-session-id", session)]
            await app({"method": method, "headers": headers, "user": user}, None, send)
            return statuses[0]

        def names():
            return {int(name) for name in inner.open}

        await ask(bob)  # 0
        for _ in range(4):
            await ask(ann)
        assert names() == {0, 2, 3, 4}
        assert await ask(ann, b"2") == 200 and await ask(bob, b"3") == 404
        await ask(ann)
        assert names() == {0, 2, 4, 5}  # 3 was used longest ago
        assert await ask(bob, b"0", "DELETE") == 200
        async with anyio.create_task_group() as tasks:
            for name in (b"2", b"4", b"5"):
                tasks.start_soon(ask, ann, name, "GET")
            await anyio.wait_all_tasks_blocked()
            await ask(bob)
            await ask(bob)
            assert names() == {2, 4, 5, 7}  # a stream is open in the others
            inner.hold.set()
        await ask(bob)
        assert names() == {4, 5, 7, 8}

    anyio.run(go)


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
