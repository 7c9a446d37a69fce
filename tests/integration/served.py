"""The whole application of the service over a registry, in process, for tests of its routes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.integration.described import Description
from tests.unit.server.asgi import arequest
from toolroll.registry.registry import Registry
from toolroll.server.application import create_application
from toolroll.server.settings import ServerSettings


class Served:
    """A service with its registry; requests are made as whoever has a key. Every answer must be described."""

    def __init__(
        self, application: Any, registry: Registry, loop: asyncio.AbstractEventLoop, description: Description
    ) -> None:
        self.application, self.registry, self.loop = application, registry, loop
        self._description = description

    def __call__(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        key: str = "",
        headers: dict[str, str] | None = None,
    ) -> tuple[int, dict[str, str], Any]:
        """Status, headers and JSON of the answer to a request."""
        path, _, query = path.partition("?")
        headers = {**({"X-Service-Key": key} if key else {}), **(headers or {})}
        found = self.loop.run_until_complete(arequest(self.application, method, path, body, query, headers))
        status, answered, answer = found
        self._description.check(method, path, status, answered.get("content-type", ""), answer)
        return found


_descriptions: dict[str, Description] = {}
"""By settings: writing a description takes longer than starting the service."""


@contextmanager
def served(registry: Registry, url: str, **settings: Any) -> Iterator[Served]:
    """A running service over this registry. settings: beside the defaults."""
    application = create_application(ServerSettings(**{"catalog": url, "grace_s": 10, **settings}))
    lifespan = application.router.lifespan_context(application)
    if (kind := repr(sorted(settings.items()))) not in _descriptions:
        _descriptions[kind] = Description(application.openapi())
    loop = asyncio.new_event_loop()
    loop.run_until_complete(lifespan.__aenter__())
    try:
        yield Served(application, registry, loop, _descriptions[kind])
    finally:
        loop.run_until_complete(lifespan.__aexit__(None, None, None))
        loop.close()
