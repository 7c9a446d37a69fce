"""What a worker opens at its start and closes at its end: the catalog, its registry and the metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from prometheus_client import CollectorRegistry

from toolroll import Registry, Toolroll
from toolroll.adapters.prometheus import ToolrollCollector
from toolroll.embedder import Embedder
from toolroll.server.metrics import WorkerMetrics
from toolroll.server.settings import CLOSING_SHARE, ServerSettings


def open_registry(settings: ServerSettings, embedder: Embedder | None) -> tuple[Toolroll, Registry]:
    """The catalog that the settings name, which follows its registry, and the registry.

    Raises:
        NotFound, StoreUnavailable, InvalidInput: as `Toolroll.open`. Nothing stays open.
    """
    roll = Toolroll.open(
        settings.catalog,
        embedder=embedder or "none",
        profile=settings.profile,
        messages=settings.messages,
        journal=settings.journal or None,
    )
    try:
        return roll, Registry.open(settings.catalog, create=False)
    except BaseException:
        roll.close()
        raise


def close(roll: Toolroll, registry: Registry | None) -> None:
    """Closes both, for a start that failed."""
    roll.close()
    if registry is not None:
        registry.close()


def worker_metrics(settings: ServerSettings, roll: Toolroll) -> WorkerMetrics:
    """The metrics of this worker, with those of the roll."""
    folder = Path(settings.metrics_folder) if settings.metrics_folder else None
    metrics = WorkerMetrics(CollectorRegistry(), folder)
    metrics.registry.register(ToolrollCollector(roll))
    return metrics


@asynccontextmanager
async def running(
    settings: ServerSettings, metrics: WorkerMetrics, roll: Toolroll, registry: Registry | None
) -> AsyncIterator[None]:
    """The life of a worker: its metrics are written; at its end outcomes are, and all is closed."""
    try:
        async with metrics.written():
            yield
    finally:
        try:
            await roll.aclose(settings.grace_s * CLOSING_SHARE)
        finally:
            if registry is not None:
                registry.close()
