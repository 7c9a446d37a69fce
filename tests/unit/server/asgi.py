"""One request to an ASGI application, without a server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any


def request(
    application: Any,
    method: str,
    path: str,
    body: object = None,
    query: str = "",
    headers: Mapping[str, str] | None = None,
) -> tuple[int, dict[str, str], Any]:
    """Status, headers and body of the answer; JSON as its value."""
    return asyncio.run(arequest(application, method, path, body, query, headers))


async def arequest(
    application: Any,
    method: str,
    path: str,
    body: object = None,
    query: str = "",
    headers: Mapping[str, str] | None = None,
    content: bytes | None = None,
) -> tuple[int, dict[str, str], Any]:
    """The same in an event loop. content: the body's bytes, in place of `body` as JSON."""
    sent: list[Any] = []
    if content is None:
        content = b"" if body is None else json.dumps(body).encode()

    unread = [content]

    async def receive() -> Any:
        if not unread:
            await asyncio.Event().wait()  # the client stays until it has the answer
        unread.clear()
        return {"type": "http.request", "body": content, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    given = {
        "host": "localhost",
        **({"content-type": "application/json"} if content else {}),
        **(headers or {}),
    }
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "headers": [(name.lower().encode(), value.encode()) for name, value in given.items()],
        "client": ("10.0.0.7", 50_000),
        "query_string": query.encode(),
    }
    await application(scope, receive, send)
    found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    answer = b"".join(part.get("body", b"") for part in sent[1:])
    if answer and "json" in found.get("content-type", ""):
        return sent[0]["status"], found, json.loads(answer)
    return sent[0]["status"], found, answer.decode()
