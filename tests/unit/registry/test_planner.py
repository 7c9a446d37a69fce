"""What a sync would do, decided without a database."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from toolroll import Route, Tool, Toolkit
from toolroll.errors import Conflict, InvalidDefinition
from toolroll.registry.content import LONGEST, content_hash, toolkit_content
from toolroll.registry.sync.payload import Payload
from toolroll.registry.sync.plan import Mode, PageState, RegistryState, SyncPlan, ToolkitState, ToolState
from toolroll.registry.sync.planner import plan
from toolroll.rules import PageMapping, Rule
from toolroll.tools import Definitions

MAIL = Tool("mail", "Sends a mail")
MAIL_2 = Tool("mail", "Sends a mail, and a copy")
NOTE = Tool("note", "Writes a note")


def tool_state(tool: Tool, **changes: Any) -> ToolState:
    """A row of an approved tool of the plugin "p", as it was sent."""
    source = content_hash(tool)
    row = ToolState(
        tool_id=f"id-{tool.name}",
        name=tool.name,
        plugin="p",
        version=3,
        content_hash=source,
        source_hash=source,
        review="approved",
        approved_version=3,
        rejected_hash=None,
        is_deleted=False,
        status=tool.status,
        public=tool.public,
        pinned=tool.pinned,
        pin_weight=tool.pin_weight,
        toolkit=tool.toolkit,
    )
    return row._replace(**changes)


def toolkit_state(toolkit: Toolkit, plugin: str = "p", is_deleted: bool = False) -> ToolkitState:
    return ToolkitState(f"id-{toolkit.name}", toolkit.name, plugin, 1, is_deleted, toolkit_content(toolkit))


def planned(
    *tools: Tool,
    state: RegistryState | None = None,
    plugin: str = "p",
    org: str = "",
    review: Mode | None = None,
    trusted: bool = False,
    **definitions: Any,
) -> SyncPlan:
    payload = Payload.of(Definitions(tools, **definitions), plugin=plugin, org=org)
    state = state or RegistryState()
    if state.plugin is None:  # not what these tests are about
        state = replace(state, plugin=("", payload.digest, review or "auto", "hidden"))
    return plan(state, payload, review=review, trusted=trusted)


def test_the_same_content_again_is_no_change() -> None:
    found = planned(MAIL, NOTE, state=RegistryState([tool_state(MAIL), tool_state(NOTE)]))
    assert found.is_empty
    assert found.unchanged == 2


def test_new_changed_and_absent_tools_are_told_apart() -> None:
    gone = Tool("gone")
    found = planned(MAIL_2, NOTE, state=RegistryState([tool_state(MAIL), tool_state(gone)]))
    assert found.names("create") == ("note",)
    assert found.names("change") == ("mail",)
    assert found.names("delete") == ("gone",)


def test_what_people_made_of_a_tool_stays_while_its_plugin_sends_the_same() -> None:
    edited = tool_state(MAIL, content_hash=content_hash(Tool("mail", "Better words")))
    assert planned(MAIL, state=RegistryState([edited])).is_empty


def test_a_plugin_that_sends_what_the_tool_is_already_is_noted_and_changes_nothing() -> None:
    edited = tool_state(MAIL, content_hash=content_hash(MAIL_2))
    found = planned(MAIL_2, state=RegistryState([edited]))
    assert found.names("adopt") == ("mail",)


def test_a_tool_that_the_plugin_dropped_and_sends_again_is_the_same_tool() -> None:
    (step,) = planned(
        MAIL_2, state=RegistryState([tool_state(MAIL, is_deleted=True, source_hash=None)])
    ).tools
    assert step.action == "restore"
    assert step.before is not None and step.before.tool_id == "id-mail"


def test_a_tool_that_people_deleted_stays_deleted() -> None:
    found = planned(MAIL_2, state=RegistryState([tool_state(MAIL, is_deleted=True)]))
    assert found.names("leave") == ("mail",)
    assert found.is_empty
    assert "mail (people deleted it)" in str(found)


def test_a_tool_that_people_brought_back_stays_while_its_plugin_does_not_send_it() -> None:
    assert planned(state=RegistryState([tool_state(MAIL, source_hash=None)])).is_empty


@pytest.mark.parametrize("owner", ["q", ""])
def test_a_name_that_another_holds_is_a_conflict(owner: str) -> None:
    found = planned(MAIL, state=RegistryState([tool_state(MAIL, plugin=owner)]))
    assert not found.tools
    with pytest.raises(Conflict, match="tool 'mail': belongs to (plugin 'q'|people), not to plugin 'p'"):
        found.check()


def test_a_deleted_tool_of_another_holds_no_name() -> None:
    assert planned(MAIL, state=RegistryState([])).names("create") == ("mail",)


def test_an_organisation_may_not_take_a_name_of_the_platform() -> None:
    found = planned(MAIL, org="acme", state=RegistryState(shared_tools={"mail"}))
    with pytest.raises(Conflict, match="tool 'mail': the platform has one of that name"):
        found.check()


def test_an_organisations_tool_stays_where_the_platform_took_its_name_later() -> None:
    found = planned(MAIL_2, org="acme", state=RegistryState([tool_state(MAIL)], shared_tools={"mail"}))
    assert found.names("change") == ("mail",) and not found.problems


def test_all_that_is_wrong_is_told_at_once_and_the_rest_counted() -> None:
    tools = [Tool(f"t{at:02}") for at in range(30)]
    found = planned(*tools, state=RegistryState([tool_state(tool, plugin="q") for tool in tools]))
    with pytest.raises(Conflict) as error:
        found.check()
    assert "30 problems, nothing was done" in str(error.value)
    assert "'t19'" in str(error.value) and "'t20'" not in str(error.value)
    assert str(error.value).endswith("and 10 more")


def test_a_name_twice_in_one_payload_is_a_conflict() -> None:
    with pytest.raises(Conflict, match="tool 'mail': defined 2 times"):
        planned(MAIL, MAIL_2).check()


@pytest.mark.parametrize(
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
    assert step.asked == ("public", "pinned", "pin_weight")
    assert planned(tool, trusted=True).tools[0].tool == tool


def test_governance_of_a_known_tool_stays_what_people_set() -> None:
    row = tool_state(MAIL, pinned=True, pin_weight=2, status="deprecated", public=True)
    for trusted in (False, True):
        (step,) = planned(MAIL_2, state=RegistryState([row]), trusted=trusted).tools
        assert step.tool == Tool(
            "mail", MAIL_2.description, pinned=True, pin_weight=2, status="deprecated", public=True
        )
        assert step.asked == ()


@pytest.mark.parametrize(
    ("mode", "new", "changed"),
    [("auto", "approved", "approved"), ("changed", "approved", "changed"), ("all", "pending", "changed")],
)
def test_what_waits_for_approval_follows_the_mode(mode: Mode, new: str, changed: str) -> None:
    found = planned(MAIL_2, NOTE, state=RegistryState([tool_state(MAIL)]), review=mode)
    assert [(step.name, step.review) for step in found.tools] == [("mail", changed), ("note", new)]
    trusted = planned(MAIL_2, NOTE, state=RegistryState([tool_state(MAIL)]), review=mode, trusted=True)
    assert trusted.held == ()


def test_the_mode_stays_what_it_was_unless_another_is_given() -> None:
    row = ("1", "digest", "changed", "hidden")
    assert planned(MAIL, state=RegistryState(plugin=row)).review == "changed"
    assert planned(MAIL, state=RegistryState(plugin=row), review="auto").review == "auto"


def test_a_mode_that_nobody_knows_is_the_strictest() -> None:
    assert planned(MAIL, state=RegistryState(plugin=("1", "digest", "two-persons", ""))).review == "all"


def test_the_exact_return_to_what_was_approved_approves_itself() -> None:
    waiting = tool_state(MAIL_2, review="changed", approved_version=2)
    (step,) = planned(
        MAIL, state=RegistryState([waiting], approved={"id-mail": content_hash(MAIL)}), review="changed"
    ).tools
    assert (step.action, step.review) == ("change", "approved")


def test_one_change_that_waits_followed_by_another_waits() -> None:
    waiting = tool_state(MAIL_2, review="changed", approved_version=2)
    other = Tool("mail", "Something else")
    (step,) = planned(
        other, state=RegistryState([waiting], approved={"id-mail": content_hash(MAIL)}), review="changed"
    ).tools
    assert (step.action, step.review) == ("change", "changed")


def test_a_tool_that_was_never_approved_waits_whatever_becomes_of_it() -> None:
    waiting = tool_state(MAIL, review="pending", approved_version=None)
    for mode in ("changed", "all"):
        (step,) = planned(MAIL_2, state=RegistryState([waiting]), review=mode).tools
        assert step.review == "pending"


def test_content_that_was_rejected_is_left_alone() -> None:
    row = tool_state(MAIL, rejected_hash=content_hash(MAIL_2))
    found = planned(MAIL_2, state=RegistryState([row]), review="changed")
    assert found.names("leave") == ("mail",)
    assert found.is_empty


def test_a_new_tool_that_was_rejected_comes_back_only_with_other_content() -> None:
    row = tool_state(
        MAIL, is_deleted=True, review="pending", approved_version=None, rejected_hash=content_hash(MAIL)
    )
    assert planned(MAIL, state=RegistryState([row]), review="all").names("leave") == ("mail",)
    (step,) = planned(MAIL_2, state=RegistryState([row]), review="all").tools
    assert (step.action, step.review) == ("restore", "pending")


def test_an_import_updates_what_people_hold_and_deletes_nothing() -> None:
    state = RegistryState(
        [tool_state(MAIL, plugin="", source_hash=None), tool_state(Tool("own"), plugin="", source_hash=None)]
    )
    found = planned(MAIL_2, NOTE, state=state, plugin="", trusted=True)
    assert [(step.name, step.action, step.source_hash) for step in found.tools] == [
        ("mail", "change", content_hash(MAIL_2)),
        ("note", "create", content_hash(NOTE)),
    ]
    again = RegistryState([tool_state(MAIL_2, plugin=""), tool_state(NOTE, plugin="")])
    assert planned(MAIL_2, NOTE, state=again, plugin="", trusted=True).is_empty


def test_an_import_governs_what_is_new_and_nothing_else() -> None:
    pinned = Tool("mail", MAIL.description, pinned=True)
    (step,) = planned(pinned, plugin="", trusted=True).tools
    assert step.tool == pinned
    for row in (tool_state(MAIL, plugin=""), tool_state(MAIL_2, plugin="")):
        found = planned(pinned, state=RegistryState([row]), plugin="", trusted=True)
        assert all(step.tool is None or not step.tool.pinned for step in found.tools)
        assert "tool 'mail': status, public, pinned, pin_weight and interchangeable stay" in "".join(
            found.notes
        )


def test_an_import_keeps_what_people_wrote_until_its_source_changes() -> None:
    edited = tool_state(MAIL, plugin="", content_hash=content_hash(Tool("mail", "Better words")))
    found = planned(MAIL, state=RegistryState([edited]), plugin="", trusted=True)
    assert found.is_empty and "people changed what was imported" in found.notes[0]
    assert planned(MAIL_2, state=RegistryState([edited]), plugin="", trusted=True).names("change") == (
        "mail",
    )


def test_an_import_leaves_what_people_deleted_unless_it_is_to_restore() -> None:
    state = RegistryState([tool_state(MAIL, plugin="", is_deleted=True, pinned=True)])
    payload = Payload.of(Definitions((MAIL_2,)), plugin="")
    found = plan(state, payload, trusted=True)
    assert found.names("leave") == ("mail",) and found.is_empty
    (step,) = plan(state, payload, trusted=True, restore=True).tools
    assert step.action == "restore" and step.tool == Tool("mail", MAIL_2.description, pinned=True)


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
    found = planned(MAIL, state=RegistryState([tool_state(MAIL)]), plugin="", trusted=True)
    with pytest.raises(Conflict, match="belongs to plugin 'p', not to people"):
        found.check()


def test_routes_become_keywords_of_their_toolkits() -> None:
    route = Route(("crm", "mail"), ("deal", "customer"), ("deal #[0-9]+",), ("word", ""))
    found = planned(toolkits=(Toolkit("crm"),), routes=(route,))
    assert [(step.action, step.name) for step in found.toolkits] == [("create", "crm"), ("create", "mail")]
    for step in found.toolkits:
        assert step.content is not None
        assert step.content["keywords"] == [
            {"keyword": "deal", "mode": "word"},
            {"keyword": "customer", "mode": ""},
        ]
        assert step.content["patterns"] == ["deal #[0-9]+"]


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


@pytest.mark.parametrize(
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
    assert found.toolkits[0].content == toolkit_content(Toolkit("crm", tier="pro"))
    assert "base is ignored" in found.notes[0]
    state = RegistryState(toolkits=[toolkit_state(Toolkit("crm", tier="basic"))], tiers=("basic", "pro"))
    again = planned(toolkits=(asked,), state=state)
    assert again.toolkits == ()
    assert planned(toolkits=(asked,), state=configured, trusted=True).toolkits[0].content == toolkit_content(
        asked
    )


def test_rules_in_a_payload_are_not_read_and_that_is_said() -> None:
    rule = Rule("mine", "allow", "org", {"org": "acme"}, toolkit="*")
    assert "1 rule is ignored" in planned(rules=(rule,)).notes[0]


def test_page_mappings_are_matched_by_their_pattern() -> None:
    state = RegistryState(
        pages=[
            PageState("1", "home", ("a",), 0, "p", 1, False),
            PageState("2", "old*", ("a",), 0, "p", 1, False),
            PageState("3", "deals", ("a",), 0, "p", 1, True),
            PageState("4", "news", ("a",), 0, "q", 1, False),
        ]
    )
    pages = (PageMapping("home", ("a", "b")), PageMapping("deals", ("a",)), PageMapping("news", ("a",)))
    untrusted = planned(pages=pages, state=state)
    assert not untrusted.pages and "4 page mappings are not applied" in untrusted.notes[0]
    found = planned(pages=pages, state=state, trusted=True)
    assert [(step.action, step.pattern, step.before and step.before.page_id) for step in found.pages] == [
        ("restore", "deals", "3"),
        ("change", "home", "1"),
        ("create", "news", None),
        ("delete", "old*", "2"),
    ]


def test_several_mappings_of_one_page_are_the_same_in_any_order() -> None:
    pages = (PageMapping("home", ("a",), 1), PageMapping("home", ("b",)), PageMapping("home", ("a",)))
    state = RegistryState(
        pages=[
            PageState(str(at), "home", page.toolkits, page.priority, "p", 1, False)
            for at, page in enumerate(pages)
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


def test_the_digest_of_a_payload_tells_members_and_is_what_it_was_without_any() -> None:
    def digest(*members: str) -> str:
        return Payload.of(Definitions((), (Toolkit("a", members=members),)), plugin="p").digest

    assert len({digest(), digest("x"), digest("y")}) == 3
    assert digest() == "1215a3c4913b6ef59244184f9cdeca87acf8c0291db691b84e50e2f012369232"


def test_a_plan_is_a_table_for_people_and_a_dictionary_for_programs() -> None:
    found = planned(
        MAIL_2, NOTE, state=RegistryState([tool_state(MAIL), tool_state(Tool("gone"))]), review="changed"
    )
    assert str(found).splitlines() == [
        "sync of plugin 'p' to the platform, review changed",
        "  created          1  note",
        "  changed          1  mail (waits for approval)",
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
    assert data["changed"] == [{"name": "mail", "review": "changed", "why": "waits for approval"}]
