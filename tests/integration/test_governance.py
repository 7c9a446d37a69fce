"""Toolkits, visibility rules, page mappings and tiers: what is refused, what is kept, what is written down."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.table import each_row
from toolroll import Tool, Toolkit
from toolroll.model.errors import Conflict, InvalidDefinition, InvalidInput, NotFound, ToolrollError
from toolroll.model.rules import PageMapping, Rule
from toolroll.model.tools import Definitions, Route
from toolroll.registry.editing.rules import kind_of
from toolroll.registry.editing.tiers import read_tiers, set_tiers
from toolroll.registry.editing.toolkits import circle
from toolroll.registry.registry import Registry
from toolroll.registry.store.database import Database

from .governance import TRICKS, Governed, add_tool, delete_tool


@pytest.fixture
def governed(database: Database) -> Governed:
    return Governed(database)


def deny(name: str = "no crm", toolkit: str = "crm", **fields: Any) -> Rule:
    return Rule(name, "deny", "org", {"org": "acme"}, toolkit=toolkit, **fields)


# Toolkits


def test_a_toolkit_is_read_as_it_was_put(governed: Governed) -> None:
    set_tiers(governed.database, "ann", ("free", "pro"))
    members = ("send_mail", "notes_*")
    toolkit = Toolkit("crm", "Deals\nand people", None, ("CRM_KEY", "CRM_URL"), True, "pro", members)
    put = governed.toolkits.put(toolkit, keywords=["deal", ("sale", "word")], patterns=[r"\bdeals?\b"])
    got = governed.toolkits.get("crm")
    assert got == put
    assert got.toolkit == toolkit
    assert (got.keywords, got.patterns) == ((("deal", ""), ("sale", "word")), (r"\bdeals?\b",))
    assert got.route is not None and got.route.keyword_modes == ("word", "word")
    assert (got.version, got.updated_by, got.org, got.plugin) == (1, "ann", "", "")


def test_a_toolkit_that_is_put_again_is_not_written(governed: Governed) -> None:
    first = governed.toolkits.put(Toolkit("crm"), keywords=["deal"])
    revision = governed.database.revision()
    assert governed.toolkits.put(Toolkit("crm"), keywords=["deal"]) == first
    assert governed.database.revision() == revision
    assert len(governed.audit.list()) == 1


def test_keywords_and_patterns_stay_unless_they_are_named(governed: Governed) -> None:
    governed.toolkits.put(Toolkit("crm"), keywords=["deal"], patterns=["d.al"])
    changed = governed.toolkits.put(Toolkit("crm", "Deals"))
    assert (changed.keywords, changed.patterns) == ((("deal", ""),), ("d.al",))
    assert governed.toolkits.put(Toolkit("crm", "Deals"), keywords=[], patterns=[]).route is None


def test_a_change_names_what_was_before_and_after(governed: Governed) -> None:
    governed.toolkits.put(Toolkit("crm", "Deals"))
    governed.toolkits.put(Toolkit("crm", "People"), reason="clearer")
    change = governed.audit.list()[0]
    assert (change.action, change.subject, change.actor, change.reason) == (
        "toolkit.update",
        "crm",
        "ann",
        "clearer",
    )
    assert change.details == {"before": {"description": "Deals"}, "after": {"description": "People"}}


@pytest.mark.parametrize("version", [1, 3])
def test_a_stale_version_is_a_conflict_and_changes_nothing(governed: Governed, version: int) -> None:
    governed.toolkits.put(Toolkit("crm"))
    before = Governed(governed.database, "bob").toolkits.put(Toolkit("crm", "Deals"), version=1)
    with pytest.raises(Conflict, match=r"toolkit 'crm': version \d was expected, .* at 2 since .* by 'bob'"):
        governed.toolkits.put(Toolkit("crm", "People"), version=version)
    assert governed.toolkits.get("crm") == before


def test_version_0_makes_a_toolkit_only_where_there_is_none(governed: Governed) -> None:
    governed.toolkits.put(Toolkit("crm"), version=0)
    with pytest.raises(Conflict):
        governed.toolkits.put(Toolkit("crm", "Deals"), version=0)
    with pytest.raises(Conflict, match="does not exist"):
        governed.toolkits.put(Toolkit("mail"), version=1)


def test_parents_in_a_circle_are_named(governed: Governed) -> None:
    governed.toolkits.put(Toolkit("a"))
    governed.toolkits.put(Toolkit("b", parent="a"))
    governed.toolkits.put(Toolkit("c", parent="b"))
    with pytest.raises(InvalidDefinition, match="toolkit 'a': parent .* a → c → b → a"):
        governed.toolkits.put(Toolkit("a", parent="c"))
    with pytest.raises(InvalidDefinition, match="d → d"):
        governed.toolkits.put(Toolkit("d", parent="d"))


def test_a_circle_through_the_platforms_toolkits_is_refused(governed: Governed) -> None:
    governed.toolkits.put(Toolkit("shared"))
    governed.toolkits.put(Toolkit("below", parent="shared"))
    governed.toolkits.put(Toolkit("own", parent="below"), org="acme")
    with pytest.raises(InvalidDefinition, match="shared → own → below → shared"):
        governed.toolkits.put(Toolkit("shared", parent="own"), org="acme")


def test_a_circle_that_a_toolkit_of_the_platform_hides_is_refused(governed: Governed) -> None:
    """Where both hold a name the platform's parent counts, but only as long as the platform holds it."""
    governed.toolkits.put(Toolkit("a"))
    governed.toolkits.put(Toolkit("a"), org="acme")
    governed.toolkits.put(Toolkit("b", parent="a"), org="acme")
    with pytest.raises(InvalidDefinition, match="a → b → a"):
        governed.toolkits.put(Toolkit("a", parent="b"), org="acme")
    governed.toolkits.delete("a")


