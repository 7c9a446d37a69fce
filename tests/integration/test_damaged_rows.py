"""One damaged row, in whatever column: its owner loses at most what it says, and nobody else loses anything."""

from __future__ import annotations

import os
import shlex
import shutil
import sqlite3
import time
import zlib
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.integration.commands import Done
from tests.integration.logged import event, write_events
from toolroll import Context, Tool, Toolroll
from toolroll.cli import main
from toolroll.errors import StoreUnavailable, ToolrollError
from toolroll.registry.analytics.metrics import metrics
from toolroll.registry.analytics.off_policy_log import OffPolicyResult, evaluate_off_policy
from toolroll.registry.analytics.tools import unused
from toolroll.registry.analytics.usage import heatmap, hits
from toolroll.registry.analytics.window import Window
from toolroll.registry.events import follower, writer
from toolroll.registry.registry import Registry
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database
from toolroll.registry.store.unreadable_rows import UnreadableRows
from toolroll.rules import PageMapping, Rule
from toolroll.tools import Toolkit

pytestmark = pytest.mark.slow

ACME, GLOBEX, NOBODY = Context(org="acme", user="ann"), Context(org="globex", user="bob"), Context(user="eve")
NO_TEXT = object()  # stands for text that is not UTF-8
# Rows of these tables belong to nobody in particular.
SHARED = {"registry_state", "receipt_keys", "logged_tools", "shared_priors", "embeddings", "changes"}


def fill(url: str, tmp_path: Path) -> None:
    """A registry in which acme, globex and the platform have rows in every table."""
    with Registry.open(url, actor="ada") as registry:
        registry.create(Tool("open", "serves everybody", public=True))
        for org in ("", "acme", "globex"):
            kit = f"{org or 'plat'}_kit"
            registry.toolkits.put(Toolkit(kit, settings_keys=(f"{kit}_key",)), org=org)
            registry.toolkits.put(Toolkit(f"{kit}_child", parent=kit), org=org)
            for at in range(3):
                name = f"{org or 'plat'}_{at}"
                registry.create(Tool(name, f"serves {name}", toolkit=kit if at else ""), org=org)
            registry.rules.add(
                Rule("no", "deny", "composite", {"all": []}, tool=f"{org or 'plat'}_1", org=org)
            )
            registry.pages.add(PageMapping("home*", (kit,), org=org))
            if org:
                registry.pins.set("open", org=org)
            registry.settings.set(f"{kit}_key", "value", org=org)
            registry.keys.add(f"{org} backend", roles=["select"], org=org)
            with registry.database.recording() as connection:  # by hand: a hash would need argon2
                now = datetime.now(timezone.utc)
                row = {"name": f"{org} ann", "org": org, "roles": ["read"], "password": "$argon2id$"}
                dates = {"created_at": now, "created_by": "ada", "changed_at": now}
                connection.execute(sa.insert(tables.accounts), {**row, **dates})
            registry.sync([Tool(f"{org or 'plat'}_sync", "serves too")], plugin=f"{org}_plugin", org=org)
    with Toolroll.open(url, poll_s=0.05, journal=tmp_path / "journal") as roll:
        roll.warm_up()
        for context in (ACME, GLOBEX, NOBODY):
            talk(roll, context)
        assert roll.flush(20)
        database, failed = roll._home._database, {"degraded": ["routes"], "selected": []}
        for org in ("", "acme", "globex"):
            trial = {"name": f"test of {org}", "org": org, "unit": "user", "salt": "", "active": True}
            begun = {
                "variants": {"default": 0.5, "learned": 0.5},
                "begun_at": datetime(2026, 1, 1, tzinfo=timezone.utc),
            }
            with database.recording() as connection:
                connection.execute(sa.insert(tables.experiments), {**trial, **begun, "ended_at": None})
            of = {"experiment": trial["name"], "variant": "default", "at": datetime.now(timezone.utc)}
            write_events(database, event(org=org, **of, **failed))


