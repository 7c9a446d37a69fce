"""Syncs of plugins and imports of folders, on both databases."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from tests.table import each_row
from toolroll import Route, Tool, Toolkit
from toolroll.model.errors import Conflict, InvalidDefinition, InvalidInput, StoreUnavailable
from toolroll.model.rules import PageMapping
from toolroll.model.tools import Definitions
from toolroll.registry.editing.tiers import set_tiers
from toolroll.registry.registry import Registry
from toolroll.registry.store import bulk_insert, tables
from toolroll.registry.store.database import Database
from toolroll.registry.sync.sync import SyncReport

MAIL = Tool(
    "mail", "Sends a mail", {"type": "object", "properties": {"to": {"type": "string"}}}, toolkit="office"
)
MAIL_2 = Tool("mail", "Sends a mail, and a copy", toolkit="office", version="2.0.0")
NOTE = Tool("note", "Writes a note", tags=("text",), examples=("note that down",))
ALL = Definitions(
    (MAIL, NOTE),
    (Toolkit("office", "Paper", settings_keys=("mail_key",)),),
    (Route(("office",), ("mail", "편지"), ("mail #[0-9]+",), ("word", "")),),
    pages=(PageMapping("inbox*", ("office",), 3),),
)


def sync(database: Database, definitions: Definitions, *, actor: str, **options: Any) -> SyncReport:
    return Registry(database, actor).sync(definitions, **options)


def import_(database: Database, definitions: Definitions, *, actor: str, **options: Any) -> SyncReport:
    return Registry(database, actor).import_(definitions, **options)


def send(database: Database, *tools: Tool, plugin: str = "p", **options: Any) -> SyncReport:
    return sync(database, payload(*tools), actor="ann", plugin=plugin, **options)


def payload(*tools: Tool) -> Definitions:
    """The tools and the toolkits that they are in."""
    kits = dict.fromkeys(tool.toolkit for tool in tools if tool.toolkit)
    return Definitions(tools, tuple(map(Toolkit, kits)))


def rows(database: Database, table: sa.Table) -> list[dict[str, Any]]:
    with database.reading() as connection:
        found = connection.execute(sa.select(table).order_by(*table.primary_key.columns)).mappings()
        return [dict(row) for row in found]


def contents(database: Database) -> dict[str, list[dict[str, Any]]]:
    """Everything that the database holds."""
    return {table.name: rows(database, table) for table in tables.metadata.sorted_tables}


def tool(database: Database, name: str, org: str = "") -> dict[str, Any]:
    (row,) = (row for row in rows(database, tables.tools) if row["name"] == name and row["org"] == org)
    return row


@contextmanager
def failing(database: Database, at: int) -> Iterator[None]:
    """Breaks the connection's work at its statement of this number."""
    count = 0

    def fail(*_: Any) -> None:
        nonlocal count
        count += 1
        if count == at:
            raise RuntimeError("pulled the plug")

    sa.event.listen(database._engine, "before_cursor_execute", fail)
    try:
        yield
    finally:
        sa.event.remove(database._engine, "before_cursor_execute", fail)


def test_a_tool_that_was_skipped_for_an_error_is_not_deleted(database):
    send(database, MAIL, NOTE, Tool("gone"))
    broken = InvalidDefinition("parameters is 7, must be a JSON Schema object", file="a.json", tool="note")
    report = sync(database, replace(payload(MAIL), skipped=(broken,)), actor="ann", plugin="p")
    assert [step.name for step in report.plan.tools if step.action == "delete"] == ["gone"]
    assert tool(database, "note")["deleted_at"] is None
    assert any("skipped: a.json: tool 'note'" in note for note in report.plan.notes)


