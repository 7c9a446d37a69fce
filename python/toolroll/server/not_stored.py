"""Answers of the service are about one caller: nothing between it and the service keeps them."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_NAME, _HEADER = b"cache-control", (b"cache-control", b"no-store")


@dataclass(frozen=True, eq=False)
class NotStored:
    """An ASGI application before another one, whose answers say `no-store`, unless they say something else.

    Attributes:
        application: answers.
    """

    application: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hands the request on."""
        if scope["type"] != "http":
            await self.application(scope, receive, send)
            return

        async def send_with_header(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = message["headers"]
                if all(name.lower() != _NAME for name, _ in headers):
                    message = {**message, "headers": [*headers, _HEADER]}
            await send(message)

        await self.application(scope, receive, send_with_header)