def talk(roll: Toolroll, context: Context) -> None:
    name = f"{context.org or 'plat'}_0"
    for _ in range(2):
        picked = roll.select("serves", context, k=50)
        roll.record(picked, called={name: {"succeeded": True, "duration_ms": 20}})
    roll.record(roll.select("serves", context, k=50), called={name: True}, final=False)
    session = roll.session("talk", context)
    session.select("serves", k=5)
    session.end_turn()


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("damaged")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(follower, "CHECKPOINT_EVERY", 1)
        fill(f"sqlite:///{folder / 'registry.db'}", folder)
    with closing(sqlite3.connect(folder / "registry.db")) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.commit()
    return folder / "registry.db"


def damage(path: Path, column: sa.Column, value: object, owner: str | None, which: str = "1") -> bool:
    """Writes the value into a row of the owner; whether there is one that may hold it."""
    table = column.table.name
    where = "1" if owner is None else f"org = '{owner}'"
    if table == "tool_versions":
        where = f"tool_id IN (SELECT tool_id FROM tools WHERE org = '{owner}')"
    wanted = "CAST(x'ff' AS TEXT)" if value is NO_TEXT else "?"
    with closing(sqlite3.connect(path)) as connection:
        try:
            changed = connection.execute(
                f'UPDATE {table} SET "{column.name}" = {wanted} WHERE rowid IN '
                f"(SELECT rowid FROM {table} WHERE {where} AND {which} LIMIT 1)",
                () if value is NO_TEXT else (value,),
            ).rowcount
        except sqlite3.IntegrityError:
            return False
        connection.commit()
    return changed == 1


def check(url: str, tmp_path: Path, owner: str) -> None:
    """Everybody else selects, records, converses and learns; and nobody sees a tool that was denied."""
    with Toolroll.open(url, poll_s=0.05, journal=tmp_path / "journal") as roll:
        with suppress(ToolrollError):  # of the owner
            roll.warm_up()
        roll.refresh()
        for context in (GLOBEX, NOBODY) if owner else (GLOBEX,):
            picked = roll.select("serves", context, k=50)
            shown = set(picked.names)
            if owner:
                own = {"globex_0", "globex_2", "globex_sync"} if context.org else set()
                assert shown == {"plat_0", "plat_2", "plat_sync", "open"} | own
            before = roll._home.learned(context.org)
            roll.record(picked, called={picked.names[0]: True})
            session = roll.session("talk", context)
            session.select("serves", k=5)
            session.end_turn()
            roll.flush(5)
            deadline = time.monotonic() + 5
            while roll._home.learned(context.org) is before:
                assert time.monotonic() < deadline, "nothing was learnt"
                time.sleep(0.01)
        for context in (ACME, GLOBEX, NOBODY):
            assert not set(roll.select("serves", context, k=50).names) & {"acme_1", "globex_1", "plat_1"}
        health = roll.health()
        assert health["ready"]


def wrong_values(column: sa.Column) -> tuple[object, ...]:
    """Values that the column must not hold: of another kind, or no text."""
    if isinstance(column.type, (sa.Integer, sa.Boolean, sa.Float)):
        return ("garbage", b"\xff", -7)
    if isinstance(column.type, (sa.LargeBinary, tables.Vector)):
        return ("garbage", b"\xff\xfe", b"")
    if isinstance(column.type, sa.JSON):
        return (b"\xff\xfe", NO_TEXT, "{garbage", "5", "null")
    return (b"\xff\xfe", NO_TEXT, "{garbage")


# The long tier writes every wrong value into every column of both owners, the gate one into each: of one owner.
KINDS = range(5) if int(os.environ.get("TOOLROLL_DAMAGED", "200")) >= 10_000 else (None,)


def wrong_value(column: sa.Column, kind: int | None) -> object:
    """The wrong value of this number; None if there are not so many."""
    values = wrong_values(column)
    if kind is None:
        return values[zlib.crc32(str(column).encode()) % len(values)]
    return values[kind] if kind < len(values) else None


OWNED = [table for table in tables.metadata.sorted_tables if table.name not in SHARED]


