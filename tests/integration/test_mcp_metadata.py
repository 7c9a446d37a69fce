"""What MCP says of a tool beside its text, in a registry: kept, compared, reviewed, read by rules, sent again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.integration.commands import Typed
from toolroll import Context, Follow, Registry, Rule, Tool, Toolroll, read_tools
from toolroll.model.errors import InvalidDefinition, InvalidInput
from toolroll.registry.follow.history import as_of
from toolroll.registry.follow.replica import Replica, catch_up
from toolroll.registry.store import tables

DROP: dict[str, Any] = {
    "name": "drop_db",
    "title": "Drop a database",
    "description": "Drops the database",
    "inputSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
    "outputSchema": {"type": "object", "properties": {"dropped": {"type": "boolean"}}},
    "annotations": {"title": "Drop", "readOnlyHint": False, "destructiveHint": True},
    "icons": [{"src": "https://example.org/a.png", "sizes": ["48x48"]}],
    "_meta": {"ui": {"visibility": ["app"]}, "z": 1, "a": [1.5, None]},
    "execution": {"taskSupport": "optional"},
}
READ: dict[str, Any] = {
    "name": "list_db",
    "description": "Lists the databases",
    "inputSchema": {"type": "object", "properties": {}},
    "annotations": {"readOnlyHint": True},
}
PLAIN: dict[str, Any] = {**READ, "name": "ping_db", "description": "Pings the database", "annotations": {}}


@pytest.fixture
def registry(database_url: str) -> Iterator[Registry]:
    with Registry.open(database_url, actor="gateway") as opened:
        yield opened


@pytest.fixture
def roll(registry: Registry, database_url: str) -> Iterator[Toolroll]:
    with Toolroll.open(database_url, follow=Follow(poll_s=600, listens=False)) as opened:
        yield opened


@pytest.fixture
def listed(registry: Registry) -> Callable[..., Any]:
    """Syncs a server's list, whose changes wait for review."""

    def sync(*tools: dict[str, Any], **options: Any) -> Any:
        return registry.sync([*tools], plugin="db", toolkit="db", **{"review": "changed", **options})

    return sync


def served(registry: Registry, name: str = "drop_db") -> Tool | None:
    """The tool in catalogs, without what only a process has."""
    tools = catch_up(registry.database, Replica()).tools.get("", {})
    return next((tool for tool in tools.values() if tool.name == name), None)


def text(registry: Registry) -> str | None:
    tool = served(registry)
    return None if tool is None else tool.description


def test_what_a_server_lists_comes_out_of_a_registry_as_it_went_in(registry, database_url, listed):
    report = listed(DROP, READ, PLAIN)
    assert report.plan.names("create") == ("drop_db", "list_db", "ping_db")
    assert registry.tool("drop_db").tool.toolkit == "db"
    with Toolroll.open(database_url) as roll:
        picked = roll.select(
            "drop, list or ping the database", Context(required=("drop_db", "list_db", "ping_db"))
        )
        assert {tool["name"]: tool for tool in picked.schemas("mcp")} == {
            tool["name"]: tool for tool in (DROP, READ, PLAIN)
        }
        assert picked.conversion_losses("mcp") == ()
        lost = {loss.where for loss in picked.conversion_losses("openai") if loss.tool == "drop_db"}
        assert lost == {"title", "outputSchema", "annotations", "icons", "_meta", "execution"}
    assert listed(DROP, READ, PLAIN).plan.unchanged == 3


