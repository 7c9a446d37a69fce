"""All routes of the registry."""

from __future__ import annotations

from fastapi import APIRouter

from toolroll import Registry, Toolroll
from toolroll.model.embedder import Embedder
from toolroll.server.callers import Identify, caller_of
from toolroll.server.tool_registry.access import RegistryAccess
from toolroll.server.tool_registry.analytics import analytics_router, experiment_router
from toolroll.server.tool_registry.categories import category_router
from toolroll.server.tool_registry.operations import embedding_router, past_selection_router, trial_router
from toolroll.server.tool_registry.organisations import organisation_router
from toolroll.server.tool_registry.plugins import plugin_router
from toolroll.server.tool_registry.rules import rule_router, what_if_router
from toolroll.server.tool_registry.shared_tools import SharedTools
from toolroll.server.tool_registry.tools import tool_router

PREFIX = "/internal/tool-registry"


def registry_router(
    registry: Registry, roll: Toolroll, embedder: Embedder | None = None, identify: Identify = caller_of
) -> APIRouter:
    """The registry's routes, without `PREFIX`.

    roll: selects from this registry, for `/test-selection`. embedder: of the roll. identify: finds callers.
    """
    shared = SharedTools(roll, registry)
    access, router = RegistryAccess(registry, identify, shared), APIRouter()
    for part in (
        tool_router(access, shared),
        category_router(access),
        rule_router(access),
        what_if_router(roll, access),
        organisation_router(access),
        analytics_router(access, embedder, shared),
        experiment_router(access),
        embedding_router(access, embedder),
        trial_router(roll, access),
        past_selection_router(access, embedder),
        plugin_router(access),
    ):
        router.include_router(part)
    return router