def test_a_first_sync_writes_all_of_a_payload(database: Database) -> None:
    report = sync(
        database, ALL, actor="ann", plugin="p", plugin_version="1.2", reason="new here", trusted=True
    )
    assert report.plan.names("create") == ("mail", "note")
    assert report.revision == 1 and report.is_applied
    row = tool(database, "mail")
    assert row["plugin"] == "p" and row["toolkit"] == "office" and row["version"] == 1
    assert row["parameters"] == MAIL.parameters
    assert row["review"] == "approved" and row["approved_version"] == 1
    assert row["source_hash"] == row["content_hash"]
    assert row["created_at"] == row["updated_at"] and row["updated_by"] == "ann"
    (kit,) = rows(database, tables.toolkits)
    assert kit["keywords"] == [{"keyword": "mail", "mode": "word"}, {"keyword": "편지", "mode": ""}]
    assert kit["patterns"] == ["mail #[0-9]+"] and kit["settings_keys"] == ["mail_key"]
    (page,) = rows(database, tables.page_mappings)
    assert (page["pattern"], page["toolkits"], page["priority"]) == ("inbox*", ["office"], 3)
    (plugin,) = rows(database, tables.plugins)
    assert (plugin["name"], plugin["version"], plugin["review"], plugin["tools"]) == ("p", "1.2", "auto", 2)
    versions = rows(database, tables.tool_versions)
    assert {(row["version"], row["actor"], row["reason"], row["revision"]) for row in versions} == {
        (1, "ann", "new here", 1)
    }
    log = rows(database, tables.changes)
    assert [(row["action"], row["subject"]) for row in log] == [
        ("tool.create", "mail"),
        ("tool.create", "note"),
        ("toolkit.create", "office"),
        ("page.create", "inbox*"),
        ("sync", "p"),
    ]


def test_the_same_payload_again_writes_nothing(database: Database) -> None:
    sync(database, ALL, actor="ann", plugin="p")
    before = contents(database)
    report = sync(database, ALL, actor="bob", plugin="p")
    assert report.plan.is_empty and not report.is_applied
    assert report.plan.unchanged == 2
    assert contents(database) == before


def test_an_unchanged_sync_reads_the_tools_once_whatever_their_number(database: Database) -> None:
    tools = [Tool(f"t{at}") for at in range(50)]
    send(database, *tools)
    statements: list[str] = []

    def count(_: Any, __: Any, statement: str, *___: Any) -> None:
        statements.append(statement)

    sa.event.listen(database._engine, "before_cursor_execute", count)
    send(database, *tools)
    assert sum("FROM tools" in statement for statement in statements) == 1
    assert len(statements) <= 9
    assert not any(word in statement for statement in statements for word in ("INSERT", "UPDATE", "DELETE"))


def test_a_change_writes_a_version_with_the_fields_that_changed(database: Database) -> None:
    send(database, MAIL, NOTE)
    report = send(database, MAIL_2, NOTE, reason="copies")
    (step,) = report.plan.tools
    assert step.fields == ("description", "parameters", "semantic_version")
    row = tool(database, "mail")
    assert row["version"] == 2 and row["revision"] == 2 and row["semantic_version"] == "2.0.0"
    assert tool(database, "note")["revision"] == 1
    old, new = (
        row for row in rows(database, tables.tool_versions) if row["snapshot"]["tool"]["name"] == "mail"
    )
    assert old["snapshot"]["tool"]["description"] == "Sends a mail"
    assert new["changed"] == ["description", "parameters", "semantic_version"] and new["reason"] == "copies"
    assert new["snapshot"]["tool"]["description"] == "Sends a mail, and a copy"


def test_a_higher_major_version_or_another_toolkit_is_flagged(database: Database) -> None:
    send(database, MAIL)
    moved = Tool("mail", toolkit="misc", version="2.0.0")
    send(database, moved)
    assert [flag["code"] for flag in tool(database, "mail")["flags"]] == ["major", "moved"]
    send(database, Tool("mail", "Other", toolkit="misc", version="2.0.1"))
    assert [flag["code"] for flag in tool(database, "mail")["flags"]] == ["major", "moved"]