def test_a_list_in_any_form_is_synced_and_a_wrong_one_refused(registry):
    openai = {"type": "function", "function": {"name": "mail", "parameters": {"type": "object"}}}
    registry.sync([openai, DROP], plugin="p")
    assert registry.tool("mail").plugin == "p" == registry.tool("drop_db").plugin
    registry.sync(read_tools([openai], toolkit="post"), plugin="p")
    assert registry.tool("mail").tool.toolkit == "post"
    with pytest.raises(
        InvalidDefinition, match=r"tools\[1\]: tool 'mail': name is already taken by tools\[0\]"
    ):
        registry.sync([openai, openai], plugin="p")
    report = registry.sync([DROP, DROP, {**DROP, "description": "another"}], plugin="p")
    assert report.plan.notes == ("skipped: tools[2]: tool 'drop_db': name is already taken by tools[0]",)
    assert registry.tool("drop_db").tool.description == DROP["description"]
    with pytest.raises(InvalidInput, match="toolkit is 'x', must be '': the Definitions name their toolkits"):
        registry.sync(read_tools([openai]), plugin="p", toolkit="x")
    with pytest.raises(InvalidInput, match="while_waiting is 'shown', must be one of approved, hidden"):
        registry.sync([DROP], plugin="p", while_waiting="shown")


def test_a_change_of_annotations_alone_waits_for_review(registry, listed):
    listed(DROP)
    report = listed({**DROP, "annotations": {"readOnlyHint": True, "destructiveHint": False}})
    (step,) = report.plan.tools
    assert (step.action, step.review, step.fields) == ("change", "changed", ("annotations",))
    assert report.plan.held == ("drop_db",) and served(registry) is None
    record = registry.tool("drop_db")
    assert [(flag["code"], flag["message"]) for flag in record.flags] == [
        (
            "hints",
            "readOnlyHint was false, is true; destructiveHint was true, is false; "
            "idempotentHint was unknown, is true",
        )
    ]
    assert registry.history("drop_db")[0].changed == ("annotations", "review")
    assert '"destructiveHint": false' in registry.diff("drop_db", 1, 2)
    assert registry.rollback("drop_db", 1).tool.annotations == DROP["annotations"]
    assert served(registry).annotations == DROP["annotations"]


@pytest.mark.parametrize("review", ["auto", "changed"])
def test_a_tool_that_warns_of_more_is_flagged_until_somebody_approves_it(registry, listed, review):
    listed(READ)
    listed({**READ, "annotations": {"readOnlyHint": False}}, review=review)
    listed({**READ, "annotations": {"readOnlyHint": False}, "description": "Lists and drops"}, review=review)
    (flag,) = registry.tool("list_db").flags
    assert flag["code"] == "hints" and flag["message"].startswith("readOnlyHint was true, is false")
    assert [record.name for record in registry.tools(flagged=True).records] == ["list_db"]
    assert registry.approve("list_db").flags == ()


def test_a_hint_that_becomes_another_type_is_a_change_that_a_catalog_sees(registry, roll, listed):
    """Python takes 1 for True."""
    registry.rules.add(
        Rule("readers", "allow", "annotation", {"annotation": {"readOnlyHint": True}}, toolkit="*")
    )
    listed(READ)
    roll.refresh()
    assert roll.why("list_db", Context()).visible
    report = listed({**READ, "annotations": {"readOnlyHint": 1}}, review="auto")
    assert report.plan.tools[0].fields == ("annotations",)
    roll.refresh()
    assert not roll.why("list_db", Context()).visible


def test_invisible_characters_in_annotations_are_flagged(registry, listed):
    listed({**READ, "annotations": {"title": "Li\u200bst"}})
    (flag,) = registry.tool("list_db").flags
    assert (flag["code"], "annotations.title" in flag["message"]) == ("hidden", True)


def test_metadata_that_no_database_stores_is_refused_with_all_other_problems(registry, listed):
    with pytest.raises(InvalidDefinition, match="holds a NUL character"):
        listed({**READ, "_meta": {"x": "\0"}})
    with pytest.raises(InvalidDefinition, match="annotations is 7, must be a mapping or None"):
        registry.create(Tool("a", annotations=7))  # type: ignore[arg-type]


def test_people_may_annotate_a_tool_themselves(registry, listed):
    listed(PLAIN)
    record = registry.update("ping_db", {"annotations": {"readOnlyHint": True}}, version=1)
    assert record.tool.annotations == {"readOnlyHint": True}
    assert listed(PLAIN).plan.is_empty, "what people wrote stays until the server sends something else"


