"""`/analytics/experiments`: experiments, and what is known of them so far."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Query, Request

from toolroll.registry.analytics import experiments
from toolroll.registry.analytics.comparison import ERROR, WORTH, compare
from toolroll.server.problems import ProblemRoute
from toolroll.server.tool_registry.access import RegistryAccess


def experiment_router(access: RegistryAccess) -> APIRouter:
    """`/analytics/experiments`."""
    router = APIRouter(tags=["analytics"], route_class=ProblemRoute)

    @router.get("/analytics/experiments")
    def list_experiments(
        request: Request,
        org: str | None = None,
        active: bool = False,
        limit: int = Query(10, ge=1, le=100),
        worth: float = Query(WORTH, gt=0, lt=1),
        error: float = Query(ERROR, gt=0, lt=0.5),
    ) -> dict[str, Any]:
        """Experiments, the latest first: variants, success, intervals valid at any time, and the verdict.

        active: only those that run. worth: the least difference that matters. error: the chance of a false
        winner. Without `org`, a caller of any organisation gets those of all.
        """
        owner = access.window(request, org).org
        trials = experiments.list_experiments(access.database, active=active)
        own = [trial for trial in trials if owner is None or trial.org == owner][:limit]
        return {
            "experiments": [_form(access, trial, worth, error) for trial in own],
        }

    return router


def _form(
    access: RegistryAccess,
    trial: experiments.StoredExperiment,
    worth: float,
    error: float,
) -> dict[str, Any]:
    found = experiments.counts(access.reports, trial)
    verdict = compare(trial.experiment, found.tallies, found.assigned, error=error, worth=worth)
    fields = verdict.to_dict()
    shares = trial.experiment.variants
    for variant in fields["variants"]:
        name = variant["name"]
        variant |= {
            "share": shares[name],
            "assigned": found.assigned[name],
            "unknown": found.unknown[name],
            "mean": variant["mean"] if variant["events"] else None,
        }
    described = trial.to_dict()
    del described["salt"]  # who knows it can choose the variant of a unit
    return {**described, **fields, "strays": found.strays}
