"""What Prometheus scrapes is what the roll has counted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from toolroll import Context, Observer, Tool, Toolroll

prometheus_client = pytest.importorskip("prometheus_client")
from prometheus_client import CollectorRegistry, generate_latest  # noqa: E402
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics  # noqa: E402
from prometheus_client.openmetrics.parser import (  # noqa: E402
    text_string_to_metric_families as openmetrics_families,
)
from prometheus_client.parser import text_string_to_metric_families  # noqa: E402

from toolroll.adapters.prometheus import ToolrollCollector  # noqa: E402

TOOLS = [Tool("get_forecast", "The weather of the next days"), Tool("pay_invoice", "Pay an invoice")]
PAGE = Path(__file__).parents[3] / "docs" / "observability.md"


class Broken(Observer):
    def on_report(self, report):
        raise RuntimeError


def registry_of(roll):
    registry = CollectorRegistry(auto_describe=True)
    registry.register(ToolrollCollector(roll))
    return registry


def scraped(registry):
    """Family's name → (type, {(sample's name, labels): value})."""
    return {
        family.name: (
            family.type,
            {(sample.name, *sample.labels.values()): sample.value for sample in family.samples},
        )
        for family in text_string_to_metric_families(generate_latest(registry).decode())
    }


@pytest.fixture
def roll():
    return Toolroll.from_tools(TOOLS, embedder="none", observers=[Broken()])


def test_totals_are_counters_with_the_numbers_of_the_roll(roll):
    registry = registry_of(roll)
    picked = roll.select("weather", Context(org="acme", user="anna"))
    roll.record(picked, {"get_forecast": False, "pay_invoice": True})
    families = scraped(registry)
    assert families["toolroll_reports"] == ("counter", {("toolroll_reports_total",): 1})
    assert families["toolroll_outcomes"] == (
        "counter",
        {("toolroll_outcomes_total", "failed"): 1, ("toolroll_outcomes_total", "succeeded"): 1},
    )
    assert families["toolroll_outcomes_counted"][1] == {("toolroll_outcomes_counted_total",): 2}
    assert families["toolroll_observer_errors"][1] == {("toolroll_observer_errors_total",): 1}
    assert families["toolroll_catalog_tools"] == ("gauge", {("toolroll_catalog_tools",): 2})


def test_latency_is_a_histogram_in_seconds(roll):
    registry = registry_of(roll)
    for _ in range(5):
        roll.select("weather")
    kind, samples = scraped(registry)["toolroll_selection_duration_seconds"]
    latency = roll.counters().latency
    buckets = {float(key[1]): value for key, value in samples.items() if key[0].endswith("_bucket")}
    assert kind == "histogram"
    assert buckets == dict(zip((*latency.bounds_s, float("inf")), latency.cumulative, strict=True))
    assert samples["toolroll_selection_duration_seconds_count",] == buckets[float("inf")] == 5
    assert samples["toolroll_selection_duration_seconds_sum",] == pytest.approx(latency.sum_s)
    assert 0 < latency.sum_s < 5


def test_a_scrape_counts_nothing_by_itself(roll):
    registry = registry_of(roll)
    assert scraped(registry)["toolroll_outcomes"][1] == {}
    assert scraped(registry)["toolroll_selection_duration_seconds"][1][
        "toolroll_selection_duration_seconds_count",
    ] == 0  # fmt: skip


def test_times_are_timestamps_and_durations_are_in_seconds(roll):
    families = scraped(registry_of(roll))
    counters = roll.counters()
    loaded = families["toolroll_catalog_loaded_timestamp_seconds"]
    assert loaded == ("gauge", {("toolroll_catalog_loaded_timestamp_seconds",): counters.catalog_since})
    assert families["toolroll_catalog_build_seconds"][1] == {
        ("toolroll_catalog_build_seconds",): counters.build_s
    }


def test_a_roll_in_memory_has_no_metrics_of_a_registry(roll):
    assert not [name for name in scraped(registry_of(roll)) if re.search("registry|session_|outbox", name)]


def test_the_strict_format_takes_it_too(roll):
    roll.select("weather")
    text = generate_openmetrics(registry_of(roll)).decode()
    names = {family.name for family in openmetrics_families(text)}
    assert names == set(scraped(registry_of(roll)))


def test_two_collectors_in_one_registry_are_refused(roll):
    with pytest.raises(ValueError, match="Duplicated timeseries"):
        registry_of(roll).register(ToolrollCollector(roll))


def test_every_metric_of_a_roll_in_memory_is_documented(roll):
    page = PAGE.read_text("utf-8")
    for name in scraped(registry_of(roll)):
        assert re.search(rf"`{name}(_total)?[`{{]", page), name


def test_the_prometheus_example_of_the_page_runs(roll, monkeypatch):
    registry = CollectorRegistry(auto_describe=True)
    monkeypatch.setattr(prometheus_client, "REGISTRY", registry)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    (block,) = [block for block in blocks if "ToolrollCollector" in block]
    exec(compile(block, "observability.md", "exec"), {"roll": roll})
    assert "toolroll_catalog_tools" in scraped(registry)
