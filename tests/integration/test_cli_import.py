"""From a folder to a registry, from a registry to another, and selecting from it: as typed."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from sqlalchemy import make_url

from tests.integration.commands import CRM, WEATHER, Typed, toolkit_file, type_in
from toolroll.cli import main
from toolroll.embedders.hashing import HashingEmbedder

SECRET = "hunter2-s3cret"


@pytest.fixture
def folder(tmp_path):
    toolkit_file(tmp_path / "mine", WEATHER)
    return toolkit_file(tmp_path / "mine", CRM)


@pytest.fixture
def typed(database_url, capsys):
    return Typed(database_url, capsys)


@pytest.fixture
def on_sqlite(new_database_url, capsys):
    """For what is all the command's own doing."""
    return Typed(new_database_url("sqlite"), capsys)


@pytest.mark.slow
def test_a_folder_becomes_a_shared_registry_in_two_commands(empty_url, folder):
    def command(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "toolroll", *words],
            capture_output=True,
            text=True,
            env={**os.environ, "TOOLROLL_CATALOG": empty_url},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "created" in command("import", str(folder))
    picked = command("select", "will it rain in Oslo tomorrow", "--catalog", empty_url)
    assert "get_forecast" in picked.split()


def test_importing_again_writes_nothing(typed, folder):
    first = typed.put(folder)
    assert first["counts"]["created"] == 4
    revision = typed.json("registry", "status")["revision"]
    again = typed.put(folder)
    assert again["counts"]["unchanged"] == 4 and again["counts"]["created"] == 0
    assert typed.json("registry", "status")["revision"] == revision


def test_importing_what_changed_makes_versions_and_deletes_nothing(typed, folder, tmp_path):
    typed.put(folder)
    changed = dict(WEATHER["tasks"][0], description="Tells what the weather will be.")
    other = toolkit_file(tmp_path / "other", WEATHER, tasks=[changed])
    assert typed.put(other)["counts"]["changed"] == 1
    assert typed.names() == ["crm_export", "crm_find", "get_air_quality", "get_forecast"]
    shown = typed.json("registry", "show", "get_forecast")
    assert (shown["description"], shown["version"]) == ("Tells what the weather will be.", 2)


def test_a_dry_run_prints_the_plan_and_does_nothing(on_sqlite, folder):
    done = on_sqlite("import", str(folder), "--dry-run", catalog="--to")
    assert "get_forecast" in done.out and "nothing was written" in done.out
    assert on_sqlite.names() == []


def test_a_dry_run_makes_no_database(empty_url, folder, capsys):
    typed = Typed(empty_url, capsys)
    assert typed.put(folder, "--dry-run")["counts"]["created"] == 4
    assert "no registry is there" in typed("registry", "list", status=1).err


@pytest.mark.db
def test_the_next_step_is_said_without_a_password(new_database_url, folder, capsys):
    url = make_url(new_database_url("postgresql"))
    if not url.password:
        url = url.set(password=SECRET)  # the server of the tests asks for none
    done = Typed(url.render_as_string(hide_password=False), capsys)("import", str(folder), catalog="--to")
    assert 'toolroll select "MESSAGE" --catalog' in done.err and "***@" in done.err
    assert str(url.password) not in done.out + done.err


def test_a_folder_that_is_wrong_changes_nothing_and_names_the_line(empty_url, capsys, tmp_path):
    toolkit_file(tmp_path / "bad", WEATHER, tasks=[{"name": 7}])
    assert main(("import", str(tmp_path / "bad"), "--to", empty_url)) == 1
    out, err = capsys.readouterr()
    assert out == "" and "weather.json:1" in err and err.count("\n") == 1
    (tmp_path / "bad" / "tools.jsonl").write_text('{"name": "a", "exampls": []}\n{"name": "b", "x": 1}\n')
    assert main(("import", str(tmp_path / "bad"), "--to", empty_url, "--dry-run")) == 1
    out, err = capsys.readouterr()
    assert "tools.jsonl:1: tool 'a': unknown field 'exampls'; did you mean 'examples'?" in err
    assert "2 problems" in err and "tools.jsonl:2: tool 'b': unknown field 'x'" in err
    assert main(("registry", "list", "--catalog", empty_url)) == 1
    assert "no registry is there" in capsys.readouterr().err