EMPTY = {("", "pins")}  # the platform pins nothing
QUICK = ("learning_state", "settings")  # the others are slow, and so are other owners and kinds


def owned_columns(table: sa.Table, owner: str) -> list[sa.Column]:
    """Half of the columns; those of another owner are the other half."""
    return [column for column in table.c if zlib.crc32(column.name.encode()) % 2 == (owner == "acme")]


def damage_each(template: Path, tmp_path: Path, table: sa.Table, owner: str, kind: int | None) -> None:
    """Checks a copy of the registry for each column with a value that the column must not hold."""
    damaged = 0
    for column in table.c if kind is not None else owned_columns(table, owner):
        value = wrong_value(column, kind)
        if value is None:
            continue
        path = tmp_path / f"{column.name}.db"
        shutil.copy(template, path)
        if damage(path, column, value, owner):
            damaged += 1
            check(f"sqlite:///{path}", tmp_path / column.name, owner)
    assert damaged or (owner, table.name) in EMPTY or kind in (3, 4)


@pytest.mark.parametrize("name", QUICK)
def test_a_value_of_another_kind_costs_nobody_but_its_owner(template, tmp_path, name):
    damage_each(template, tmp_path, tables.metadata.tables[name], "acme", 0)


@pytest.mark.parametrize("table", OWNED, ids=lambda table: table.name)
@pytest.mark.parametrize("owner", ["acme", ""], ids=["acme", "platform"])
@pytest.mark.parametrize("kind", KINDS)
def test_no_damaged_value_costs_anybody_but_its_owner(template, tmp_path, table, owner, kind):
    damage_each(template, tmp_path, table, owner, kind)


@pytest.mark.parametrize("name", sorted(SHARED))
@pytest.mark.parametrize("kind", KINDS)
def test_damage_to_a_row_that_all_share_is_an_error_of_our_own_or_none(template, tmp_path, name, kind):
    for column in tables.metadata.tables[name].c:
        path = tmp_path / f"{column.name}.db"
        shutil.copy(template, path)
        value = wrong_value(column, kind)
        if value is None or not damage(path, column, value, None):
            continue
        try:
            roll = Toolroll.open(f"sqlite:///{path}", poll_s=0.05, journal=tmp_path / column.name)
        except ToolrollError:
            continue
        with roll:
            for call in (roll.warm_up, roll.refresh):
                with suppress(ToolrollError):
                    call()
            for context in (ACME, GLOBEX, NOBODY):
                assert not set(roll.select("serves", context, k=50).names) & {"acme_1", "globex_1", "plat_1"}
                talk(roll, context)
            roll.flush(5)


# What commands say of it.

ACMES = "tool_id = (SELECT tool_id FROM tools WHERE name = 'acme_0' AND org = 'acme')"
# Table → which of acme's rows is damaged: one that the commands below ask for.
ASKED_FOR = {
    "tool_versions": ACMES,
    "arm_statistics": "level = 'everywhere'",
    "selection_events": "event_id = 'EVENT'",
    "outcomes": "event_id = 'EVENT'",
}
EVENTS = (
    "events list",
    "events export FILE --messages --vectors",
    "events analytics metrics",
    "events analytics heatmap",
    "events analytics heatmap --of selected",
    "events analytics hits",
    "events analytics unused",
    "lab judge --profile learned --embedder hashing",
)
SUMS = tuple(command for command in EVENTS if command.startswith("events analytics"))
STATUS = ("registry status",)
REBUILD = "events learning rebuild"  # its exit status says whether statistics were wrong
# Table → commands that report all rows of it that can be read.
REPORTS = {
    "selection_events": EVENTS,
    "experiment_units": ("lab experiment show 'test of acme'", REBUILD),
    "logged_tools": EVENTS,
    "outcomes": ("events analytics broken", "events learning forget --tool acme_0 --org acme"),
    "arm_statistics": ("events analytics arms",),
    "selection_rollups": (*SUMS, REBUILD),
    "tool_rollups": (*SUMS, REBUILD),
    "latency_rollups": (*SUMS, REBUILD),
    "degraded_rollups": (*SUMS, REBUILD),
    "duration_rollups": (*SUMS, REBUILD),
    "learning_state": (REBUILD,),
    "changes": ("registry changes",),
    "experiments": ("lab experiment show", *STATUS),
    "tool_versions": ("registry history acme_0 --org acme",),
    **{
        name: STATUS
        for name in (
            *("plugins", "settings", "embeddings", "registry_state", "tools", "toolkits", "pins"),
            *("visibility_rules", "page_mappings"),
        )
    },
}
# Table → commands about one row, which say what is wrong with it.
LOOKUPS = {
    "selection_events": ("events show EVENT", "lab replay EVENT"),
    "logged_tools": ("events show EVENT", "lab replay EVENT"),
    "outcomes": ("events show EVENT", REBUILD),
    "arm_statistics": (REBUILD,),
    "experiments": ("lab experiment show 'test of acme'",),
    "tool_versions": (
        "registry diff acme_0 1 1 --org acme",
        "registry rollback acme_0 --to 1 --org acme",
    ),
}


