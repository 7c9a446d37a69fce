"""`toolroll registry` on toolkits, rules, pages, settings and tiers, as typed."""

from __future__ import annotations

import json

import pytest

from tests.integration.commands import CRM, WEATHER, Typed, toolkit_file, type_in
from tests.table import each_row

SECRET = "hunter2-s3cret"


@pytest.fixture
def typed(database_url, capsys, tmp_path):
    return filled(Typed(database_url, capsys), tmp_path)


@pytest.fixture
def on_sqlite(new_database_url, capsys, tmp_path):
    """For what does not get as far as the database."""
    return filled(Typed(new_database_url("sqlite"), capsys), tmp_path)


def filled(typed, tmp_path):
    toolkit_file(tmp_path / "mine", WEATHER)
    typed.put(toolkit_file(tmp_path / "mine", CRM, settings_keys=[]))
    return typed


def rule(typed, *words, status=0):
    return typed("registry", "rules", "add", *words, status=status)


def test_a_rule_hides_a_tool_and_why_names_it(typed):
    typed("registry", "tiers", "free", "pro")
    rule(typed, "export-is-pro", "--deny", "--tool", "crm_export", "--when", '{"tier": {"lt": "pro"}}')
    why = typed.json("registry", "why", "crm_export", "--tier", "free")
    assert why["visible"] is False and why["rule"] == "export-is-pro" and why["level"] == "platform"
    assert "export-is-pro" in why["reason"]
    assert typed.json("registry", "why", "crm_export", "--tier", "pro")["visible"] is True
    said = typed("registry", "why", "crm_export", "--tier", "free").out
    assert said.startswith("crm_export is hidden by the platform's rule 'export-is-pro'")
    assert typed("registry", "why", "crm_find").out == "crm_find is visible: no rule names it\n"
    message = "export all customers to a file"
    assert "crm_export" in typed.picked(message, "--tier", "pro")
    assert "crm_export" not in typed.picked(message, "--tier", "free")
    assert "crm_export" not in typed.picked(message)


def test_a_rule_can_be_switched_off_and_on_and_deleted(typed):
    rule(typed, "none", "--deny", "--toolkit", "*", "--when", '{"all": []}', "--priority", "-1")

    def visible() -> bool:
        return typed.json("registry", "why", "crm_find")["visible"]

    assert not visible()
    typed("registry", "rules", "disable", "none")
    assert visible()
    (listed,) = typed.json("registry", "rules")["rules"]
    assert (listed["active"], listed["kind"], listed["priority"]) == (False, "composite", -1)
    typed("registry", "rules", "enable", "none")
    assert not visible()
    typed("registry", "rules", "delete", "none", "--reason", "enough")
    assert visible() and typed.json("registry", "rules", "list")["rules"] == []


@pytest.mark.parametrize(
    ("condition", "kind"),
    [
        ('{"role": "admin"}', "role"),
        ('{"user": {"in": ["ann", "bo"]}}', "user"),
        ('{"page": "public*", "org": "acme"}', "composite"),
        ('{"not": {"role": "admin"}}', "composite"),
    ],
)
def test_the_kind_of_a_rule_follows_from_its_condition(on_sqlite, condition, kind):
    added = on_sqlite.json(
        "registry", "rules", "add", "r", "--allow", "--tool", "crm_find", "--when", condition
    )
    assert (added["kind"], added["condition"]) == (kind, json.loads(condition))
    assert condition in on_sqlite("registry", "rules").out


