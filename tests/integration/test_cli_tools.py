"""`toolroll registry` on tools: reading, changing, reviewing and syncing them, as typed."""

from __future__ import annotations

import getpass

import pytest

from tests.integration.commands import CRM, WEATHER, Typed, toolkit_file, type_in
from tests.table import each_row


@pytest.fixture
def typed(database_url, capsys):
    return Typed(database_url, capsys)


@pytest.fixture
def filled(typed, tmp_path):
    """A registry with the two toolkits, those of nobody's plugin."""
    return fill(typed, tmp_path)


@pytest.fixture
def on_sqlite(new_database_url, capsys, tmp_path):
    """The same, for what is all the command's own doing."""
    return fill(Typed(new_database_url("sqlite"), capsys), tmp_path)


def fill(typed, tmp_path):
    toolkit_file(tmp_path / "mine", WEATHER)
    typed.put(toolkit_file(tmp_path / "mine", CRM))
    return typed


def test_list_filters_and_pages(filled):
    assert filled.names("--toolkit", "crm") == ["crm_export", "crm_find"]
    assert filled.names("--text", "customer") == ["crm_export", "crm_find"]
    assert filled.names("--text", "%") == []
    filled("registry", "update", "crm_find", "--set", "status=draft")
    assert filled.names("--status", "draft") == ["crm_find"]
    assert filled.names("--plugin", "x") == [] and filled.names("--flagged") == []
    page = filled.json("registry", "list", "--limit", "3")
    rest = filled.json("registry", "list", "--after", page["next"])
    names = [tool["name"] for tool in page["tools"] + rest["tools"]]
    assert names == ["crm_export", "crm_find", "get_air_quality", "get_forecast"]
    done = filled("registry", "list", "--limit", "3")
    assert "--after" in done.err
    assert done.out.splitlines()[0].split()[:2] == ["NAME", "TOOLKIT"]
    assert len(done.out.splitlines()) == 4


def test_show_prints_what_is_kept(on_sqlite):
    shown = on_sqlite.json("registry", "show", "get_forecast")
    assert shown["name"] == "get_forecast" and shown["toolkit"] == "weather"
    assert (shown["version"], shown["review"], shown["updated_by"]) == (1, "approved", getpass.getuser())
    assert "Gives the weather forecast" in on_sqlite("registry", "show", "get_forecast").out


def test_a_name_that_is_not_there_has_near_ones(on_sqlite):
    done = on_sqlite("registry", "show", "get_forcast", status=1)
    assert done.err.startswith("toolroll registry show: ") and "'get_forecast'" in done.err
    assert done.out == "" and done.err.count("\n") == 1


def test_update_history_diff_and_rollback(filled):
    who = ("--actor", "ada", "--reason", "reads better")
    filled("registry", "update", "crm_find", "--set", "description=Looks a customer up.", *who)
    filled("registry", "update", "crm_find", "--set", 'examples=["who is Hansen"]', "--set", "pinned=true")
    versions = filled.json("registry", "history", "crm_find")["versions"]
    assert [version["version"] for version in versions] == [3, 2, 1]
    assert (versions[1]["actor"], versions[1]["reason"]) == ("ada", "reads better")
    assert versions[1]["changed"] == ["description"] and versions[0]["changed"] == ["examples", "pinned"]
    diff = filled("registry", "diff", "crm_find", "1", "2").out
    assert "Finds a customer by name." in diff and "Looks a customer up." in diff
    old, new = "Finds a customer by name.", "Looks a customer up."
    assert filled.json("registry", "diff", "crm_find", "1", "2") == {
        "name": "crm_find",
        "from": 1,
        "to": 2,
        "differences": [{"field": "description", "before": old, "after": new}],
    }
    assert [
        each["field"] for each in filled.json("registry", "diff", "crm_find", "1", "3")["differences"]
    ] == [*("description", "examples", "pinned")]
    assert "version 4" in filled("registry", "rollback", "crm_find", "--to", "1").out
    assert filled.json("registry", "show", "crm_find")["description"] == "Finds a customer by name."
    assert "ada" in filled("registry", "history", "crm_find").out


def test_an_update_without_a_difference_writes_nothing(on_sqlite):
    revision = on_sqlite.json("registry", "status")["revision"]
    done = on_sqlite("registry", "update", "crm_find", "--set", "description=Finds a customer by name.")
    assert "unchanged" in done.out
    assert on_sqlite.json("registry", "status")["revision"] == revision