def test_an_absent_tool_is_deleted_softly_and_comes_back_as_the_same_tool(database: Database) -> None:
    send(database, MAIL, NOTE)
    before = tool(database, "note")
    assert send(database, MAIL).plan.names("delete") == ("note",)
    gone = tool(database, "note")
    assert gone["deleted_at"] is not None and gone["version"] == 2
    assert send(database, MAIL, NOTE).plan.names("restore") == ("note",)
    back = tool(database, "note")
    assert back["tool_id"] == before["tool_id"] and back["deleted_at"] is None and back["version"] == 3
    snapshots = [
        row["snapshot"] for row in rows(database, tables.tool_versions) if row["tool_id"] == back["tool_id"]
    ]
    assert [snapshot["deleted"] for snapshot in snapshots] == [False, True, False]


def test_toolkits_and_pages_follow_the_payload(database: Database) -> None:
    sync(database, ALL, actor="ann", plugin="p", trusted=True)
    changed = Definitions(
        (NOTE,),
        (Toolkit("office", "Paper and ink"), Toolkit("desk", parent="office")),
        pages=(PageMapping("inbox*", ("desk",)),),
    )
    sync(database, changed, actor="ann", plugin="p", trusted=True)
    kits = {row["name"]: row for row in rows(database, tables.toolkits)}
    assert kits["office"]["description"] == "Paper and ink" and kits["office"]["keywords"] == []
    assert kits["desk"]["parent"] == "office"
    (page,) = rows(database, tables.page_mappings)
    assert page["toolkits"] == ["desk"] and page["version"] == 2
    sync(database, Definitions((NOTE,)), actor="ann", plugin="p", trusted=True)
    assert all(
        row["deleted_at"] for row in rows(database, tables.toolkits) + rows(database, tables.page_mappings)
    )
    sync(database, changed, actor="ann", plugin="p", trusted=True)
    assert {row["name"]: row["toolkit_id"] for row in rows(database, tables.toolkits)} == {
        name: row["toolkit_id"] for name, row in kits.items()
    }
    assert sync(database, changed, actor="ann", plugin="p", trusted=True).plan.is_empty


def test_a_conflict_leaves_everything_as_it_was(database: Database) -> None:
    send(database, MAIL)
    import_(database, Definitions((NOTE,)), actor="ann")
    before = contents(database)
    with pytest.raises(Conflict, match="3 problems") as error:
        send(database, Tool("new"), MAIL_2, NOTE, plugin="q")
    assert "belongs to plugin 'p'" in str(error.value) and "belongs to people" in str(error.value)
    assert contents(database) == before


def test_a_dry_run_says_what_would_be_done_conflicts_too_and_writes_nothing(database: Database) -> None:
    send(database, MAIL)
    before = contents(database)
    report = send(database, MAIL_2, Tool("new"), plugin="q", dry_run=True)
    assert report.plan.names("create") == ("new",)
    assert [type(problem) for problem in report.plan.problems] == [Conflict, Conflict]
    report = send(database, MAIL_2, dry_run=True)
    assert report.to_dict()["changed"][0]["fields"] == ["description", "parameters", "semantic_version"]
    assert "dry run: nothing was written" in str(report)
    assert contents(database) == before


def test_organisations_do_not_see_each_other(database: Database) -> None:
    send(database, MAIL, org="acme")
    send(database, MAIL_2, org="other")
    assert send(database, org="other").plan.names("delete") == ("mail",)
    assert tool(database, "mail", "acme")["deleted_at"] is None
    with pytest.raises(Conflict, match="the platform has one"):
        send(database, NOTE, plugin="platform")
        send(database, NOTE, org="acme")


def test_a_name_that_looks_like_another_is_flagged_within_its_catalog_only(database: Database) -> None:
    send(database, Tool("send_mail"), plugin="platform")
    send(database, Tool("pay"), org="other")
    send(database, Tool("send_maiI"), Tool("рау"), org="acme")
    assert [flag["code"] for flag in tool(database, "send_maiI", "acme")["flags"]] == ["confusable"]
    assert tool(database, "рау", "acme")["flags"] == []


def test_governance_of_an_untrusted_payload_is_flagged(database: Database) -> None:
    send(database, Tool("mail", pinned=True, public=True))
    row = tool(database, "mail")
    assert not row["pinned"] and not row["public"]
    assert [flag["code"] for flag in row["flags"]] == ["governed"]


