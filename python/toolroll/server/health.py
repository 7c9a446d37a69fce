"""Probes: whether the process lives, and whether it can select."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

from toolroll import Toolroll


def health_router(roll: Toolroll) -> APIRouter:
    """`/healthz` and `/readyz`."""
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
        return {
            "ready": health["ready"],
            "degraded": health["degraded"],
            "catalog_revision": health["catalog_revision"],
        }

    return router