# A part of what a command says of a damaged row; of one whose key is damaged, that there is none.
NAMES = ("cannot be read", "damaged", "differed from", "is not in the store", "has no version")


def run(command: str, path: Path, capsys: pytest.CaptureFixture[str]) -> Done:
    """A command as typed; an error that is not ours goes through."""
    words = [
        path.with_suffix(".parquet").as_posix() if word == "FILE" else word for word in shlex.split(command)
    ]
    capsys.readouterr()
    status = main([*words, "--catalog", f"sqlite:///{path}"])
    return Done(status, *capsys.readouterr())


def event_of(template: Path) -> str:
    with closing(sqlite3.connect(template)) as connection:
        query = "SELECT event_id FROM outcomes WHERE org = 'acme' AND closes LIMIT 1"
        return connection.execute(query).fetchone()[0]


def is_possible(column: sa.Column, value: object) -> bool:
    """Whether the registry may have written the value, or a report may take it as it is."""
    is_text = isinstance(column.type, (sa.String, sa.Text))
    if value is NO_TEXT:  # a report that prints no such text need not look at it
        return is_text
    if type(column.type) is sa.JSON and value in ("5", "null"):  # of any shape; the checksum tells
        return True
    if isinstance(value, str):
        return is_text
    return value == -7 and not isinstance(column.type, (tables.Share, sa.Boolean))


def run_over_each(
    template: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    columns: list,
    kind: int | None,
) -> None:
    event, table = event_of(template), tables.metadata.tables[name]
    owner = "acme" if "org" in table.c or name == "tool_versions" else None
    for column in columns:
        value = wrong_value(column, kind)
        path = tmp_path / f"{column.name}.db"
        shutil.copy(template, path)
        which = ASKED_FOR.get(name, "1").replace("EVENT", event)
        if value is None or not damage(path, column, value, owner, which):
            continue
        said = ""
        for command in (*REPORTS[name], *LOOKUPS.get(name, ())):
            done = run(command.replace("EVENT", event), path, capsys)
            place = f"{column} = {value!r:.20}: {command}: {done}"
            assert "stop all processes" not in done.err, place
            if command in REPORTS[name] and command != REBUILD:
                assert done.status == 0, place
            elif done.status and command not in (REBUILD, "lab replay EVENT"):  # these print why
                assert done.err.startswith("toolroll "), place
            said += done.err + (done.out if command in STATUS else "")
            if command.startswith(("registry rollback", "events learning")):
                shutil.copy(template, path)
                damage(path, column, value, owner, which)
        if owner and column.name not in ("tool_id", "org") and not is_possible(column, value):
            assert any(word in said for word in NAMES), f"{column} = {value!r:.20}: nothing names the row"


def test_an_event_whose_selected_tools_are_no_json_is_left_out_of_every_report(template, tmp_path, capsys):
    pytest.importorskip("pyarrow")
    run_over_each(template, tmp_path, capsys, "selection_events", [tables.selection_events.c.selected], 2)
    done = run("events list", tmp_path / "selected.db", capsys)
    assert f"left out: 1 event of 'acme' cannot be read: {event_of(template)}" in done.err


