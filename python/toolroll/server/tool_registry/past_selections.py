"""`/events`: logged selections, and what each of them would be now if it were decided again as it was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Query, Request

from toolroll.model.embedder import Embedder
from toolroll.registry.analytics.event_view import list_events
from toolroll.registry.editing.vectors import StoredEmbedder
from toolroll.registry.events.replay import replay
from toolroll.selection import profiles
from toolroll.selection.pipeline_builder import PipelineBuilder
from toolroll.server.problems import ProblemRoute
from toolroll.server.tool_registry.access import RegistryAccess
from toolroll.server.tool_registry.trials import tool_form


def past_selection_router(access: RegistryAccess, embedder: Embedder | None) -> APIRouter:
    """`/events` and `/events/{id}/replay`. embedder: of the service."""
    router = APIRouter(tags=["operations"], route_class=ProblemRoute)
    builder_of = _builders(access, embedder)

    @router.get("/events")
    def list_selections(
        request: Request,
        org: str | None = None,
        outcome: str | None = None,
        tool: str | None = None,
        limit: int = Query(20, ge=1, le=1_000),
    ) -> dict[str, Any]:
        """Logged selections, newest first, without the users' text.

        outcome: only those with this outcome. tool: only those in which this tool was called. Without `org`,
        a caller of any organisation gets those of all.
        """
        window = access.window(request, org)
        found = list_events(access.reports, window, outcome=outcome, tool=tool, limit=limit)
        return {"events": found}

    @router.post("/events/{id}/replay")
    def replay_selection(
        request: Request,
        id: str,
        org: str | None = None,
        profile: str = "",
        most: int = Query(1_000, ge=1, le=100_000),
    ) -> dict[str, Any]:
        """Decides a logged selection again, with the tools, rules and statistics of its time. Writes nothing.

        `same` says whether the result equals the logged selection; else `missing` has what is no longer
        available, and `differences` what differs. `tools` has the reasons of at most so many tools, without
        those that a rule hid. It takes a message that was kept. profile: decides in place of the logged one.
        """
        owner, is_bound = access.window(request, org).org, access.identify(request).org is not None
        found = replay(access.database, id, builder_of, org=owner, profile=profile)
        selection = found.selection
        accounts = () if selection is None else selection.accounts()[:most]
        scores = () if selection is None else selection.scores([one.name for one in accounts], known=is_bound)
        return {
            **found.to_dict(),
            "stages": [] if selection is None else [asdict(step) for step in selection.steps(known=is_bound)],
            "tools": [tool_form(one, one.reasons, each) for one, each in zip(accounts, scores, strict=True)],
        }

    return router


def _builders(access: RegistryAccess, embedder: Embedder | None) -> Callable[[str], PipelineBuilder]:
    def builder(name: str) -> PipelineBuilder:
        made = embedder
        if made is not None and not made.is_instant:
            made = StoredEmbedder(made, access.database)
        return PipelineBuilder(made, profiles.profile(name or "default"))

    return builder