@each_row(
    ("words", "what"),
    [
        (("--set", "descripton=x"), "descripton"),
        (("--set", "status=gone"), "status"),
        (("--set", "pinned=3"), "pinned"),
        (("--set", "summary=x", "--expected-version", "7"), "version"),
        (("--set", "semantic_version=newest"), "version"),
        (("--set", "version=2.0.0"), "semantic_version"),
    ],
)
def test_an_update_that_cannot_be_is_one_line_and_changes_nothing(on_sqlite, words, what):
    done = on_sqlite("registry", "update", "crm_find", *words, status=1)
    assert what in done.err and done.err.count("\n") == 1 and done.out == ""
    assert on_sqlite.json("registry", "show", "crm_find")["version"] == 1


def test_what_is_deleted_is_selected_no_more_and_comes_back(filled):
    message = "will it rain in Oslo"
    assert "get_forecast" in filled.picked(message)
    filled("registry", "delete", "get_forecast", "--reason", "broken")
    assert "get_forecast" not in filled.names()
    assert "get_forecast" in filled.names("--deleted")
    assert "get_forecast" not in filled.picked(message)
    why = filled.json("registry", "why", "get_forecast")
    assert why["visible"] is False and "was deleted by" in why["reason"]
    filled("registry", "show", "get_forecast", status=1)
    assert filled.json("registry", "show", "get_forecast", "--deleted")["deleted_at"]
    filled("registry", "restore", "get_forecast")
    assert "get_forecast" in filled.picked(message)


def sync(typed, folder, *words, status=0):
    return typed.json("registry", "sync", str(folder), "--plugin", "weather", *words, status=status)


def test_sync_makes_a_plugin_what_its_folder_says(typed, tmp_path):
    folder = toolkit_file(tmp_path / "plugin", WEATHER)
    assert sync(typed, folder, "--plugin-version", "1.0.0")["counts"]["created"] == 2
    assert sync(typed, folder, "--plugin-version", "1.0.0")["counts"]["unchanged"] == 2
    toolkit_file(folder, WEATHER, tasks=WEATHER["tasks"][:1])
    planned = sync(typed, folder, "--plugin-version", "1.1.0", "--dry-run")
    assert planned["counts"]["deleted"] == 1 and planned["dry_run"] is True
    assert typed.names() == ["get_air_quality", "get_forecast"]
    assert sync(typed, folder, "--plugin-version", "1.1.0")["counts"]["deleted"] == 1
    (plugin,) = typed.json("registry", "status")["plugins"]
    assert (plugin["name"], plugin["plugin_version"], plugin["tools"]) == ("weather", "1.1.0", 1)
    assert "name weather, plugin version 1.1.0" in typed("registry", "status").out
    assert typed.names("--plugin", "weather") == ["get_forecast"]


def test_a_name_that_another_holds_is_a_conflict_and_nothing_is_done(filled, tmp_path):
    folder = toolkit_file(tmp_path / "plugin", {"name": "other", "tasks": CRM["tasks"]})
    before = filled.json("registry", "status")["revision"]
    planned = sync(filled, folder, "--dry-run", status=1)
    assert len(planned["conflicts"]) == 2
    done = filled("registry", "sync", str(folder), "--plugin", "weather", status=1)
    assert "'crm_find'" in done.err and done.err.count("\n") == 1
    assert filled.json("registry", "status")["revision"] == before


def test_what_waits_for_approval_is_listed_and_decided(typed, tmp_path):
    folder = toolkit_file(tmp_path / "plugin", WEATHER)
    sync(typed, folder, "--review", "changed")
    changed = [dict(task, description=f"{task['description']} Or so.") for task in WEATHER["tasks"]]
    toolkit_file(folder, WEATHER, tasks=changed)
    assert sorted(sync(typed, folder)["held"]) == ["get_air_quality", "get_forecast"]
    assert typed.picked("will it rain in Oslo") == []
    why = typed.json("registry", "why", "get_forecast")
    assert why["visible"] is False and "waits for approval" in why["reason"]
    done = typed("registry", "review")
    assert "get_forecast" in done.out and "Or so." in done.out and "2 waiting" in done.err
    waiting = typed.json("registry", "review")["waiting"]
    for tool in waiting:
        fields = {each["field"]: (each["before"], each["after"]) for each in tool["differences"]}
        assert fields["description"][1] == f"{fields['description'][0]} Or so."
        assert fields["review"] == ("approved", "changed")
    assert typed.json("registry", "status")["waiting"] == {"pending": 0, "changed": 2}
    typed("registry", "approve", "get_forecast", "--reason", "fine")
    typed("registry", "reject", "get_air_quality", "--reason", "no")
    assert "nothing waits" in typed("registry", "review").err
    assert typed.json("registry", "show", "get_forecast")["description"].endswith("Or so.")
    assert not typed.json("registry", "show", "get_air_quality")["description"].endswith("Or so.")
    assert sync(typed, folder)["held"] == []