def test_changed_tools_wait_where_that_is_asked_and_return_by_themselves(database: Database) -> None:
    send(database, MAIL, review="changed")
    assert tool(database, "mail")["review"] == "approved"
    report = send(database, MAIL_2)
    assert report.plan.held == ("mail",)
    row = tool(database, "mail")
    assert row["review"] == "changed" and row["approved_version"] == 1
    send(database, Tool("mail", "Third"))
    assert tool(database, "mail")["review"] == "changed"
    send(database, MAIL)
    row = tool(database, "mail")
    assert row["review"] == "approved" and row["approved_version"] == 4


def test_new_tools_wait_where_all_are_reviewed(database: Database) -> None:
    send(database, MAIL, review="all")
    assert tool(database, "mail")["review"] == "pending"
    assert tool(database, "mail")["approved_version"] is None


def test_a_change_of_the_mode_alone_is_written_once(database: Database) -> None:
    send(database, MAIL)
    assert send(database, MAIL, review="changed").is_applied
    assert not send(database, MAIL, review="changed").is_applied
    assert not send(database, MAIL).is_applied


def test_people_do_not_rename_what_a_plugin_knows_by_its_name(database: Database) -> None:
    send(database, MAIL)
    registry = Registry(database, actor="ann")
    with pytest.raises(Conflict, match="belongs to plugin 'p'"):
        registry.update("mail", {"name": "post"}, version=1)


def test_what_is_approved_may_not_be_what_was_sent_last(database: Database) -> None:
    registry = Registry(database, actor="ann")
    registry.sync(payload(MAIL), plugin="p", review="changed")
    registry.sync(payload(MAIL_2), plugin="p")
    assert [flag["code"] for flag in registry.tool("mail").flags] == ["major"]
    registry.reject("mail")
    assert registry.tool("mail").tool.description == MAIL.description
    report = registry.sync(payload(MAIL_2), plugin="p")
    assert not report.is_applied
    assert registry.sync(Definitions((Tool("mail", "Third"),)), plugin="p").plan.held == ("mail",)
    assert registry.approve("mail").flags == ()
    assert "description" in registry.diff("mail", 3, 5)


def test_an_import_adds_and_updates_and_deletes_nothing(database: Database) -> None:
    import_(database, ALL, actor="ann")
    row = tool(database, "mail")
    assert row["plugin"] == "" and row["source_hash"] == row["content_hash"]
    report = import_(database, Definitions((Tool("note", "New", pinned=True),)), actor="ann")
    assert report.plan.names("change") == ("note",)
    assert tool(database, "mail")["deleted_at"] is None
    assert not import_(database, Definitions((Tool("note", "New", pinned=True),)), actor="ann").is_applied
    assert rows(database, tables.plugins) == []


def test_a_sync_that_breaks_anywhere_leaves_everything_as_it_was(database: Database) -> None:
    sync(database, ALL, actor="ann", plugin="p")
    before = contents(database)
    changed = Definitions(
        (MAIL_2, Tool("new")), (Toolkit("desk"),), pages=(PageMapping("inbox*", ("desk",)),)
    )
    for at in range(1, 100):
        try:
            with failing(database, at):
                sync(database, changed, actor="ann", plugin="p")
        except RuntimeError:
            assert contents(database) == before
        else:
            break
    assert at > 12  # each statement of it was the last
    assert tool(database, "new")["version"] == 1 and tool(database, "note")["deleted_at"] is not None