def test_a_long_line_of_parents_takes_no_recursion() -> None:
    line = {f"t{at}": [f"t{at + 1}"] for at in range(10_000)}
    assert circle("t0", line) == ()
    assert len(circle("t0", {**line, "t10000": ["t0"]})) == 10_002


def test_a_parent_is_the_platforms_or_ones_own(governed: Governed) -> None:
    governed.toolkits.put(Toolkit("calendar"))
    governed.toolkits.put(Toolkit("own", parent="calendar"), org="acme")
    with pytest.raises(InvalidDefinition, match="'calender', which is not on the platform; did you mean"):
        governed.toolkits.put(Toolkit("mail", parent="calender"))
    for org in ("", "other"):
        with pytest.raises(InvalidDefinition, match="'own'"):
            governed.toolkits.put(Toolkit("mail", parent="own"), org=org)


BAD_TOOLKITS: dict[str, dict[str, Any]] = {
    "an unknown tier": {"toolkit": lambda: Toolkit("crm", tier="pro")},
    "a parent without a name": {"toolkit": lambda: Toolkit("crm", parent="")},
    "a parent that is no name": {"toolkit": lambda: Toolkit("crm", parent=7)},  # type: ignore[arg-type]
    "a description that is no text": {"toolkit": lambda: Toolkit("crm", 7)},  # type: ignore[arg-type]
    "a base that is no flag": {"toolkit": lambda: Toolkit("crm", base="yes")},  # type: ignore[arg-type]
    "a setting without a name": {"toolkit": lambda: Toolkit("crm", settings_keys=(" ",))},
    "a blank keyword": {"keywords": ["\t"]},
    "an unknown mode": {"keywords": [("deal", "words")]},
    "keywords that are one text": {"keywords": "deal"},
    "a keyword that is none": {"keywords": [7]},
    "a pattern with look-ahead": {"patterns": ["deal(?=s)"]},
    "a pattern that would take all memory": {"patterns": ["((x{900}){900}){900}"]},
    "patterns that are one text": {"patterns": "deal"},
    "NUL in the name": {"toolkit": lambda: Toolkit("crm\0")},
    "NUL in a description": {"toolkit": lambda: Toolkit("crm", "a\0")},
    "NUL in a keyword": {"keywords": ["a\0b"]},
    "NUL in a member": {"toolkit": lambda: Toolkit("crm", members=("a\0",))},
    "half of a surrogate pair": {"toolkit": lambda: Toolkit("crm", "\ud800")},
    "a name of 10,000 characters": {"toolkit": lambda: Toolkit("x" * 10_000)},
    "a description of a megabyte": {"toolkit": lambda: Toolkit("crm", "x" * 2**20)},
    "an organisation with NUL": {"org": "a\0"},
    "a reason without end": {"reason": "x" * 10_000},
    "a plugin without end": {"plugin": "x" * 10_000},
}