def test_what_a_plugin_owns_is_no_import(on_sqlite, folder):
    assert on_sqlite.put(folder, "--plugin", "mine")["counts"]["created"] == 4
    done = on_sqlite("import", str(folder), status=1, catalog="--to")
    assert "plugin 'mine'" in done.err + done.out


def test_a_registry_is_imported_into_another(typed, new_database_url, folder, capsys):
    typed.put(folder)
    typed("registry", "update", "crm_find", "--set", "pinned=true")
    typed("registry", "delete", "crm_export")
    other = Typed(new_database_url("sqlite"), capsys)
    found = other.json("import", typed.url, catalog="--to")
    assert found["counts"]["created"] == 3
    assert other.names() == ["crm_find", "get_air_quality", "get_forecast"]
    assert other.json("registry", "show", "crm_find")["pinned"] is True
    assert other.json("registry", "toolkits")["toolkits"] != []
    assert other.json("import", typed.url, catalog="--to")["counts"]["unchanged"] == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("rules", "add", "no", "--deny", "--tool", "crm_find", "--when", '{"all": []}'), "has 1 rule,"),
        (("tiers", "free", "pro"), "has tiers,"),
    ],
)
def test_a_registry_whose_rules_would_be_lost_is_not_imported(
    on_sqlite, new_database_url, folder, capsys, words, said
):
    on_sqlite.put(folder)
    on_sqlite("registry", *words)
    other = Typed(new_database_url("sqlite"), capsys)
    done = other("import", on_sqlite.url, status=1, catalog="--to")
    assert said in done.err and "pg_dump" in done.err and done.err.count("\n") == 1
    assert other.names() == []


def test_a_registry_of_organisations_is_not_imported_in_part(on_sqlite, new_database_url, folder, capsys):
    on_sqlite.put(folder, "--org", "acme")
    other = Typed(new_database_url("sqlite"), capsys)
    assert "has organisations," in other("import", on_sqlite.url, status=1, catalog="--to").err
    assert other.json("import", on_sqlite.url, "--org", "acme", catalog="--to")["counts"]["created"] == 4


def test_importing_again_keeps_what_people_decided(typed, folder, tmp_path):
    typed.put(folder)
    typed("registry", "update", "crm_find", "--set", "status=draft", "--set", "description=Ours")
    typed("registry", "delete", "crm_export")
    revision = typed.json("registry", "status")["revision"]
    again = typed.put(folder)
    assert [tool["name"] for tool in again["left"]] == ["crm_export"]
    assert typed.json("registry", "status")["revision"] == revision
    changed = [dict(task, description="Newer.") for task in CRM["tasks"]]
    typed.put(toolkit_file(tmp_path / "other", CRM, tasks=changed))
    shown = typed.json("registry", "show", "crm_find")
    assert (shown["status"], shown["description"]) == ("draft", "Ours")
    assert shown["source_values"] == {"description": "Newer."}
    assert [flag["code"] for flag in shown["flags"]] == ["kept"]
    typed("registry", "update", "crm_find", "--give-back", "description")
    assert typed.json("registry", "show", "crm_find")["description"] == "Newer."
    assert "crm_export" not in typed.names()
    typed.put(tmp_path / "other", "--restore")
    assert "crm_export" in typed.names()


def test_select_counts_the_settings_that_the_registry_has(typed, folder, monkeypatch):
    typed.put(folder)
    message = "find the customer Hansen"
    assert "crm_find" not in typed.picked(message)
    assert "crm_find" in typed.picked(message, "--setting", "crm_key")
    type_in(monkeypatch, "hunter2")
    typed("registry", "settings", "set", "crm_key")
    assert "crm_find" in typed.picked(message)


def test_what_is_an_organisations_is_selected_for_it_alone(typed, folder, tmp_path):
    typed.put(folder)
    own = {"name": "rockets", "tasks": [{"name": "launch_rocket", "description": "Launches a rocket."}]}
    typed.put(toolkit_file(tmp_path / "acme", own), "--org", "acme")
    assert typed.names() == ["crm_export", "crm_find", "get_air_quality", "get_forecast"]
    assert typed.names("--org", "acme") == ["launch_rocket"]
    message = "launch a rocket when there is no rain"
    assert {"launch_rocket", "get_forecast"} <= set(typed.picked(message, "--org", "acme"))
    assert "launch_rocket" not in typed.picked(message)
    assert "launch_rocket" not in typed.picked(message, "--org", "other")


