"""What Prometheus scrapes of a `Toolroll` over a registry."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from toolroll import Recording, Tool, Toolroll
from toolroll.model.tools import Definitions
from toolroll.registry.registry import Registry
from toolroll.registry.store.database import Database

prometheus_client = pytest.importorskip("prometheus_client")

from toolroll.adapters.prometheus import ToolrollCollector  # noqa: E402

PAGE = Path(__file__).parents[2] / "docs" / "observability.md"


def test_a_registry_adds_what_waits_and_what_was_written(database_url, tmp_path):
    database = Database.open(database_url, create=False, migrate=False)
    Registry(database, actor="ann").import_(Definitions((Tool("get_forecast", "The weather"),)))
    database.close()
    with Toolroll.open(
        database_url, embedder="none", recording=Recording(outbox=tmp_path / "outbox")
    ) as roll:
        registry = prometheus_client.CollectorRegistry(auto_describe=True)
        registry.register(ToolrollCollector(roll))
        session = roll.session("s")
        session.select("weather")
        session.used(["get_forecast"])
        session.end_turn()
        assert roll.flush()
        value = registry.get_sample_value
        assert value("toolroll_session_reads_total") == 1
        assert value("toolroll_session_timeouts_total") == 0
        assert (value("toolroll_session_writes_total", {"result": "written"}) or 0) >= 1
        assert value("toolroll_events_total", {"result": "written"}) == 1
        assert value("toolroll_events_waiting") == value("toolroll_outbox_bytes") == 0
        assert value("toolroll_stored_reports_total", {"result": "counted"}) == 1
        assert value("toolroll_organisations", {"state": "ready"}) == 0
        assert value("toolroll_registry_revision") == roll.health()["revision"]
        age_s = time.time() - (value("toolroll_registry_read_timestamp_seconds") or 0)
        assert -1 < age_s < 60
        page = PAGE.read_text("utf-8")
        for family in registry.collect():
            assert re.search(rf"`{family.name}(_total)?[`{{]", page), family.name
