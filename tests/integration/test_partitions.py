"""Tables that a large platform can split: partitions by month, keys that begin with the organisation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.integration.ingesting import ingest
from tests.integration.logged import event
from toolroll import Context, Follow, Recording, Toolroll
from toolroll.model.tools import Tool
from toolroll.registry.analytics.metrics import metrics
from toolroll.registry.analytics.window import Window
from toolroll.registry.keeper.maintenance import drop_old_months, rebuild
from toolroll.registry.registry import Registry
from toolroll.registry.store import partitions, tables
from toolroll.registry.store.database import Database

DATA = Path(__file__).parents[1] / "data"
# Tables of which each organisation has its rows: what a cluster distributes by organisation.
DISTRIBUTED = {
    *("selection_events", "outcomes", "open_events", "sessions", "learning_state", "learned"),
    "reporter_counts",
    *("selection_sums", "latency_sums", "tool_sums", "unit_sums"),
}
# Tables that every node of a cluster has whole: the registry, which all organisations share and few write,
# and what belongs to no organisation.
REFERENCE = {
    *(
        "tools",
        "tool_versions",
        "toolkits",
        "page_mappings",
        "visibility_rules",
        "pins",
        "plugins",
        "settings",
        "policy_digests",
    ),
    *(
        "embeddings",
        "logged_tools",
        "experiments",
        "receipt_keys",
        "service_keys",
        "accounts",
    ),
    *("changes", "registry_state"),
}
# Tables that one node has for all: hosts write the first, and the keeper reads it.
LOCAL = {"inbox", "keeper"}


@pytest.fixture
def postgresql_database(new_database_url: Callable[[str], str]) -> Iterator[Database]:
    database = Database.open(new_database_url("postgresql"), create=False, migrate=False)
    yield database
    database.close()


def test_each_table_is_of_one_of_the_two_kinds() -> None:
    assert set(tables.metadata.tables) == DISTRIBUTED | REFERENCE | LOCAL
    assert not DISTRIBUTED & REFERENCE
    page = (Path(__file__).parents[2] / "docs" / "scale.md").read_text("utf-8")
    for function, names in (("distributed", DISTRIBUTED), ("reference", REFERENCE)):
        listed = re.search(rf"create_{function}_table\(.*?ARRAY\[(.*?)\]", page, re.DOTALL)
        assert listed is not None and set(re.findall(r"'(\w+)'", listed[1])) == names


@pytest.mark.db
def test_each_key_of_an_organisations_rows_begins_with_the_organisation(postgresql_database) -> None:
    """On the live schema: unique indexes, those of partitions too; and no key refers to another table."""
    keys = sa.text(
        """SELECT coalesce(parent.relname, child.relname) AS name, index.relname AS key, attname AS first
        FROM pg_index JOIN pg_class AS child ON child.oid = indrelid JOIN pg_class AS index ON index.oid = indexrelid
        LEFT JOIN pg_inherits ON inhrelid = child.oid LEFT JOIN pg_class AS parent ON parent.oid = inhparent
        JOIN pg_attribute ON attrelid = child.oid AND attnum = indkey[0]
        JOIN pg_namespace ON pg_namespace.oid = child.relnamespace
        WHERE indisunique AND nspname = current_schema()"""
    )
    foreign = sa.text(
        "SELECT conrelid::regclass::text, confrelid::regclass::text FROM pg_constraint WHERE contype = 'f'"
    )
    with postgresql_database.reading() as connection:
        found = connection.execute(keys).all()
        assert {row.name for row in found} >= DISTRIBUTED
        assert [row for row in found if row.name in DISTRIBUTED and row.first != "org"] == []
        assert all(not DISTRIBUTED & {one, other} for one, other in connection.execute(foreign))
        kinds = dict(connection.execute(sa.text("SELECT relname, relkind FROM pg_class")).all())
    for name in ("selection_events", "outcomes", "sessions"):
        assert kinds[name] == "p"


@pytest.mark.db
def test_selecting_recording_and_conversing_ask_for_the_rows_of_named_organisations(
    new_database_url: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, asked = new_database_url("postgresql"), list[str]()
    with Registry.open(url, actor="ann") as registry:
        for org in ("", "acme"):
            registry.create(Tool(f"{org}send", "sends a mail"), org=org)

    def note(*arguments: object) -> None:
        asked.append(" ".join(str(arguments[2]).split()))

    sa.event.listen(sa.Engine, "before_cursor_execute", note)
    try:
        with Toolroll.open(
            url, follow=Follow(poll_s=0.05), recording=Recording(outbox=tmp_path / "outbox")
        ) as roll:
            context = Context(org="acme", user="ann")
            roll.warm_up()
            for final in (True, False):
                roll.record(roll.select("send a mail", context), {"acmesend": True}, final=final)
            session = roll.session("talk", context)
            session.select("send a mail")
            session.end_turn()
            assert roll.flush(20)
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", note)
    touched = [one for one in asked if set(re.findall(r"[a-z_]+", one)) & DISTRIBUTED]
    assert {name for one in touched for name in DISTRIBUTED if name in one} >= {
        "selection_events",
        "sessions",
    }
    names_org = re.compile(r"\borg = |\borg IN |\(org, session\) IN |\.org, .*\) IN |^INSERT INTO|^COPY")
    across = [one for one in touched if not names_org.search(one)]
    # What a process does now and then for all: events left open too long, the age and the size of the tables.
    maintenance = re.compile(
        r"closes_at|pg_inherits|pg_total_relation_size|\.at <|expires_at|reporter_counts\.day"
    )
    assert [one for one in across if not maintenance.search(one)] == []


@pytest.mark.db
def test_months_are_made_ahead_take_their_rows_and_are_dropped_whole(postgresql_database) -> None:
    database, table = postgresql_database, tables.selection_events
    now = datetime.now(timezone.utc)
    with database.reading() as connection:
        ends = [end for _, end in partitions.months(connection, table)]
    assert len(ends) == 1 + partitions.AHEAD and ends[0] == partitions.after(partitions.month_of(now))
    far = ends[-1] + timedelta(days=40)  # the month after the next one without a table
    rows = [event(at=when) for when in (now, far, now - timedelta(days=800))]
    ingest(database, rows, [])

    def places() -> list[str]:
        with database.reading() as connection:
            query = sa.text("SELECT tableoid::regclass::text FROM selection_events ORDER BY at")
            return list(connection.execute(query).scalars())

    assert places()[0] == places()[2] == "selection_events_default"
    with database.recording() as connection:
        assert partitions.make_ahead(connection, far) == 2 * (1 + partitions.AHEAD)
        assert partitions.make_ahead(connection, far) == 0
    assert places()[2] == f"selection_events_{far:%Y_%m}"
    assert drop_old_months(database, partitions.month_of(now)) == 0
    assert drop_old_months(database, partitions.month_of(far)) == 1  # the month of now, and empty ones
    assert places() == ["selection_events_default", f"selection_events_{far:%Y_%m}"]
    assert set(rebuild(database).values()) == {0} and metrics(database, Window())["logged"] == 3


def test_the_month_after_december_is_january() -> None:
    assert partitions.after(datetime(2026, 12, 1)) == datetime(2027, 1, 1)
    assert partitions.after(datetime(2026, 1, 1)) == datetime(2026, 2, 1)