@each_row("wrong", BAD_TOOLKITS.values())
def test_a_wrong_toolkit_is_refused_and_leaves_nothing(database: Database, wrong: dict[str, Any]) -> None:
    governed = Governed(database)
    with pytest.raises(InvalidInput) as caught:
        made = {name: value() if callable(value) else value for name, value in wrong.items()}
        governed.toolkits.put(**{"toolkit": Toolkit("crm"), **made})
    assert len(str(caught.value)) < 500
    assert database.revision() == 0
    assert governed.toolkits.list(deleted=True) == ()
    assert governed.audit.list() == ()


def test_a_plugin_cannot_take_over_a_toolkit(governed: Governed) -> None:
    governed.toolkits.put(Toolkit("ours"))
    governed.toolkits.put(Toolkit("theirs"), plugin="crm")
    with pytest.raises(Conflict, match="belongs to people"):
        governed.toolkits.put(Toolkit("ours", "mine"), plugin="crm")
    with pytest.raises(Conflict, match="belongs to plugin 'crm'"):
        governed.toolkits.put(Toolkit("theirs", "mine"), plugin="mail")
    assert governed.toolkits.put(Toolkit("theirs", "edited")).plugin == "crm"


def test_a_toolkit_with_something_in_it_is_not_deleted(governed: Governed) -> None:
    governed.toolkits.put(Toolkit("crm"))
    tools = [add_tool(governed.database, f"t{at}", "crm", org) for at, org in enumerate(("", "", "acme"))]
    governed.toolkits.put(Toolkit("own", parent="crm"), org="acme")
    with pytest.raises(Conflict, match="toolkit 'crm': has 3 tools and 1 toolkit in it"):
        governed.toolkits.delete("crm")
    for tool in tools:
        delete_tool(governed.database, tool)
    governed.toolkits.delete("own", org="acme")
    governed.toolkits.delete("crm", reason="empty")
    with pytest.raises(NotFound):
        governed.toolkits.get("crm")


def test_what_others_have_in_a_toolkit_of_that_name_does_not_keep_it(governed: Governed) -> None:
    for org in ("", "acme", "other"):
        governed.toolkits.put(Toolkit("crm"), org=org)
        governed.toolkits.put(Toolkit("below", parent="crm"), org=org)
    governed.toolkits.delete("crm", org="acme")  # the platform's is there for what is below it
    with pytest.raises(Conflict, match="has 2 toolkits"):  # acme's and its own; the other has one itself
        governed.toolkits.delete("crm")


def test_a_deleted_toolkit_comes_back_as_it_was(governed: Governed) -> None:
    before = governed.toolkits.put(Toolkit("crm", "Deals"), keywords=["deal"])
    governed.toolkits.delete("crm")
    after = governed.toolkits.restore("crm", reason="too soon")
    assert (after.toolkit, after.route, after.toolkit_id) == (before.toolkit, before.route, before.toolkit_id)
    assert after.version == 3
    with pytest.raises(Conflict, match="nothing to restore"):
        governed.toolkits.restore("crm")
    with pytest.raises(NotFound):
        governed.toolkits.restore("crn")