@pytest.mark.parametrize("name", ["tool_versions", "registry_state"])
def test_a_command_reports_what_can_be_read_whatever_a_row_holds(template, tmp_path, capsys, name):
    run_over_each(template, tmp_path, capsys, name, list(tables.metadata.tables[name].c)[-3:], None)


@pytest.mark.parametrize("name", sorted(REPORTS))
@pytest.mark.parametrize("kind", KINDS)
def test_no_command_fails_or_is_silent_whatever_a_row_holds(template, tmp_path, capsys, name, kind):
    run_over_each(template, tmp_path, capsys, name, list(tables.metadata.tables[name].c), kind)


# What is said of it, on both kinds of database, and by a process that runs.


@pytest.fixture
def running(database_url: str, tmp_path: Path) -> Iterator[tuple[Registry, Toolroll]]:
    fill(database_url, tmp_path)
    with (
        Registry.open(database_url, actor="ada") as registry,
        Toolroll.open(database_url, poll_s=0.05, journal=tmp_path / "journal") as roll,
    ):
        roll.warm_up(["acme", "globex"])
        yield registry, roll


def overwrite(registry: Registry, table: sa.Table, org: str = "acme", **values: object) -> None:
    """Changes the organisation's rows past the registry."""
    with registry.database.writing("nobody") as write:
        write.connection.execute(sa.update(table).where(table.c.org == org).values(**values))
        write.log("damage", table.name)


def test_an_experiment_that_cannot_be_read_does_not_run_and_rules_are_followed(running):
    registry, roll = running
    with registry.database.writing("nobody") as write:
        row = {"name": "bad", "org": "acme", "variants": ["no"], "unit": "user", "salt": "", "active": True}
        write.connection.execute(sa.insert(tables.experiments), {**row, "begun_at": write.at})
        write.log("damage", "experiments")
    registry.rules.add(Rule("later", "deny", "composite", {"all": []}, tool="plat_2"))
    roll.refresh()
    for context in (ACME, GLOBEX, NOBODY):
        assert "plat_2" not in roll.select("serves", context, k=50).names
    assert roll.select("serves", ACME).degraded == ("registry",)
    assert roll.select("serves", GLOBEX).degraded == ()
    assert any("'acme'" in why and "experiments" in why for why in roll.health()["why"])


def test_an_outcome_that_cannot_be_read_does_not_count_and_is_said_to_its_organisation(running):
    registry, roll = running
    overwrite(registry, tables.outcomes, details=b"garbage")
    overwrite(registry, tables.learning_state, epoch=5)  # all of them are read again
    for context in (GLOBEX, ACME):
        roll.record(roll.select("serves", context, k=50), called={"plat_0": True})
    assert roll.flush(20)
    roll._home._recording.follower.follow(["acme", "globex"])
    roll.refresh()
    assert roll.health()["recording"]["learning"]["damaged"].keys() == {"acme"}
    assert roll.select("serves", ACME).degraded == ("learning",)
    assert roll.select("serves", GLOBEX).degraded == ()
    assert any("'acme'" in why and "do not count" in why for why in roll.health()["why"])
    assert roll._home.learned("acme") is not None  # the last outcome counts


def test_events_whose_json_has_another_shape_are_left_out_of_reports_and_stay_in_sums(running, tmp_path):
    registry, _ = running
    everything = metrics(registry.database, Window())["logged"]
    acmes = metrics(registry.database, Window("acme"))["logged"]
    overwrite(registry, tables.selection_events, selected={"not": "a list"})
    lost = UnreadableRows()
    assert evaluate(registry.database, Window(), unreadable=lost).events == everything - acmes > 0
    assert len(lost) == acmes and f"{acmes} events of 'acme' cannot be read: " in next(iter(lost))
    for report in (metrics, partial(heatmap, of="selected"), hits, unused):  # counted when they were sound
        lost = UnreadableRows()
        report(registry.database, Window(), unreadable=lost)
        assert len(lost) == 0
    assert metrics(registry.database, Window())["logged"] == everything
    overwrite(registry, tables.selection_events, selected=[], details=b"garbage")
    lost = UnreadableRows()
    assert evaluate(registry.database, Window(), unreadable=lost).events == everything - acmes
    assert len(lost) == acmes