@pytest.fixture
def waits(monkeypatch):
    """The hashing embedder as one that takes time, whose vectors readers therefore take from the registry."""
    monkeypatch.setattr(HashingEmbedder, "is_instant", False)


def test_embed_keeps_what_is_missing_and_goes_on_where_it_was(waits, typed, folder, tmp_path):
    typed.put(folder)
    missing = typed.json("embed", "--embedder", "hashing", "--dry-run")
    assert (missing["stale"], missing["embedded"], missing["current"]) == (missing["texts"], 0, 0)
    first = typed.json("embed", "--embedder", "hashing")
    assert (first["embedded"], first["stale"]) == (missing["texts"], 0)
    changed = dict(WEATHER["tasks"][0], description="Tells what the weather will be.")
    typed.put(toolkit_file(tmp_path / "other", WEATHER, tasks=[changed]))
    second = typed.json("embed", "--embedder", "hashing")
    assert (second["embedded"], second["orphans"]) == (1, 1)
    pruned = typed.json("embed", "--embedder", "hashing", "--prune")
    assert (pruned["embedded"], pruned["pruned"], pruned["orphans"]) == (0, 1, 0)
    (count,) = typed.json("registry", "status")["embeddings"].values()
    assert count == pruned["texts"]


@pytest.mark.parametrize(("words", "status"), [((), 2), (("--embedder", "static"), 1)])
def test_vectors_that_nobody_would_read_are_not_written(on_sqlite, folder, words, status):
    on_sqlite.put(folder)
    done = on_sqlite("embed", *words, status=status)
    assert "reads no stored vectors" in done.err and "minilm" in done.err and done.out == ""
    assert on_sqlite.json("registry", "status")["embeddings"] == {}


def test_embed_says_what_an_unknown_embedder_is(on_sqlite):
    done = on_sqlite("embed", "--embedder", "bert", status=1)
    assert done.err.startswith("toolroll embed: embedder 'bert': unknown") and done.out == ""


def test_a_server_that_refuses_is_one_line_without_the_password(capsys, tmp_path):
    url = f"postgresql://me:{SECRET}@127.0.0.1:1/tools"
    for command in (
        ("registry", "list"),
        ("registry", "status"),
        ("embed", "--embedder", "hashing"),
        ("select", "x"),
    ):
        assert main((*command, "--catalog", url)) == 1
        out, err = capsys.readouterr()
        assert out == "" and err.count("\n") == 1
        assert "127.0.0.1" in err and SECRET not in err


def test_a_file_that_is_no_registry_is_left_alone(capsys, tmp_path, folder):
    path = tmp_path / "notes.db"
    path.write_bytes(b"these are notes, and no database at all " * 40)
    before = path.read_bytes()
    for command in (
        ("import", str(folder), "--to"),
        ("registry", "upgrade", "--catalog"),
        ("registry", "status", "--catalog"),
    ):
        assert main((*command, f"sqlite:///{path}")) == 1
        assert capsys.readouterr().err.count("\n") == 1
    assert path.read_bytes() == before


def test_every_listing_prints_one_object_and_nothing_else(typed, folder):
    typed.put(folder)
    for command in (
        "list",
        "review",
        "toolkits",
        "rules",
        "pages",
        "pins",
        "settings",
        "tiers",
        "changes",
        "status",
    ):
        assert isinstance(typed.json("registry", command), dict)
    for words in (("show", "crm_find"), ("history", "crm_find"), ("why", "crm_find")):
        assert isinstance(typed.json("registry", *words), dict)
    assert json.loads(typed("registry", "list", "--json").out)["next"] in (None, "")