def test_a_toolkit_does_not_come_back_into_a_place_that_is_gone(governed: Governed) -> None:
    governed.toolkits.put(Toolkit("crm"))
    governed.toolkits.put(Toolkit("deals", parent="crm"))
    governed.toolkits.delete("deals")
    governed.toolkits.delete("crm")
    with pytest.raises(InvalidDefinition, match="'crm'"):
        governed.toolkits.restore("deals")


def test_the_tree_shows_ones_own_below_the_platforms(governed: Governed) -> None:
    governed.toolkits.put(Toolkit("crm", "Deals and people\nand more", base=True))
    governed.toolkits.put(Toolkit("crm-mail", settings_keys=("SMTP",), parent="crm"), plugin="mail")
    governed.toolkits.put(Toolkit("own", "\x1b[31mred", parent="crm"), org="acme")
    add_tool(governed.database, "t1", "crm")
    add_tool(governed.database, "t2", "undeclared")
    assert governed.toolkits.tree("acme").splitlines() == [
        "crm  (1 tool, base)  Deals and people",
        "  crm-mail  (0 tools, with a value for SMTP, plugin mail)",
        "  own  (0 tools, own)  \\x1b[31mred",
        "undeclared  (1 tool)",
    ]
    assert "own" not in governed.toolkits.tree()


# Rules


def test_a_rule_is_read_as_it_was_added(governed: Governed) -> None:
    add_tool(governed.database, "export")
    condition = {"any": ({"role": {"in": ("admin", "owner")}}, {"not": {"page": "public*"}})}
    added = governed.rules.add(Rule("staff", "allow", "composite", condition, tool="export", priority=7))
    got = governed.rules.get("staff")
    assert got == added
    assert got.rule.condition == {"any": [{"role": {"in": ["admin", "owner"]}}, {"not": {"page": "public*"}}]}
    assert (got.rule.effect, got.rule.priority, got.active, got.version) == ("allow", 7, True, 1)
    assert len(got.rule.rule_id) == 32


BAD_RULES: dict[str, dict[str, Any]] = {
    "an unknown tool": {"tool": "exportt", "toolkit": ""},
    "an unknown toolkit": {"toolkit": "crn"},
    "another organisation's toolkit": {"toolkit": "own"},
    "a tool and a toolkit": {"tool": "export"},
    "nothing": {"toolkit": ""},
    "an unknown tier": {"kind": "tier", "condition": {"tier": {"lt": "pro"}}},
    "an unknown attribute": {"kind": "composite", "condition": {"country": "se"}},
    "an unknown comparison": {"condition": {"org": {"like": "a%"}}},
    "an unknown kind": {"kind": "country"},
    "an unknown effect": {"effect": "hide"},
    "an empty condition": {"condition": {}},
    "a condition that is none": {"condition": "acme"},
    "a number for a text": {"condition": {"org": 7}},
    "NUL in the condition": {"condition": {"org": "a\0"}},
    "half of a surrogate pair": {"condition": {"org": "\ud800"}},
    "a condition of a megabyte": {"condition": {"org": "x" * 2**20}},
    "a priority beyond all columns": {"priority": 2**31},
    "a priority that is a flag": {"priority": True},
    "no name": {"name": ""},
    "NUL in the name": {"name": "a\0"},
    "a name of 10,000 characters": {"name": "x" * 10_000},
    "an organisation that is none": {"org": None},
}


@pytest.mark.parametrize("wrong", BAD_RULES.values())
def test_a_wrong_rule_is_refused_and_leaves_nothing(database: Database, wrong: dict[str, Any]) -> None:
    governed = Governed(database)
    governed.toolkits.put(Toolkit("crm"))
    governed.toolkits.put(Toolkit("own"), org="acme")
    add_tool(database, "export")
    right = {"name": "r", "effect": "deny", "kind": "org", "condition": {"org": "a"}, "toolkit": "crm"}
    revision = database.revision()
    with pytest.raises(InvalidInput) as caught:
        governed.rules.add(Rule(**{**right, **wrong}))
    assert len(str(caught.value)) < 500
    governed.rules.add(Rule(**right))  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        governed.rules.update("r", wrong) if "org" not in wrong else governed.rules.update("r", {"org": "b"})
    assert database.revision() == revision + 1
    assert len(governed.rules.list(deleted=True)) == 1


