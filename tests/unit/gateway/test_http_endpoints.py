from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest

pytest.importorskip("mcp")

import anyio

from toolroll.gateway.http_endpoints import HttpSessions


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
