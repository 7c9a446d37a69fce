"""Who sees what, over HTTP: rules tried before they are saved, reasons, pins, settings, tiers and approval."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("fastapi")

from tests.integration.served import Served, served
from toolroll.model.rules import PageMapping, Rule
from toolroll.model.tools import Tool, Toolkit
from toolroll.registry.registry import Registry
from toolroll.server.tool_registry.router import PREFIX

EXPORT = {"effect": "deny", "condition": {"role": "intern"}, "tool": "crm_export"}
INTERN = {"roles": ["intern"]}


@pytest.fixture
def registry(sqlite_url: str) -> Iterator[Registry]:
    with Registry.open(sqlite_url, actor="ada") as registry:
        registry.set_tiers(["free", "pro"])
        registry.toolkits.put(Toolkit("crm", "Customers and deals", settings_keys=("crm_url",)))
        registry.settings.set("crm_url", "https://crm.example")
        registry.create(Tool("crm_export", "Exports all deals", toolkit="crm"))
        registry.create(Tool("send_mail", "Sends a mail"))
        registry.create(Tool("acme_report", "Reports sales"), org="acme")
        registry.rules.add(
            Rule("platform secret", "deny", "org", {"org": "acme"}, tool="send_mail", priority=9)
        )
        yield registry


@pytest.fixture
def keys(registry: Registry) -> dict[str, str]:
    """Texts of keys by name."""
    everything = ("read", "administer")
    return {
        "admin": registry.keys.add("admin", roles=everything, org=None)[1],
        "acme": registry.keys.add("acme", roles=everything, org="acme")[1],
        "reader": registry.keys.add("reader", roles=["read"], org=None)[1],
        "caller": registry.keys.add("caller", roles=["select"], org=None)[1],
    }


@pytest.fixture
def service(registry: Registry, keys: dict[str, str], sqlite_url: str) -> Iterator[Served]:
    with served(registry, sqlite_url) as service:
        yield service


Ask = Callable[..., Any]


@pytest.fixture
def ask(service: Served, keys: dict[str, str]) -> Ask:
    """Makes a request below the prefix, asserts its status, returns the answer."""

    def ask(
        method: str, path: str, body: object = None, status: int = 200, key: str = "admin", etag: str = ""
    ) -> Any:
        headers = {"If-Match": etag} if etag else {}
        found, _, answer = service(method, PREFIX + path, body, key=keys[key], headers=headers)
        assert found == status, answer
        return answer

    return ask


def test_a_preview_says_which_tools_each_context_would_lose_and_saves_nothing(
    ask: Ask, registry: Registry
) -> None:
    before = registry.rules.list()
    body = {"rule": {"name": "no exports", **EXPORT}, "contexts": [INTERN, {}]}
    intern, anyone = ask("POST", "/visibility-rules/preview", body, key="reader")["contexts"]
    assert (intern["loses"], intern["gains"], intern["before"] - intern["after"]) == (["crm_export"], [], 1)
    assert (anyone["loses"], anyone["context"]["roles"]) == (["crm_export"], [])  # the role is unknown
    assert registry.rules.list() == before


def test_a_preview_without_contexts_compares_those_that_the_rule_is_about(ask: Ask) -> None:
    body = {"rule": {"name": "no exports", **EXPORT}}
    found = ask("POST", "/visibility-rules/preview", body)["contexts"]
    lost = {tuple(each["context"]["roles"]): each["lost"] for each in found if not each["context"]["tier"]}
    assert lost[("intern",)] == 1
    assert {each["context"]["tier"] for each in found} == {"", "free", "pro"}


def test_a_preview_may_replace_a_rule_or_delete_it(ask: Ask) -> None:
    body = {"replaces": "platform secret", "contexts": [{"org": "acme"}]}
    (acme,) = ask("POST", "/visibility-rules/preview", body)["contexts"]
    assert acme["gains"] == ["send_mail"]
    rule = {"name": "renamed", "effect": "deny", "condition": {"org": "acme"}, "tool": "crm_export"}
    (acme,) = ask("POST", "/visibility-rules/preview", {**body, "rule": rule})["contexts"]
    assert (acme["gains"], acme["loses"]) == (["send_mail"], ["crm_export"])
    (acme,) = ask("POST", "/visibility-rules/preview", {**body, "rule": {**rule, "active": False}})[
        "contexts"
    ]
    assert (acme["gains"], acme["loses"]) == (["send_mail"], [])


def test_a_preview_refuses_what_saving_would_refuse(ask: Ask) -> None:
    body = {"rule": {"name": "typo", **EXPORT, "tool": "crm_exprot"}}
    assert "crm_export" in ask("POST", "/visibility-rules/preview", body, 422)["detail"]
    ask("POST", "/visibility-rules/preview", {"replaces": "nothing"}, 404)


def test_an_organisation_previews_its_own_rules_for_its_own_contexts(ask: Ask) -> None:
    rule = {"name": "own", "effect": "deny", "condition": {"all": []}, "tool": "acme_report"}
    found = ask("POST", "/visibility-rules/preview", {"rule": rule}, key="acme")["contexts"]
    assert {each["context"]["org"] for each in found} == {"acme"}
    assert all(each["loses"] == ["acme_report"] for each in found)
    body = {"rule": rule, "contexts": [{"org": "globex"}]}
    ask("POST", "/visibility-rules/preview", body, 403, key="acme")
    ask("POST", "/visibility-rules/preview?org=globex", {"rule": rule}, 403, key="acme")
    ask("POST", "/visibility-rules/preview", {"replaces": "platform secret"}, 404, key="acme")
    ask("POST", "/visibility-rules/preview", {"rule": rule}, 403, key="caller")


def test_why_names_the_rule_and_an_organisation_gets_no_reason_of_the_platform(ask: Ask) -> None:
    acme = {"name": "send_mail", "context": {"org": "acme"}}
    found = ask("POST", "/why", acme, key="reader")
    assert (found["visible"], found["level"], found["rule"]["name"]) == (
        False,
        "platform",
        "platform secret",
    )
    hidden = ask("POST", "/why", acme, 404, key="acme")
    absent = ask("POST", "/why", {"name": "no_such"}, 404, key="acme")
    assert hidden["detail"].replace("send_mail", "no_such") == absent["detail"]
    assert ask("POST", "/why", {"name": "acme_report"}, key="acme")["visible"]
    ask("POST", "/why", {"name": "x", "context": {"org": "globex"}}, 403, key="acme")


def test_pins_belong_to_an_organisation(ask: Ask) -> None:
    made = ask("PUT", "/pins/crm_export?org=acme", {"weight": 3})
    assert (made["tool"], made["pinned"], made["pin_weight"]) == ("crm_export", True, 3)
    assert [pin["tool"] for pin in ask("GET", "/pins", key="acme")["pins"]] == ["crm_export"]
    assert ask("GET", "/pins?org=globex")["pins"] == []
    ask("GET", "/pins?org=globex", None, 403, key="acme")
    ask("PUT", "/pins/crm_export?org=acme", {}, 403, key="reader")
    ask("DELETE", "/pins/crm_export", None, 204, key="acme")
    assert ask("GET", "/pins?org=acme")["pins"] == []
    ask("PUT", "/pins/crm_export", {}, 422)


def test_settings_are_presence_and_belong_to_an_organisation(ask: Ask) -> None:
    ask("PUT", "/settings/mail_url", {"is_set": True}, key="acme")
    (own,) = ask("GET", "/settings", key="acme")["settings"]
    assert (own["key"], own["is_set"], own["org"]) == ("mail_url", True, "acme")
    assert [each["key"] for each in ask("GET", "/settings?org=")["settings"]] == ["crm_url"]
    ask("PUT", "/settings/crm_url?org=globex", {"is_set": False}, 403, key="acme")
    ask("PUT", "/settings/crm_url", {"is_set": False}, 403, key="reader")


def test_tiers_are_read_by_all_and_changed_by_a_key_of_any_organisation(ask: Ask) -> None:
    assert ask("GET", "/tiers", key="acme")["tiers"] == ["free", "pro"]
    assert ask("PUT", "/tiers", {"tiers": ["free", "pro", "max"]})["tiers"] == ["free", "pro", "max"]
    ask("PUT", "/tiers", {"tiers": []}, 403, key="acme")
    ask("PUT", "/tiers", {"tiers": []}, 403, key="reader")


def test_a_page_mapping_is_changed_and_deleted_by_its_owner(ask: Ask, registry: Registry) -> None:
    record = registry.pages.add(PageMapping("deals*", ("crm",)))
    path = f"/page-mappings/{record.page_id}"
    ask("PUT", path, {"priority": 3}, 428)
    ask("PUT", path, {"priority": 3}, 404, key="acme", etag="*")
    changed = ask("PUT", path, {"priority": 3, "categories": []}, 422, etag='"1"')
    changed = ask("PUT", path, {"pattern": "deal*"}, etag='"1"')
    assert (changed["pattern"], changed["categories"], changed["version"]) == ("deal*", ["crm"], 2)
    ask("PUT", path, {"priority": 3}, 412, etag='"1"')
    ask("DELETE", path, None, 404, key="acme", etag="*")
    ask("DELETE", path, None, 403, key="reader", etag="*")
    ask("DELETE", path, None, 204, etag='"2"')
    assert ask("GET", "/page-mappings")["page_mappings"] == []


def test_what_waits_is_shown_beside_what_was_approved_and_then_approved(ask: Ask, registry: Registry) -> None:
    registry.propose("send_mail", {"description": "Sends a\u200b letter"}, version=1)
    found = ask("GET", "/tools/send_mail/change", key="reader")
    assert (found["version"], found["approved_version"]) == (2, 1)
    assert found["differences"] == [
        {"field": "description", "before": "Sends a mail", "after": "Sends a\u200b letter"}
    ]
    ask("POST", "/tools/send_mail/approve", None, 403, key="reader", etag="*")
    ask("POST", "/tools/send_mail/approve", None, 428)
    ask("POST", "/tools/send_mail/approve", None, 412, etag='"1"')
    assert ask("POST", "/tools/send_mail/approve?reason=fine", None, etag='"2"')["review"] == "approved"
    assert ask("GET", "/tools/send_mail/change")["differences"] == []
    ask("POST", "/tools/send_mail/approve", None, 409, etag="*")


def test_what_waits_can_be_rejected(ask: Ask, registry: Registry) -> None:
    registry.propose("send_mail", {"description": "Sends spam"}, version=1)
    ask("POST", "/tools/send_mail/reject", None, 404, key="acme", etag="*")
    rejected = ask("POST", "/tools/send_mail/reject", None, etag='"2"')
    assert (rejected["review"], rejected["description"]) == ("approved", "Sends a mail")


def test_all_of_a_tool_that_was_never_approved_is_shown(ask: Ask, registry: Registry) -> None:
    registry.sync([Tool("ping", "Asks whether a host is there")], plugin="net", review="all")
    found = ask("GET", "/tools/ping/change")
    assert found["approved_version"] is None
    assert {"field": "description", "before": None, "after": "Asks whether a host is there"} in found[
        "differences"
    ]


def test_a_trial_selects_under_a_rule_or_texts_that_nobody_has_saved(ask: Ask, registry: Registry) -> None:
    before = registry.database.revision()
    context = {"org": "globex", "roles": ["intern"], "settings": ["crm_url"]}
    body = {"message": "mail a report", "context": context}

    def names(what_if: Any = None) -> set[str]:
        return set(ask("POST", "/test-selection", {**body, "what_if": what_if}, key="reader")["names"])

    assert names() == {"crm_export", "send_mail"}
    assert names({"rule": {"name": "no exports", **EXPORT}}) == {"send_mail"}
    texts = {"name": "send_mail", "description": "Sends a letter", "examples": ["post a letter"]}
    found = ask("POST", "/test-selection", {**body, "what_if": {"tool": texts}})
    assert set(found["names"]) == {"crm_export", "send_mail"}
    acme = {"message": "mail a report", "context": {"org": "acme"}}
    without = {**acme, "what_if": {"replaces": "platform secret"}}
    assert "send_mail" not in ask("POST", "/test-selection", acme)["names"]
    assert "send_mail" in ask("POST", "/test-selection", without)["names"]

    assert (
        "crm_export"
        in ask(
            "POST",
            "/test-selection",
            {**body, "what_if": {"rule": {"name": "typo", **EXPORT, "tool": "crm_exprot"}}},
            422,
        )["detail"]
    )
    ask("POST", "/test-selection", {**body, "what_if": {"tool": {"name": "nothing"}}}, 404)
    own = {"message": "mail", "what_if": {"tool": {"name": "send_mail", "summary": "x"}}}
    ask("POST", "/test-selection", own, 404, key="acme")  # a rule hides it from the organisation
    assert ask(
        "POST",
        "/test-selection",
        {**own, "what_if": {"tool": {"name": "acme_report", "summary": "x"}}},
        key="acme",
    )["names"]
    assert registry.database.revision() == before


def test_a_trial_has_the_score_of_each_tool_after_each_stage(ask: Ask) -> None:
    found = ask("POST", "/test-selection", {"message": "send a mail", "context": {"settings": []}})
    assert {len(tool["scores"]) for tool in found["tools"]} == {len(found["stages"])}
    for at, stage in enumerate(found["stages"]):
        assert sum(tool["scores"][at] is not None for tool in found["tools"]) == stage["in_play"]


def test_organisations_are_found_by_a_part_of_their_names(ask: Ask, registry: Registry) -> None:
    registry.settings.set("crm_url", "https://globex.example", org="globex_eu")
    assert ask("GET", "/organisations")["organisations"] == ["acme", "globex_eu"]
    assert ask("GET", "/organisations?text=EX_")["organisations"] == ["globex_eu"]
    assert ask("GET", "/organisations?limit=1")["organisations"] == ["acme"]
    assert ask("GET", "/organisations", key="acme")["organisations"] == ["acme"]
    ask("GET", "/organisations", key="caller", status=403)