def test_an_unknown_target_is_named_with_what_was_meant(governed: Governed) -> None:
    add_tool(governed.database, "export_deals", "undeclared")
    with pytest.raises(
        InvalidDefinition, match="rule 'r'.*'export_deal' is not on the platform; did you mean 'ex"
    ):
        governed.rules.add(Rule("r", "deny", "org", {"org": "acme"}, tool="export_deal"))
    governed.rules.add(deny("all", "*"))
    governed.rules.add(deny("mentioned by a tool", "undeclared"))


def test_an_organisations_rule_may_name_its_own_and_the_platforms(governed: Governed) -> None:
    governed.toolkits.put(Toolkit("crm"))
    governed.toolkits.put(Toolkit("own"), org="acme")
    governed.rules.add(deny("r1", "crm", org="acme"))
    governed.rules.add(deny("r2", "own", org="acme"))
    with pytest.raises(InvalidDefinition, match="neither on the platform nor in organisation 'other'"):
        governed.rules.add(deny("r2", "own", org="other"))
    assert [record.name for record in governed.rules.list("acme")] == ["r1", "r2"]
    assert governed.rules.list("") == ()


def test_a_rules_name_is_its_organisations_own(governed: Governed) -> None:
    governed.toolkits.put(Toolkit("crm"))
    governed.rules.add(deny())
    governed.rules.add(deny(org="acme"))
    with pytest.raises(Conflict, match="rule 'no crm': there is one on the platform already"):
        governed.rules.add(deny())
    governed.rules.add(deny("other"))
    with pytest.raises(Conflict):
        governed.rules.update("other", {"name": "no crm"})
    governed.rules.delete("no crm")
    assert governed.rules.update("other", {"name": "no crm"}).version == 2
    assert [record.name for record in governed.rules.list()] == ["no crm", "no crm"]


def test_rules_are_listed_as_they_decide(governed: Governed) -> None:
    governed.toolkits.put(Toolkit("crm"))
    for name, effect, priority in (("a", "allow", 1), ("b", "deny", 1), ("c", "deny", 0), ("d", "allow", 9)):
        governed.rules.add(Rule(name, effect, "org", {"org": "x"}, toolkit="crm", priority=priority))  # type: ignore[arg-type]
    assert [record.name for record in governed.rules.list()] == ["d", "b", "a", "c"]


def test_an_update_without_a_difference_is_not_written(governed: Governed) -> None:
    governed.toolkits.put(Toolkit("crm"))
    before = governed.rules.add(deny())
    revision = governed.database.revision()
    assert governed.rules.update("no crm", {"condition": {"org": "acme"}, "priority": 0}) == before
    assert governed.rules.enable("no crm") == before
    assert governed.database.revision() == revision


def test_a_rule_whose_tool_is_gone_can_be_put_out_of_force_but_not_into(governed: Governed) -> None:
    tool = add_tool(governed.database, "export")
    governed.rules.add(Rule("r", "deny", "org", {"org": "acme"}, tool="export"))
    delete_tool(governed.database, tool)
    governed.rules.update("r", {"priority": 3})
    assert not governed.rules.disable("r").active
    with pytest.raises(InvalidDefinition, match="'export'"):
        governed.rules.enable("r")


@pytest.mark.parametrize("change", ["update", "enable", "disable", "delete"])
def test_a_stale_rule_is_a_conflict(governed: Governed, change: str) -> None:
    governed.toolkits.put(Toolkit("crm"))
    governed.rules.add(deny())
    governed.rules.update("no crm", {"priority": 1}, version=1)
    arguments = ({"priority": 2},) if change == "update" else ()
    with pytest.raises(Conflict, match="at 2 since"):
        getattr(governed.rules, change)("no crm", *arguments, version=1)
    with pytest.raises(NotFound, match="did you mean 'no crm'"):
        getattr(governed.rules, change)("no crn", *arguments)


