"""`/analytics`: figures of selections and outcomes, experiments, and tools without vectors."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any, Literal

from fastapi import APIRouter, Depends, Query, Request

from toolroll.model.embedder import Embedder
from toolroll.registry.analytics import drift, experiments, metrics, tool_calls, usage
from toolroll.registry.analytics import tools as health
from toolroll.registry.analytics.comparison import ERROR, WORTH, compare
from toolroll.registry.analytics.window import Window
from toolroll.server.problems import ProblemRoute
from toolroll.server.tool_registry.access import RegistryAccess
from toolroll.server.tool_registry.shared_tools import SharedTools


def analytics_router(access: RegistryAccess, embedder: Embedder | None, shared: SharedTools) -> APIRouter:
    """`/analytics/…`. embedder: of the service. shared: of the platform, for organisations.

    Without `org`, a caller of any organisation gets the figures of all.
    """
    router = APIRouter(tags=["analytics"], route_class=ProblemRoute, prefix="/analytics")
    events: Any = Depends(access.window)

    @router.get("/metrics")
    def read_metrics(window: Window = events) -> dict[str, Any]:
        """Selections: their number, latency, profiles, outcomes, and the tokens that they saved."""
        return metrics.metrics(access.reports, window)

    @router.get("/timeline")
    def read_timeline(
        window: Window = events,
        per: metrics.Per = "day",
    ) -> dict[str, Any]:
        """By day or hour: selections, success, mean latency, saved tokens; and the parts that failed.

        Days and hours without selections are left out. `first` and `last` say when a part failed.
        """
        return metrics.timeline(access.reports, window, per)

    @router.get("/arms")
    def read_arms(
        request: Request,
        org: str | None = None,
        tool: str | None = None,
        level: Literal["everywhere", "page", "context", "plain"] = "everywhere",
        limit: int = Query(100, ge=1, le=1_000),
    ) -> dict[str, Any]:
        """The reliability of tools with its 95 % interval, those with the most calls first."""
        window, now = access.window(request, org), datetime.now(timezone.utc)
        found = health.arms(access.reports, window, now, level=level, tool=tool, limit=limit)
        return {"arms": [arm.to_dict() for arm in found]}

    @router.get("/unused")
    def read_unused(
        window: Window = events,
        shown_often: int = Query(50, ge=1, le=1_000_000),
    ) -> dict[str, Any]:
        """Active tools that were never selected, or shown so often and never called.

        Of the platform's tools, an organisation has those that somebody in it sees.
        """
        reaching = shared.reaching(window.org) if window.org else None
        found = health.unused(access.reports, window, shown_often, reaching)
        return {**found}

    @router.get("/broken")
    def read_broken(window: Window = events) -> dict[str, Any]:
        """Tools that broke, the latest first. Selections hide one whose `back` is null."""
        found = health.broken(access.reports, window)
        return {"broken": [each.to_dict() for each in found]}

    @router.get("/tools")
    def read_tools(
        window: Window = events,
        by: tool_calls.By = "calls",
        limit: int = Query(100, ge=1, le=1_000),
    ) -> dict[str, Any]:
        """Calls, failures and durations of each tool. by: the order, the highest first.

        `duration_ms` has the mean and the 95th percentile of the `timed` calls. `/plugins/calls` has the same
        for each plugin.
        """
        found = tool_calls.tool_calls(access.reports, window, by=by, limit=limit)
        return {"tools": [each.to_dict() for each in found]}

    @router.get("/heatmap")
    def read_heatmap(
        window: Window = events,
        of: usage.Of = "called",
        tools: int = Query(40, ge=1, le=1_000),
        pages: int = Query(20, ge=1, le=1_000),
    ) -> dict[str, Any]:
        """How often each tool was called, selected or successful, by page. tools, pages: the most of each."""
        return usage.heatmap(access.reports, window, of, tools, pages).to_dict()

    @router.get("/accuracy")
    def read_accuracy(window: Window = events) -> dict[str, Any]:
        """By day, how often a called tool had been selected."""
        days = usage.hits(access.reports, window)
        calls, hits = sum(day.calls for day in days), sum(day.hits for day in days)
        return {
            "calls": calls,
            "hits": hits,
            "rate": hits / calls if calls else None,
            "days": [day.to_dict() for day in days],
        }

    @router.get("/drift")
    def read_drift(
        request: Request, org: str | None = None, older_than_days: float | None = Query(None, ge=0, le=36_500)
    ) -> dict[str, Any]:
        """Tools that lack vectors of the service's embedder.

        older_than_days: also tools with a vector that is older. An embedder that works within the process
        stores no vectors (`stored` is false), so no tool drifts.
        """
        window = access.window(request, org)
        checked, found = 0, tuple[drift.Drift, ...]()
        is_stored = embedder is not None and not embedder.is_instant
        if embedder is not None and is_stored:
            oldest = None
            if older_than_days is not None:
                oldest = datetime.now(timezone.utc) - timedelta(days=older_than_days)
            checked, found = drift.drift(access.reports, window, embedder.identity, oldest)
        return {
            "embedder": embedder.identity if embedder else "none",
            "stored": is_stored,
            "checked": checked,
            "tools": [tool.to_dict() for tool in found],
        }

    return router


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
        winner. Without `org`, a caller of any organisation gets the experiments of all.
        """
        owner = access.window(request, org).org
        trials = experiments.list_experiments(access.database, active=active)
        own = [trial for trial in trials if owner is None or trial.org == owner][:limit]
        return {"experiments": [_form(access, trial, worth, error) for trial in own]}

    return router


def _form(
    access: RegistryAccess, trial: experiments.StoredExperiment, worth: float, error: float
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