def test_what_a_plugin_writes_cannot_move_the_cursor_or_hide(typed, tmp_path):
    evil = "Harmless.\x1b[2J\x1b[1;1H\u202edetsurt\u202c\u200b"
    task = {"name": "get_forecast", "description": evil}
    folder = toolkit_file(tmp_path / "plugin", WEATHER, tasks=[task])
    outputs = [typed("registry", "sync", str(folder), "--plugin", "weather", "--review", "all")]
    outputs += [typed("registry", *words) for words in (("list",), ("review",), ("changes",), ("status",))]
    outputs += [
        typed("registry", *words) for words in (("show", "get_forecast"), ("history", "get_forecast"))
    ]
    assert typed.names("--flagged") == ["get_forecast"]
    outputs.append(typed("registry", "approve", "get_forecast"))
    for done in outputs:
        for letter in "\x1b\u202e\u202c\u200b":
            assert letter not in done.out + done.err
    assert typed.json("registry", "show", "get_forecast")["description"] == evil


def test_the_log_says_who_did_what_and_why(filled):
    filled("registry", "delete", "crm_find", "--actor", "ada", "--reason", "gone upstream")
    newest = filled.json("registry", "changes", "--limit", "1")["changes"][0]
    assert (newest["actor"], newest["subject"], newest["reason"]) == ("ada", "crm_find", "gone upstream")
    assert filled.json("registry", "changes", "--after", str(newest["seq"])) == {
        "changes": [],
    }
    oldest = filled.json("registry", "changes", "--after", "0")["changes"][0]
    assert oldest["seq"] < newest["seq"]
    assert len(filled.json("registry", "changes", "--subject", "crm_find")["changes"]) >= 1
    assert filled.json("registry", "changes", "--org", "acme") == {"changes": []}
    assert "gone upstream" in filled("registry", "changes").out


def test_status_counts_what_there_is(filled):
    status = filled.json("registry", "status")
    assert status["tools"] == 4 and status["toolkits"] == 2 and status["deleted"] == 0
    assert status["tools_by_status"] == {"active": 4} and status["tools_by_org"] == {"": 4}
    assert status["database"].startswith(("SQLite 3.", "PostgreSQL "))
    assert status["versions"] == 4 and status["embeddings"] == {}
    assert ":" not in status["catalog"].partition("://")[2].partition("@")[0]
    assert "tools" in filled("registry", "status").out


def test_upgrade_of_what_is_current_does_nothing(on_sqlite):
    done = on_sqlite.json("registry", "upgrade")
    assert done["before"] == done["after"]
    assert "nothing to do" in on_sqlite("registry", "upgrade").out


def test_a_tool_leaves_its_rules_only_by_force(filled):
    when = ("--when", '{"all": []}')
    filled("registry", "rules", "add", "no-export", "--deny", "--tool", "crm_export", *when)
    change = ("registry", "update", "crm_export", "--set", "name=export")
    assert "would leave rule 'no-export'" in filled(*change, status=1).err
    typo = filled("registry", "update", "crm_export", "--set", "toolkit=cmr", status=1).err
    assert "toolkit 'cmr' is not on the platform; did you mean 'crm'?" in typo
    assert "export: updated" in filled(*change, "--force").out


def test_what_becomes_of_what_waited_is_said(on_sqlite, tmp_path):
    words = ("registry", "sync", str(tmp_path / "theirs"), "--plugin", "p", "--review", "changed")
    own = {"name": "theirs", "tasks": [{"name": "ping", "description": "Pings."}]}
    toolkit_file(tmp_path / "theirs", own)
    on_sqlite(*words)
    toolkit_file(tmp_path / "theirs", own, tasks=[{"name": "ping", "description": "Pings a host."}])
    on_sqlite(*words)
    said = on_sqlite("registry", "update", "ping", "--set", "summary=Ping").out
    assert said == "ping: updated, still waits for approval, version 3\n"
    said = on_sqlite("registry", "rollback", "ping", "--to", "1").out
    assert "the content that waited is discarded" in said