def test_of_writers_that_read_the_same_version_one_wins(governed: Governed) -> None:
    governed.toolkits.put(Toolkit("crm"))
    governed.rules.add(deny())

    def write(priority: int) -> bool:
        try:
            governed.rules.update("no crm", {"priority": priority}, version=1)
        except Conflict:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(write, range(1, 9)))
    assert sum(won) == 1
    assert governed.rules.get("no crm").rule.priority == won.index(True) + 1


def test_two_that_close_a_circle_at_once_do_not(governed: Governed) -> None:
    for name in ("a", "b"):
        governed.toolkits.put(Toolkit(name))

    def put(pair: tuple[str, str]) -> bool:
        try:
            governed.toolkits.put(Toolkit(pair[0], parent=pair[1]))
        except InvalidDefinition:
            return False
        return True

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(put, [("a", "b"), ("b", "a")])) == [False, True]


def test_the_kind_follows_from_the_condition() -> None:
    assert kind_of({"tier": {"lt": "pro"}}) == "tier"
    assert kind_of({"tier": "pro", "org": "acme"}) == "composite"
    assert kind_of({"all": []}) == "composite"
    assert kind_of({"composite": []}) == "composite"


# Page mappings


def test_a_page_has_the_mappings_that_match_by_priority(governed: Governed) -> None:
    for name in ("crm", "mail"):
        governed.toolkits.put(Toolkit(name))
    governed.pages.add(PageMapping("contacts*", ("crm",), 1))
    governed.pages.add(PageMapping("*", ("mail",), 5))
    governed.pages.add(PageMapping("*edit*", ("crm", "mail"), 3, "acme"))
    governed.pages.add(PageMapping("contacts", ("crm",), 9))

    def patterns(page: str, org: str = "") -> list[str]:
        return [mapping.pattern for mapping in governed.pages.for_page(page, org)]

    assert patterns("contacts/edit") == ["*", "contacts*"]
    assert patterns("contacts/edit", "acme") == ["*", "*edit*", "contacts*"]
    assert patterns("contacts", "other") == ["contacts", "*", "contacts*"]


BAD_PAGES = {
    "an unknown toolkit": {"toolkits": ("crm", "crn")},
    "no toolkit": {"toolkits": ()},
    "one text": {"toolkits": "crm"},
    "no pattern": {"pattern": ""},
    "a star inside": {"pattern": "a*b"},
    "a pattern that is no text": {"pattern": 7},
    "NUL": {"pattern": "a\0"},
    "half of a surrogate pair": {"pattern": "\udfff"},
    "a pattern of 10,000 characters": {"pattern": "x" * 10_000},
    "a priority beyond all columns": {"priority": -(2**31) - 1},
}


@pytest.mark.parametrize("wrong", BAD_PAGES.values())
def test_a_wrong_mapping_is_refused_and_leaves_nothing(database: Database, wrong: dict[str, Any]) -> None:
    governed = Governed(database)
    governed.toolkits.put(Toolkit("crm"))
    with pytest.raises(InvalidInput):
        governed.pages.add(PageMapping(**{"pattern": "a", "toolkits": ("crm",), **wrong}))
    assert database.revision() == 1
    kept = governed.pages.add(PageMapping("a", ("crm",)))
    with pytest.raises(InvalidInput):
        governed.pages.update(kept.page_id, wrong)
    assert governed.pages.list() == (kept,)


def test_the_same_mapping_twice_is_a_conflict(governed: Governed) -> None:
    for name in ("crm", "mail"):
        governed.toolkits.put(Toolkit(name))
    one = governed.pages.add(PageMapping("a", ("crm", "mail")))
    with pytest.raises(Conflict, match=one.page_id):
        governed.pages.add(PageMapping("a", ("mail", "crm"), 4))
    governed.pages.add(PageMapping("a", ("mail", "crm"), org="acme"))
    other = governed.pages.add(PageMapping("a", ("crm",)))
    with pytest.raises(Conflict):
        governed.pages.update(other.page_id, {"toolkits": ("crm", "mail")})