def test_progress_is_for_a_person_and_leaves_the_line_empty(waits, on_sqlite, folder, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    done = on_sqlite("import", str(folder), "--json", catalog="--to")
    assert "tools 4/4" in done.err and done.err.endswith("\r\033[K") and json.loads(done.out)
    done = on_sqlite("embed", "--embedder", "hashing", "--json")
    assert "embedding" in done.err and done.err.endswith("\r\033[K") and json.loads(done.out)


CATALOG = {"tiers": ["free", "pro"], "pages": [{"pattern": "sales*", "toolkits": ["crm"]}]}


@pytest.fixture
def tiered(tmp_path):
    """Toolkits of a tier, with the tiers and a page mapping in the folder."""
    made = toolkit_file(tmp_path / "tiered", WEATHER, tier="free")
    toolkit_file(made, CRM, tier="pro", settings_keys=[])
    (made / "catalog.json").write_text(json.dumps(CATALOG), encoding="utf-8")
    return made


def test_a_folder_of_tiers_is_selected_from_on_the_command_line(tiered, capsys):
    def names(*words: str) -> set[str]:
        assert main(["select", "find a customer", "--catalog", str(tiered), "--json", *words]) == 0
        return {tool["name"] for tool in json.loads(capsys.readouterr().out)["tools"]}

    assert names() == set()
    assert names("--tier", "free") == {"get_forecast", "get_air_quality"}
    assert names("--tier", "pro", "--page", "sales/7", "-k", "3") == {"crm_export", "crm_find"}
    assert names("--tier", "pro", "--tiers", "pro,free") == {"crm_export", "crm_find"}
    assert main(["select", "find a customer", "--catalog", str(tiered)]) == 0
    assert "no tier is given, so toolkits that have one are hidden: crm, weather" in capsys.readouterr().err
    assert main(["select", "find a customer", "--catalog", str(tiered), "--explain"]) == 0
    assert "its toolkit is for another tier" in capsys.readouterr().out
    (tiered / "catalog.json").unlink()
    assert main(["select", "x", "--catalog", str(tiered)]) == 1
    said = capsys.readouterr().err
    assert "crm.json:1: toolkit 'crm': tier is 'pro', but there are no tiers" in said and "--tiers" in said
    assert names("--tier", "free", "--tiers", "free,pro") == {"get_forecast", "get_air_quality"}
    assert main(["select", "x", "--tiers", "free"]) == 2
    assert "goes with --catalog FOLDER" in capsys.readouterr().err


def test_an_import_brings_the_first_tiers_and_the_page_mappings_of_its_folder(typed, tiered):
    planned = typed.put(tiered, "--dry-run")
    assert planned["tiers"] == ["free", "pro"] and planned["conflicts"] == []
    assert "tiers" in typed("import", str(tiered), catalog="--to").out
    assert typed.json("registry", "tiers") == {"tiers": ["free", "pro"]}
    assert [page["pattern"] for page in typed.json("registry", "pages")["pages"]] == ["sales*"]
    assert typed.json("registry", "why", "crm_find", "--tier", "free")["visible"] is False
    (line,) = typed.json("registry", "changes", "--action", "tiers")["changes"]
    assert line["details"]["after"] == {"tiers": ["free", "pro"]}
    assert typed.put(tiered)["applied"] is False
    (tiered / "catalog.json").write_text('{"tiers": ["free", "pro", "team"]}', encoding="utf-8")
    (note,) = typed.put(tiered)["notes"]
    assert note == "governed: tiers free, pro, team are not set: the registry has free, pro"


def test_a_plugin_brings_tiers_and_page_mappings_only_if_it_is_trusted(typed, tiered):
    words = ("registry", "sync", str(tiered), "--plugin", "p")
    refused = typed.json(*words, "--dry-run", status=1)
    assert any("no tiers are configured" in problem for problem in refused["conflicts"])
    assert any("tiers free, pro are not set: `--trusted` does it" in note for note in refused["notes"])
    done = typed.json(*words, "--trusted")
    assert (done["tiers"], [page["action"] for page in done["pages"]]) == (["free", "pro"], ["create"])
    assert typed.json("registry", "tiers") == {"tiers": ["free", "pro"]}
    assert typed.json("registry", "pages", "for", "sales")["toolkits"] == ["crm"]
    (tiered / "catalog.json").write_text('{"tiers": ["free", "pro"]}', encoding="utf-8")
    assert [page["action"] for page in typed.json(*words, "--trusted")["pages"]] == ["delete"]


def test_a_tool_with_hidden_characters_is_not_told_as_a_hidden_tool(on_sqlite, tmp_path):
    (tmp_path / "tools.jsonl").write_text(json.dumps({"name": "copy_it", "description": "Cop\u200by ab"}))
    said = on_sqlite("import", str(tmp_path / "tools.jsonl"), catalog="--to").out
    assert "copy_it (flagged: hidden characters)" in said