# Rules.


def test_rules_read_annotations_and_why_names_the_rule(registry, roll, listed):
    listed(DROP, READ, PLAIN)
    condition = {"role": "intern", "annotation": {"destructiveHint": True}}
    registry.rules.add(Rule("no harm", "deny", "composite", condition, toolkit="db"))
    roll.refresh()
    intern = Context(roles=("intern",))
    assert set(roll.select("the database", intern, k=9).names) == {"list_db"}
    assert set(roll.select("the database", Context(roles=("boss",)), k=9).names) == {
        "drop_db",
        "list_db",
        "ping_db",
    }
    verdict = roll.why("drop_db", intern)
    assert verdict.rule.name == "no harm" and "destructiveHint" in verdict.reason
    assert roll.why("ping_db", intern).reason.endswith(
        "; unknown of this tool, so it counts: annotation destructiveHint"
    )
    with pytest.raises(InvalidDefinition, match="did you mean 'destructiveHint'"):
        registry.rules.update("no harm", {"condition": {"annotation": {"destructiveHints": True}}})


def test_a_rule_of_an_organisation_reads_the_annotations_of_shared_tools_and_of_its_own(
    registry, roll, listed
):
    listed(DROP, READ)
    registry.sync([{**DROP, "name": "own_drop"}, {**READ, "name": "own_list"}], plugin="own", org="acme")
    condition = {"annotation": {"readOnlyHint": True}}
    registry.rules.add(Rule("readers", "allow", "annotation", condition, toolkit="*", org="acme"))
    roll.refresh()
    roll.warm_up(["acme"])
    assert set(roll.select("the database", Context(org="acme"), k=9).names) == {"list_db", "own_list"}
    assert set(roll.select("the database", Context(), k=9).names) == {"drop_db", "list_db"}


def test_a_tool_with_new_hints_is_in_no_selection_until_the_catalog_knows_them(
    registry, roll, listed, monkeypatch
):
    registry.rules.add(
        Rule("no harm", "deny", "annotation", {"annotation": {"destructiveHint": True}}, toolkit="*")
    )
    listed(READ, {**PLAIN, "annotations": {"readOnlyHint": True}})
    roll.refresh()
    assert set(roll.select("the database", k=9).names) == {"list_db", "ping_db"}
    listed(
        {**READ, "annotations": {"destructiveHint": True}},
        {**PLAIN, "annotations": {"readOnlyHint": True}},
        review="auto",
    )

    def fails(*_: Any, **__: Any) -> None:
        raise InvalidDefinition("no catalog can be built")

    monkeypatch.setattr("toolroll.selection.pipeline_builder.PipelineBuilder.pipeline", fails)
    with pytest.raises(InvalidDefinition):
        roll.refresh()
    assert set(roll.select("the database", k=9).names) == {"ping_db"}


# What serves while a change waits.

REWORDED = {**DROP, "description": "Drops the database for good"}


def test_while_a_change_waits_nothing_serves_unless_the_plugin_chose_otherwise(registry, listed):
    listed(DROP)
    report = listed(REWORDED)
    assert text(registry) is None and report.plan.served == ()
    assert report.to_dict()["while_waiting"] == "hidden"


def test_the_approved_text_goes_on_serving_where_the_plugin_chose_so(registry, roll, listed):
    listed(DROP, while_waiting="approved")
    report = listed(REWORDED)
    assert report.plan.held == report.plan.served == ("drop_db",)
    assert "review changed, approved content serves meanwhile" in str(report)
    record = registry.tool("drop_db")
    assert (record.review, record.served_version, record.version) == ("changed", 1, 2)
    assert record.tool.description == REWORDED["description"]
    assert registry.history("drop_db")[0].changed == ("description", "review", "served_version")
    assert registry.diff("drop_db", 1, 2).splitlines()[-2:] == [
        "review: approved → changed",
        "serves meanwhile: none → 1",
    ]
    roll.refresh()
    assert roll.select("drop the database", k=1).schemas("mcp") == [DROP]
    registry.approve("drop_db")
    roll.refresh()
    assert roll.select("drop the database", k=1).schemas("mcp") == [REWORDED]
    assert registry.tool("drop_db").served_version is None