def test_a_tool_is_created_from_options_a_file_or_standard_input(typed, on_sqlite, tmp_path, monkeypatch):
    who = ("--actor", "ada", "--reason", "asked for")
    words = ("--set", "description=Tides of a harbour.", "--set", 'examples=["when is high water"]')
    created = typed.json("registry", "create", "get_tides", *words, *who)
    assert (created["name"], created["version"], created["review"]) == ("get_tides", 1, "approved")
    assert (created["updated_by"], created["examples"]) == ("ada", ["when is high water"])
    assert typed.json("registry", "changes", "--limit", "1")["changes"][0]["reason"] == "asked for"
    file = tmp_path / "one.json"
    file.write_text(
        '{"type": "function", "function": {"name": "get_moon", "description": "The moon\'s phase."}}',
        encoding="utf-8",
    )
    assert typed("registry", "create", "--file", str(file)).out == "get_moon: created, version 1\n"
    type_in(monkeypatch, '{"name": "x", "description": "Sunrise."}')
    created = typed.json("registry", "create", "get_sun", "--file", "-", "--set", "status=draft")
    assert (created["name"], created["description"], created["status"]) == ("get_sun", "Sunrise.", "draft")
    assert typed.names() == ["get_moon", "get_sun", "get_tides"]
    assert typed.picked("when is high water", "-k", "1") == ["get_tides"]


@each_row(
    ("words", "what", "status"),
    [
        (("crm_find",), "taken", 1),
        (("x", "--set", "descripton=x"), "did you mean 'description'?", 1),
        (("x", "--set", "toolkit=cmr"), "did you mean 'crm'?", 1),
        (("x", "--set", "name=y"), "NAME --set name", 2),
        ((), "NAME --file", 2),
        (("",), "name", 1),
    ],
)
def test_a_tool_that_cannot_be_created_is_one_line_and_nothing_is_written(on_sqlite, words, what, status):
    done = on_sqlite("registry", "create", *words, status=status)
    assert what in done.err and done.out == ""
    assert len(on_sqlite.names()) == 4


def test_a_wrong_definition_to_create_is_named_by_file_line_and_key(on_sqlite, tmp_path):
    file = tmp_path / "one.json"
    file.write_text('{\n "name": "x",\n "description": 3\n}', encoding="utf-8")
    done = on_sqlite("registry", "create", "--file", str(file), status=1)
    assert f"{file}:3: tool 'x': description" in done.err and done.err.count("\n") == 1

    missing = str(tmp_path / "none.json")
    assert "cannot be read: No such file" in on_sqlite("registry", "create", "--file", missing, status=1).err


def test_a_deleted_tool_is_said_to_be_deleted_and_its_history_says_when(on_sqlite):
    on_sqlite("registry", "delete", "crm_find", "--actor", "ada")
    for words in (("rollback", "crm_find", "--to", "1"), ("update", "crm_find", "--set", "summary=x")):
        done = on_sqlite("registry", *words, status=1)
        assert "is deleted, since" in done.err and "by ada; `restore` brings it back" in done.err
    on_sqlite("registry", "restore", "crm_find")
    versions = on_sqlite.json("registry", "history", "crm_find")["versions"]
    assert [version["changed"] for version in versions] == [["restored"], ["deleted"], []]
    out = on_sqlite("registry", "history", "crm_find").out
    assert "deleted" in out and "restored" in out


def test_a_tool_that_waits_for_nothing_is_neither_approved_nor_rejected(on_sqlite):
    for command in ("approve", "reject"):
        done = on_sqlite("registry", command, "crm_find", status=1)
        assert "nothing waits for approval" in done.err and done.out == ""
    assert on_sqlite.json("registry", "show", "crm_find")["version"] == 1


def test_the_version_that_an_editor_read_is_expected(on_sqlite):
    on_sqlite("registry", "update", "crm_find", "--set", "summary=a", "--expected-version", "1")
    for words in (("update", "--set", "summary=b"), ("rollback", "--to", "1"), ("delete",)):
        done = on_sqlite("registry", words[0], "crm_find", *words[1:], "--expected-version", "1", status=1)
        assert "is at version 2, not 1" in done.err
