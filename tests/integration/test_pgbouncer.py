"""Behind PgBouncer, which gives each transaction another connection; and how many connections a process has."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from tests.integration.outcomes import eventually
from tests.integration.tcp_proxy import Proxy
from tests.ports import free_port
from toolroll import Context, Follow, Recording, Tool, Toolroll
from toolroll.model.errors import InvalidInput
from toolroll.registry.analytics.metrics import metrics
from toolroll.registry.analytics.window import Window
from toolroll.registry.registry import Registry
from toolroll.registry.store.database import MOST_CONNECTIONS, Database

pytestmark = [pytest.mark.db, pytest.mark.slow]

PGBOUNCER = shutil.which("pgbouncer", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"]))
CONFIGURATION = """
[databases]
{database} = host=127.0.0.1 port={port} dbname={database} user={user}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own}
unix_socket_dir =
auth_type = any
pool_mode = transaction
max_client_conn = 200
default_pool_size = 4
ignore_startup_parameters = options, extra_float_digits
"""
ANN = Context(org="acme", user="ann")


@pytest.fixture
def direct(new_database_url: Callable[[str], str]) -> str:
    """The URL of a registry without a pooler."""
    url = new_database_url("postgresql")
    with Registry.open(url, actor="ada") as registry:
        registry.create(Tool("send_mail", "sends a mail"))
    return url


@pytest.fixture
def pooled(direct: str, tmp_path: Path) -> Iterator[str]:
    """The URL of the same through PgBouncer in transaction mode, with four connections to the server."""
    if PGBOUNCER is None:
        pytest.skip("pgbouncer is not installed")
    proxy, parsed = Proxy(direct), sa.make_url(direct)
    names = {"database": parsed.database, "port": proxy.port, "user": parsed.username}
    path, log = tmp_path / "pgbouncer.ini", tmp_path / "pgbouncer.log"
    user = None
    if os.geteuid() == 0:  # which it refuses to run as
        user = "nobody"
        for folder in path.parents:
            if folder.stat().st_uid == 0 and folder != Path("/"):
                folder.chmod(folder.stat().st_mode | 0o011)
    deadline, process = time.monotonic() + 60, None
    try:
        while process is None or process.poll() is not None:  # such as a port that was taken meanwhile
            assert time.monotonic() < deadline, f"pgbouncer ends: {log.read_text()}"
            own = free_port()
            path.write_text(CONFIGURATION.format(**names, own=own))
            path.chmod(0o644)
            url = parsed.set(host="127.0.0.1", port=own, query={}).render_as_string(hide_password=False)
            with log.open("wb") as output:
                command = [PGBOUNCER, "-q", str(path)]
                process = subprocess.Popen(command, user=user, stdout=output, stderr=output)
            while process.poll() is None:
                try:
                    psycopg.connect(url, connect_timeout=2).close()
                    break
                except psycopg.OperationalError:
                    assert time.monotonic() < deadline, "pgbouncer does not answer"
                    time.sleep(0.05)
        yield url
    finally:
        if process is not None:
            process.terminate()
            process.wait(60)
        proxy.close()


def test_behind_a_pooler_changes_outcomes_and_conversations_arrive(
    direct: str, pooled: str, tmp_path: Path
) -> None:
    with Toolroll.open(
        pooled, follow=Follow(listens=False, poll_s=0.1), recording=Recording(outbox=tmp_path / "outbox")
    ) as roll:
        for _ in range(20):
            picked = roll.select("send a mail", ANN)
            roll.record(picked, {"send_mail": True})
        session = roll.session("talk", ANN)
        session.select("send a mail")
        session.end_turn()
        with Registry.open(direct, actor="ada") as registry:
            registry.create(Tool("send_fax", "sends a fax"))
        eventually(lambda: "send_fax" in roll.select("send a fax", ANN).names)
        assert roll.flush(20) and roll.health()["degraded"] == []
    database = Database.open(direct, create=False, migrate=False)
    found = metrics(database, Window("acme"))
    assert found["outcomes"]["succeeded"] == 20
    database.close()


def test_notifications_that_a_pooler_loses_only_cost_the_wait_for_the_next_poll(
    direct: str, pooled: str, tmp_path: Path
) -> None:
    with Toolroll.open(
        pooled, follow=Follow(poll_s=0.2), recording=Recording(outbox=tmp_path / "outbox")
    ) as roll:  # listens, and hears nothing
        roll.warm_up()
        with Registry.open(direct, actor="ada") as registry:
            registry.create(Tool("send_fax", "sends a fax"))
        eventually(lambda: "send_fax" in roll.select("send a fax", ANN).names)


OURS = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
    "AND backend_type = 'client backend' AND application_name = 'toolroll'"
)


def most_connections(direct: str, roll: Toolroll, databases: Sequence[Database]) -> int:
    """How many connections there are at most while 60 threads select, report, converse and read."""
    counts, stop = [0], threading.Event()

    def watch() -> None:
        with psycopg.connect(direct, autocommit=True) as connection:
            before = 0
            while not stop.is_set():
                now = (connection.execute(OURS).fetchone() or (0,))[0]
                counts.append(min(before, now))  # the server takes a moment to end one that was closed
                before = now
                time.sleep(0.01)

    def work(at: int) -> None:
        for turn in range(5):
            context = Context(org=f"org-{at % 7}", user=f"u{at}")
            roll.record(roll.select("send a mail", context), {"send_mail": True})
            session = roll.session(f"talk {at}", context)
            session.select(f"send {turn}")
            session.end_turn()
            for database in databases:
                with database.reading() as connection:
                    connection.execute(sa.text("SELECT pg_sleep(0.02)"))

    threads = [threading.Thread(target=watch)]
    threads += [threading.Thread(target=work, args=(at,)) for at in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads[1:]:
        thread.join()
    assert roll.flush(20)
    stop.set()
    threads[0].join()
    return max(counts)


@pytest.fixture
def quiet(direct: str) -> str:
    """The URL of a registry to which nobody is connected any more."""
    with psycopg.connect(direct, autocommit=True) as connection:
        eventually(lambda: connection.execute(OURS).fetchone() == (0,))
    return direct


def test_a_process_has_no_more_connections_than_stated_whatever_its_threads_do(
    quiet: str, tmp_path: Path
) -> None:
    with Toolroll.open(quiet, recording=Recording(outbox=tmp_path / "outbox")) as roll:
        database = roll._home._database  # type: ignore[attr-defined]
        assert 2 <= most_connections(quiet, roll, [database]) <= MOST_CONNECTIONS == 31


def test_a_worker_of_the_service_has_no_more_connections_than_stated(quiet: str, tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    from toolroll.server.resources import close, open_registry
    from toolroll.server.settings import ServerSettings

    roll, registry = open_registry(ServerSettings(catalog=quiet, outbox=str(tmp_path / "outbox")), None)
    try:
        databases = [roll._home._database, registry.database]  # type: ignore[attr-defined]
        assert 4 <= most_connections(quiet, roll, databases) <= 46
    finally:
        close(roll, registry)


def test_notifications_arrive_by_a_direct_connection_while_all_else_passes_the_pooler(
    direct: str, pooled: str, tmp_path: Path
) -> None:
    with Toolroll.open(
        pooled, follow=Follow(listen_url=direct, poll_s=60), recording=Recording(outbox=tmp_path / "outbox")
    ) as roll:
        assert roll.health()["degraded"] == []
        eventually(lambda: clients_of(direct) == {"LISTEN toolroll": 1})
        with Registry.open(direct, actor="ada") as registry:
            registry.create(Tool("send_fax", "sends a fax"))
        eventually(lambda: "send_fax" in roll.select("send a fax", ANN).names)  # long before the next poll
        with psycopg.connect(direct, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'LISTEN toolroll'"
            )
        with Registry.open(direct, actor="ada") as registry:
            registry.create(Tool("send_telex", "sends a telex"))
        eventually(lambda: "send_telex" in roll.select("send a telex", ANN).names)  # it listens again


def clients_of(direct: str) -> dict[str, int]:
    """The last statements of connections that the pooler did not make, with their number."""
    query = (
        "SELECT query, count(*) FROM pg_stat_activity WHERE datname = current_database() "
        "AND backend_type = 'client backend' AND pid <> pg_backend_pid() AND query LIKE 'LISTEN%' GROUP BY 1"
    )
    with psycopg.connect(direct, autocommit=True) as connection:
        return dict(connection.execute(query).fetchall())


def test_an_address_to_listen_at_that_does_not_work_is_said_and_changes_come_with_polls(
    direct: str, pooled: str, new_database_url: Callable[[str], str], tmp_path: Path
) -> None:
    other = new_database_url("postgresql")
    with psycopg.connect(other, autocommit=True) as connection:  # both were copied from one template
        connection.execute("UPDATE registry_state SET created_at = now()")
    away = sa.make_url(direct).set(host="127.0.0.1", port=1, query={}).render_as_string(hide_password=False)
    for url, said in ((away, "check host, port"), (other, "holds another registry than")):
        with Toolroll.open(
            pooled,
            follow=Follow(listen_url=url, poll_s=0.2),
            recording=Recording(outbox=tmp_path / "outbox"),
        ) as roll:
            eventually(lambda roll=roll: roll.health()["degraded"] == ["notifications"])
            assert said in " ".join(map(str, roll.health()["why"]))
            with Registry.open(direct, actor="ada") as registry:
                registry.set_tiers(["free", said[:5]])
                revision = registry.database.revision()
            eventually(lambda roll=roll, to=revision: roll.health()["revision"] == to)


@pytest.mark.parametrize("listen_url", ["sqlite:///other.db", "postgresql://ann@127.0.0.1:1/tools"])
def test_only_a_postgresql_has_an_address_to_listen_at(listen_url: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'tools.db'}"
    Registry.open(url).close()
    with pytest.raises(InvalidInput, match="listen_url: is '.*'; registry and listen_url must both"):
        Toolroll.open(url, follow=Follow(listen_url=listen_url))
    with pytest.raises(InvalidInput, match="nothing listens there with listens=False"):
        Toolroll.open(url, follow=Follow(listen_url=listen_url, listens=False))