def evaluate(database: Database, window: Window, unreadable: UnreadableRows) -> OffPolicyResult:
    return evaluate_off_policy(database, window, lambda row: row.selected, unreadable=unreadable)


def test_events_and_outcomes_that_cannot_be_read_are_named_in_the_health(running, monkeypatch):
    registry, roll = running
    overwrite(registry, tables.selection_events, details=b"garbage")
    overwrite(registry, tables.outcomes, details=b"garbage")
    for name in ("_INSPECT_EVERY_S", "_ADOPT_EVERY_S"):
        monkeypatch.setattr(writer, name, 0.05)
    roll.record(roll.select("serves", GLOBEX), called={"plat_0": True})  # wakes the writer
    deadline, why = time.monotonic() + 20, ""
    while not ("event" in why and "outcome" in why):
        assert time.monotonic() < deadline, why
        time.sleep(0.05)
        why = "; ".join(line for line in roll.health()["why"] if "of 'acme' cannot be read" in line)
    assert "recording" in roll.health()["degraded"] and "'globex'" not in why
    assert roll.select("serves", GLOBEX).degraded == ()


def test_a_page_mapping_that_cannot_be_read_closes_nothing(running):
    registry, roll = running
    before = set(roll.select("serves", ACME, k=50).names)
    overwrite(registry, tables.page_mappings, toolkits=[])
    roll.refresh()
    picked = roll.select("serves", ACME, k=50)
    assert set(picked.names) == before and picked.degraded == ("policy",)
    assert roll.select("serves", GLOBEX).degraded == ()


def test_tiers_that_cannot_be_read_are_said_and_close_only_rules_that_compare_with_them(running):
    registry, roll = running
    with registry.database.writing("nobody") as write:
        write.connection.execute(sa.update(tables.registry_state).values(tiers={"not": "a list"}))
        write.log("damage", "registry_state")
    roll.refresh()
    picked = roll.select("serves", GLOBEX, k=50)
    assert "plat_0" in picked.names and "plat_1" not in picked.names
    assert picked.degraded == ("policy",) and "tiers" in str(picked.failures)


def test_a_revision_that_is_no_number_is_an_error_of_our_own(template, tmp_path):
    path = tmp_path / "registry.db"
    shutil.copy(template, path)
    damage(path, tables.registry_state.c.revision, "garbage", None)
    with pytest.raises(StoreUnavailable, match="revision"):
        Toolroll.open(f"sqlite:///{path}", journal=tmp_path / "journal")


@pytest.mark.parametrize("column", ["tier", "parent", "name", "settings_keys", "base"])
def test_tools_of_a_toolkit_that_cannot_be_read_are_shown_to_nobody(tmp_path, column):
    path = tmp_path / "registry.db"
    with Registry.open(f"sqlite:///{path}", actor="ada") as registry:
        registry.toolkits.put(Toolkit("top"))
        registry.toolkits.put(Toolkit("kit", parent="top", settings_keys=("key",)))
        registry.toolkits.put(Toolkit("child", parent="kit"))
        for name, kit in (("plain", ""), ("above", "top"), ("kept", "kit"), ("below", "child")):
            registry.create(Tool(name, "serves", toolkit=kit))
        registry.create(Tool("own", "serves", toolkit="kit"), org="acme")
        registry.create(Tool("own_plain", "serves"), org="acme")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"UPDATE toolkits SET {column} = x'ff' WHERE name = 'kit'")
        connection.commit()
    with Toolroll.open(f"sqlite:///{path}", journal=tmp_path / "journal") as roll:
        roll.warm_up()
        picked = roll.select("serves", k=50)
        assert set(picked.names) == {"plain", "above"} and picked.degraded == ("registry",)
        assert set(roll.select("serves", ACME, k=50).names) == {"plain", "above", "own_plain"}