def test_who_was_faster_is_seen_under_the_lock(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two plugins claim a name at once: both plan it as new, one has it."""
    plan_made = threading.Event()
    other_done = threading.Event()
    errors: list[Exception] = []
    writing = Database.writing

    def slow(self: Database, actor: str, org: str = "") -> Any:
        if actor == "slow":
            plan_made.set()
            other_done.wait(20)
        return writing(self, actor, org)

    monkeypatch.setattr(Database, "writing", slow)

    def run() -> None:
        try:
            sync(database, payload(MAIL), actor="slow", plugin="q")
        except Conflict as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert plan_made.wait(20)
    send(database, MAIL)
    other_done.set()
    thread.join(20)
    assert len(errors) == 1 and "'mail': belongs to plugin 'p'" in str(errors[0])
    assert tool(database, "mail")["plugin"] == "p"


def test_who_did_the_same_first_leaves_nothing_to_do(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing = Database.writing

    def late(self: Database, actor: str, org: str = "") -> Any:
        if actor == "late":
            send(self, MAIL)
        return writing(self, actor, org)

    monkeypatch.setattr(Database, "writing", late)
    report = sync(database, payload(MAIL), actor="late", plugin="p")
    assert not report.is_applied and report.revision == 1 == database.revision()


def test_names_and_texts_are_kept_as_they_are(database: Database) -> None:
    odd = [
        Tool("'; DROP TABLE tools; --", "a\tb\\N\n\\.\r\n"),
        Tool("../../etc/passwd", '{"a": 1}', {"z": 1, "a": [None, "\\", "\t"]}),
        Tool("%_", "NULL"),
        Tool("이름\U0001f600", "", examples=("\\.", "")),
    ]
    send(database, *odd)
    for one in odd:
        row = tool(database, one.name)
        assert (row["description"], row["examples"]) == (one.description, list(one.examples))
        assert row["parameters"] == one.parameters
        assert row["parameters"] is None or list(row["parameters"]) == ["z", "a"]
    assert not send(database, *odd).is_applied


def test_a_large_payload_goes_in_whole_and_tells_how_far_it_is(database: Database) -> None:
    tools = [Tool(f"t{at:05}", "x" * 500) for at in range(2_500)]
    told: list[tuple[int, int]] = []
    send(database, *tools, progress=lambda done, of: told.append((done, of)))
    assert told[-1] == (2_500, 2_500) and told == sorted(told)
    assert len(rows(database, tables.tools)) == len(rows(database, tables.tool_versions)) == 2_500
    assert send(database, *tools[:10]).plan.counts["deleted"] == 2_490


@each_row(
    "options",
    [{"plugin": ""}, {"plugin": "a\0b"}, {"review": "never"}, {"org": "\0"}, {"reason": "x" * 5_000}],
)
def test_wrong_options_are_refused_before_anything_is_read(
    database: Database, options: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput):
        send(database, MAIL, **options)
    assert database.revision() == 0


def test_a_wrong_tool_is_named_and_nothing_is_written(database: Database) -> None:
    with pytest.raises(InvalidDefinition, match="tool 'big'"):
        send(database, MAIL, Tool("big", "x" * 300_000))
    assert database.revision() == 0


def test_rows_that_contradict_the_schema_are_the_stores_error(database: Database) -> None:
    with pytest.raises(Conflict), database.recording() as connection:
        row = {name: None for name in ("tool_id", "version")}
        bulk_insert.insert(connection, tables.tool_versions, [row])


def test_a_registry_that_went_away_is_unavailable(new_database_url: Callable[[str], str]) -> None:
    database = Database.open(new_database_url("sqlite"), create=False, migrate=False)
    with database.recording() as connection:
        connection.exec_driver_sql("DROP TABLE plugins")
    with pytest.raises(StoreUnavailable):
        send(database, MAIL)
    database.close()


def test_a_tier_that_is_not_configured_is_refused_before_it_closes_the_catalog(database: Database) -> None:
    payload = Definitions((Tool("t", "does"),), (Toolkit("kit", tier="platinum"),))
    before = contents(database)
    with pytest.raises(InvalidDefinition, match="registry tiers"):
        sync(database, payload, actor="ada", plugin="p")
    with pytest.raises(InvalidDefinition, match="platinum"):
        import_(database, payload, actor="ada")
    assert contents(database) == before
    set_tiers(database, "ada", ("free", "platinum"))
    assert sync(database, payload, actor="ada", plugin="p").is_applied
