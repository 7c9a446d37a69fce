"""Damaged rows of rules, tools, toolkits, page mappings and tiers: listed, named, deleted and written again."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.integration.commands import Typed
from tests.integration.test_damaged_rows import NO_TEXT, damage, wrong_values
from toolroll import Context, Follow, Recording, Tool, Toolroll
from toolroll.errors import Conflict, NotFound, StoreUnavailable
from toolroll.registry.registry import Registry
from toolroll.registry.status import status_of
from toolroll.registry.store import tables
from toolroll.registry.store.engines import sqlite_module
from toolroll.registry.store.errors import DamagedRow
from toolroll.registry.transfer import read_registry
from toolroll.rules import PageMapping, Rule
from toolroll.tools import Definitions, Toolkit

pytestmark = pytest.mark.slow

ALWAYS: dict[str, Any] = {"all": []}
ACME, GLOBEX = Context(org="acme", user="ann"), Context(org="globex", user="bob")
RULES, TOOLS, TOOLKITS = tables.visibility_rules, tables.tools, tables.toolkits
PAGES, PINS = tables.page_mappings, tables.pins


def slow(value: object) -> Any:
    return pytest.param(value, marks=pytest.mark.slow)


def fill(url: str) -> None:
    """acme and globex have a rule, a toolkit, a tool, a page mapping and a pin each; the platform has more."""
    with Registry.open(url, actor="ada") as registry:
        registry.set_tiers(["free", "pro"])
        registry.create(Tool("open", "serves everybody", public=True))
        registry.create(Tool("shut", "serves nobody", public=True))
        registry.create(Tool("plain", "serves most"))
        registry.rules.add(Rule("no", "deny", "composite", ALWAYS, tool="shut"))
        for org in ("acme", "globex"):
            registry.toolkits.put(Toolkit(f"{org}_kit"), keywords=["word"], patterns=["a+"], org=org)
            registry.create(Tool(f"{org}_tool", "serves", toolkit=f"{org}_kit"), org=org)
            registry.create(Tool(f"{org}_shut", "serves nobody"), org=org)
            registry.rules.add(Rule("own", "deny", "composite", ALWAYS, tool=f"{org}_shut", org=org))
            registry.pages.add(PageMapping("home*", (f"{org}_kit",), org=org))
            registry.pins.set("open", org=org)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("repairs") / "registry.db"
    fill(f"sqlite:///{path}")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA journal_mode=DELETE")
    return path


@pytest.fixture
def path(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(template, tmp_path / "registry.db"))


@pytest.fixture
def registry(path: Path) -> Iterator[Registry]:
    with Registry.open(f"sqlite:///{path}", actor="ada") as opened:
        yield opened


def run(path: Path, *statements: str) -> None:
    # Two SQLite libraries in one process do not see each other's locks.
    with closing(sqlite_module().connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


Seen = tuple[set[str], tuple[str, ...], list[str]]


def seen(path: Path, context: Context) -> Seen:
    """What a new process selects for somebody, what is degraded, and why, of the whole process."""
    return seen_by(path, context)[0]


def seen_by(path: Path, *contexts: Context) -> list[Seen]:
    """The same for several."""
    journal = path.parent / "journal"
    with Toolroll.open(
        f"sqlite:///{path}",
        embedder="none",
        follow=Follow(listens=False),
        recording=Recording(outbox=journal),
    ) as roll:
        roll.warm_up(["acme", "globex"])
        selections = [roll.select("serves", context, k=50) for context in contexts]
        why = roll.health()["why"]
        return [(set(picked.names), picked.degraded, why) for picked in selections]


SHOWN = {"open", "plain", "acme_tool"}  # to acme


# Rules that are not in force any more, past the registry.


def test_a_rule_that_is_marked_as_deleted_past_the_registry_goes_on_hiding(path, registry):
    run(path, "UPDATE visibility_rules SET deleted_at = '2026-01-01 00:00:00' WHERE name IN ('no', 'own')")
    for org, (names, degraded, why) in zip(("acme", "globex"), seen_by(path, ACME, GLOBEX), strict=True):
        assert names == {"open", "plain", f"{org}_tool"} and degraded == ("policy",)
        assert any(f"('own', of organisation '{org}') is damaged" in one for one in why)
    assert [record.name for record in registry.rules.list() if record.damage] == ["no", "own", "own"]
    registry.rules.enable("own", org="acme")
    registry.rules.update("own", {"priority": 2}, org="globex")
    registry.rules.delete("no")
    names, degraded, why = seen(path, ACME)
    assert names == SHOWN | {"shut"} and degraded == () and why == []
    assert [(record.name, record.active) for record in registry.rules.list()] == [("own", True)] * 2


def test_rules_that_the_registry_deletes_are_gone_and_no_damage(path, registry):
    registry.rules.delete("no")
    registry.rules.delete("own", org="acme")
    names, degraded, why = seen(path, ACME)
    assert names == SHOWN | {"shut", "acme_shut"} and degraded == () and why == []
    registry.rules.add(Rule("no", "deny", "composite", ALWAYS, tool="open"))
    assert "open" not in seen(path, ACME)[0]


def test_a_deleted_rule_that_is_made_present_past_the_registry_is_damaged(path, registry):
    registry.rules.delete("own", org="acme")
    run(path, "UPDATE visibility_rules SET deleted_at = NULL WHERE org = 'acme'")
    names, degraded, _ = seen(path, ACME)
    assert names == SHOWN and degraded == ("policy",)
    registry.rules.delete("own", org="acme")
    assert seen(path, ACME)[:2] == (SHOWN | {"acme_shut"}, ())


def test_a_name_is_not_free_while_a_rule_of_it_is_damaged(path, registry):
    run(path, "UPDATE visibility_rules SET deleted_at = '2026-01-01 00:00:00' WHERE name = 'no'")
    with pytest.raises(Conflict, match="damaged"):
        registry.rules.add(Rule("no", "deny", "composite", ALWAYS, tool="open"))


# A rule of which one column is unreadable or altered.


@pytest.mark.parametrize("value", ["allow", b"\xff", slow("perhaps"), slow(NO_TEXT)])
def test_a_rule_without_its_effect_hides_its_target_even_if_that_is_public(path, value):
    damage(path, RULES.c.effect, value, "")
    names, degraded, _ = seen(path, ACME)
    assert names == {"open"} and degraded == ("policy",)  # and all that an allow rule could hide


def test_an_update_makes_a_damaged_rule_sound_if_it_sets_what_may_be_wrong(path, registry):
    run(path, "UPDATE visibility_rules SET condition = '{\"role\": \"x\"}', priority = 7 WHERE org = 'acme'")
    (own,) = registry.rules.list(org="acme")
    assert own.rule.rule_id in own.damage and "of organisation 'acme'" in own.damage
    assert "condition" in own.damage and "priority" in own.damage and "effect" not in own.damage
    for changes in ({"tool": "acme_tool"}, {"priority": 3}, {"condition": ALWAYS}):
        with pytest.raises(Conflict, match="an update has to set"):
            registry.rules.update("own", changes, org="acme")
    with pytest.raises(Conflict, match="an update has to set condition, priority"):
        registry.rules.enable("own", org="acme")
    assert seen(path, ACME)[1] == ("policy",)
    done = registry.rules.update("own", {"condition": ALWAYS, "priority": 0}, org="acme")
    assert done.active and not done.damage
    assert seen(path, ACME) == (SHOWN, (), [])


WHOLE = {"effect": "deny", "kind": "composite", "condition": ALWAYS, "priority": 0, "toolkit": ""}


def test_no_update_makes_a_rule_sound_whose_owner_may_be_wrong(path, registry):
    """It would be in force for another organisation, and hide nothing for its own."""
    run(path, "UPDATE visibility_rules SET org = 'initech' WHERE org = 'acme'")
    for changes in ({"priority": 3}, {**WHOLE, "tool": "acme_shut", "name": "own"}):
        with pytest.raises(Conflict, match="its owner may be wrong: delete it by its key"):
            registry.rules.update("own", changes, org="initech")
    assert seen(path, ACME)[1] == ("policy",)
    registry.rules.delete("own", org="initech")
    registry.rules.add(Rule("own", "deny", "composite", ALWAYS, tool="acme_shut", org="acme"))
    assert seen(path, ACME) == (SHOWN, (), [])


def test_no_update_makes_a_rule_sound_whose_checksum_says_nothing(path, registry):
    run(path, "UPDATE visibility_rules SET checksum = '' WHERE org = 'acme'")
    with pytest.raises(Conflict, match="its owner may be wrong"):
        registry.rules.update("own", {**WHOLE, "tool": "acme_shut", "name": "own"}, org="acme")


def test_a_rule_whose_name_may_be_wrong_is_written_again_under_the_name_that_the_update_sets(path, registry):
    run(path, f"UPDATE visibility_rules SET name = '{'x' * 10_000}' WHERE org = 'acme'")
    (damaged,) = registry.rules.list(org="acme")
    with pytest.raises(Conflict, match="its name may be wrong"):
        registry.rules.update(damaged.rule.rule_id, {**WHOLE, "tool": "acme_shut"}, org="acme")
    registry.rules.update(damaged.rule.rule_id, {**WHOLE, "tool": "acme_shut", "name": "own"}, org="acme")
    assert registry.rules.get("own", "acme").damage == ""
    assert seen(path, ACME) == (SHOWN, (), [])


# Every column: whoever lists sees the row, and can delete it.


def damaged_records(registry: Registry, table: sa.Table) -> list[Any]:
    """The damaged ones of those that are listed."""
    found: list[Any] = []
    if table is TOOLS:
        for deleted in (False, True):
            found += registry.tools(org=None, deleted=deleted).records
    else:
        editors = {
            RULES: registry.rules,
            TOOLKITS: registry.toolkits,
            PAGES: registry.pages,
            PINS: registry.pins,
        }
        found = list(editors[table].list(None))
    return [record for record in found if record.damage]


def delete(registry: Registry, table: sa.Table, record: Any) -> None:
    """Deletes what a list shows, by its key, or by its name where that cannot be read."""
    if table is RULES:
        registry.rules.delete(record.rule.rule_id or record.name, org=record.rule.org)
    elif table is TOOLKITS:
        registry.toolkits.delete(record.toolkit_id or record.name, org=record.org)
    elif table is TOOLS:
        registry.delete(record.tool.tool_id or record.name, org=record.org)
    else:
        registry.pages.delete(record.page_id)


# No reader depends on these, and they have no checksum: a value of their kind is not noticed.
UNCHECKED = {"version", "revision", "updated_by", "plugin", "approved_version"} | {
    *("content_hash", "source_hash", "rejected_hash"),
}
NO_REPAIR = {("page_mappings", "page_id"), ("tools", "tool_id")}  # nothing else names them: restore a backup
QUICK = ("visibility_rules", 1)
EACH = [
    pytest.param(table, kind, marks=() if (table.name, kind) == QUICK else pytest.mark.slow)
    for table in (RULES, TOOLKITS, TOOLS, PAGES)
    for kind in range(3)
]


def fill_table(registry: Registry, table: sa.Table) -> None:
    """A row of acme for each column."""
    registry.create(Tool("target", "serves"))
    registry.toolkits.put(Toolkit("kit"))
    for at in range(len(table.c)):
        name = f"row{at}"
        if table is RULES:
            registry.rules.add(Rule(name, "deny", "composite", ALWAYS, tool="target", org="acme"))
        elif table is TOOLKITS:
            registry.toolkits.put(Toolkit(name), org="acme")
        elif table is TOOLS:
            registry.create(Tool(name, "serves"), org="acme")
        else:
            registry.pages.add(PageMapping(f"{name}*", ("kit",), org="acme"))


@pytest.mark.parametrize(("table", "kind"), EACH)
def test_damaged_rows_are_listed_and_can_be_deleted_whatever_column_it_is(tmp_path, table, kind):
    path = tmp_path / "registry.db"
    with Registry.open(f"sqlite:///{path}", actor="ada") as registry:
        fill_table(registry, table)
    expected = set()
    with closing(sqlite3.connect(path)) as connection:
        keys = [key for (key,) in connection.execute(f"SELECT rowid FROM {table.name} WHERE org = 'acme'")]
        for key, column in zip(keys, table.c, strict=True):
            value = wrong_values(column)[kind]
            if value == "{garbage":
                value = f"{{{column.name}"  # no two rows get the same name
            wanted = "CAST(x'ff' AS TEXT)" if value is NO_TEXT else "?"
            values = (key,) if value is NO_TEXT else (value, key)
            if (table.name, column.name) in NO_REPAIR:
                continue
            connection.execute(f'UPDATE {table.name} SET "{column.name}" = {wanted} WHERE rowid = ?', values)
            if column.name not in UNCHECKED or value not in (-7, f"{{{column.name}"):
                expected.add(column.name)
        connection.commit()
    with Registry.open(f"sqlite:///{path}", actor="ada") as registry:
        found = damaged_records(registry, table)
        assert len(found) == len(expected)
        assert all(record.damage.startswith(f"{table.name}: ") for record in found)
        for record in found:
            delete(registry, table, record)
        assert damaged_records(registry, table) == []
    with Toolroll.open(
        f"sqlite:///{path}", follow=Follow(listens=False), recording=Recording(outbox=tmp_path / "journal")
    ) as roll:
        roll.warm_up(["acme"])
        assert roll.health()["why"] == []


# Tools, toolkits, page mappings and pins.


def test_an_update_of_a_damaged_tool_writes_its_last_version_with_the_changes(path, registry):
    run(path, "UPDATE tools SET public = 1, status = 'retired', toolkit = 'x' WHERE name = 'acme_tool'")
    (record,) = registry.tools(org="acme", text="acme_tool").records
    assert record.damage and record.tool.tool_id in record.damage and "'acme'" in record.damage
    assert seen(path, ACME)[0] == SHOWN - {"acme_tool"}
    done = registry.update("acme_tool", {"tags": ["a"]}, version=record.version, org="acme")
    assert (done.tool.status, done.tool.public, done.tool.toolkit) == ("active", False, "acme_kit")
    assert done.tool.tags == ("a",) and not done.damage
    assert seen(path, ACME) == (SHOWN, (), [])


@pytest.mark.parametrize("value", ["'serves all'", slow("x'ff'"), slow("CAST(x'ff' AS TEXT)")])
def test_an_update_repairs_a_damaged_tool_even_if_it_changes_nothing_of_its_last_version(
    path, registry, value
):
    run(path, f"UPDATE tools SET description = {value} WHERE name = 'plain'")
    assert "plain" not in seen(path, ACME)[0]
    registry.update("plain", {"description": "serves most"}, version=1)
    assert seen(path, ACME) == (SHOWN, (), [])


def test_a_tool_whose_history_is_damaged_too_can_only_be_deleted(path, registry):
    run(path, "UPDATE tools SET public = 1 WHERE name = 'plain'")
    run(path, "DROP TRIGGER tool_versions_no_update")
    run(path, "UPDATE tool_versions SET snapshot = replace(snapshot, 'serves most', 'serves all')")
    with pytest.raises(Conflict, match=r"tools: row '\w{32}' \('plain', of the platform\) is damaged"):
        registry.update("plain", {"tags": ["a"]}, version=1)
    registry.delete("plain")
    assert seen(path, ACME) == (SHOWN - {"plain"}, (), [])


def test_a_tool_that_is_marked_as_deleted_past_the_registry_is_named_and_restored(path, registry):
    run(path, "UPDATE tools SET deleted_at = '2026-01-01 00:00:00' WHERE name = 'plain'")
    assert "('plain', of the platform)" in seen(path, ACME)[2][0]
    assert [record.name for record in registry.tools(deleted=True).records if record.damage] == ["plain"]
    registry.restore("plain")
    assert seen(path, ACME) == (SHOWN, (), [])


def test_a_toolkit_that_is_marked_as_deleted_past_the_registry_goes_on_hiding_its_tools(path, registry):
    run(path, "UPDATE toolkits SET deleted_at = '2026-01-01 00:00:00' WHERE org = 'acme'")
    assert seen(path, ACME)[:2] == (SHOWN - {"acme_tool"}, ("registry",))
    registry.toolkits.put(Toolkit("acme_kit"), org="acme")
    assert registry.toolkits.get("acme_kit", "acme").keywords == (("word", ""),)
    assert seen(path, ACME) == (SHOWN, (), [])


def test_a_damaged_toolkit_is_written_again_with_what_may_be_wrong(path, registry):
    run(path, 'UPDATE toolkits SET keywords = \'[{"keyword": "x", "mode": ""}]\' WHERE org = \'acme\'')
    assert [record.name for record in registry.toolkits.list("acme") if record.damage] == ["acme_kit"]
    with pytest.raises(Conflict, match="an update has to set keywords"):
        registry.toolkits.put(Toolkit("acme_kit"), org="acme")
    registry.toolkits.put(Toolkit("acme_kit"), keywords=["word"], org="acme")
    assert seen(path, ACME) == (SHOWN, (), [])


def test_content_that_waits_in_a_damaged_row_is_not_approved(path, registry):
    registry.sync([Tool("waits", "serves nobody yet")], plugin="p", review="all")
    run(path, "UPDATE tools SET description = 'serves' WHERE name = 'waits'")
    with pytest.raises(Conflict, match="damaged"):
        registry.approve("waits")
    registry.update("waits", {"tags": ["a"]}, version=1)
    assert registry.tool("waits").tool.description == "serves nobody yet"
    registry.approve("waits")
    assert seen(path, ACME) == (SHOWN | {"waits"}, (), [])


def test_a_registry_with_damaged_rows_is_not_imported(tmp_path):
    with Registry.open(f"sqlite:///{tmp_path / 'registry.db'}", actor="ada") as registry:
        registry.toolkits.put(Toolkit("kit"))
        registry.pages.add(PageMapping("home*", ("kit",)))
        for table in (PAGES, TOOLKITS):
            run(tmp_path / "registry.db", f"UPDATE {table.name} SET checksum = ''")
            with pytest.raises(Conflict, match=f"{table.name}: row"):
                read_registry(f"sqlite:///{tmp_path / 'registry.db'}", "", "it")


def test_damaged_page_mappings_and_pins_are_written_again(path, registry):
    run(path, "UPDATE page_mappings SET toolkits = '[]' WHERE org = 'acme'")
    run(path, "UPDATE pins SET pinned = 0 WHERE org = 'acme'")
    (page,) = (record for record in registry.pages.list("acme") if record.damage)
    (pin,) = (record for record in registry.pins.list("acme") if record.damage)
    assert page.page_id in page.damage and "pins: row" in pin.damage
    with pytest.raises(Conflict, match="has to set toolkits"):
        registry.pages.update(page.page_id, {"priority": 3})
    registry.pages.update(page.page_id, {"toolkits": ["acme_kit"]})
    registry.pins.set("open", org="acme")
    assert seen(path, ACME) == (SHOWN, (), [])


def test_a_pin_of_an_unknown_tool_is_deleted_by_its_key(path, registry):
    run(path, "UPDATE pins SET tool_id = 'gone' WHERE org = 'acme'")
    (pin,) = registry.pins.list("acme")
    with closing(sqlite_module().connect(path)) as connection:
        ((key,),) = connection.execute("SELECT pin_id FROM pins WHERE org = 'acme'").fetchall()
    assert key in pin.damage
    with pytest.raises(NotFound):
        registry.pins.delete(key, org="globex")
    registry.pins.delete(key, org="acme")
    assert registry.pins.list("acme") == ()


def test_a_sync_leaves_a_damaged_tool_and_toolkit_and_says_so(path, registry):
    kits = (Toolkit("acme_own"),)
    tool = Tool("acme_kept", "serves", toolkit="acme_own")
    registry.sync(Definitions((tool,), kits), plugin="p", org="acme")
    run(path, "UPDATE tools SET public = 1 WHERE name = 'acme_kept'")
    run(path, "UPDATE toolkits SET tier = 'pro' WHERE name = 'acme_own'")
    changed = Definitions((replace(tool, description="serves more"),), kits)
    report = registry.sync(changed, plugin="p", org="acme")
    (step,) = report.plan.tools
    assert step.action == "leave" and "damaged" in step.why
    assert any("toolkit 'acme_own': stays as it is" in note for note in report.plan.notes)
    assert "acme_kept" not in seen(path, ACME)[0]
    registry.sync([], plugin="p", org="acme")
    assert seen(path, ACME) == (SHOWN, (), [])


def test_a_sync_that_cannot_read_a_tool_names_its_row(path, registry):
    run(path, "UPDATE tools SET name = CAST(x'ff' AS TEXT) WHERE name = 'acme_tool'")
    (record,) = (record for record in registry.tools(org="acme").records if record.damage)
    with pytest.raises(DamagedRow, match=record.tool.tool_id):
        registry.sync([Tool("acme_new", "serves")], plugin="p", org="acme")
    registry.delete(record.tool.tool_id, org="acme")
    registry.sync([Tool("acme_new", "serves")], plugin="p", org="acme")
    assert seen(path, ACME) == ({"open", "plain", "acme_new"}, (), [])


# One damaged row, and what others do.


def test_damage_of_one_organisation_stops_no_sync_and_no_edit_of_another(path, registry):
    spared = ("org", "deleted_at", "rule_id", "tool_id", "toolkit_id", "page_id")
    run(
        path,
        *(
            f"UPDATE {table.name} SET \"{column.name}\" = CAST(x'ff' AS TEXT) || rowid WHERE org = 'acme'"
            for table in (RULES, TOOLS, TOOLKITS, PAGES)
            for column in table.c
            if column.name not in spared
        ),
    )
    made = Tool("globex_new", "serves", toolkit="globex_new_kit")
    assert registry.sync([made], plugin="p", org="globex").is_applied
    assert registry.sync([Tool("new", "serves")], plugin="p").is_applied
    registry.rules.add(Rule("more", "deny", "composite", ALWAYS, toolkit="globex_kit", org="globex"))
    registry.update("globex_tool", {"toolkit": ""}, version=1, org="globex", force=True)
    registry.set_tiers(["free", "pro", "team"])
    assert {"open", "plain", "new", "globex_new"} == seen(path, GLOBEX)[0] - {"globex_tool"}


# Tiers.


def tier_rules(registry: Registry) -> None:
    registry.rules.add(Rule("pro", "deny", "tier", {"tier": {"lt": "pro"}}, tool="plain"))
    registry.toolkits.put(Toolkit("gated", tier="pro"))
    registry.create(Tool("behind", "serves payers", toolkit="gated"))


OTHER_TIERS = ['["pro", "free"]', *(slow(tiers) for tiers in ('["pro"]', '{"free": 1}', "{garbage"))]


@pytest.mark.parametrize("tiers", OTHER_TIERS)
def test_tiers_that_were_changed_past_the_registry_show_nothing_that_compares_with_them(
    path, registry, tiers
):
    tier_rules(registry)
    free, pro = Context(tier="free"), Context(tier="pro")
    sound = [({"open"}, (), []), ({"open", "plain", "behind"}, (), [])]
    assert seen_by(path, free, pro) == sound
    run(path, f"UPDATE registry_state SET tiers = '{tiers}'")
    for names, degraded, why in seen_by(path, free, pro):
        assert names == {"open"} and "policy" in degraded
        assert any("registry_state: " in one and "toolroll registry tiers" in one for one in why)
    registry.rules.add(Rule("other", "deny", "composite", ALWAYS, tool="open", org="globex"))
    assert registry.sync([Tool("new", "serves")], plugin="p", org="globex").is_applied
    with pytest.raises(DamagedRow, match="registry_state"):
        registry.rules.add(Rule("x", "deny", "tier", {"tier": {"lt": "pro"}}, tool="open"))
    with pytest.raises(DamagedRow, match="registry_state"):
        registry.toolkits.put(Toolkit("other", tier="pro"))
    with pytest.raises(DamagedRow, match="registry_state"):
        registry.tiers()
    registry.set_tiers(["free", "pro"])
    assert seen_by(path, free, pro) == sound


def test_a_trusted_sync_does_not_replace_a_damaged_list_of_tiers(path, registry):
    run(path, """UPDATE registry_state SET tiers = '["pro", "free"]'""")
    definitions = Definitions((Tool("new", "serves"),), tiers=("pro", "free"))
    report = registry.sync(definitions, plugin="p", trusted=True)
    assert any("registry_state" in note for note in report.plan.notes)
    with pytest.raises(DamagedRow):
        registry.tiers()


# What the command line says.


@pytest.fixture
def typed(path: Path, capsys: pytest.CaptureFixture[str]) -> Typed:
    return Typed(f"sqlite:///{path}", capsys)


def test_lists_show_damaged_rows_with_their_key_and_the_named_repair_works(typed, path):
    run(path, "UPDATE visibility_rules SET condition = '{}' WHERE org = 'acme'")
    run(path, "UPDATE visibility_rules SET effect = x'ff' WHERE org = 'globex'")
    run(path, "UPDATE tools SET public = 1 WHERE name = 'plain'")
    run(path, "UPDATE toolkits SET tier = 'pro' WHERE org = 'acme'")
    said = typed("registry", "rules")
    assert said.out.count("damaged") == 2 and said.err.count("visibility_rules: row '") == 2
    listed = {rule["org"]: rule for rule in typed.json("registry", "rules")["rules"]}
    assert listed["acme"]["damage"] and listed["globex"]["damage"] and not listed[""]["damage"]
    said = typed("registry", "list")
    (line,) = (line for line in said.out.splitlines() if "plain" in line)
    assert "damaged" in line and "('plain', of the platform)" in said.err
    assert "damaged" in typed("registry", "toolkits", "--org", "acme").out
    typed("registry", "rules", "update", "own", "--org", "acme", "--when", '{"all": []}')
    typed("registry", "rules", "delete", listed["globex"]["rule_id"], "--org", "globex")
    said = typed("registry", "toolkits", "put", "acme_kit", "--org", "acme", "--keyword", "a", status=1)
    assert "an update has to set tier" in said.err
    typed("registry", "toolkits", "put", "acme_kit", "--org", "acme", "--tier", "")
    typed("registry", "update", "plain", "--set", "pinned=false")
    assert "damaged" not in typed("registry", "rules").out + typed("registry", "list").out
    assert seen(path, ACME) == (SHOWN, (), [])


def test_why_says_of_an_altered_tool_that_its_row_is_damaged(typed, path):
    run(path, "UPDATE tools SET public = 1 WHERE name = 'plain'")
    said = typed("registry", "why", "plain").out
    assert said.startswith("plain is hidden: it is in no catalog: tools: row '") and "approval" not in said


def test_an_update_of_an_altered_rule_does_not_say_that_it_is_in_force(typed, path):
    run(path, "UPDATE visibility_rules SET condition = '{\"role\": \"x\"}' WHERE org = 'acme'")
    said = typed("registry", "rules", "update", "own", "--org", "acme", "--priority", "3", status=1)
    assert "in force" not in said.out and "has to set condition" in said.err


@pytest.mark.parametrize(
    ("statement", "count"),
    [("name = 'plain'", "1 row cannot be read and is"), ("1", "3 rows cannot be read and are")],
)
def test_health_names_damaged_rows_in_good_english(path, statement, count):
    run(path, f"UPDATE tools SET description = x'ff' WHERE org = '' AND {statement}")
    (why,) = seen(path, ACME)[2]
    assert f"{count} not in the catalog: tools: row '" in why and "None" not in why


@pytest.mark.parametrize("name", ["n" * 300, "a\x00b"], ids=["too long", "a control character"])
def test_a_name_that_no_tool_can_have_costs_only_its_own_tool(path, name):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE tools SET name = ? WHERE name = 'plain'", (name,))
        connection.commit()
    with Registry.open(f"sqlite:///{path}", actor="ada") as registry:
        listed = {tool.name: tool.damage for tool in registry.tools().records}
        assert {"open", "shut"} <= listed.keys()
        (damaged,) = [name for name, damage in listed.items() if damage]
        assert "its checksum does not fit name" in listed[damaged]


def test_the_status_names_rows_whose_checksum_is_wrong(path, registry):
    assert status_of(registry.database)["unreadable"] == []
    run(path, "UPDATE visibility_rules SET effect = 'allow' WHERE org = 'acme'")
    run(path, "UPDATE tools SET description = 'other' WHERE name = 'plain'")
    rules, tools = sorted(status_of(registry.database)["unreadable"], reverse=True)
    assert rules.startswith("1 row of visibility_rules of 'acme' cannot be read: ")
    assert tools.startswith("1 row of tools cannot be read: ")


@pytest.mark.parametrize(
    ("statement", "said"),
    [("DELETE FROM registry_state", "is missing"), ("UPDATE registry_state SET revision = -5", "-5")],
)
def test_a_registry_without_its_revision_says_so_to_readers_and_writers(path, registry, statement, said):
    run(path, statement)
    for act in (
        lambda: registry.create(Tool("new", "serves")),
        lambda: registry.sync([Tool("new", "serves")], plugin="p"),
        lambda: Toolroll.open(f"sqlite:///{path}"),
    ):
        with pytest.raises(StoreUnavailable, match=f"its revision .*{said}; restore a backup"):
            act()