def test_a_mapping_is_changed_and_deleted_by_its_id(governed: Governed) -> None:
    governed.toolkits.put(Toolkit("crm"))
    page_id = governed.pages.add(PageMapping("a", ("crm",), org="acme")).page_id
    assert governed.pages.update(page_id, {"pattern": "b*", "priority": 2}, version=1).version == 2
    with pytest.raises(Conflict):
        governed.pages.update(page_id, {"pattern": "c"}, version=1)
    with pytest.raises(InvalidInput, match="has no field 'org'"):
        governed.pages.update(page_id, {"org": ""})
    for org in ("", "other"):
        with pytest.raises(NotFound):
            governed.pages.delete(page_id, org=org)
    governed.pages.delete(page_id, org="acme", reason="not used")
    with pytest.raises(NotFound):
        governed.pages.get(page_id)
    change = governed.audit.list(subject="b*")[0]
    assert (change.action, change.org, change.reason) == ("page.delete", "acme", "not used")
    assert change.details["page_id"] == page_id


# Tiers


def test_tiers_keep_the_order_in_which_they_are_set(database: Database) -> None:
    assert read_tiers(database) == ()
    assert set_tiers(database, "ann", ["free", "pro", "max"], "first") == ("free", "pro", "max")
    set_tiers(database, "ann", ["free", "pro", "max"])
    assert read_tiers(database) == ("free", "pro", "max")
    assert [change.reason for change in Governed(database).audit.list(action="tiers")] == ["first"]


def test_a_tier_that_something_compares_with_stays(governed: Governed) -> None:
    set_tiers(governed.database, "ann", ("free", "pro", "max"))
    governed.toolkits.put(Toolkit("crm", tier="pro"))
    governed.rules.add(
        Rule("r", "deny", "composite", {"not": {"tier": {"in": ["max"]}}}, toolkit="*", org="acme"),
        active=False,
    )
    with pytest.raises(Conflict, match=r"rule 'r' of 'acme', toolkit 'crm' would compare"):
        set_tiers(governed.database, "ann", ("free",))
    assert set_tiers(governed.database, "ann", ("pro", "max")) == ("pro", "max")
    governed.rules.delete("r", org="acme")
    governed.toolkits.delete("crm")
    assert set_tiers(governed.database, "ann", ()) == ()


@each_row("wrong", ["free", ("a", "a"), ("",), (7,), ("a\0",), ("x" * 10_000,), None])
def test_wrong_tiers_are_refused(database: Database, wrong: Any) -> None:
    with pytest.raises(InvalidInput):
        set_tiers(database, "ann", wrong)
    assert database.revision() == 0


def test_a_registry_has_all_of_it_on_behalf_of_one_person(database: Database) -> None:
    registry = Registry(database, "bob")
    registry.create(Tool("export", toolkit="crm"))
    assert registry.set_tiers(["free", "pro"], reason="first") == registry.tiers() == ("free", "pro")
    registry.toolkits.put(Toolkit("crm", tier="pro"))
    registry.rules.add(Rule("r", "deny", "tier", {"tier": {"lt": "pro"}}, tool="export"))
    registry.pages.add(PageMapping("deals*", ("crm",)))
    registry.settings.set("CRM_KEY", "x")
    with pytest.raises(Conflict, match="has 1 tool in it"):
        registry.toolkits.delete("crm")
    changes = registry.audit.list()
    assert {change.actor for change in changes} == {"bob"}
    assert [change.action for change in reversed(changes)] == [
        "tool.create",
        "tiers.set",
        "toolkit.create",
        "rule.create",
        "page.create",
        "setting.set",
    ]
    assert registry.with_actor("eve").rules.disable("r").updated_by == "eve"


# Everything