# What only a checksum tells: a value that its column may hold, and that nobody wrote.

ALTERED = {
    "visibility_rules": {
        "condition": '{"all": [{"role": "mnternrole"}]}',
        "effect": "allow",
        "tool": "plat_2",
        "active": 0,
        "priority": -1,
        "org": "initech",
        "deleted_at": "2026-01-01 00:00:00",
    },
    "tools": {
        "description": "serves eve",
        "public": 0,
        "toolkit": "acme_kit",
        "status": "disabled",
        "name": "plat_9",
        "org": "acme",
        "deleted_at": "2026-01-01 00:00:00",
    },
    "toolkits": {
        "tier": "frei",
        "parent": "plat_kit",
        "settings_keys": "[]",
        "name": "plat_kot",
        "base": 1,
        "deleted_at": "2026-01-01 00:00:00",
    },
    "page_mappings": {
        "pattern": "house*",
        "toolkits": '["globex_kit"]',
        "priority": 7,
        "deleted_at": "2026-01-01 00:00:00",
    },
}


FIRST = {
    ("visibility_rules", "condition"),
    ("visibility_rules", "deleted_at"),
    ("tools", "description"),
    ("toolkits", "tier"),
}
ALTERATIONS = [
    pytest.param(table, column, value, marks=() if (table, column) in FIRST else pytest.mark.slow)
    for table, columns in ALTERED.items()
    for column, value in columns.items()
]


@pytest.mark.parametrize(("table", "column", "value"), ALTERATIONS)
def test_a_value_that_was_altered_past_the_registry_is_said_and_not_believed(
    template, tmp_path, table, column, value
):
    path = tmp_path / "registry.db"
    shutil.copy(template, path)
    assert damage(path, tables.metadata.tables[table].c[column], value, "")
    with Toolroll.open(f"sqlite:///{path}", poll_s=0.05, journal=tmp_path / "journal") as roll:
        roll.warm_up()
        picked = roll.select("serves", NOBODY, k=50)
        assert ("policy" if table in ("visibility_rules", "page_mappings") else "registry") in picked.degraded
        assert any("checksum" in why for why in roll.health()["why"])
        hidden = {"plat_1"}
        if table == "tools":
            hidden |= {"open", "plat_9"}
        if table == "toolkits":
            hidden |= {"plat_2"}
        if table == "page_mappings":
            assert set(picked.names) == {"open", "plat_0", "plat_2", "plat_sync"}
        for context in (ACME, GLOBEX, NOBODY):
            assert not set(roll.select("serves", context, k=50).names) & hidden
        if table == "visibility_rules":
            expected = {"open"} if column in ("effect", "tool") else {"open", "plat_0", "plat_2", "plat_sync"}
            assert set(picked.names) == expected


def test_an_altered_rule_of_an_organisation_costs_only_that_organisation(template, tmp_path):
    path = tmp_path / "registry.db"
    shutil.copy(template, path)
    assert damage(path, tables.visibility_rules.c.condition, '{"all": [{"role": "x"}]}', "acme")
    check(f"sqlite:///{path}", tmp_path, "acme")


def test_the_content_of_an_old_version_that_serves_is_verified(tmp_path):
    url = f"sqlite:///{tmp_path / 'registry.db'}"
    with Registry.open(url, actor="ada") as registry:
        for description in ("sends mail", "sends and reads mail"):
            tool = Tool("mail", description)
            registry.sync([tool], plugin="p", review="changed", while_waiting="approved")
        with closing(sqlite3.connect(tmp_path / "registry.db")) as connection:
            connection.execute("DROP TRIGGER tool_versions_no_update")
            connection.execute("UPDATE tool_versions SET snapshot = replace(snapshot, 'sends', 'rends')")
            connection.commit()
        with Toolroll.open(url, journal=tmp_path / "journal") as roll:
            assert "mail" not in roll.select("mail").names
            assert any("hash" in why for why in roll.health()["why"])
