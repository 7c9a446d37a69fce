"""Large requests: answered as small ones are, in turns, and the interpreter is as before afterwards."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from typing import Any

import pytest

pytest.importorskip("fastapi")

from fastapi import APIRouter, FastAPI, Request
from pydantic import BaseModel

from tests.table import each_row
from toolroll.server.callers import Caller
from toolroll.server.large_requests import LARGE_BYTES, LargeRequests
from toolroll.server.problems import ProblemRoute

PADDING = " " * (LARGE_BYTES + 1)


class _Body(BaseModel):
    names: tuple[str, ...]


def application() -> FastAPI:
    router = APIRouter(route_class=ProblemRoute)

    @router.post("/names")
    def count(request: Request, body: _Body) -> dict[str, Any]:
        return {"names": list(body.names)}

    app = FastAPI()
    app.include_router(router)
    return app


def answer(app: FastAPI, content: bytes) -> tuple[int, Any]:
    """Status and JSON of the answer to a request behind the gate."""
    sent: list[Any] = []
    came = iter([{"type": "http.request", "body": content}])

    async def receive() -> Any:
        return next(came, {"type": "http.disconnect"})

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/names",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
        "state": {"caller": Caller("acme", frozenset(), "acme"), "large": LargeRequests()},
    }
    asyncio.run(asyncio.wait_for(app(scope, receive, send), 60))
    return sent[0]["status"], json.loads(b"".join(one.get("body", b"") for one in sent))


@each_row(
    "text",
    [
        '{"names": ["a", "é"]}',
        '{"names": [1]}',
        '["a"]',
        '{"names": ["a" 1]}',
        '{"names": ["a"], }',
        "[" * 5_000,
        "nothing",
    ],
)
@each_row("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_a_large_request_is_answered_as_a_small_one(text, encoding):
    app, usual = application(), sys.getswitchinterval()
    assert answer(app, (text + PADDING).encode(encoding)) == answer(app, text.encode(encoding))
    assert gc.isenabled() and sys.getswitchinterval() == usual


def test_two_are_worked_on_at_a_time_and_one_of_each_owner():
    async def run() -> list[set[str]]:
        large, running, seen = LargeRequests(), set[str](), list[set[str]]()

        async def work(name: str) -> None:
            async with large.turn(name.partition(" ")[0]):
                running.add(name)
                assert not gc.isenabled()
                seen.append(set(running))
                await asyncio.sleep(0.01)
                running.remove(name)

        await asyncio.gather(*[work(f"{owner} {at}") for at in range(3) for owner in ("a", "b", "c")])
        assert not large._owners
        return seen

    for running in asyncio.run(run()):
        owners = [name.partition(" ")[0] for name in running]
        assert len(owners) <= 2 and len(set(owners)) == len(owners)
    assert gc.isenabled()
