"""One request to an ASGI application, without a server."""

from __future__ import annotations

import asyncio
import json
from typing import Any


def request(
    application: Any, method: str, path: str, body: object = None, query: str = ""
) -> tuple[int, dict[str, str], Any]:
    """Status, headers and JSON of the answer."""
    sent: list[Any] = []
    content = b"" if body is None else json.dumps(body).encode()

    async def receive() -> Any:
        return {"type": "http.request", "body": content, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"content-type", b"application/json")] if content else []
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "headers": headers,
        "query_string": query.encode(),
    }
    asyncio.run(application(scope, receive, send))
    found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], found, json.loads(b"".join(part.get("body", b"") for part in sent[1:]))