def test_names_are_kept_and_found_letter_by_letter(governed: Governed) -> None:
    for name in TRICKS:
        add_tool(governed.database, name, name)
        governed.toolkits.put(Toolkit(name, name, settings_keys=(name,)), keywords=[name], org=name)
        governed.rules.add(Rule(name, "deny", "user", {"user": name}, tool=name))
        governed.pages.add(PageMapping(name, (name,), org=name))
        governed.settings.set(name, "x", org=name)
    set_tiers(governed.database, "ann", TRICKS)
    assert read_tiers(governed.database) == TRICKS
    assert {record.name for record in governed.rules.list()} == set(TRICKS)
    for name in TRICKS:
        toolkit = governed.toolkits.get(name, name)
        assert [record.toolkit for record in governed.toolkits.list(name)] == [toolkit.toolkit]
        assert (toolkit.name, toolkit.toolkit.description, toolkit.org) == (name, name, name)
        assert toolkit.toolkit.settings_keys == (name,) and toolkit.keywords == ((name, ""),)
        rule = governed.rules.get(name).rule
        assert (rule.name, rule.tool, rule.condition) == (name, name, {"user": name})
        assert [page.mapping.pattern for page in governed.pages.list(name)] == [name]
        assert governed.pages.for_page(name, name)[-1].toolkits == (name,)
        assert [setting.key for setting in governed.settings.list(name)] == [name]
        assert governed.settings.present(name) == {name}
        assert {change.org for change in governed.audit.list(subject=name, action="setting")} == {name}


@pytest.mark.parametrize(
    "change",
    [
        lambda it: it.toolkits.put(Toolkit("crm", "new"), reason="\0"),
        lambda it: it.toolkits.delete("crm", reason="\0"),
        lambda it: it.rules.add(deny("second"), reason="\0"),
        lambda it: it.rules.update("no crm", {"priority": 3}, reason="\0"),
        lambda it: it.rules.disable("no crm", reason="\0"),
        lambda it: it.pages.add(PageMapping("b", ("crm",)), reason="\0"),
        lambda it: it.settings.set("k", "v", reason="\0"),
        lambda it: set_tiers(it.database, "ann", ("free",), "\0"),
    ],
)
def test_a_change_that_cannot_be_logged_does_not_happen(
    governed: Governed, change: Callable[[Governed], object]
) -> None:
    governed.toolkits.put(Toolkit("crm"))
    governed.rules.add(deny())
    before = (governed.toolkits.list(), governed.rules.list(), governed.audit.list())
    with pytest.raises(ToolrollError, match="reason"):
        change(governed)
    assert (governed.toolkits.list(), governed.rules.list(), governed.audit.list()) == before
    assert governed.pages.list() == () and governed.settings.list() == ()


def test_records_are_json(governed: Governed) -> None:
    governed.toolkits.put(Toolkit("crm"), keywords=["deal"])
    records = [
        governed.toolkits.get("crm"),
        governed.rules.add(deny()),
        governed.pages.add(PageMapping("a", ("crm",))),
        governed.settings.set("KEY", "x"),
        *governed.audit.list(),
    ]
    for record in records:
        assert json.loads(json.dumps(record.to_dict())) == record.to_dict()


def test_a_keyword_or_a_pattern_that_no_catalog_reads_is_refused_before_it_is_written(
    database: Database,
) -> None:
    governed, registry = Governed(database), Registry(database)
    for keywords, patterns, problem in (
        (("x" * 513,), (), "keyword 'x"),
        ((), ("a\ud800",), "surrogate"),
    ):
        with pytest.raises(InvalidDefinition, match=problem):
            governed.toolkits.put(Toolkit("kit"), keywords=keywords, patterns=patterns)
        with pytest.raises(InvalidDefinition, match=problem):
            route = Route(("kit",), keywords, patterns)
            registry.sync(Definitions((Tool("one"),), (Toolkit("kit"),), (route,)), plugin="p")
    assert governed.toolkits.list() == ()
