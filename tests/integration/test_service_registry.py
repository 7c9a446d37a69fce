"""The registry over HTTP, in the order of sections 8 and 9 of Adverant Nexus: its 22 endpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa

pytest.importorskip("fastapi")

from tests.integration.served import Served, served
from tests.table import each_row
from toolroll.model.rules import Rule
from toolroll.model.tools import Tool, Toolkit
from toolroll.registry.registry import Registry
from toolroll.registry.store import tables
from toolroll.server.tool_registry.router import PREFIX

FORECAST = {
    "name": "get_forecast",
    "description": "Gives the sales forecast of a quarter",
    "toolkit": "crm",
    "parameters": {"type": "object", "properties": {"quarter": {"type": "string"}}},
    "summary": "Sales forecast",
    "when_to_use": "When somebody asks how much will be sold",
    "limitations": "Only for quarters that have begun",
    "tags": ["sales"],
    "examples": ["show me my pipeline forecast"],
    "execution_type": "rest",
    "execution_config": {"url": "https://crm.example/forecast"},
    "semantic_version": "2.1.0",
}


@pytest.fixture
def registry(sqlite_url: str) -> Iterator[Registry]:
    with Registry.open(sqlite_url, actor="ada") as registry:
        registry.toolkits.put(Toolkit("crm", "Customers and deals"), keywords=["deal"])
        registry.toolkits.put(Toolkit("contacts", "People", parent="crm"))
        for org in ("acme", "globex"):
            registry.create(Tool(f"{org}_report", "Reports sales"), org=org)
            registry.rules.add(
                Rule(f"{org} rule", "deny", "page", {"page": "x"}, tool=f"{org}_report", org=org)
            )
        yield registry


@pytest.fixture
def keys(registry: Registry) -> dict[str, str]:
    """Texts of keys by name."""
    everything = ("select", "report", "read", "administer")
    return {
        "admin": registry.keys.add("admin", roles=everything, org=None)[1],
        "acme": registry.keys.add("acme", roles=everything, org="acme")[1],
        "reader": registry.keys.add("reader", roles=["read"], org=None)[1],
        "plugin": registry.keys.add("plugin", roles=["sync"], org=None, plugin="nexus-ros")[1],
    }


@pytest.fixture
def service(registry: Registry, keys: dict[str, str], sqlite_url: str) -> Iterator[Served]:
    with served(registry, sqlite_url) as service:
        yield service


Ask = Callable[..., tuple[Any, dict[str, str]]]


@pytest.fixture
def ask(service: Served, keys: dict[str, str]) -> Ask:
    """Makes a request below the prefix, asserts its status, returns the answer and its headers."""

    def ask(
        method: str, path: str, body: object = None, status: int = 200, key: str = "admin", **headers: str
    ) -> Any:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        found, answered, answer = service(method, PREFIX + path, body, key=keys[key], headers=named)
        assert found == status, answer
        return answer, answered

    return ask


def test_8_1_tools_are_registered_listed_updated_and_deleted(ask: Ask) -> None:
    made, headers = ask("POST", "/tools?reason=new", FORECAST, 201)
    assert {name: made[name] for name in FORECAST} == FORECAST
    assert (made["version"], made["updated_by"].split(" ")[0]) == (1, "admin")
    assert headers["location"] == f"{PREFIX}/tools/{made['tool_id']}"

    listed, _ = ask("GET", "/tools?category=crm&status=active")
    assert [tool["name"] for tool in listed["tools"]] == ["get_forecast"]
    for other in ("category=contacts", "status=retired", "plugin=nexus-ros", "text=umbrella"):
        assert ask("GET", f"/tools?{other}")[0]["tools"] == []

    for id in (made["tool_id"], "get_forecast"):
        found, headers = ask("GET", f"/tools/{id}")
        assert (found, headers["etag"]) == (made, '"1"')
        assert ask("GET", f"/tools/{id}", status=304, if_none_match='"1"')[0] == ""

    changed, headers = ask("PUT", "/tools/get_forecast", {"tags": ["sales", "money"]}, if_match='"1"')
    assert (changed["tags"], changed["summary"]) == (["sales", "money"], "Sales forecast")
    assert (changed["version"], headers["etag"]) == (2, '"2"')

    ask("DELETE", "/tools/get_forecast", None, 204, if_match='"2"')
    assert "is deleted" in ask("GET", "/tools/get_forecast", status=404)[0]["detail"]
    assert ask("GET", "/tools?deleted=true")[0]["tools"][0]["name"] == "get_forecast"


def test_8_1_versions_say_what_changed_and_a_tool_goes_back_to_one(ask: Ask) -> None:
    ask("POST", "/tools", FORECAST, 201)
    ask("PUT", "/tools/get_forecast?reason=clearer", {"description": "Forecasts sales"}, if_match='"1"')
    found, _ = ask("GET", "/tools/get_forecast/versions")
    newest, first = found["versions"]
    assert (newest["version"], newest["changed"], newest["reason"]) == (2, ["description"], "clearer")
    assert newest["differences"] == [
        {"field": "description", "before": FORECAST["description"], "after": "Forecasts sales"}
    ]
    assert (first["version"], first["differences"]) == (1, [])
    page, _ = ask("GET", "/tools/get_forecast/versions?limit=1")
    assert (page["versions"], page["next"]) == ([newest], 2)
    assert ask("GET", "/tools/get_forecast/versions?limit=1&before=2")[0] == {
        "versions": [first],
        "next": None,
        "total": None,
    }

    back, headers = ask("POST", "/tools/get_forecast/rollback", {"version": 1}, if_match='"2"')
    assert (back["description"], back["version"], headers["etag"]) == (FORECAST["description"], 3, '"3"')
    ask("POST", "/tools/get_forecast/rollback", {"version": 9}, 404, if_match='"3"')


def test_where_an_organisation_has_no_tool_of_a_name_its_readers_of_all_get_the_platforms(ask: Ask) -> None:
    made, _ = ask("POST", "/tools", FORECAST, 201)
    for path in ("", "/versions", "/change"):
        shared, _ = ask("GET", f"/tools/get_forecast{path}?org=neworg")
        assert shared == ask("GET", f"/tools/get_forecast{path}")[0]
        if path:  # names who changed it
            ask("GET", f"/tools/get_forecast{path}", status=404, key="acme")
        refused, _ = ask("GET", f"/tools/get_forecats{path}?org=neworg", status=404)
        assert "is not in the registry of 'neworg'" in refused["detail"]
        assert ask("GET", f"/tools/acme_report{path}?org=acme") == ask(
            "GET", f"/tools/acme_report{path}", key="acme"
        )
    changed = {"tags": ["sales", "money"]}
    ask("PUT", "/tools/get_forecast?org=neworg", changed, 404, if_match=f'"{made["version"]}"')


def test_8_2_categories_are_a_tree_and_pages_are_mapped_to_them(ask: Ask) -> None:
    (crm,) = ask("GET", "/categories")[0]["categories"]
    assert (crm["name"], crm["keywords"], [child["name"] for child in crm["children"]]) == (
        "crm",
        [{"keyword": "deal", "mode": ""}],
        ["contacts"],
    )
    body = {"pattern": "deals*", "categories": ["crm"], "priority": 5}
    made, _ = ask("POST", "/page-mappings", body, 201)
    assert {name: made[name] for name in body} == body
    ask("POST", "/page-mappings", body, 409)
    ask("POST", "/page-mappings", {**body, "categories": ["no"]}, 422)
    ask("POST", "/page-mappings", {"pattern": "*", "categories": ["contacts"]}, 201)

    found, _ = ask("GET", "/categories/for-page/deals/won")
    assert found["categories"] == ["crm", "contacts"]
    assert ask("GET", "/categories/for-page/home")[0]["categories"] == ["contacts"]

    listed, _ = ask("GET", "/page-mappings?limit=1")
    assert [each["pattern"] for each in listed["page_mappings"]] == ["deals*"]
    rest, _ = ask("GET", f"/page-mappings?limit=1&after={listed['next']}")
    assert ([each["pattern"] for each in rest["page_mappings"]], rest["next"]) == (["*"], "")
    assert len(ask("GET", "/page-mappings?category=crm")[0]["page_mappings"]) == 1
    ask("GET", "/page-mappings?after=no", status=422)


def test_8_3_visibility_rules_are_made_listed_changed_and_deleted(ask: Ask) -> None:
    body = {"name": "paid", "effect": "deny", "condition": {"role": "guest"}, "toolkit": "crm", "priority": 3}
    made, headers = ask("POST", "/visibility-rules", body, 201)
    assert {name: made[name] for name in body} == body
    assert (made["kind"], made["active"], headers["etag"]) == ("role", True, '"1"')
    id = made["rule_id"]
    assert [rule["name"] for rule in ask("GET", "/visibility-rules")[0]["visibility_rules"]] == ["paid"]

    changed, _ = ask("PUT", f"/visibility-rules/{id}", {"priority": 9}, if_match='"1"')
    assert (changed["priority"], changed["version"]) == (9, 2)
    off, _ = ask("PUT", "/visibility-rules/paid", {"active": False}, if_match='"2"')
    assert (off["active"], off["version"]) == (False, 3)
    assert ask("GET", "/visibility-rules")[0]["visibility_rules"] == []
    assert len(ask("GET", "/visibility-rules?inactive=true&toolkit=crm")[0]["visibility_rules"]) == 1
    ask("PUT", f"/visibility-rules/{id}", {"active": True, "priority": 1}, 422, if_match='"3"')
    ask("DELETE", f"/visibility-rules/{id}", None, 204, if_match='"3"')
    ask("DELETE", f"/visibility-rules/{id}", None, 404, if_match="*")
    ask("POST", "/visibility-rules", {**body, "condition": {"shoe_size": 43}}, 422)
    ask("POST", "/visibility-rules", {**body, "tool": "no_such_tool", "toolkit": ""}, 422)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/tools/get_forecast", {"tags": []}),
        ("DELETE", "/tools/get_forecast", None),
        ("POST", "/tools/get_forecast/rollback", {"version": 1}),
        ("PUT", "/visibility-rules/paid", {"priority": 1}),
        ("DELETE", "/visibility-rules/paid", None),
    ],
)
def test_a_change_names_the_version_that_its_author_has_read(
    ask: Ask, method: str, path: str, body: object
) -> None:
    ask("POST", "/tools", FORECAST, 201)
    rule = {"name": "paid", "effect": "deny", "condition": {"role": "guest"}, "toolkit": "crm"}
    ask("POST", "/visibility-rules", rule, 201)
    assert "If-Match is missing" in ask(method, path, body, 428)[0]["detail"]
    for etag in ('"2"', "1", 'W/"1"', '"one"', ""):
        assert ask(method, path, body, 412, if_match=etag)[0]["status"] == 412
    ask(method, path, body, 204 if method == "DELETE" else 200, if_match='"7", "1"')


def test_a_change_between_reading_and_writing_is_a_failed_precondition(
    ask: Ask, registry: Registry, monkeypatch
) -> None:
    ask("POST", "/tools", FORECAST, 201)
    update = Registry.update

    def later(self: Registry, name: str, changes: Any, **options: Any) -> Any:
        monkeypatch.setattr(Registry, "update", update)
        registry.update(name, {"summary": "another"}, version=1)
        return update(self, name, changes, **options)

    monkeypatch.setattr(Registry, "update", later)
    ask("PUT", "/tools/get_forecast", {"tags": []}, 412, if_match='"1"')
    ask("PUT", "/tools/get_forecast", {"name": "acme_report"}, if_match='"2"')
    ask("POST", "/tools", FORECAST, 201)
    ask("PUT", "/tools/get_forecast", {"name": "acme_report"}, 409, if_match='"1"')


def test_8_4_analytics_count_what_was_selected_and_called(
    ask: Ask, service: Served, keys: dict[str, str]
) -> None:
    for org in ("acme", "globex"):
        for worked in (True, False):
            asked = {"message": "report sales", "context": {"org": org, "page": "home"}}
            picked = service("POST", "/select", asked, key=keys["admin"])[2]
            report = {"selection": picked["event_id"], "called": {f"{org}_report": worked}, "org": org}
            assert service("POST", "/outcomes", report, key=keys["admin"])[0] == 200
    assert service.application.state.roll.flush(20)

    metrics, _ = ask("GET", "/analytics/metrics")
    assert (metrics["total"], metrics["organisations"]) == (4, 2)
    assert (metrics["outcomes"]["succeeded"], metrics["outcomes"]["failed"]) == (2, 2)
    assert metrics["latency_us"]["p95"] > 0
    heatmap, _ = ask("GET", "/analytics/heatmap?of=succeeded")
    assert (sorted(heatmap["tools"]), heatmap["pages"], heatmap["counts"]) == (
        ["acme_report", "globex_report"],
        ["home"],
        [[1], [1]],
    )
    accuracy, _ = ask("GET", "/analytics/accuracy")
    assert (accuracy["calls"], accuracy["hits"], accuracy["rate"]) == (4, 4, 1.0)
    drift, _ = ask("GET", "/analytics/drift?older_than_days=7")
    assert (drift["stored"], drift["tools"]) == (False, [])
    ask("GET", "/analytics/metrics?since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z", status=422)

    own, _ = ask("GET", "/analytics/metrics", key="acme")
    assert (own["total"], own["org"]) == (2, "acme")
    assert ask("GET", "/analytics/heatmap", key="acme")[0]["tools"] == ["acme_report"]
    ask("GET", "/analytics/metrics?org=globex", status=403, key="acme")


def count(registry: Registry, table: sa.Table) -> int:
    with registry.database.reading() as connection:
        return int(connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())


def test_8_5_a_test_selection_explains_every_tool_and_leaves_no_trace(
    ask: Ask, registry: Registry, service: Served, keys: dict[str, str]
) -> None:
    body = {"message": "report sales", "context": {"org": "acme", "page": "x"}, "k": 1}
    before = registry.database.revision()
    found, _ = ask("POST", "/test-selection", body)
    assert [tool["name"] for tool in found["tools"]] == ["acme_report"]
    (tool,) = found["tools"]
    assert (tool["selected"], found["names"], "event_id" in found) == (False, [], False)
    assert "'acme rule' (deny, priority 0)" in tool["reasons"][0]
    hidden, _ = ask("POST", "/test-selection", {**body, "context": {"page": "x"}}, key="acme")
    assert hidden["tools"] == []  # a rule hides it, and the caller is of the organisation
    ask("POST", "/test-selection", {**body, "k": -1}, 422)
    text = service("GET", "/metrics", key=keys["admin"])[2]
    assert "toolroll_selection_duration_seconds_count 0.0" in text
    assert count(registry, tables.selection_events) == 0
    assert registry.database.revision() == before


def test_8_5_an_embedder_within_the_process_has_nothing_to_recompute(ask: Ask) -> None:
    found, _ = ask("POST", "/embeddings/recompute", {}, 202)
    assert found["stored"] is False
    ask("POST", "/embeddings/recompute", {}, 403, key="acme")


PAYLOAD = {
    "pluginId": "nexus-ros",
    "version": "2.1.0",
    "tools": [
        {"name": "ros_deals", "description": "Lists deals", "toolkit": "ros_deals_kit"},
        {"name": "ros_calls", "description": "Lists calls", "toolkit": "ros_voice", "version": "1.4.0"},
    ],
    "categories": [
        {"name": "ros_deals_kit", "description": "Deals", "keywords": ["pipeline"]},
        {"name": "ros_voice", "description": "Voice"},
    ],
    "pageMappings": [{"pattern": "ros/*", "categories": ["ros_deals_kit"], "priority": 1}],
}


def test_9_a_plugin_registers_itself_and_only_what_changed_is_written(ask: Ask, registry: Registry) -> None:
    plan, _ = ask("POST", "/plugins/sync?trusted=true", {**PAYLOAD, "dryRun": True})
    assert (plan["applied"], ask("GET", "/tools?plugin=nexus-ros")[0]["tools"]) == (False, [])
    done, _ = ask("POST", "/plugins/sync?trusted=true", PAYLOAD)
    assert done["applied"]
    listed = ask("GET", "/tools?plugin=nexus-ros")[0]["tools"]
    assert [(tool["name"], tool["version"]) for tool in listed] == [("ros_calls", 1), ("ros_deals", 1)]
    assert ask("GET", "/categories/for-page/ros/deals")[0]["categories"] == ["ros_deals_kit"]

    again, _ = ask("POST", "/plugins/sync?trusted=true", PAYLOAD)
    assert (again["applied"], again["revision"]) == (False, done["revision"])

    _, calls = PAYLOAD["tools"]  # type: ignore[misc]
    newer = {**PAYLOAD, "tools": [{**calls, "description": "Lists calls of a day", "version": "2.0.0"}]}
    ask("POST", "/plugins/sync?trusted=true", newer)
    (tool,) = ask("GET", "/tools?plugin=nexus-ros")[0]["tools"]
    assert (tool["name"], tool["version"], [flag["code"] for flag in tool["flags"]]) == (
        "ros_calls",
        2,
        ["major"],
    )
    gone, _ = ask("GET", "/tools?plugin=nexus-ros&deleted=true")
    assert [tool["name"] for tool in gone["tools"]] == ["ros_deals"]


def test_9_what_people_set_stays_through_every_sync_and_can_be_given_back(ask: Ask) -> None:
    def sync(**fields: Any) -> Any:
        body = {"pluginId": "nexus-ros", "tools": [{"name": "wt", **fields}]}
        return ask("POST", "/plugins/sync", body, key="plugin")[0]

    peoples = {"execution_type": "rest", "examples": ["by hand"], "display_name": "WT", "when_to_use": "now"}
    sync(description="one", category="weather", parameters_schema={"type": "object"}, example_queries=["a"])
    made, _ = ask("GET", "/tools/wt")
    assert (made["toolkit"], made["parameters"], made["examples"]) == ("weather", {"type": "object"}, ["a"])
    ask("PUT", "/tools/wt", peoples, If_Match='"1"')
    assert sync(description="two", example_queries=["a"])["changed"] == [
        {"name": "wt", "review": "approved", "fields": ["description"]}
    ]
    held, _ = ask("GET", "/tools/wt")
    assert {name: held[name] for name in peoples} == peoples
    assert (held["description"], held["toolkit"], held["flags"]) == ("two", "weather", [])
    assert sync(example_queries=["b"])["changed"][0]["kept"] == {"examples": ["b"]}
    held, _ = ask("GET", "/tools/wt")
    assert (held["examples"], held["source_values"]["examples"]) == (["by hand"], ["b"])
    assert [flag["code"] for flag in held["flags"]] == ["kept"]
    last = ask("GET", "/tools/wt/versions")[0]["versions"][0]
    assert [each["field"] for each in last["differences"]] == ["source_values"]
    back, _ = ask(
        "PUT", "/tools/wt?give_back=examples&give_back=when_to_use", {}, If_Match=f'"{held["version"]}"'
    )
    assert (back["examples"], back["when_to_use"], back["display_name"]) == (["b"], "", "WT")


def test_9_what_the_service_answers_can_be_sent_back(ask: Ask) -> None:
    body = {
        **PAYLOAD,
        "categories": [
            *PAYLOAD["categories"],
            {"name": "up", "keywords": [{"keyword": "w", "mode": "word"}]},
        ],
    }
    ask("POST", "/plugins/sync?trusted=true", body)
    tools = ask("GET", "/tools?plugin=nexus-ros")[0]["tools"]
    own = [each for each in ask("GET", "/categories")[0]["categories"] if each["plugin"] == "nexus-ros"]
    pages = ask("GET", "/page-mappings?plugin=nexus-ros")[0]["page_mappings"]
    assert tools and own and pages
    again = {**PAYLOAD, "tools": tools, "categories": own, "pageMappings": pages}
    done, _ = ask("POST", "/plugins/sync?trusted=true", again)
    assert {name: count for name, count in done["counts"].items() if count} == {"adopted": len(tools)}
    assert done["toolkits"] == done["pages"] == done["notes"] == []
    after = ask("GET", "/tools?plugin=nexus-ros")[0]["tools"]
    assert [{**tool, "source_hash": ""} for tool in after] == [{**tool, "source_hash": ""} for tool in tools]
    (tool, *_) = after
    same, _ = ask("PUT", f"/tools/{tool['name']}", tool, If_Match=f'"{tool["version"]}"')
    assert same == tool
    copy, _ = ask("POST", "/tools", {**tool, "name": "copy"}, 201)
    assert (copy["plugin"], copy["version"], copy["description"]) == ("", 1, tool["description"])


def test_9_a_payload_with_unknown_fields_is_refused_as_a_whole(ask: Ask) -> None:
    body = {
        "pluginId": "nexus-ros",
        "tools": [{"name": "a", "parameter_schema": {}}, {"name": "b", "exampls": []}],
    }
    refused, _ = ask("POST", "/plugins/sync", body, 422, key="plugin")
    for said in ("'parameter_schema'; did you mean 'parameters'", "'exampls'; did you mean 'examples'"):
        assert said in refused["detail"]
    for wrong, said in (
        ({"categorys": []}, "categorys: is no known field; did you mean 'categories'"),
        ({"categories": [{"name": "a", "keyword": []}]}, "did you mean 'keywords'"),
        ({"pageMappings": [{"patern": "a", "categories": []}]}, "did you mean 'pattern'"),
    ):
        refused, _ = ask(
            "POST", "/plugins/sync", {"pluginId": "nexus-ros", "tools": [], **wrong}, 422, key="plugin"
        )
        assert said in refused["detail"], refused
    assert ask("GET", "/tools?plugin=nexus-ros")[0]["total"] == 0


def test_9_a_sync_that_names_no_tools_deletes_none(ask: Ask) -> None:
    own = {**PAYLOAD, "pageMappings": []}
    ask("POST", "/plugins/sync", own, key="plugin")
    without = {name: value for name, value in own.items() if name != "tools"}
    refused, _ = ask("POST", "/plugins/sync", without, 422, key="plugin")
    assert refused["errors"] == [{"field": "body.tools", "problem": "is missing"}]
    assert len(ask("GET", "/tools?plugin=nexus-ros")[0]["tools"]) == 2
    ask("POST", "/plugins/sync", {**own, "tools": []}, key="plugin")
    assert ask("GET", "/tools?plugin=nexus-ros")[0]["tools"] == []


def test_9_the_key_of_a_plugin_registers_that_plugin_alone(ask: Ask) -> None:
    own = {**PAYLOAD, "pageMappings": []}
    done, _ = ask("POST", "/plugins/sync", own, key="plugin")
    assert done["applied"]
    ask("POST", "/plugins/sync", {**own, "pluginId": "forge"}, 403, key="plugin")
    ask("POST", "/plugins/sync?trusted=true", own, 403, key="plugin")
    ask("POST", "/plugins/sync", own, 403, key="reader")
    ask("POST", "/plugins/sync", {**own, "plugin": "x"}, 422, key="plugin")
    ask("GET", "/tools", status=403, key="plugin")


def test_each_change_is_in_the_audit_log_with_who_what_when_and_from_where(
    ask: Ask, registry: Registry
) -> None:
    before = registry.audit.list(limit=1)[0].seq
    ask("POST", "/tools?reason=wanted", FORECAST, 201)
    rule = {"name": "paid", "effect": "deny", "condition": {"role": "guest"}, "toolkit": "crm"}
    ask("POST", "/visibility-rules", rule, 201)
    ask("POST", "/page-mappings", {"pattern": "x", "categories": ["crm"]}, 201)
    ask("POST", "/plugins/sync", {**PAYLOAD, "pageMappings": []}, key="plugin")
    lines = registry.audit.list(after=before)
    assert {line.action.partition(".")[0] for line in lines} == {"tool", "rule", "page", "sync", "toolkit"}
    for line in lines:
        assert line.actor.endswith(" from 10.0.0.7")
    (made,) = registry.audit.list(subject="get_forecast")
    assert (made.action, made.reason, made.actor.split(" (key ")[0]) == ("tool.create", "wanted", "admin")


ENDPOINTS = [
    ("GET", "/tools", None),
    ("GET", "/tools/globex_report", None),
    ("POST", "/tools", FORECAST),
    ("PUT", "/tools/globex_report", {"tags": []}),
    ("DELETE", "/tools/globex_report", None),
    ("GET", "/tools/globex_report/versions", None),
    ("POST", "/tools/globex_report/rollback", {"version": 1}),
    ("GET", "/categories", None),
    ("GET", "/categories/for-page/home", None),
    ("GET", "/page-mappings", None),
    ("POST", "/page-mappings", {"pattern": "x", "categories": ["crm"]}),
    ("GET", "/visibility-rules", None),
    (
        "POST",
        "/visibility-rules",
        {"name": "n", "effect": "deny", "condition": {"page": "x"}, "tool": "ping"},
    ),
    ("PUT", "/visibility-rules/globex%20rule", {"priority": 1}),
    ("DELETE", "/visibility-rules/globex%20rule", None),
    ("GET", "/analytics/metrics", None),
    ("GET", "/analytics/heatmap", None),
    ("GET", "/analytics/accuracy", None),
    ("GET", "/analytics/drift", None),
    ("POST", "/embeddings/recompute", {}),
    ("POST", "/test-selection", {"message": "report", "context": {"org": "globex"}}),
    ("POST", "/plugins/sync", {"pluginId": "x", "tools": []}),
]


BEYOND_THE_SEEDS = [
    ("GET", "/tools/globex_report/change", None),
    ("POST", "/tools/globex_report/approve", None),
    ("POST", "/tools/globex_report/reject", None),
    ("PUT", "/page-mappings/1", {"priority": 1}),
    ("DELETE", "/page-mappings/1", None),
    (
        "POST",
        "/visibility-rules/preview",
        {"rule": {"name": "n", "effect": "deny", "condition": {"page": "x"}, "toolkit": "crm"}},
    ),
    ("POST", "/why", {"name": "globex_report", "context": {"org": "globex"}}),
    ("GET", "/pins", None),
    ("PUT", "/pins/globex_report", {"pinned": True}),
    ("DELETE", "/pins/globex_report", None),
    ("GET", "/settings", None),
    ("PUT", "/settings/crm_url", {"is_set": True}),
    ("GET", "/analytics/timeline", None),
    ("GET", "/analytics/arms", None),
    ("GET", "/analytics/tools", None),
    ("GET", "/analytics/unused", None),
    ("GET", "/analytics/broken", None),
    ("GET", "/analytics/experiments", None),
    ("GET", "/plugins", None),
    ("GET", "/plugins/calls", None),
    ("GET", "/events", None),
    ("POST", "/events/unknown/replay", None),
]
OF_ALL_ORGANISATIONS = {("GET", "/tiers"), ("PUT", "/tiers"), ("GET", "/organisations")}


def test_the_seeds_22_endpoints_are_there_and_each_one_beyond_them_is_tested_here(service: Served) -> None:
    paths = service.application.openapi()["paths"]
    there = {
        (method.upper(), path.removeprefix(PREFIX))
        for path, methods in paths.items()
        for method in methods
        if PREFIX in path
    }
    asked = [
        next(one for one in there if one[0] == method and _fits(path, one[1]))
        for method, path, _ in ENDPOINTS + BEYOND_THE_SEEDS
    ]
    assert len(ENDPOINTS) == 22
    assert sorted({*asked, *OF_ALL_ORGANISATIONS}) == sorted(there)
    assert len(asked) == len(set(asked))


def _fits(path: str, template: str) -> bool:
    """Whether a request for this path goes to the route; one without parameters comes first."""
    parts, names = path.split("/"), template.split("/")
    return len(parts) == len(names) and all(
        part == name or (name.startswith("{") and part not in ("preview", "for-page"))
        for part, name in zip(parts, names, strict=True)
    )


@each_row(("method", "path", "body"), ENDPOINTS + BEYOND_THE_SEEDS)
def test_no_endpoint_crosses_organisations(
    service: Served, keys: dict[str, str], registry: Registry, method: str, path: str, body: object
) -> None:
    query = "" if path in ("/why", "/embeddings/recompute") else "?org=globex"  # these two have no parameters
    path = PREFIX + path.replace("%20", " ")
    before = registry.database.revision()
    headers = {"If-Match": "*"}
    status, _, answer = service(method, path + query, body, key=keys["acme"], headers=headers)
    assert status == 403, answer
    assert registry.database.revision() == before
    for query in ("", "?org="):
        status, _, answer = service(method, path + query, body, key=keys["acme"], headers=headers)
        assert status < 500
        assert status >= 400 or "globex" not in str(answer)
    assert service(method, path, body, headers=headers)[0] == 401


def test_a_reader_changes_nothing(service: Served, keys: dict[str, str], registry: Registry) -> None:
    before = registry.database.revision()
    for method, path, body in ENDPOINTS + BEYOND_THE_SEEDS:
        status = service(method, PREFIX + path, body, key=keys["reader"], headers={"If-Match": "*"})[0]
        reads = method == "GET" or path.endswith(
            ("/test-selection", "/visibility-rules/preview", "/why", "/replay")
        )
        assert status in ((200, 404) if reads else (403,)), path
    assert registry.database.revision() == before
