"""A worker opens the catalog, its registry and its metrics here, and closes them at its end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from toolroll import Follow, Recording, Registry, Toolroll
from toolroll.adapters.prometheus import ToolrollCollector
from toolroll.model.embedder import Embedder
from toolroll.model.errors import InvalidInput
from toolroll.server.metrics import WorkerMetrics
from toolroll.server.settings import CLOSING_SHARE, ServerSettings

if TYPE_CHECKING:
    from toolroll import PublishedCatalogs
    from toolroll.server.traces import Traces


def open_registry(settings: ServerSettings, embedder: Embedder | None) -> tuple[Toolroll, Registry]:
    """Opens the catalog and the registry that the settings name. The catalog follows the registry.

    Raises:
        NotFound, StoreUnavailable, InvalidInput: as `Toolroll.open`. Nothing stays open.
    """
    roll = Toolroll.open(
        settings.catalog,
        embedder=embedder or "none",
        profile=settings.profile,
        follow=Follow(published=_published(settings), listen_url=settings.listen_url or None),
        recording=Recording(
            messages=settings.messages,
            outbox=settings.outbox or None,
            # Where `serve` has started the process, it says "none".
            keeper="thread" if settings.keeper == "process" else settings.keeper,
        ),
    )
    try:
        return roll, Registry.open(settings.catalog, create=False, read_replica=settings.read_replica or None)
    except BaseException:
        roll.close()
        raise


def _published(settings: ServerSettings) -> PublishedCatalogs | None:
    """The place where the catalog is published; None if the settings name none."""
    if not settings.published:
        return None
    from toolroll import PublishedCatalogs  # its packages are an extra

    return PublishedCatalogs(settings.published, settings.published_name, settings.published_trust)


def close(roll: Toolroll, registry: Registry | None) -> None:
    """Closes both, for a start that failed."""
    roll.close()
    if registry is not None:
        registry.close()


def worker_metrics(settings: ServerSettings, roll: Toolroll) -> WorkerMetrics:
    """The metrics of this worker, with the metrics of the roll."""
    folder = Path(settings.metrics_folder) if settings.metrics_folder else None
    metrics = WorkerMetrics(CollectorRegistry(), folder)
    metrics.registry.register(ToolrollCollector(roll))
    return metrics


def worker_traces(settings: ServerSettings) -> Traces | None:
    """The traces of this worker; None if the settings name no collector.

    Raises:
        InvalidInput: a package is missing.
    """
    if not settings.traces_url:
        return None
    check_traces(settings)
    from toolroll.server.traces import Traces

    return Traces(settings.traces_url)


def check_traces(settings: ServerSettings) -> None:
    """Refuses a collector if a package that sends spans is missing.

    Raises:
        InvalidInput: names the package.
    """
    if not settings.traces_url:
        return
    try:
        import toolroll.server.traces  # noqa: F401
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "toolroll":
            raise
        raise InvalidInput(f"traces_url needs {error.name}: pip install 'toolroll[otel]'") from error


@asynccontextmanager
async def running(
    settings: ServerSettings,
    metrics: WorkerMetrics,
    traces: Traces | None,
    roll: Toolroll,
    registry: Registry | None,
) -> AsyncIterator[None]:
    """Sends metrics and spans while the context is open. Its end writes outcomes and closes everything."""
    closing_s = settings.grace_s * CLOSING_SHARE
    try:
        async with AsyncExitStack() as stack:
            if traces is not None:
                await stack.enter_async_context(traces.sent(roll, closing_s / 2))
            await stack.enter_async_context(metrics.written())
            yield
    finally:
        try:
            await roll.aclose(closing_s / 2 if traces is not None else closing_s)
        finally:
            if registry is not None:
                registry.close()
