"""What organisations' tools take in PostgreSQL, and what it takes to get rid of old events and sessions.

``python -m bench.scale.storage`` starts a PostgreSQL of its own, or uses an empty database: ``… URL``.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime, timedelta, timezone
from pathlib import Path

import psycopg
import sqlalchemy as sa
from tests.integration.conftest import own_server
from tests.integration.logged import event, write_events
from tests.server_of_run import server_root

from toolroll.model.tools import Tool
from toolroll.registry.keeper.maintenance import delete_old_events, drop_old_months
from toolroll.registry.registry import Registry
from toolroll.registry.sessions.store import SessionStore
from toolroll.registry.store import partitions, tables
from toolroll.registry.store.database import Database

ORGS, TOOLS, EVENTS, SESSIONS = 100, 158, 500_000, 200_000
BATCH = 10_000  # events that one transaction deletes
OF_TOOLS = ("tools", "tool_versions", "changes", "toolkits", "plugins")


def tools_of_organisations(registry: Registry) -> None:
    """The size of the tables per tool, with indexes."""
    schema = {"type": "object", "properties": {f"field_{n}": {"type": "string"} for n in range(8)}}
    description = "Finds what the user asks for among all that the service has, and returns it as a list. "
    start = time.perf_counter()
    for org in range(ORGS):
        listed = [Tool(f"tool_{n:03d}", description + str(n), parameters=schema) for n in range(TOOLS)]
        registry.sync(listed, plugin="own", org=f"org-{org}")
    seconds, number = time.perf_counter() - start, ORGS * TOOLS
    with registry.database.reading() as connection:
        sizes = {name: size_of(connection, name) / number for name in OF_TOOLS}
    each = sum(sizes.values())
    print(f"{number:,} tools: {1e6 * seconds / number:,.0f} µs to write each, {each:,.0f} bytes each")
    print("  " + ", ".join(f"{name} {size:,.0f}" for name, size in sizes.items()))


def size_of(connection: sa.Connection, table: str) -> int:
    query = sa.text("SELECT pg_total_relation_size(CAST(:name AS regclass))")
    return int(connection.execute(query, {"name": table}).scalar_one())


def months_of_events(database: Database, url: str) -> None:
    """A month deleted by rows, and another dropped."""
    now = partitions.month_of(datetime.now(timezone.utc))
    table = tables.selection_events
    write_events(database, event(at=now + timedelta(hours=1)))
    names = [column.name for column in table.c]
    for months in (0, 1):  # this month and the next one: both have tables
        values = {
            "event_id": "md5(random()::text || n)",
            "at": f"at + interval '{months} month' + n * interval '1 s'",
        }
        listed = ", ".join(values.get(name, f'"{name}"') for name in names)
        into = ", ".join(f'"{name}"' for name in names)
        with database.recording() as connection:
            connection.exec_driver_sql(
                f"INSERT INTO selection_events ({into}) SELECT {listed} FROM "
                f"(SELECT * FROM selection_events LIMIT 1) AS one, generate_series(1, {EVENTS}) AS n"
            )
    end = partitions.after(now)

    with database.recording() as connection:
        connection.exec_driver_sql("ANALYZE selection_events")

    def delete() -> None:
        while delete_old_events(database, end, BATCH):
            pass

    def vacuum() -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM selection_events")

    seconds = timed(delete)
    print(f"{EVENTS:,} events deleted by rows: {seconds:.2f} s, and {timed(vacuum):.2f} s to clean up")
    seconds = timed(lambda: drop_old_months(database, partitions.after(end)))
    print(f"a month of as many dropped: {seconds:.3f} s")


def expired_sessions(database: Database) -> None:
    """Sessions that are written again and again, half of which expire."""
    with database.recording() as connection:
        connection.exec_driver_sql(
            "INSERT INTO sessions SELECT 'org-' || n %% 1000, 's' || n, 3, "
            "json_build_object('turns', repeat('x', 600)), 1, now(), now(), "
            f"now() + (n %% 2 * 2 - 1) * interval '1 day' FROM generate_series(1, {SESSIONS}) AS n"
        )
    store = SessionStore(database)
    gone = 0

    def prune() -> None:
        nonlocal gone
        gone = store.prune()

    seconds = timed(prune)
    print(
        f"{gone:,} expired sessions of {SESSIONS:,} deleted: {seconds:.2f} s, {gone / seconds:,.0f} a second"
    )


def timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main(url: str | None) -> None:
    with ExitStack() as stack:
        if url is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(dir=server_root()))
            uri = stack.enter_context(own_server(Path(folder) / "data"))
            url = sa.make_url(uri).set(drivername="postgresql").render_as_string(hide_password=False)
        registry = stack.enter_context(Registry.open(url, actor="bench"))
        tools_of_organisations(registry)
        months_of_events(registry.database, url)
        expired_sessions(registry.database)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