def test_a_second_change_while_the_first_waits_leaves_the_approved_text(registry, listed):
    listed(DROP, while_waiting="approved")
    listed(REWORDED)
    listed({**DROP, "description": "Drops everything"})
    assert (text(registry), registry.tool("drop_db").served_version) == (DROP["description"], 1)
    assert registry.reject("drop_db").served_version is None
    assert text(registry) == DROP["description"]
    listed(DROP)
    assert registry.tool("drop_db").review == "approved"


SAFE = {
    **DROP,
    "inputSchema": {**DROP["inputSchema"], "minProperties": 0},
    "annotations": {"readOnlyHint": True, "destructiveHint": False},
}


@pytest.mark.parametrize(
    "change",
    [
        {"inputSchema": {"type": "object", "properties": {"id": {"type": "string"}}}},
        {
            "inputSchema": {
                "type": "object",
                "properties": {"name": {"type": "string"}},
                "minProperties": False,
            }
        },
        {"outputSchema": {"type": "object"}},
        {"execution": {"taskSupport": "required"}},
        {"annotations": {**SAFE["annotations"], "x-region": "eu"}},
        {"annotations": {"readOnlyHint": True, "destructiveHint": True}},
        {"annotations": {"readOnlyHint": "yes", "destructiveHint": False}},
        {"annotations": {}},
    ],
)
def test_nothing_serves_where_a_call_or_a_rule_would_take_the_change_otherwise(registry, listed, change):
    listed(SAFE, while_waiting="approved")
    report = listed({**SAFE, **change})
    assert report.plan.held == ("drop_db",) and report.plan.served == ()
    assert served(registry) is None


def test_a_tool_that_now_claims_to_be_harmless_serves_with_the_approved_annotations(registry, listed):
    listed(DROP, while_waiting="approved")
    listed({**DROP, "annotations": {"title": "Safe", "readOnlyHint": True, "destructiveHint": False}})
    assert served(registry).annotations == DROP["annotations"]


def test_a_new_tool_that_waits_never_serves(registry, listed):
    listed(DROP, review="all", while_waiting="approved")
    listed(REWORDED)
    assert text(registry) is None


def test_the_choice_may_be_changed_while_changes_wait_and_is_kept(registry, roll, listed):
    listed(DROP, READ)
    listed(REWORDED, READ)
    rehearsed = listed(REWORDED, READ, while_waiting="approved", dry_run=True)
    assert rehearsed.plan.served == ("drop_db",) and text(registry) is None
    report = listed(REWORDED, READ, while_waiting="approved")
    assert (report.plan.names("change"), report.plan.unchanged) == (("drop_db",), 1)
    assert report.plan.tools[0].fields == ("served_version",)
    assert text(registry) == DROP["description"]
    assert listed(REWORDED, READ).plan.is_empty
    roll.refresh()
    assert "drop_db" in roll.select("drop the database", k=1).names
    listed(REWORDED, READ, while_waiting="hidden")
    assert text(registry) is None
    roll.refresh()
    assert "drop_db" not in roll.select("drop the database", k=1).names
    assert [version.served_version for version in registry.history("drop_db")] == [None, 1, None, None]


def test_what_people_decide_about_a_waiting_tool_holds_for_the_text_that_serves(registry, listed):
    listed(DROP, while_waiting="approved")
    listed(REWORDED)
    registry.update("drop_db", {"pinned": True, "tags": ["danger"]}, version=2)
    assert (served(registry).pinned, served(registry).tags) == (True, ())
    registry.update("drop_db", {"status": "retired"}, version=3)
    assert served(registry).status == "retired"


def test_an_edit_of_waiting_content_that_a_call_depends_on_hides_the_tool(registry, listed):
    listed(DROP, while_waiting="approved")
    listed(REWORDED)
    record = registry.update("drop_db", {"parameters": None}, version=2)
    assert (record.review, record.served_version, text(registry)) == ("changed", None, None)


