"""Reports from a read replica: a real streaming standby that lags, stops queries, goes away and comes back."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

pytest.importorskip("fastapi")

from tests.integration.commands import Typed
from tests.integration.outcomes import eventually
from tests.integration.served import Served, served
from tests.integration.standby import Cluster, primary_and_standby
from tests.ports import free_port
from toolroll import Context, Follow, Recording, Registry, Tool, Toolroll
from toolroll.model.errors import InvalidInput, StoreUnavailable
from toolroll.registry.store.read_replica import ReadReplica
from toolroll.server.tool_registry.router import PREFIX

ANN = Context(org="acme", user="ann")
METRICS = f"{PREFIX}/analytics/metrics"


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Cluster, Cluster]]:
    with primary_and_standby() as both:
        yield both


class Pair:
    """A registry on a primary, and its copy on the standby."""

    def __init__(self, primary: Cluster, standby: Cluster) -> None:
        self.name = f"tools_{uuid.uuid4().hex[:8]}"
        self.primary, self.standby = primary, standby
        primary.ask(f"CREATE DATABASE {self.name}")
        self.url, self.copy_url = primary.url(self.name), standby.url(self.name)
        with Registry.open(self.url, actor="ada") as registry:
            registry.create(Tool("send_mail", "sends a mail"))
        self.catch_up()

    def catch_up(self) -> None:
        """Waits until the standby has all that the primary has."""
        written = self.primary.ask("SELECT pg_current_wal_lsn()::text")
        eventually(lambda: self.standby.ask(f"SELECT pg_last_wal_replay_lsn() >= '{written}'::pg_lsn"))

    def serve_turns(self, number: int, outbox: Path) -> None:
        """Logs so many selections."""
        with Toolroll.open(self.url, follow=Follow(poll_s=0.1), recording=Recording(outbox=outbox)) as roll:
            for _ in range(number):
                roll.record(roll.select("send a mail", ANN), {"send_mail": True})
            assert roll.flush(20)


@pytest.fixture
def pair(servers: tuple[Cluster, Cluster]) -> Pair:
    return Pair(*servers)


@pytest.fixture
def service(pair: Pair, tmp_path: Path) -> Iterator[tuple[Served, str]]:
    """A service with the copy, and a key."""
    with Registry.open(pair.url, actor="ada") as registry:
        key = registry.keys.add("all", roles=["read", "select", "report"], org=None)[1]
        outbox = str(tmp_path / "service")
        with served(registry, pair.url, read_replica=pair.copy_url, outbox=outbox) as service:
            yield service, key


def events_of(service: tuple[Served, str]) -> int:
    served, key = service
    status, _, answer = served("GET", METRICS, key=key)
    assert status == 200, answer
    return int(answer["total"])


def degraded(service: tuple[Served, str]) -> list[str]:
    status, _, answer = service[0]("GET", "/readyz")
    assert status == 200
    return list(answer["degraded"])


@pytest.mark.slow
def test_reports_read_the_copy_which_lags_goes_away_and_comes_back(
    pair: Pair, service: tuple[Served, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = Typed(pair.url, capsys)
    words = ("events", "analytics", "metrics", "--read-replica", pair.copy_url)
    pair.serve_turns(3, tmp_path / "outbox")
    pair.catch_up()
    assert events_of(service) == 3 and degraded(service) == []
    assert command.json(*words)["total"] == 3
    used = f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{pair.name}' AND backend_type ~ 'client'"
    assert pair.standby.ask(used) != 0

    pair.standby.ask("SELECT pg_wal_replay_pause()")
    pair.serve_turns(2, tmp_path / "outbox")
    eventually(lambda: pair.standby.ask("SELECT pg_last_wal_receive_lsn() > pg_last_wal_replay_lsn()"))
    assert events_of(service) == 3  # it lags
    assert command.json("events", "analytics", "metrics")["total"] == 5  # the primary does not
    replica = ReadReplica(pair.copy_url)
    eventually(lambda: replica.revision() and replica.behind_s > 1)
    replica.close()
    told = command(*words)
    assert "older than the registry" in told.err
    pair.standby.ask("SELECT pg_wal_replay_resume()")
    eventually(lambda: events_of(service) == 5)

    pair.standby.stop()
    try:
        status, _, answer = service[0]("GET", METRICS, key=service[1])
        assert status == 503 and "read replica postgresql://toolroll@" in answer["detail"]
        assert degraded(service) == ["read_replica"]
        failed = command(*words, status=1)
        assert "read replica" in failed.err and "check host, port" in failed.err
        status, _, answer = service[0]("POST", "/select", {"message": "send a mail"}, key=service[1])
        assert status == 200, answer
        assert command.json("events", "analytics", "metrics")["total"] >= 5
    finally:
        pair.standby.start("max_standby_streaming_delay=200ms", "wal_retrieve_retry_interval=100ms")
    eventually(lambda: events_of(service) >= 5)
    assert degraded(service) == []


@pytest.mark.slow
def test_nothing_is_written_to_a_copy_and_a_query_that_holds_it_back_says_so(pair: Pair) -> None:
    with Registry.open(pair.url, actor="ada", read_replica=pair.copy_url) as registry:
        assert registry.with_actor("bob").reports is registry.reports is registry.read_replica
        with pytest.raises(StoreUnavailable, match="is never written to"), registry.reports.recording():
            pass
        with pytest.raises(StoreUnavailable, match="is never written to"), registry.reports.writing("ann"):
            pass
        registry.create(Tool("send_fax", "sends a fax"))  # the registry itself is not read-only
        with psycopg.connect(pair.url, autocommit=True) as connection:
            connection.execute("CREATE TABLE scratch AS SELECT 1 AS n")
            pair.catch_up()
            with (
                pytest.raises(StoreUnavailable, match="hot_standby_feedback = on"),
                registry.reports.reading() as reading,
            ):
                reading.execute(sa.text("SELECT * FROM scratch"))
                connection.execute("TRUNCATE scratch")
                reading.execute(sa.text("SELECT pg_sleep(30)"))
        assert registry.read_replica is not None and "read replica" in str(registry.read_replica.failing)
        eventually(lambda: registry.reports.revision() == 2)
        assert registry.read_replica.failing is None


@pytest.mark.slow
def test_a_copy_of_another_registry_is_not_read(servers: tuple[Cluster, Cluster], pair: Pair) -> None:
    other = Pair(*servers)
    with (
        Registry.open(pair.url, read_replica=other.copy_url) as registry,
        pytest.raises(StoreUnavailable, match="holds another registry"),
    ):
        registry.reports.revision()
    empty = pair.primary.url("postgres")
    with (
        Registry.open(pair.url, read_replica=empty) as registry,
        pytest.raises(StoreUnavailable, match="has no registry, this toolroll needs schema"),
    ):
        registry.reports.revision()


@pytest.mark.slow
def test_a_command_refuses_a_copy_of_another_registry(
    servers: tuple[Cluster, Cluster], pair: Pair, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other, command, lake = Pair(*servers), Typed(pair.url, capsys), tmp_path / "lake"
    for words in (
        ("events", "analytics", "metrics"),
        ("events", "list"),
        ("events", "export", str(lake), "--partitioned"),
        ("events", "export", str(tmp_path / "e.parquet")),
        ("lab", "experiment", "show"),
        ("lab", "judge", "--embedder", "none"),
    ):
        failed = command(*words, "--read-replica", other.copy_url, status=1)
        assert "read replica" in failed.err and "holds another registry" in failed.err, words
    assert not lake.exists() and not (tmp_path / "e.parquet").exists()
    command("events", "export", str(lake), "--partitioned", "--read-replica", pair.copy_url)
    assert lake.exists()


@pytest.mark.slow
def test_exported_events_are_not_judged_by_a_copy_of_another_registry(
    servers: tuple[Cluster, Cluster], pair: Pair, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("duckdb")
    other, command, file = Pair(*servers), Typed(pair.url, capsys), str(tmp_path / "e.parquet")
    pair.serve_turns(2, tmp_path / "outbox")
    pair.catch_up()
    command("events", "export", file, "--messages")
    words = ("lab", "judge", "--events", file, "--embedder", "none", "--read-replica")
    assert "holds another registry" in command(*words, other.copy_url, status=1).err
    assert command.json(*words, pair.copy_url)["profile"] == "default"


def test_a_read_replica_must_be_a_postgresql_beside_a_postgresql(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'tools.db'}"
    for copy in (url, "postgresql://nobody@127.0.0.1:1/tools"):
        with pytest.raises(InvalidInput, match="must both be PostgreSQL"):
            Registry.open(url, read_replica=copy)
    with Registry.open(url) as registry:
        assert registry.reports is registry.database and registry.read_replica is None
    found = Typed(url, capsys)("events", "analytics", "metrics", "--read-replica", url, status=1)
    assert "read_replica: is" in found.err


@pytest.mark.parametrize("setting", ["READ_REPLICA", "LISTEN_URL"])
def test_the_service_refuses_an_address_that_its_registry_cannot_have(
    setting: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path / 'tools.db'}"
    Registry.open(url).close()
    monkeypatch.setenv(f"TOOLROLL_SERVER_{setting}", "postgresql://ann:hunter2@127.0.0.1:1/tools")
    found = Typed(url, capsys)("serve", "--port", str(free_port()), "--check", status=1)
    assert "must both be PostgreSQL" in found.err and "hunter2" not in found.err
