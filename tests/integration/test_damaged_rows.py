"""One damaged row, in whatever column: its owner loses at most what it says, and nobody else loses anything."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
import sqlalchemy as sa

from toolroll import Context, Tool, Toolroll
from toolroll.errors import StoreUnavailable, ToolrollError
from toolroll.registry.events import follower
from toolroll.registry.registry import Registry
from toolroll.registry.store import tables
from toolroll.rules import PageMapping, Rule
from toolroll.tools import Toolkit

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
            registry.sync([Tool(f"{org or 'plat'}_sync", "serves too")], plugin=f"{org}_plugin", org=org)
    with Toolroll.open(url, poll_s=0.05, journal=tmp_path / "journal") as roll:
        roll.warm_up()
        for context in (ACME, GLOBEX, NOBODY):
            talk(roll, context)
        assert roll.flush(20)


def talk(roll: Toolroll, context: Context) -> None:
    name = f"{context.org or 'plat'}_0"
    for _ in range(2):
        picked = roll.select("serves", context, k=50)
        roll.record(picked, called={name: True})
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
        for org in ("", "acme", "globex"):
            values = (
                f"test of {org}",
                org,
                '{"default": 0.5, "learned": 0.5}',
                "user",
                "",
                1,
                "2026-01-01 00:00:00",
            )
            connection.execute("INSERT INTO experiments VALUES (?, ?, ?, ?, ?, ?, ?, NULL)", values)
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.commit()
    return folder / "registry.db"


def damage(path: Path, column: sa.Column, value: object, owner: str | None) -> bool:
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
                f"(SELECT rowid FROM {table} WHERE {where} LIMIT 1)",
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
    return (b"\xff\xfe", NO_TEXT, "{garbage")


OWNED = [table for table in tables.metadata.sorted_tables if table.name not in SHARED]


QUICK = ("learning_state", "settings")  # the others are slow, and so are other owners and kinds


KINDS = int(os.environ.get("TOOLROLL_DAMAGE_KINDS", "1"))  # of three: each column of each owner gets so many


def damage_each(template: Path, tmp_path: Path, table: sa.Table, owner: str, kind: int) -> None:
    """Checks a copy of the registry for each column with a value that the column must not hold.

    kind: of the first column; the next column gets the next kind.
    """
    damaged = 0
    for at, column in enumerate(table.c):
        value = wrong_values(column)[(kind + at) % 3]
        path = tmp_path / f"{column.name}.db"
        shutil.copy(template, path)
        if damage(path, column, value, owner):
            damaged += 1
            check(f"sqlite:///{path}", tmp_path / column.name, owner)
    assert damaged or (owner, table.name) == ("", "pins")


@pytest.mark.parametrize("name", QUICK)
def test_a_value_of_another_kind_costs_nobody_but_its_owner(template, tmp_path, name):
    damage_each(template, tmp_path, tables.metadata.tables[name], "acme", 0)


@pytest.mark.slow
@pytest.mark.parametrize("table", OWNED, ids=lambda table: table.name)
@pytest.mark.parametrize("owner", ["acme", ""], ids=["acme", "platform"])
@pytest.mark.parametrize("kind", range(KINDS))
def test_no_damaged_value_costs_anybody_but_its_owner(template, tmp_path, table, owner, kind):
    damage_each(template, tmp_path, table, owner, kind)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SHARED))
@pytest.mark.parametrize("kind", range(3))
def test_damage_to_a_row_that_all_share_is_an_error_of_our_own_or_none(template, tmp_path, name, kind):
    for column in tables.metadata.tables[name].c:
        path = tmp_path / f"{column.name}.db"
        shutil.copy(template, path)
        if not damage(path, column, wrong_values(column)[kind], None):
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
    },
    "tools": {
        "description": "serves eve",
        "public": 0,
        "toolkit": "acme_kit",
        "status": "disabled",
        "name": "plat_9",
        "org": "acme",
    },
    "toolkits": {"tier": "frei", "parent": "plat_kit", "settings_keys": "[]", "name": "plat_kot", "base": 1},
    "page_mappings": {"pattern": "house*", "toolkits": '["globex_kit"]', "priority": 7},
}


FIRST = {("visibility_rules", "condition"), ("tools", "description"), ("toolkits", "tier")}
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


def test_an_edit_of_an_altered_row_does_not_make_it_believed(template, tmp_path):
    path = tmp_path / "registry.db"
    shutil.copy(template, path)
    damage(path, tables.visibility_rules.c.condition, '{"all": [{"role": "mnternrole"}]}', "")
    damage(path, tables.tools.c.public, 1, "globex")
    with closing(sqlite3.connect(path)) as connection:
        ((name,),) = connection.execute("SELECT name FROM tools WHERE org = 'globex' AND public").fetchall()
    with Registry.open(f"sqlite:///{path}", actor="ada") as registry:
        registry.rules.update("no", {"priority": 3})
        registry.update(name, {"description": "serves otherwise"}, org="globex", version=None)
        with Toolroll.open(f"sqlite:///{path}", poll_s=0.05, journal=tmp_path / "journal") as roll:
            roll.warm_up()
            picked = roll.select("serves", GLOBEX, k=50)
            assert not {"plat_1", name} & set(picked.names)
            assert set(picked.degraded) == {"policy", "registry"}
            # Only a row that is written again as a whole is.
            registry.rules.delete("no")
            registry.delete(name, org="globex")
            registry.create(Tool(name, "serves again"), org="globex")
            roll.warm_up(["globex"])
            picked = roll.select("serves", GLOBEX, k=50)
            assert {"plat_1", name} <= set(picked.names) and picked.degraded == ()


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