@each_row(
    ("words", "what"),
    [
        (("--tool", "crm_exprt", "--when", '{"role": "x"}'), "crm_export"),
        (("--toolkit", "crn", "--when", '{"role": "x"}'), "crm"),
        (("--tool", "crm_find", "--when", '{"rol": "x"}'), "role"),
        (("--tool", "crm_find", "--when", '{"tier": {"lt": "pro"}}'), "pro"),
        (("--tool", "crm_find", "--when", "{}"), "all"),
        (("--tool", "crm_find", "--when", '{"user": {"gt": "x"}}'), "gt"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_in_one_line(on_sqlite, words, what):
    done = rule(on_sqlite, "r", "--deny", *words, status=1)
    assert what in done.err and done.err.count("\n") == 1 and done.out == ""
    assert on_sqlite.json("registry", "rules")["rules"] == []


def test_an_organisations_rule_concerns_it_alone(typed):
    rule(typed, "r", "--deny", "--tool", "crm_find", "--when", '{"all": []}', "--org", "acme")
    assert typed.json("registry", "why", "crm_find", "--org", "acme")["level"] == "organisation"
    assert typed.json("registry", "why", "crm_find", "--org", "other")["visible"] is True
    assert [found["org"] for found in typed.json("registry", "rules")["rules"]] == ["acme"]
    assert typed.json("registry", "rules", "--org", "")["rules"] == []
    assert len(typed.json("registry", "rules", "list", "--org", "acme")["rules"]) == 1
    typed("registry", "rules", "delete", "r", status=1)
    typed("registry", "rules", "delete", "r", "--org", "acme")


def test_a_page_narrows_to_its_toolkits(typed):
    added = typed.json("registry", "pages", "add", "contacts*", "crm", "--priority", "3")
    message = "will it rain in Oslo"
    assert "get_forecast" in typed.picked(message, "--page", "home")
    assert "get_forecast" not in typed.picked(message, "--page", "contacts/7")
    (listed,) = typed.json("registry", "pages")["pages"]
    assert (listed["pattern"], listed["toolkits"], listed["priority"]) == ("contacts*", ["crm"], 3)
    assert listed["page_id"] == added["page_id"] and added["page_id"] in typed("registry", "pages").out
    typed("registry", "pages", "delete", added["page_id"])
    assert typed.json("registry", "pages")["pages"] == []
    assert "crn" in typed("registry", "pages", "add", "x", "crn", status=1).err


def test_toolkits_are_a_tree_that_can_be_changed(typed):
    typed("registry", "toolkits", "put", "sales", "--description", "All of sales.")
    typed("registry", "toolkits", "put", "crm", "--parent", "sales", "--keyword", "customer")
    (crm,) = (item for item in typed.json("registry", "toolkits")["toolkits"] if item["name"] == "crm")
    assert (crm["parent"], crm["description"]) == ("sales", "Customers and deals.")
    tree = typed("registry", "toolkits").out
    assert tree.index("sales") < tree.index("crm") and "weather" in tree
    done = typed("registry", "toolkits", "put", "sales", "--parent", "crm", status=1)
    assert "sales" in done.err and "→" in done.err
    assert "2 tools" in typed("registry", "toolkits", "delete", "crm", status=1).err
    typed("registry", "toolkits", "put", "crm", "--parent", "")
    typed("registry", "toolkits", "delete", "sales")
    typed("registry", "toolkits", "restore", "sales")
    assert "sales" in typed("registry", "toolkits", "list").out


def test_tiers_are_set_in_order_and_kept_while_they_are_used(typed):
    assert typed.json("registry", "tiers") == {"tiers": []}
    assert "there are no tiers" in typed("registry", "tiers").err
    assert typed.json("registry", "tiers", "free", "pro") == {"tiers": ["free", "pro"]}
    assert typed("registry", "tiers").out.split() == ["free", "pro"]
    typed("registry", "toolkits", "put", "crm", "--member", "get_*", "--member", "crm_find")
    (crm,) = (item for item in typed.json("registry", "toolkits")["toolkits"] if item["name"] == "crm")
    assert (
        crm["members"] == ["get_*", "crm_find"] and "and get_*, crm_find" in typed("registry", "toolkits").out
    )
    typed("registry", "toolkits", "put", "crm", "--member", "")
    typed("registry", "toolkits", "put", "crm", "--tier", "pro")
    assert "crm" in typed("registry", "tiers", "--clear", status=1).err
    assert typed.json("registry", "why", "crm_find", "--tier", "free")["visible"] is False
    typed("registry", "toolkits", "put", "crm", "--tier", "")
    assert typed.json("registry", "tiers", "--clear") == {"tiers": []}


def test_the_value_of_a_setting_is_nowhere(typed, monkeypatch, tmp_path, caplog):
    typed("registry", "toolkits", "put", "crm", "--setting", "crm_key")
    assert "settings" in typed.json("registry", "why", "crm_find")["reason"]
    type_in(monkeypatch, f"{SECRET}\n")
    said = typed("registry", "settings", "set", "crm_key", "--reason", "from the vault")
    assert typed.json("registry", "why", "crm_find")["visible"] is True
    outputs = [said, typed("registry", "settings"), typed("registry", "changes"), typed("registry", "status")]
    outputs.append(typed("registry", "settings", "list", "--json"))
    assert all(SECRET not in done.out + done.err for done in outputs)
    assert SECRET not in caplog.text
    assert not any(SECRET.encode() in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    (listed,) = typed.json("registry", "settings")["settings"]
    assert (listed["key"], listed["is_set"]) == ("crm_key", True)
    typed("registry", "settings", "unset", "crm_key")
    assert typed.json("registry", "why", "crm_find")["visible"] is False
    assert typed.json("registry", "why", "crm_find", "--setting", "crm_key")["visible"] is True


def test_on_a_terminal_the_value_of_a_setting_is_asked_for_and_not_shown(on_sqlite, monkeypatch):
    type_in(monkeypatch, "")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.termui.hidden_prompt_func", lambda prompt: SECRET)
    done = on_sqlite("registry", "settings", "set", "crm_key")
    assert done.out == "setting crm_key: has a value\n" and SECRET not in done.out + done.err


def test_a_blank_value_is_refused(on_sqlite, monkeypatch):
    type_in(monkeypatch, " \n")
    assert "blank" in on_sqlite("registry", "settings", "set", "crm_key", status=1).err
    assert on_sqlite.json("registry", "settings")["settings"] == []


def test_tricks_in_names_are_only_names(typed):
    for name in ("'; DROP TABLE tools; --", "../../etc/passwd", "%s", 'a"b', "--"):
        typed("registry", "toolkits", "put", "--description", "odd", "--", name)
        found = [item["name"] for item in typed.json("registry", "toolkits")["toolkits"]]
        assert name in found
        typed("registry", "toolkits", "delete", "--", name)
    assert len(typed.names()) == 4


def test_why_names_a_rule_whose_condition_does_not_hold(on_sqlite):
    rule(on_sqlite, "org-acme", "--deny", "--toolkit", "crm", "--when", '{"org": {"ne": "acme"}}')
    said = on_sqlite("registry", "why", "crm_find", "--org", "acme").out
    assert said.startswith("crm_find is visible: the platform's rule 'org-acme' names it, its condition does")


def test_values_that_name_nothing_are_told(on_sqlite):
    words = ("--tier", "gold", "--exclude", "crm_fnd", "--page", "home")
    done = on_sqlite("select", "find a customer", *words)
    assert "tier is 'gold', but no tiers are configured" in done.err
    assert "exclude 'crm_fnd': this caller has no such tool; did you mean 'crm_find'?" in done.err
    assert "page 'home': no mapping matches it" in done.err
    on_sqlite("registry", "tiers", "free", "golden")
    done = on_sqlite("registry", "why", "crm_find", "--tier", "gold")
    (unknown,) = on_sqlite.json("select", "find a customer", "--tier", "gold")["unknown_values"]
    assert unknown in done.err and "did you mean 'golden'?" in done.err and "crm_find is visible" in done.out
    on_sqlite("registry", "pages", "add", "ho*", "crm")
    done = on_sqlite("select", "find a customer", "--tier", "free", "--exclude", "crm_find", "--page", "home")
    assert len(done.err.splitlines()) == 1


def test_a_selection_that_is_not_logged_prints_no_event(on_sqlite):
    assert on_sqlite.json("select", "find a customer")["event_id"] is None
    assert on_sqlite.json("events", "list")["events"] == []


def test_a_rule_is_updated_field_by_field(typed):
    typed("registry", "tiers", "free", "pro")
    rule(typed, "r", "--deny", "--tool", "crm_export", "--when", '{"tier": {"lt": "pro"}}')
    assert typed.json("registry", "why", "crm_export", "--tier", "free")["visible"] is False
    done = typed.json("registry", "rules", "update", "r", "--when", '{"role": "intern"}', "--priority", "4")
    assert (done["kind"], done["priority"], done["effect"], done["version"]) == ("role", 4, "deny", 2)
    why = ("registry", "why", "crm_export", "--tier", "free")
    assert typed.json(*why, "--role", "intern")["visible"] is False
    assert typed.json(*why, "--role", "clerk")["visible"] is True
    done = typed.json("registry", "rules", "update", "r", "--toolkit", "crm", "--allow", "--name", "interns")
    assert (done["name"], done["tool"], done["toolkit"], done["effect"]) == ("interns", "", "crm", "allow")
    said = typed("registry", "rules", "update", "interns", "--priority", "5", "--expected-version", "3").out
    assert said == "rule interns: version 4, in force\n"


@pytest.mark.parametrize(
    ("words", "what", "status"),
    [
        ((), "needs one", 2),
        (("--allow", "--deny"), "--allow --deny", 2),
        (("--tool", "crm_find", "--toolkit", "crm"), "--tool --toolkit", 2),
        (("--tool", "crm_fnd"), "crm_find", 1),
        (("--priority", "2", "--expected-version", "9"), "version 9 was expected", 1),
    ],
)
def test_a_rule_that_cannot_be_updated_stays(on_sqlite, words, what, status):
    rule(on_sqlite, "r", "--deny", "--tool", "crm_export", "--when", '{"role": "x"}')
    assert what in on_sqlite("registry", "rules", "update", "r", *words, status=status).err
    assert on_sqlite.json("registry", "rules")["rules"][0]["version"] == 1


def test_a_page_mapping_is_updated_and_found_for_a_page(typed):
    page_id = typed.json("registry", "pages", "add", "contacts*", "crm")["page_id"]
    own = typed.json("registry", "pages", "add", "*", "weather", "--org", "acme", "--priority", "2")
    found = typed.json("registry", "pages", "for", "contacts/7")
    assert found["toolkits"] == ["crm"] and [page["page_id"] for page in found["pages"]] == [page_id]
    found = typed.json("registry", "pages", "for", "contacts/7", "--org", "acme")
    assert found["toolkits"] == ["weather", "crm"]
    assert own["page_id"] in typed("registry", "pages", "for", "home", "--org", "acme").out
    done = typed("registry", "pages", "for", "home")
    assert done.out == "" and "all tools stay" in done.err
    words = ("--pattern", "home", "--toolkit", "crm", "--toolkit", "weather", "--priority", "3")
    done = typed.json("registry", "pages", "update", page_id, *words)
    assert (done["pattern"], done["toolkits"], done["priority"]) == ("home", ["crm", "weather"], 3)
    assert typed.json("registry", "pages", "for", "home")["toolkits"] == ["crm", "weather"]
    assert typed.json("registry", "pages", "for", "contacts/7")["toolkits"] == []
    assert "needs one" in typed("registry", "pages", "update", page_id, status=2).err
    typed("registry", "pages", "update", page_id, "--priority", "1", "--expected-version", "1", status=1)
