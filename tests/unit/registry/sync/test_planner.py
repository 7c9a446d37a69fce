"""What a sync would do, decided without a database."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

import pytest

from tests.table import each_row
from toolroll import Route, Tool, Toolkit
from toolroll.model.errors import Conflict, InvalidDefinition
from toolroll.model.rules import PageMapping, Rule
from toolroll.model.tools import Definitions
from toolroll.registry.editing.content import LONGEST, content_hash, toolkit_content
from toolroll.registry.editing.records import ToolRecord
from toolroll.registry.editing.review import WhileWaiting
from toolroll.registry.sync.payload import Payload
from toolroll.registry.sync.plan import ReviewMode, SyncPlan
from toolroll.registry.sync.planner import Planner
from toolroll.registry.sync.registry_state import PluginState, RegistryState, RowState, ToolState

MAIL = Tool("mail", "Sends a mail")
MAIL_2 = Tool("mail", "Sends a mail, and a copy")
NOTE = Tool("note", "Writes a note")


NOW = datetime(2026, 11, 28, tzinfo=timezone.utc)


def tool_state(tool: Tool, **changes: Any) -> ToolRecord:
    """An approved tool of the plugin "p", as it was sent."""
    digest = content_hash(tool)
    row = ToolRecord(
        tool=replace(tool, tool_id=f"id-{tool.name}"),
        org="",
        plugin="p",
        content_hash=digest,
        source_hash=digest,
        source_values={},
        review="approved",
        approved_version=3,
        served_version=None,
        rejected_hash=None,
        flags=(),
        version=3,
        created_at=NOW,
        updated_at=NOW,
        updated_by="ann",
        deleted_at=None,
        revision=1,
    )
    return replace(row, **changes)


def edited_mail() -> ToolRecord:
    """The tool "mail" after people have changed its description."""
    row = tool_state(Tool("mail", "Better words"), source_values={"description": MAIL.description})
    return replace(row, source_hash=content_hash(MAIL))


def registry_state(*records: ToolRecord, **more: Any) -> RegistryState:
    rows = [
        ToolState(
            *(record.tool.tool_id, record.name, record.plugin, record.tool.toolkit, record.review),
            *(record.source_hash, record.deleted_at is not None),
        )
        for record in records
    ]
    return RegistryState(rows, records={record.tool.tool_id: record for record in records}, **more)


def approved_version(tool: Tool) -> Any:
    """The version of a tool that people approved."""
    return SimpleNamespace(tool=tool, content_hash=content_hash(tool), source_values={})


def toolkit_state(toolkit: Toolkit, plugin: str = "p", is_deleted: bool = False) -> RowState:
    return RowState(f"id-{toolkit.name}", toolkit.name, plugin, is_deleted, toolkit_content(toolkit))


def page_state(
    key: str, pattern: str, toolkits: list[str], priority: int = 0, is_deleted: bool = False
) -> RowState:
    return RowState(key, pattern, "p", is_deleted, {"toolkits": toolkits, "priority": priority})


def planned(
    *tools: Tool,
    state: RegistryState | None = None,
    plugin: str = "p",
    org: str = "",
    review: ReviewMode | None = None,
    trusted: bool = False,
    while_waiting: WhileWaiting | None = None,
    **definitions: Any,
) -> SyncPlan:
    payload = Payload.of(Definitions(tools, **definitions), plugin=plugin, org=org)
    state = state or RegistryState()
    if state.plugin is None:  # not what these tests are about
        state = replace(state, plugin=PluginState("", payload.digest, review or "auto", "hidden"))
    return Planner(state, payload, review=review, trusted=trusted, while_waiting=while_waiting).plan()


def test_the_same_content_again_is_no_change() -> None:
    found = planned(MAIL, NOTE, state=registry_state(tool_state(MAIL), tool_state(NOTE)))
    assert found.is_empty
    assert found.unchanged == 2


def test_new_changed_and_absent_tools_are_told_apart() -> None:
    gone = Tool("gone")
    found = planned(MAIL_2, NOTE, state=registry_state(tool_state(MAIL), tool_state(gone)))
    assert found.names("create") == ("note",)
    assert found.names("change") == ("mail",)
    assert found.names("delete") == ("gone",)


def test_what_people_made_of_a_tool_stays_while_its_plugin_sends_the_same() -> None:
    assert planned(MAIL, state=registry_state(edited_mail())).is_empty


def test_a_field_that_people_set_stays_and_the_others_follow_the_plugin() -> None:
    sent = replace(MAIL_2, summary="Mails")
    (step,) = planned(sent, state=registry_state(edited_mail())).tools
    assert step.tool is not None and step.fields == ("summary",)
    assert (step.tool.description, step.tool.summary) == ("Better words", "Mails")
    assert (step.kept, step.source_values) == (("description",), {"description": MAIL_2.description})
    assert [flag.code for flag in step.flags] == ["kept"]
    assert step.to_dict()["kept"] == {"description": MAIL_2.description}
    assert "mail (summary; people's description stays; flagged: kept)" in str(
        planned(sent, state=registry_state(edited_mail()))
    )


@pytest.mark.parametrize(("new", "review"), [(True, "approved"), (False, "changed")])
def test_new_hints_that_warn_of_more_than_those_of_people_wait_for_review(new: bool, review: str) -> None:
    tool = Tool("mail", "Sends a mail", annotations={"readOnlyHint": True})
    row = tool_state(tool, source_values={"annotations": None}, source_hash="of the last payload")
    for mode, expected in (("auto", "approved"), ("changed", review)):
        sent = replace(MAIL, annotations={"readOnlyHint": new, "title": "Mail"})
        found = planned(sent, state=registry_state(row), review=mode, while_waiting="approved")
        (step,) = found.tools
        assert step.tool is not None and step.tool.annotations == {"readOnlyHint": True}
        assert (step.review, step.served_version) == (expected, None)


def test_a_plugin_that_sends_what_the_tool_is_already_is_noted_and_changes_nothing() -> None:
    row = tool_state(MAIL_2, source_hash=content_hash(MAIL))
    found = planned(MAIL_2, state=registry_state(row))
    assert found.names("adopt") == ("mail",)


def test_a_tool_that_the_plugin_dropped_and_sends_again_is_the_same_tool() -> None:
    (step,) = planned(MAIL_2, state=registry_state(tool_state(MAIL, deleted_at=NOW, source_hash=None))).tools
    assert step.action == "restore"
    assert step.before is not None and step.before.tool.tool_id == "id-mail"


def test_a_tool_that_people_deleted_stays_deleted() -> None:
    found = planned(MAIL_2, state=registry_state(tool_state(MAIL, deleted_at=NOW)))
    assert found.names("leave") == ("mail",)
    assert found.is_empty
    assert "mail (people deleted it)" in str(found)


def test_a_tool_that_people_brought_back_stays_while_its_plugin_does_not_send_it() -> None:
    assert planned(state=registry_state(tool_state(MAIL, source_hash=None))).is_empty


@pytest.mark.parametrize("owner", ["q", ""])
def test_a_name_that_another_holds_is_a_conflict(owner: str) -> None:
    found = planned(MAIL, state=registry_state(tool_state(MAIL, plugin=owner)))
    assert not found.tools
    with pytest.raises(Conflict, match="tool 'mail': belongs to (plugin 'q'|people), not to plugin 'p'"):
        found.check()


def test_a_deleted_tool_of_another_holds_no_name() -> None:
    assert planned(MAIL, state=registry_state()).names("create") == ("mail",)


def test_an_organisation_may_not_take_a_name_of_the_platform() -> None:
    found = planned(MAIL, org="acme", state=RegistryState(shared_tools={"mail"}))
    with pytest.raises(Conflict, match="tool 'mail': the platform has one of that name"):
        found.check()


def test_an_organisations_tool_stays_where_the_platform_took_its_name_later() -> None:
    found = planned(MAIL_2, org="acme", state=registry_state(tool_state(MAIL), shared_tools={"mail"}))
    assert found.names("change") == ("mail",) and not found.problems


def test_all_that_is_wrong_is_told_at_once_and_the_rest_counted() -> None:
    tools = [Tool(f"t{at:02}") for at in range(30)]
    found = planned(*tools, state=registry_state(*(tool_state(tool, plugin="q") for tool in tools)))
    with pytest.raises(Conflict) as error:
        found.check()
    assert "30 problems, nothing was done" in str(error.value)
    assert "'t19'" in str(error.value) and "'t20'" not in str(error.value)
    assert str(error.value).endswith("and 10 more")


def test_a_name_twice_in_one_payload_is_a_conflict() -> None:
    with pytest.raises(Conflict, match="tool 'mail': defined 2 times"):
        planned(MAIL, MAIL_2).check()


@each_row(
    ("tool", "message"),
    [
        (Tool("big", examples=("x" * 60_000,) * (LONGEST // 60_000 + 1)), "tool 'big': takes"),
        (Tool("n" * 129), "name has 129 characters"),
        (Tool("nul", "a\0b"), "tool 'nul': holds a NUL"),
        (Tool("half", parameters={"x": "\ud800"}), "tool 'half': "),
        (Tool("float", parameters={"x": float("nan")}), "tool 'float': "),
    ],
)
def test_a_tool_that_cannot_be_kept_is_named(tool: Tool, message: str) -> None:
    with pytest.raises(InvalidDefinition, match=message):
        planned(MAIL, tool).check()


def test_what_governs_is_ignored_in_what_is_not_trusted() -> None:
    tool = Tool("mail", pinned=True, pin_weight=5, public=True, status="draft")
    (step,) = planned(tool).tools
    assert step.tool == Tool("mail", status="draft")
    assert [flag.message for flag in step.flags] == [
        "its plugin asks for public, pinned, pin_weight, which only people decide"
    ]
    assert planned(tool, trusted=True).tools[0].tool == tool


def test_governance_of_a_known_tool_stays_what_people_set() -> None:
    governed = replace(MAIL, pinned=True, pin_weight=2, status="deprecated", public=True)
    for trusted in (False, True):
        (step,) = planned(MAIL_2, state=registry_state(tool_state(governed)), trusted=trusted).tools
        assert step.tool == replace(governed, tool_id="id-mail", description=MAIL_2.description)
        assert step.flags == ()


@pytest.mark.parametrize(
    ("mode", "new", "changed"),
    [("auto", "approved", "approved"), ("changed", "approved", "changed"), ("all", "pending", "changed")],
)
def test_what_waits_for_approval_follows_the_mode(mode: ReviewMode, new: str, changed: str) -> None:
    found = planned(MAIL_2, NOTE, state=registry_state(tool_state(MAIL)), review=mode)
    assert [(step.name, step.review) for step in found.tools] == [("mail", changed), ("note", new)]
    trusted = planned(MAIL_2, NOTE, state=registry_state(tool_state(MAIL)), review=mode, trusted=True)
    assert trusted.held == ()


def test_the_mode_stays_what_it_was_unless_another_is_given() -> None:
    row = PluginState("1", "digest", "changed", "hidden")
    assert planned(MAIL, state=RegistryState(plugin=row)).review == "changed"
    assert planned(MAIL, state=RegistryState(plugin=row), review="auto").review == "auto"


def test_a_mode_that_nobody_knows_is_the_strictest() -> None:
    assert (
        planned(MAIL, state=RegistryState(plugin=PluginState("1", "digest", "two-persons", ""))).review
        == "all"
    )


def test_the_exact_return_to_what_was_approved_approves_itself() -> None:
    waiting = tool_state(MAIL_2, review="changed", approved_version=2)
    (step,) = planned(
        MAIL, state=registry_state(waiting, approved={"id-mail": approved_version(MAIL)}), review="changed"
    ).tools
    assert (step.action, step.review) == ("change", "approved")


def test_one_change_that_waits_followed_by_another_waits() -> None:
    waiting = tool_state(MAIL_2, review="changed", approved_version=2)
    other = Tool("mail", "Something else")
    (step,) = planned(
        other, state=registry_state(waiting, approved={"id-mail": approved_version(MAIL)}), review="changed"
    ).tools
    assert (step.action, step.review) == ("change", "changed")


def test_a_tool_that_was_never_approved_waits_whatever_becomes_of_it() -> None:
    waiting = tool_state(MAIL, review="pending", approved_version=None)
    for mode in ("changed", "all"):
        (step,) = planned(MAIL_2, state=registry_state(waiting), review=mode).tools
        assert step.review == "pending"


def test_content_that_was_rejected_is_left_alone() -> None:
    row = tool_state(MAIL, rejected_hash=content_hash(MAIL_2))
    found = planned(MAIL_2, state=registry_state(row), review="changed")
    assert found.names("leave") == ("mail",)
    assert found.is_empty


def test_a_new_tool_that_was_rejected_comes_back_only_with_other_content() -> None:
    row = tool_state(
        MAIL, deleted_at=NOW, review="pending", approved_version=None, rejected_hash=content_hash(MAIL)
    )
    assert planned(MAIL, state=registry_state(row), review="all").names("leave") == ("mail",)
    (step,) = planned(MAIL_2, state=registry_state(row), review="all").tools
    assert (step.action, step.review) == ("restore", "pending")


def test_an_import_updates_what_people_hold_and_deletes_nothing() -> None:
    state = registry_state(
        tool_state(MAIL, plugin="", source_hash=None), tool_state(Tool("own"), plugin="", source_hash=None)
    )
    found = planned(MAIL_2, NOTE, state=state, plugin="", trusted=True)
    assert [(step.name, step.action, step.source_hash) for step in found.tools] == [
        ("mail", "change", content_hash(MAIL_2)),
        ("note", "create", content_hash(NOTE)),
    ]
    again = registry_state(tool_state(MAIL_2, plugin=""), tool_state(NOTE, plugin=""))
    assert planned(MAIL_2, NOTE, state=again, plugin="", trusted=True).is_empty


def test_an_import_governs_what_is_new_and_nothing_else() -> None:
    pinned = Tool("mail", MAIL.description, pinned=True)
    (step,) = planned(pinned, plugin="", trusted=True).tools
    assert step.tool == pinned
    for row in (tool_state(MAIL, plugin=""), tool_state(MAIL_2, plugin="")):
        found = planned(pinned, state=registry_state(row), plugin="", trusted=True)
        assert all(step.tool is None or not step.tool.pinned for step in found.tools)
        assert "tool 'mail': status, public, pinned, pin_weight and interchangeable stay" in "".join(
            found.notes
        )


def test_an_import_keeps_what_people_wrote() -> None:
    edited = replace(edited_mail(), plugin="")
    assert planned(MAIL, state=registry_state(edited), plugin="", trusted=True).is_empty
    (step,) = planned(MAIL_2, state=registry_state(edited), plugin="", trusted=True).tools
    assert (step.action, step.kept) == ("change", ("description",))
    assert step.tool is not None and step.tool.description == "Better words"


def test_an_import_leaves_what_people_deleted_unless_it_is_to_restore() -> None:
    state = registry_state(tool_state(replace(MAIL, pinned=True), plugin="", deleted_at=NOW))
    payload = Payload.of(Definitions((MAIL_2,)), plugin="")
    found = Planner(state, payload, trusted=True).plan()
    assert found.names("leave") == ("mail",) and found.is_empty
    (step,) = Planner(state, payload, trusted=True, restore=True).plan().tools
    assert step.action == "restore" and step.tool == replace(MAIL_2, pinned=True, tool_id="id-mail")


def test_an_import_does_not_undo_the_gates_of_a_toolkit() -> None:
    gated = Toolkit("crm", "Deals", parent="top", settings_keys=("key",), tier="pro")
    state = RegistryState(
        toolkits=[toolkit_state(gated, plugin=""), toolkit_state(Toolkit("top"), plugin="")], tiers=("pro",)
    )
    found = planned(toolkits=(Toolkit("crm", "Deals", base=True),), state=state, plugin="", trusted=True)
    assert found.toolkits == () and len(found.notes) == 4
    moved = Toolkit("crm", "Deals", parent="top", settings_keys=("other",))
    (step,) = planned(toolkits=(moved,), state=state, plugin="", trusted=True).toolkits
    assert step.fields == ("settings_keys",)


def test_an_import_does_not_take_what_a_plugin_holds() -> None:
    found = planned(MAIL, state=registry_state(tool_state(MAIL)), plugin="", trusted=True)
    with pytest.raises(Conflict, match="belongs to plugin 'p', not to people"):
        found.check()


def test_routes_become_keywords_of_their_toolkits() -> None:
    route = Route(("crm", "mail"), ("deal", "customer"), ("deal #[0-9]+",), ("word", ""))
    found = planned(toolkits=(Toolkit("crm"),), routes=(route,))
    assert [(step.action, step.name) for step in found.toolkits] == [("create", "crm"), ("create", "mail")]
    for step in found.toolkits:
        assert step.values is not None
        assert step.values["keywords"] == [
            {"keyword": "deal", "mode": "word"},
            {"keyword": "customer", "mode": ""},
        ]
        assert step.values["patterns"] == ["deal #[0-9]+"]


def test_a_toolkit_changes_by_its_fields_and_goes_when_it_is_not_sent() -> None:
    state = RegistryState(toolkits=[toolkit_state(Toolkit("crm", "Deals")), toolkit_state(Toolkit("old"))])
    found = planned(toolkits=(Toolkit("crm", "Deals and people"),), state=state)
    assert [(step.action, step.name, step.fields) for step in found.toolkits] == [
        ("change", "crm", ("description",)),
        ("delete", "old", ()),
    ]
    assert planned(toolkits=(Toolkit("crm", "Deals"), Toolkit("old")), state=state).is_empty


def test_a_toolkit_that_others_are_below_stays_with_what_is_above_it() -> None:
    state = RegistryState(
        toolkits=[
            toolkit_state(Toolkit("top")),
            toolkit_state(Toolkit("middle", parent="top")),
            toolkit_state(Toolkit("theirs", parent="middle"), plugin="q"),
            toolkit_state(Toolkit("shared")),
            toolkit_state(Toolkit("old")),
        ],
        parents={"shared"},
    )
    found = planned(state=state)
    assert [(step.action, step.name) for step in found.toolkits] == [("delete", "old")]
    assert len(found.notes) == 3


def test_a_toolkit_that_another_holds_is_a_conflict() -> None:
    found = planned(
        toolkits=(Toolkit("crm"),), state=RegistryState(toolkits=[toolkit_state(Toolkit("crm"), plugin="")])
    )
    with pytest.raises(Conflict, match="toolkit 'crm': belongs to people"):
        found.check()


def test_an_organisation_may_have_a_toolkit_named_like_one_of_the_platform() -> None:
    found = planned(
        toolkits=(Toolkit("crm", parent="top"),),
        org="acme",
        state=RegistryState(shared_toolkits={"crm": None, "top": None}),
        trusted=True,
    )
    assert not found.problems


@each_row(
    ("toolkits", "message"),
    [
        ((Toolkit("a", parent="b"),), "toolkit 'a': parent 'b' is no toolkit"),
        ((Toolkit("a", parent="b"), Toolkit("b", parent="a")), "cycle: a → b → a"),
        ((Toolkit("a", parent="a"),), "cycle: a → a"),
        ((Toolkit("a", parent="theirs"),), "cycle: a → theirs → a"),
        ((Toolkit("a", "\0"),), "NUL"),
    ],
)
def test_toolkits_that_no_catalog_could_read_are_refused(toolkits: tuple[Toolkit, ...], message: str) -> None:
    state = RegistryState(toolkits=[toolkit_state(Toolkit("theirs", parent="a"), plugin="q")])
    with pytest.raises(InvalidDefinition, match=message):
        planned(toolkits=toolkits, state=state).check()


def test_a_long_chain_of_toolkits_is_walked_once() -> None:
    chain = tuple(Toolkit(f"k{at}", parent=f"k{at + 1}" if at < 20_000 else None) for at in range(20_001))
    assert not planned(toolkits=chain).problems


@pytest.mark.parametrize("route", [Route(("a",), patterns=("(",)), Route(("a",), keywords=("",))])
def test_routes_that_no_catalog_could_read_are_refused(route: Route) -> None:
    with pytest.raises(InvalidDefinition):
        planned(routes=(route,)).check()


def test_a_toolkit_is_base_and_of_a_tier_as_people_say() -> None:
    asked = Toolkit("crm", base=True, tier="pro")
    configured = RegistryState(tiers=("basic", "pro"))
    found = planned(toolkits=(asked,), state=configured)
    assert found.toolkits[0].values == toolkit_content(Toolkit("crm", tier="pro"))
    assert "base is ignored" in found.notes[0]
    state = RegistryState(toolkits=[toolkit_state(Toolkit("crm", tier="basic"))], tiers=("basic", "pro"))
    again = planned(toolkits=(asked,), state=state)
    assert again.toolkits == ()
    assert planned(toolkits=(asked,), state=configured, trusted=True).toolkits[0].values == toolkit_content(
        asked
    )


def test_rules_in_a_payload_are_not_read_and_that_is_said() -> None:
    rule = Rule("mine", "allow", "org", {"org": "acme"}, toolkit="*")
    assert "1 rule is ignored" in planned(rules=(rule,)).notes[0]


def test_page_mappings_are_matched_by_their_pattern() -> None:
    state = RegistryState(
        pages=[
            page_state("1", "home", ["a"]),
            page_state("2", "old*", ["a"]),
            page_state("3", "deals", ["a"], is_deleted=True),
        ]
    )
    pages = (PageMapping("home", ("a", "b")), PageMapping("deals", ("a",)), PageMapping("news", ("a",)))
    untrusted = planned(pages=pages, state=state)
    assert not untrusted.pages and "4 page mappings are not applied" in untrusted.notes[0]
    found = planned(pages=pages, state=state, trusted=True)
    assert [(step.action, step.name, step.before and step.before.key) for step in found.pages] == [
        ("restore", "deals", "3"),
        ("change", "home", "1"),
        ("create", "news", None),
        ("delete", "old*", "2"),
    ]


def test_several_mappings_of_one_page_are_the_same_in_any_order() -> None:
    pages = (PageMapping("home", ("a",), 1), PageMapping("home", ("b",)), PageMapping("home", ("a",)))
    state = RegistryState(
        pages=[
            page_state(str(at), "home", list(page.toolkits), page.priority) for at, page in enumerate(pages)
        ]
    )
    assert planned(pages=pages[::-1], state=state).is_empty


def test_a_page_mapping_that_no_catalog_could_read_is_refused() -> None:
    with pytest.raises(InvalidDefinition, match="may have"):
        planned(pages=(PageMapping("a*b", ("crm",)),)).check()


def test_the_digest_of_a_payload_does_not_follow_its_order() -> None:
    def digest(*tools: Tool) -> str:
        return Payload.of(Definitions(tools, (Toolkit("a"), Toolkit("b"))), plugin="p").digest

    assert digest(MAIL, NOTE) == digest(NOTE, MAIL) != digest(MAIL_2, NOTE)


def test_a_plan_is_a_table_for_people_and_a_dictionary_for_programs() -> None:
    found = planned(
        MAIL_2, NOTE, state=registry_state(tool_state(MAIL), tool_state(Tool("gone"))), review="changed"
    )
    assert str(found).splitlines() == [
        "sync of plugin 'p' to the platform, review changed",
        "  created          1  note",
        "  changed          1  mail (description; waits for approval)",
        "  deleted          1  gone",
        "  unchanged        0",
        "  held             1  mail",
    ]
    data = json.loads(json.dumps(found.to_dict()))
    assert data["counts"] == {
        "created": 1,
        "changed": 1,
        "restored": 0,
        "deleted": 1,
        "adopted": 0,
        "unchanged": 0,
        "held": 1,
        "left": 0,
    }
    assert data["changed"] == [
        {"name": "mail", "review": "changed", "fields": ["description"], "why": "waits for approval"}
    ]
