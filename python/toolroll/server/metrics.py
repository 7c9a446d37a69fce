"""`GET /metrics`, `/healthz` and `/readyz`: the counters of all workers, and the probes of one.

Any worker may answer a scrape. So each writes its own metrics to a file every second, and a scrape has the
series of every worker, with a label `worker`. A sum of rates over the workers stays right when a worker is
replaced, because Prometheus takes the rate of each series first.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from toolroll import Toolroll
from toolroll.registry.store.read_replica import ReadReplica
from toolroll.server.callers import Identify, caller_of
from toolroll.server.key_reader import KeyReader
from toolroll.server.problems import ProblemRoute

WRITE_EVERY_S = 1.0
GONE_AFTER_S = 10.0  # without a new file, a worker is no more
_SUFFIX = ".prom"


@dataclass(frozen=True, eq=False)
class WorkerMetrics:
    """The metrics of this process and of the other workers.

    Attributes:
        registry: collects the metrics of this process.
        folder: gets a file from each worker; None for a single worker.
    """

    registry: CollectorRegistry
    folder: Path | None = None

    @asynccontextmanager
    async def written(self) -> AsyncIterator[None]:
        """Writes the metrics of this process every second while the context is open."""
        if self.folder is None:
            yield
            return
        writing = asyncio.create_task(self._write_on(self.folder))
        try:
            yield
        finally:
            writing.cancel()
            with suppress(asyncio.CancelledError):
                await writing
            self._file(self.folder).unlink(missing_ok=True)

    def text(self) -> bytes:
        """The metrics in Prometheus' text format."""
        if self.folder is None:
            return generate_latest(self.registry)
        self.write(self.folder)
        return generate_latest(_Workers(_files_in(self.folder)))

    def write(self, folder: Path) -> None:
        """Writes the metrics of this process, in one step."""
        file = self._file(folder)
        unfinished = file.with_suffix(".new")
        unfinished.write_bytes(generate_latest(self.registry))
        unfinished.replace(file)

    async def _write_on(self, folder: Path) -> None:
        while True:
            self.write(folder)
            await asyncio.sleep(WRITE_EVERY_S)

    @staticmethod
    def _file(folder: Path) -> Path:
        return folder / f"{os.getpid()}{_SUFFIX}"


def metrics_router(metrics: WorkerMetrics, identify: Identify = caller_of) -> APIRouter:
    """`/metrics`. Metrics are about all organisations, so a caller of one organisation may not read them."""
    router = APIRouter(tags=["health"], route_class=ProblemRoute)

    text: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}

    @router.get("/metrics", response_class=Response, responses=text)
    async def read(request: Request) -> Response:
        """The counters of all workers, in Prometheus' text format."""
        caller = identify(request)
        caller.require("read")
        caller.require_any_org()
        return Response(metrics.text(), media_type=CONTENT_TYPE_LATEST)

    return router


def _files_in(folder: Path) -> Iterator[tuple[str, str]]:
    """Each running worker, with the text that it wrote last."""
    for file in sorted(folder.glob(f"*{_SUFFIX}")):
        with suppress(FileNotFoundError):  # a worker that has just stopped
            if time.time() - file.stat().st_mtime < GONE_AFTER_S:
                yield file.stem, file.read_text()


class _Workers:
    """Collects the series of all workers. Each series gets the label `worker`."""

    def __init__(self, written: Iterator[tuple[str, str]]) -> None:
        self._written = tuple(written)

    def collect(self) -> Iterator[Metric]:
        merged: dict[str, Metric] = {}
        for worker, text in self._written:
            for family in text_string_to_metric_families(text):
                metric = merged.setdefault(
                    family.name, Metric(family.name, family.documentation, family.type)
                )
                for sample in family.samples:
                    metric.add_sample(sample.name, {**sample.labels, "worker": worker}, sample.value)
        yield from merged.values()


def health_router(
    roll: Toolroll, keys: KeyReader | None = None, read_replica: ReadReplica | None = None
) -> APIRouter:
    """`/healthz` and `/readyz`.

    keys: the keys of callers; None without keys. read_replica: the database of reports.
    """
    router = APIRouter(tags=["health"])

    @router.get("/healthz")
    async def is_alive() -> dict[str, str]:
        """Says that the process answers, also while its database is away."""
        return {"status": "ok"}

    @router.get("/readyz", responses={503: {"description": "It cannot select, or is about to stop."}})
    async def is_ready(response: Response) -> dict[str, Any]:
        """Says whether selections work. A degraded process is ready; `degraded` names the failing parts."""
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
