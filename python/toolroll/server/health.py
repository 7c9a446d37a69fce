"""Probes: whether the process lives, and whether it can select."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

from toolroll import Toolroll
from toolroll.registry.store.read_replica import ReadReplica
from toolroll.server.key_reader import KeyReader


def health_router(
    roll: Toolroll, keys: KeyReader | None = None, read_replica: ReadReplica | None = None
) -> APIRouter:
    """`/healthz` and `/readyz`.

    keys: those of callers, where the service reads them. read_replica: what reports are read from.
    """
    router = APIRouter(tags=["health"])

    @router.get("/healthz")
    async def is_alive() -> dict[str, str]:
        """Says that the process answers. It asks nothing else, so a database that is away restarts nobody."""
        return {"status": "ok"}

    @router.get("/readyz", responses={503: {"description": "It cannot select, or is about to stop."}})
    async def is_ready(response: Response) -> dict[str, Any]:
        """Says whether selections work, degraded or not. The parts that fail now are in `degraded`."""
        health = roll.health()
        response.status_code = 200 if health["ready"] else 503
        degraded = [*health["degraded"], *(["keys"] if keys is not None and keys.is_failing else [])]
        if read_replica is not None and read_replica.failing is not None:
            degraded.append("read_replica")
        return {
            "ready": health["ready"],
            "degraded": degraded,
            "catalog_revision": health["catalog_revision"],
        }

    return router
