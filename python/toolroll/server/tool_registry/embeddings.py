"""`/embeddings/recompute`: embeds texts that have no vector, in the background."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter, Request

from toolroll.model.embedder import Embedder
from toolroll.model.errors import ToolrollError
from toolroll.registry.editing.vectors import embed_missing, embedding_state, stored_texts
from toolroll.registry.store.database import Database
from toolroll.runtime.threads import CallPool
from toolroll.server.problems import ProblemRoute
from toolroll.server.tool_registry.access import RegistryAccess

_log = logging.getLogger("toolroll")


@dataclass(eq=False)
class _Run:
    """One computation at a time in this process. It stores each batch, so that it may be interrupted."""

    database: Database
    embedder: Embedder
    _pool: CallPool = field(default_factory=lambda: CallPool(1, "toolroll-embed"))
    _task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Starts it, unless it runs."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            await self._pool.arun(
                lambda: embed_missing(self.database, self.embedder, stored_texts(self.database))
            )
        except ToolrollError as error:
            _log.warning("embeddings cannot be computed: %s", error)


def embedding_router(access: RegistryAccess, embedder: Embedder | None) -> APIRouter:
    """`/embeddings/recompute`. embedder: of the service."""
    router = APIRouter(tags=["operations"], route_class=ProblemRoute, prefix="/embeddings")
    run = None
    if embedder is not None and not embedder.is_instant:
        run = _Run(access.database, embedder)
    reading = CallPool(2, "toolroll-embed-state")

    @router.post("/recompute", status_code=202)
    async def recompute(request: Request) -> dict[str, Any]:
        """Begins to embed the texts of all organisations that have no vector of the service's embedder.

        The answer has the numbers at the beginning. An embedder that works within the process stores no
        vectors: there is nothing to do (`stored` is false). Needs a key of any organisation.
        """
        caller = access.identify(request)
        caller.require("administer")
        caller.require_any_org()
        if run is None:
            return {"embedder": embedder.identity if embedder else "none", "stored": False}
        identity = run.embedder.identity
        state = await reading.arun(
            lambda: embedding_state(access.database, identity, stored_texts(access.database))
        )
        run.start()
        return {"embedder": identity, "stored": True, **state.to_dict()}

    return router