def test_a_deleted_tool_serves_nothing_and_a_restored_one_what_it_did(registry, listed):
    listed(DROP, while_waiting="approved")
    listed(REWORDED)
    registry.delete("drop_db")
    assert text(registry) is None
    registry.restore("drop_db")
    assert text(registry) == DROP["description"]
    listed(READ)
    assert text(registry) is None
    listed(READ, {**DROP, "description": "Drops again"})
    assert (text(registry), registry.tool("drop_db").review) == (DROP["description"], "changed")
    assert registry.rollback("drop_db", 1).served_version is None


def test_a_sync_that_is_trusted_or_needs_no_review_serves_what_it_sends(registry, listed):
    listed(DROP, while_waiting="approved")
    listed(REWORDED)
    listed(REWORDED, trusted=True)
    assert text(registry) == REWORDED["description"]
    assert registry.tool("drop_db").served_version is None


def test_a_process_that_follows_has_what_a_new_one_reads(registry, listed):
    seen = catch_up(registry.database, Replica())
    payloads = (DROP, REWORDED, {**DROP, "inputSchema": {"type": "object"}}, REWORDED, DROP)
    for payload in payloads:
        for choice in ("approved", "hidden", "approved"):
            listed(payload, while_waiting=choice)
            seen, fresh = catch_up(registry.database, seen), catch_up(registry.database, Replica())
            assert seen.tools == fresh.tools
            assert as_of(registry.database, fresh.revision, ()).tools == fresh.tools


def test_a_row_whose_served_version_is_lost_is_left_out_and_reported(registry, listed):
    listed(DROP, while_waiting="approved")
    listed(REWORDED)
    with registry.database.writing("nobody") as write:
        write.log("damage", "tools")
        values = {"served_version": 77, "revision": write.revision}
        write.connection.execute(sa.update(tables.tools).values(values))
    replica = catch_up(registry.database, Replica())
    assert not replica.tools
    (problem,) = replica.damaged[""].values()
    assert problem.startswith("tools: row ") and "tool 'drop_db' has no version 77" in problem
    assert replica.policy_source.closed.keys() == {""}


# The command line.


def test_the_command_line_says_which_text_serves(registry, database_url, capsys, tmp_path: Path):
    typed = Typed(database_url, capsys)
    for at, description in enumerate(("Lists", "Lists all")):
        folder = tmp_path / str(at)
        folder.mkdir()
        tool = {**READ, "description": description, "server": "db"}
        (folder / "tools.jsonl").write_text(json.dumps(tool), "utf-8")
        done = typed(
            *("registry", "sync", str(folder), "--plugin", "db", "--review", "changed"),
            *("--while-waiting", "approved"),
        )
    assert "served" in done.out
    assert "changed, version 1 serves" in typed("registry", "list").out
    shown = typed("registry", "show", "list_db")
    assert "served version" in shown.out and "version 1 serves meanwhile" in shown.err
    assert typed.json("registry", "show", "list_db")["served_version"] == 1
    assert "version 1 serves meanwhile" in typed("registry", "review").out
    assert typed.json("registry", "status")["plugins"][0]["while_waiting"] == "approved"
    typed("registry", "update", "list_db", "--set", 'annotations={"readOnlyHint": false}')
    assert registry.tool("list_db").tool.annotations == {"readOnlyHint": False}


def test_a_rule_about_annotations_is_added_and_explained_by_commands(registry, database_url, capsys, listed):
    listed(DROP, READ)
    typed = Typed(database_url, capsys)
    when = '{"annotation": {"destructiveHint": true}}'
    typed("registry", "rules", "add", "no-harm", "--deny", "--toolkit", "*", "--when", when)
    assert registry.rules.get("no-harm").rule.kind == "annotation"
    assert "hidden by the platform's rule 'no-harm'" in typed("registry", "why", "drop_db").out
    assert typed.json("registry", "why", "list_db")["visible"]
