"""`BodiesInFlight`: counts the bytes of all bodies in a process, by caller."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_RETRY_S = 1


class BodiesInFlight:
    """Counts bytes of bodies before anybody keeps them. For one event loop.

    A caller may have as many bytes in flight as are still free: a single caller gets half of all, and a new
    caller always finds some (the rule of `server.admission`).

    Attributes:
        longest: bytes of the longest body.
    """

    def __init__(self, longest: int, in_all: int) -> None:
        """longest: bytes of one body. in_all: of all bodies together."""
        self.longest = longest
        self._most, self._total = in_all, 0
        self._of: Counter[str] = Counter()

    @contextmanager
    def limited(
        self,
        receive: Receive,
        caller: str,
        longest: int | None = None,
        note: Callable[[int], object] | None = None,
    ) -> Iterator[Receive]:
        """Counts a body for a caller until the context ends.

        longest: bytes of this body; None for the usual limit. note: called with the number of received bytes.

        Reading a body raises an HTTPException: with status 413 if it is too long, with 503 if the caller has
        too many bytes in flight.
        """
        size, most = 0, self.longest if longest is None else min(longest, self.longest)

        async def receive_counted() -> Message:
            nonlocal size
            message = await receive()
            came = len(message.get("body", b""))
            if came:
                if size + came > most:
                    raise HTTPException(413, f"the body is longer than {most:,} bytes")
                if self._of[caller] + came > self._most - self._total:
                    detail = "the bodies of requests that are being answered are too long together"
                    raise HTTPException(503, detail, {"Retry-After": str(_RETRY_S)})
                size += came
                self._total += came
                self._of[caller] += came
                if note is not None:
                    note(came)
            return message

        try:
            yield receive_counted
        finally:
            self._total -= size
            self._of[caller] -= size
            if not self._of[caller]:
                del self._of[caller]


class BoundedBodies:
    """Counts the bodies of an application's requests, by the address of the client."""

    def __init__(self, application: ASGIApp, bodies: BodiesInFlight) -> None:
        self._application, self._bodies = application, bodies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        address = (scope.get("client") or ("",))[0]
        with self._bodies.limited(receive, f"address {address}") as counted:
            await self._application(scope, counted, send)
