"""What a plugin that nobody vouches for tries, on both databases: it may add tools, and loosen or tighten nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_sync import contents
from toolroll import Route, Tool, Toolkit, read_folder
from toolroll.model.errors import Conflict, InvalidInput
from toolroll.model.rules import PageMapping, Rule
from toolroll.model.tools import Definitions
from toolroll.registry.registry import Registry
from toolroll.registry.store.database import Database
from toolroll.registry.sync.sync import SyncReport

EVERYBODY: dict[str, Any] = {"all": []}


@pytest.fixture
def registry(database: Database) -> Registry:
    """One where people hold the toolkits "base", which is in every selection, and "core"."""
    found = Registry(database, actor="ann")
    found.toolkits.put(Toolkit("base", base=True))
    found.toolkits.put(Toolkit("core"))
    return found


def send(registry: Registry, *tools: Tool, plugin: str = "p", **options: Any) -> SyncReport:
    """Syncs a payload that is not trusted, unless it is said."""
    payload = {name: options.pop(name, ()) for name in ("toolkits", "routes", "pages")}
    return registry.sync(Definitions(tools, **payload), plugin=plugin, **options)


def refused(registry: Registry, said: str, *tools: Tool, **options: Any) -> None:
    """Sees that a payload is a conflict and nothing is written, and that who is trusted may send it."""
    before = contents(registry.database)
    with pytest.raises(Conflict, match=said):
        send(registry, *tools, **options)
    assert contents(registry.database) == before
    assert not send(registry, *tools, trusted=True, dry_run=True, **options).plan.problems


def deny(registry: Registry, name: str = "no-mine", **target: str) -> None:
    registry.rules.add(Rule(name, "deny", "composite", EVERYBODY, **target))


def test_a_tool_gets_into_a_toolkit_of_people_only_by_people(registry: Registry) -> None:
    refused(registry, "toolkit 'base' belongs to people", Tool("mail", toolkit="base"))
    send(registry, Tool("mail"))
    refused(registry, "toolkit 'base' belongs to people", Tool("mail", "New", toolkit="base"))
    registry.update("mail", {"toolkit": "base"}, version=1)
    assert send(registry, Tool("mail", "New")).is_applied
    assert (registry.tool("mail").tool.toolkit, registry.tool("mail").tool.description) == ("base", "New")
    assert not send(registry, Tool("mail", "New")).is_applied
    send(registry, Tool("mail", "Newer", toolkit="base"))  # where it is already
    assert registry.tool("mail").tool.description == "Newer"


def test_a_tool_gets_into_no_toolkit_of_another_plugin(registry: Registry) -> None:
    send(registry, Tool("theirs", toolkit="kit"), plugin="q", toolkits=(Toolkit("kit"),))
    refused(registry, "toolkit 'kit' belongs to plugin 'q'", Tool("mail", toolkit="kit"))


def test_a_toolkit_that_nobody_else_names_need_not_be_declared(registry: Registry) -> None:
    registry.create(Tool("lamp", toolkit="light"))
    registry.pages.add(PageMapping("home", ("light", "base")))
    refused(registry, "toolkit 'light' is named by tools or page mappings", Tool("mail", toolkit="light"))
    send(registry, Tool("mail", toolkit="letters"))
    send(registry, Tool("mail", toolkit="letters"), Tool("fax", toolkit="letters"))
    assert registry.tool("fax").tool.toolkit == "letters"
    assert not send(registry, Tool("mail", toolkit="letters"), Tool("fax", toolkit="letters")).is_applied
    send(registry, Tool("theirs", toolkit="kit"), plugin="q")
    refused(registry, "toolkit 'kit' is named by", Tool("spy", toolkit="kit"))


def test_an_organisations_plugin_gets_into_no_toolkit_of_the_platform(registry: Registry) -> None:
    refused(registry, "toolkit 'base' belongs to the platform", Tool("mail", toolkit="base"), org="acme")
    refused(registry, "the platform has one of that name", toolkits=(Toolkit("base"),), org="acme")


def test_a_toolkit_of_a_plugin_is_below_none_of_people(registry: Registry) -> None:
    refused(registry, "parent 'core' belongs to people", toolkits=(Toolkit("mine", parent="core"),))
    send(registry, toolkits=(Toolkit("mine"), Toolkit("below", parent="mine")))
    assert registry.toolkits.get("below").toolkit.parent == "mine"
    report = send(registry, toolkits=(Toolkit("mine", parent="core"), Toolkit("below", parent="mine")))
    assert "parent stays None" in report.plan.notes[0]
    assert registry.toolkits.get("mine").toolkit.parent is None


def test_what_governs_a_toolkit_stays_what_people_set(registry: Registry) -> None:
    registry.set_tiers(("free", "pro"))
    sent = (Toolkit("mine", settings_keys=("key",)),)
    send(registry, Tool("mail", toolkit="mine"), toolkits=sent)
    governed = Toolkit("mine", parent="core", settings_keys=("key", "other"), base=True, tier="pro")
    registry.toolkits.put(governed)
    for toolkits in (sent, (Toolkit("mine"),), (Toolkit("mine", tier="free"),), ()):
        send(registry, Tool("mail", toolkit="mine"), toolkits=toolkits)
        assert registry.toolkits.get("mine").toolkit == governed


def test_members_are_for_people_to_say(registry: Registry) -> None:
    report = send(registry, Tool("mail", toolkit="mine"), toolkits=(Toolkit("mine", members=("*",)),))
    assert registry.toolkits.get("mine").toolkit.members == ()
    assert "toolkit 'mine': members is ignored; only people decide it" in report.plan.notes
    registry.toolkits.put(Toolkit("mine", members=("note_*",)))
    for members in ((), ("*",)):
        send(registry, Tool("mail", toolkit="mine"), toolkits=(Toolkit("mine", members=members),))
        assert registry.toolkits.get("mine").toolkit.members == ("note_*",)
    send(registry, Tool("mail", toolkit="mine"), toolkits=(Toolkit("mine", members=("*",)),), trusted=True)
    assert registry.toolkits.get("mine").toolkit.members == ("*",)


@pytest.mark.parametrize("whose", ["", "acme"])
def test_no_tool_gets_into_the_members_of_a_toolkit_by_its_name(registry: Registry, whose: str) -> None:
    """Such a toolkit may be in every selection; an organisation's may have the platform's tools as members."""
    registry.toolkits.put(Toolkit("always", base=True, members=("memory_*", "mail")), org=whose)
    for name in ("memory_find", "mail"):
        refused(registry, "toolkit 'always' has tools of that name as members", Tool(name))
    send(registry, Tool("mailbox"))
    send(registry, Tool("mail"), trusted=True)
    assert send(registry, Tool("mail", "New"), plugin="p").is_applied  # it is there already


def test_an_organisations_plugin_is_held_to_its_organisations_toolkits(registry: Registry) -> None:
    """The platform's toolkits do not have an organisation's tools as members."""
    registry.toolkits.put(Toolkit("always", base=True, members=("memory_*",)))
    registry.toolkits.put(Toolkit("others", base=True, members=("memory_*",)), org="globex")
    assert send(registry, Tool("memory_find"), org="acme").is_applied
    registry.toolkits.put(Toolkit("own", members=("note_*",)), org="acme")
    refused(registry, "toolkit 'own' has tools of that name", Tool("note_find"), org="acme")


def test_a_toolkit_stays_while_tools_are_in_it_or_a_rule_names_it(registry: Registry) -> None:
    send(registry, Tool("mail", toolkit="mine"), toolkits=(Toolkit("mine"), Toolkit("named"), Toolkit("no")))
    deny(registry, toolkit="named")
    report = send(registry, Tool("mail", toolkit="mine"))
    assert [(step.name, step.action) for step in report.plan.toolkits] == [("no", "delete")]
    assert [record.name for record in registry.toolkits.list()] == ["base", "core", "mine", "named"]
    assert len(report.plan.notes) == 2
    registry.create(Tool("own", toolkit="mine"))
    assert not send(registry).plan.toolkits  # the tool of people is in it still


@pytest.mark.parametrize("gate", ["rule", "rule above", "tier", "settings"])
def test_a_tool_does_not_leave_what_governs_it(registry: Registry, gate: str) -> None:
    registry.set_tiers(("free", "pro"))
    toolkits = (Toolkit("top"), Toolkit("mine", parent="top"), Toolkit("open"))
    send(registry, Tool("mail", toolkit="mine"), toolkits=toolkits)
    if gate.startswith("rule"):
        deny(registry, toolkit="top" if gate == "rule above" else "mine")
    elif gate == "tier":
        registry.toolkits.put(Toolkit("mine", parent="top", tier="pro"))
    else:
        registry.toolkits.put(Toolkit("mine", parent="top", settings_keys=("key",)))
    for toolkit in ("open", ""):
        report = send(registry, Tool("mail", f"In {toolkit}", toolkit=toolkit), toolkits=toolkits)
        assert any("stays in toolkit 'mine'" in note for note in report.plan.notes)
        tool = registry.tool("mail").tool
        assert (tool.toolkit, tool.description) == ("mine", f"In {toolkit}")
    send(registry, Tool("mail", toolkit="open"), toolkits=toolkits, trusted=True)
    assert registry.tool("mail").tool.toolkit == "open"


def test_what_went_comes_back_no_freer_than_it_was(registry: Registry) -> None:
    toolkits = (Toolkit("mine"), Toolkit("open"))
    send(registry, Tool("mail", toolkit="mine"), toolkits=toolkits)
    registry.toolkits.put(Toolkit("mine", parent="core"))
    registry.update("mail", {"toolkit": "core"}, version=1)
    send(registry)
    refused(registry, "'mine': was below 'core' when it was deleted", toolkits=toolkits)
    send(registry, Tool("mail", toolkit="open"), toolkits=toolkits[1:])
    assert registry.tool("mail").tool.toolkit == "core"
    send(registry, toolkits=toolkits[1:])
    registry.restore("mail")
    registry.update("mail", {}, version=registry.tool("mail").version, give_back=("toolkit",), force=True)
    registry.delete("mail")
    registry.restore("mail")
    assert registry.tool("mail").tool.toolkit == "open"


def test_a_toolkit_that_others_speak_of_is_not_declared(registry: Registry) -> None:
    registry.create(Tool("own", toolkit="office"))
    registry.create(Tool("theirs", toolkit="desk"), org="acme")
    refused(registry, "'office': tools or page", toolkits=(Toolkit("office", settings_keys=("key",)),))
    refused(registry, "'desk': tools or page", toolkits=(Toolkit("desk"),))
    refused(registry, "'office': tools or page", toolkits=(Toolkit("office"),), org="acme")


def test_a_toolkit_that_a_rule_or_a_page_names_is_not_declared(registry: Registry) -> None:
    registry.toolkits.put(Toolkit("office"))
    registry.toolkits.put(Toolkit("desk"))
    deny(registry, toolkit="office")
    registry.pages.add(PageMapping("inbox", ("desk",)))
    registry.toolkits.delete("office")
    registry.toolkits.delete("desk")
    refused(registry, "'office': is named by rule 'no-mine'", toolkits=(Toolkit("office"),))
    refused(registry, "'desk': tools or page mappings", toolkits=(Toolkit("desk"),))


def test_a_page_is_narrowed_by_people_only(registry: Registry) -> None:
    pages = (PageMapping("home", ("mine",)), PageMapping("contacts*", ("mine",)))
    report = send(registry, toolkits=(Toolkit("mine"),), pages=pages)
    assert registry.pages.list() == () and "2 page mappings are not applied" in report.plan.notes[0]
    send(registry, toolkits=(Toolkit("mine"),), pages=pages, trusted=True)
    assert len(registry.pages.list()) == 2
    assert "2 page mappings are not applied" in send(registry, toolkits=(Toolkit("mine"),)).plan.notes[0]
    assert len(registry.pages.list()) == 2


@pytest.mark.parametrize("mode", ["changed", "all"])
def test_changes_of_a_toolkit_wait_where_changes_are_reviewed(registry: Registry, mode: Any) -> None:
    before = (Toolkit("mine", "Old"),), (Route(("mine",), ("mail",)),)
    after = (Toolkit("mine", "New"),), (Route(("mine",), ("a",), ("e",)),)
    send(registry, toolkits=before[0], routes=before[1])
    report = send(registry, toolkits=after[0], routes=after[1], review=mode)
    kept = registry.toolkits.get("mine")
    assert (kept.toolkit.description, kept.keywords, kept.patterns) == ("Old", (("mail", ""),), ())
    assert "held: description, keywords, patterns" in report.plan.notes[0]
    send(registry)  # gone, and sent again
    send(registry, toolkits=after[0], routes=after[1])
    assert registry.toolkits.get("mine").toolkit.description == "Old"
    send(registry, toolkits=after[0], routes=after[1], trusted=True)
    assert registry.toolkits.get("mine").patterns == ("e",)


def test_new_toolkits_switch_nothing_on_where_all_is_reviewed(registry: Registry) -> None:
    report = send(registry, routes=(Route(("mine",), ("a",), ("e",)),), review="all")
    kept = registry.toolkits.get("mine")
    assert (kept.keywords, kept.patterns) == ((), ())
    assert ["held: keywords" in report.plan.notes[0], "held: patterns" in report.plan.notes[1]] == [True] * 2


def test_what_hides_in_a_toolkit_is_noted(registry: Registry) -> None:
    toolkits = (Toolkit("c0re", "Tools\u200b"),)
    (hidden, like) = send(registry, toolkits=toolkits, dry_run=True).plan.notes
    assert "toolkit 'c0re': hidden: characters that no reader sees: U+200B in description" in hidden
    assert "looks like 'core'" in like


def test_a_name_that_people_took_out_is_not_free(registry: Registry) -> None:
    registry.create(Tool("mail"))
    deny(registry, tool="mail")
    registry.delete("mail")
    refused(registry, "people deleted a tool of that name", Tool("mail"))
    send(registry, Tool("note"), plugin="q")
    registry.delete("note")
    refused(registry, "people deleted a tool of that name", Tool("note"))
    assert send(registry, Tool("note"), plugin="q").plan.names("leave") == ("note",)


def test_a_name_that_a_rule_was_made_for_is_not_free(registry: Registry) -> None:
    send(registry, Tool("note"), plugin="q")
    deny(registry, tool="note")
    send(registry, plugin="q")
    refused(registry, "tool 'note': is named by rule 'no-mine'", Tool("note"))
    assert send(registry, Tool("note"), plugin="q").plan.names("restore") == ("note",)


def test_a_sync_without_a_version_keeps_the_one_that_is_known(registry: Registry) -> None:
    send(registry, Tool("mail"), plugin_version="1.2")
    assert not send(registry, Tool("mail")).is_applied
    assert send(registry, Tool("mail", "New")).plan.version == "1.2"
    assert not send(registry, Tool("mail", "New"), plugin_version="1.2").is_applied


def test_people_may_not_lose_a_tool_to_its_rules_by_a_slip(registry: Registry) -> None:
    registry.toolkits.put(Toolkit("web", parent="core"))
    registry.toolkits.put(Toolkit("open"))
    registry.create(Tool("danger", toolkit="web"))
    deny(registry, tool="danger")
    deny(registry, "no-core", toolkit="core")
    with pytest.raises(Exception, match="toolkit 'webb' is not on the platform; did you mean 'web'"):
        registry.update("danger", {"toolkit": "webb"}, version=1, force=True)
    with pytest.raises(Conflict, match="would leave rule 'no-mine', by name"):
        registry.update("danger", {"name": "safe"}, version=1)
    with pytest.raises(Conflict, match="moved out of toolkit 'web' it would leave rule 'no-core'"):
        registry.update("danger", {"toolkit": "open"}, version=1)
    assert registry.update("danger", {"toolkit": "core"}, version=1).tool.toolkit == "core"
    registry.rules.disable("no-core")
    assert registry.update("danger", {"toolkit": "open"}, version=2).version == 3
    assert registry.update("danger", {"name": "safe"}, version=3, force=True).name == "safe"


def test_a_tool_does_not_leave_a_tier_by_a_slip(registry: Registry) -> None:
    registry.set_tiers(("free", "pro"))
    registry.toolkits.put(Toolkit("paid", tier="pro"))
    registry.create(Tool("export"))
    registry.update("export", {"toolkit": "paid"}, version=1)
    with pytest.raises(Conflict, match="would leave tier 'pro' of toolkit 'paid'"):
        registry.rollback("export", 1)
    assert registry.rollback("export", 1, force=True).tool.toolkit == ""


def _create(registry: Registry) -> object:
    return registry.create("x")  # type: ignore[arg-type]


def _sync(registry: Registry) -> object:
    return registry.sync("tools", plugin="p")


def _import(registry: Registry) -> object:
    return registry.import_(5)  # type: ignore[arg-type]


def _update(registry: Registry) -> object:
    return registry.update("x", [], version=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("call", [_create, _sync, _import, _update])
def test_what_is_no_definition_is_said_so(registry: Registry, call: Callable[[Registry], object]) -> None:
    with pytest.raises(Exception, match=" is (str|list|int), must ") as error:
        call(registry)
    assert type(error.value).__name__ == "InvalidInput"


def test_an_import_takes_a_list_of_tools_or_the_definitions_of_a_folder(
    registry: Registry, tmp_path: Path
) -> None:
    (tmp_path / "crm.json").write_text('{"tasks": [{"name": "find"}]}', encoding="utf-8")
    registry.import_(read_folder(tmp_path))
    registry.import_([{"name": "ping", "description": "Pings."}])
    assert [record.name for record in registry.tools().records] == ["find", "ping"]
    with pytest.raises(InvalidInput, match=r"definitions is str, must .*toolroll\.read_folder\(path\)"):
        registry.import_(str(tmp_path))


def test_what_is_not_deleted_cannot_be_restored(registry: Registry) -> None:
    registry.create(Tool("mail"))
    with pytest.raises(Conflict, match="'mail': is not deleted; it is at version 1"):
        registry.restore("mail")
