"""Metrics over HTTP: of one process, and of several workers together."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("prometheus_client")

from fastapi import APIRouter, FastAPI
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from tests.unit.server.asgi import request
from toolroll.adapters.prometheus import ToolrollCollector
from toolroll.model.tools import Tool
from toolroll.roll import Toolroll
from toolroll.server.http_metrics import HttpMetrics, RequestMeter
from toolroll.server.metrics import GONE_AFTER_S, WorkerMetrics


def samples(text: bytes) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def with_counts(count: int) -> CollectorRegistry:
    """The registry of a process that has answered so many requests."""
    registry = CollectorRegistry()
    router, host = APIRouter(), FastAPI()

    @router.get("/tools/{name}")
    async def read(name: str) -> str:
        return name

    host.include_router(router, prefix="/registry")
    measured = RequestMeter(host, HttpMetrics.in_registry(registry))
    for number in range(count):
        request(measured, "GET", f"/registry/tools/{number}")
    request(measured, "GET", "/nowhere")
    return registry


def test_requests_are_counted_by_route_and_status_whatever_the_path():
    found = samples(WorkerMetrics(with_counts(3)).text())
    labels = {"method": "GET", "route": "/registry/tools/{name}", "status": "200"}
    assert found[("toolroll_http_requests_total", frozenset(labels.items()))] == 3
    labels = {"method": "GET", "route": "-", "status": "404"}
    assert found[("toolroll_http_requests_total", frozenset(labels.items()))] == 1
    route = frozenset({("route", "/registry/tools/{name}")})
    assert found[("toolroll_http_request_duration_seconds_count", route)] == 3


def test_a_scrape_of_any_worker_has_the_series_of_every_worker(tmp_path, monkeypatch):
    roll = Toolroll.from_tools([Tool("ping", "asks a host")])
    workers = {}
    for pid, count in ((11, 3), (12, 5)):
        registry = with_counts(count)
        registry.register(ToolrollCollector(roll))
        workers[pid] = WorkerMetrics(registry, tmp_path)
        monkeypatch.setattr(os, "getpid", lambda pid=pid: pid)
        workers[pid].write(tmp_path)
    for pid, worker in workers.items():
        monkeypatch.setattr(os, "getpid", lambda pid=pid: pid)
        roll.select("ping")
        found = samples(worker.text())
        counted = {
            dict(labels)["worker"]: value
            for (name, labels), value in found.items()
            if name == "toolroll_http_requests_total" and ("status", "200") in labels
        }
        assert counted == {"11": 3, "12": 5}
        assert ("toolroll_catalog_tools", frozenset({("worker", "11")})) in found
        own = ("toolroll_selection_duration_seconds_count", frozenset({("worker", str(pid))}))
        assert found[own] == 1  # what this worker has counted since it wrote its file


def test_the_metrics_of_a_worker_that_is_gone_are_left_out(tmp_path):
    WorkerMetrics(with_counts(1), tmp_path).write(tmp_path)
    gone = tmp_path / "7.prom"
    gone.write_bytes(WorkerMetrics(with_counts(9)).text())
    worker = WorkerMetrics(with_counts(1), tmp_path)
    assert b'worker="7"' in worker.text()
    old = gone.stat().st_mtime - GONE_AFTER_S - 1
    os.utime(gone, (old, old))
    assert b'worker="7"' not in worker.text()


def test_a_worker_writes_its_metrics_while_it_serves_and_takes_them_away_at_its_end(tmp_path):
    worker, file = WorkerMetrics(with_counts(1), tmp_path), tmp_path / f"{os.getpid()}.prom"

    async def run() -> bool:
        async with worker.written():
            await asyncio.sleep(0)
            return file.exists()

    assert asyncio.run(run())
    assert list(Path(tmp_path).iterdir()) == []
