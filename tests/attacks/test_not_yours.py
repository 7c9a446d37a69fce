"""An organisation's key asks every route of the service for tools and toolkits that nobody in it may see.

Before (commit 68f3067c): 11 of the requests below told a hidden name of the platform from one that does not exist,
`PUT /pins/NAME` suggested hidden names, and `POST /test-selection?org=…` was answered for any organisation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("fastapi")

from tests.attacks import bounded
from tests.integration.conftest import (  # noqa: F401  # fixtures
    database_url,
    new_database_url,
    postgresql,
    postgresql_template,
    sqlite_template,
)
from tests.integration.served import Served, served
from toolroll.model.rules import PageMapping, Rule
from toolroll.model.tools import Definitions, Tool, Toolkit
from toolroll.registry.editing.governed_rows import Reach
from toolroll.registry.registry import Registry
from toolroll.server.tool_registry.router import PREFIX

# Name of a hidden tool or toolkit of the platform → one that does not exist.
HIDDEN = {
    "hid_by_org_qzp": "hid_by_org_qzx",
    "hid_retired_qz": "hid_retired_qx",
    "hid_waiting_qz": "hid_waiting_qx",
    "hid_by_user_qz": "hid_by_user_qx",
    "hid_by_kit_qzp": "hid_by_kit_qzx",
    "hid_by_role_qz": "hid_by_role_qx",
    "hid_erased_qzp": "hid_erased_qzx",
}
TOOLKITS = {
    "hid_toolkit_q": "hid_toolkit_x",
    "hid_empty_kit": "hid_empty_kix",
    "hid_above_kit": "hid_above_kix",
}
RULE = {"name": "r", "effect": "deny", "condition": {"role": "x"}}
MAIL = {"message": "send hid_by_org_qzp"}

# For each route: what is asked, with NAME for a tool's name, KIT for a toolkit's. A route that takes no name of a
# tool or toolkit has a request that tells whether its answer has one.
ROUTES: dict[tuple[str, str], list[tuple[str, Any]]] = {
    ("GET", "/healthz"): [("", None)],
    ("GET", "/readyz"): [],  # of all organisations, and open: `catalog_revision` is a digest
    ("GET", "/metrics"): [("", None)],
    ("POST", "/select"): [
        ("", {**MAIL, "context": {"required": ["NAME"]}}),
        ("", {**MAIL, "always_include": ["NAME"]}),
        ("", {**MAIL, "context": {"only": ["NAME"]}}),
        ("", {**MAIL, "context": {"exclude": ["NAME"]}}),
        ("", {**MAIL, "sent": ["NAME"]}),
    ],
    ("POST", "/select/batch"): [("", {"requests": [{**MAIL, "context": {"required": ["NAME"]}}]})],
    ("POST", "/outcomes"): [
        ("", {"selection": "EVENT", "called": {"NAME": True}}),
        ("", {"selection": "EVENT", "wanted": {"NAME": True}}),
        ("", {"selection": "EVENT", "corrected": {"NAME": "open_tool"}}),
    ],
    ("POST", "/sessions/{session}/select"): [("/sessions/s/select", {**MAIL, "always_include": ["NAME"]})],
    ("POST", "/sessions/{session}/check"): [("/sessions/s/check", {"name": "NAME"})],
    ("POST", "/sessions/{session}/used"): [("/sessions/s/used", {"called": {"NAME": True}})],
    ("POST", "/sessions/{session}/end-turn"): [("/sessions/s/end-turn", {})],
    ("POST", "/sessions/{session}/search"): [("/sessions/s/search", {"queries": ["NAME"]})],
    ("POST", "/sessions/{session}/load"): [
        ("/sessions/s/load", {"names": ["NAME"]}),
        ("/sessions/s/load", {"names": ["KIT"]}),
    ],
    ("POST", "/sessions/{session}/unload"): [("/sessions/s/unload", {"names": ["NAME"]})],
    ("GET", "/sessions/{session}"): [("/sessions/s", None)],
    ("DELETE", "/sessions/{session}"): [("/sessions/s", None)],
    ("GET", "/tools"): [("?text=NAME", None), ("?category=KIT&platform=true", None), ("?category=KIT", None)],
    ("GET", "/tools/{id}"): [("/NAME", None), ("/NAME?deleted=true", None)],
    ("PUT", "/tools/{id}"): [("/NAME", {"tags": ["x"]}), ("/own_tool", {"toolkit": "KIT"})],
    ("DELETE", "/tools/{id}"): [("/NAME", None)],
    ("GET", "/tools/{id}/versions"): [("/NAME/versions", None)],
    ("POST", "/tools/{id}/rollback"): [("/NAME/rollback", {"version": 1})],
    ("POST", "/tools/{id}/approve"): [("/NAME/approve", None)],
    ("POST", "/tools/{id}/reject"): [("/NAME/reject", None)],
    ("GET", "/tools/{id}/change"): [("/NAME/change", None)],
    ("GET", "/categories"): [("", None)],
    ("GET", "/categories/for-page/{page}"): [("/deals", None)],
    ("GET", "/page-mappings"): [("?category=KIT", None)],
    ("POST", "/page-mappings"): [("", {"pattern": "a*", "categories": ["KIT"]})],
    ("PUT", "/page-mappings/{id}"): [("/PAGE", {"categories": ["KIT"]})],
    ("DELETE", "/page-mappings/{id}"): [("/NAME", None)],
    ("GET", "/visibility-rules"): [("?tool=NAME", None), ("?toolkit=KIT", None)],
    ("POST", "/visibility-rules"): [("", {**RULE, "tool": "NAME"}), ("", {**RULE, "toolkit": "KIT"})],
    ("PUT", "/visibility-rules/{id}"): [
        ("/own rule", {"tool": "NAME"}),
        ("/own rule", {"tool": "", "toolkit": "KIT"}),
    ],
    ("DELETE", "/visibility-rules/{id}"): [("/NAME", None)],
    ("POST", "/visibility-rules/preview"): [
        ("", {"rule": {**RULE, "tool": "NAME"}}),
        ("", {"rule": {**RULE, "toolkit": "KIT"}}),
    ],
    ("POST", "/why"): [("", {"name": "NAME"})],
    ("GET", "/organisations"): [("?text=NAME", None)],
    ("GET", "/pins"): [("", None)],
    ("PUT", "/pins/{tool}"): [("/NAME", {"pinned": True})],
    ("DELETE", "/pins/{tool}"): [("/NAME", None)],
    ("GET", "/settings"): [("", None)],
    ("PUT", "/settings/{key}"): [("/unused_key", {"is_set": False})],
    ("GET", "/tiers"): [("", None)],
    ("PUT", "/tiers"): [("", {"tiers": ["NAME"]})],
    ("GET", "/analytics/metrics"): [("", None)],
    ("GET", "/analytics/timeline"): [("", None)],
    ("GET", "/analytics/arms"): [("?tool=NAME", None)],
    ("GET", "/analytics/unused"): [("", None)],
    ("GET", "/analytics/broken"): [("", None)],
    ("GET", "/analytics/tools"): [("", None)],
    ("GET", "/analytics/heatmap"): [("", None)],
    ("GET", "/analytics/accuracy"): [("", None)],
    ("GET", "/analytics/drift"): [("", None)],
    ("GET", "/analytics/experiments"): [("", None)],
    ("POST", "/embeddings/recompute"): [("", None)],
    ("POST", "/test-selection"): [
        ("", {**MAIL, "always_include": ["NAME"]}),
        ("", {**MAIL, "context": {"required": ["NAME"]}}),
        ("", {**MAIL, "what_if": {"tool": {"name": "NAME", "description": "x"}}}),
        ("", {**MAIL, "what_if": {"rule": {**RULE, "tool": "NAME"}}}),
        ("", {**MAIL, "what_if": {"rule": {**RULE, "toolkit": "KIT"}}}),
        ("?org=beta", MAIL),
    ],
    ("GET", "/events"): [("?tool=NAME", None)],
    ("POST", "/events/{id}/replay"): [("/NAME/replay", None)],
    ("GET", "/plugins"): [("", None)],
    ("GET", "/plugins/calls"): [("", None)],
    ("POST", "/plugins/sync"): [
        ("", {"pluginId": "p", "tools": [{"name": "NAME", "description": "x"}], "dryRun": True}),
        (
            "",
            {"pluginId": "p", "tools": [{"name": "n", "description": "x", "toolkit": "KIT"}], "dryRun": True},
        ),
        ("", {"pluginId": "p", "tools": [], "categories": [{"name": "KIT"}], "dryRun": True}),
        (
            "",
            {"pluginId": "p", "tools": [], "categories": [{"name": "mine", "parent": "KIT"}], "dryRun": True},
        ),
        (
            "?trusted=true",
            {
                "pluginId": "p",
                "tools": [{"name": "NAME", "description": "x", "toolkit": "KIT"}],
                "categories": [{"name": "mine", "parent": "KIT"}],
                "pageMappings": [{"pattern": "b*", "categories": ["KIT"]}],
                "dryRun": True,
            },
        ),
    ],
    ("GET", "/admin/sign-in"): [("", None)],
    ("POST", "/admin/sign-in"): [("", {"name": "NAME", "password": "x"})],
    ("GET", "/admin/session"): [("", None)],
    ("POST", "/admin/session"): [("", None)],
    ("DELETE", "/admin/session"): [("", None)],
}
# What makes rows of these names, so it comes last: the name is the organisation's own then.
TAKEN: list[tuple[str, str, Any]] = [
    ("POST", "/tools", {"name": "NAME", "description": "ours"}),
    ("GET", "/tools/NAME", None),
    ("DELETE", "/tools/NAME", None),
    ("PUT", "/tools/own_tool", {"name": "NAME"}),
    ("PUT", "/tools/NAME", {"name": "own_tool"}),
    ("POST", "/plugins/sync", {"pluginId": "p", "tools": [{"name": "NAME", "description": "x"}]}),
    ("POST", "/plugins/sync", {"pluginId": "p", "tools": []}),
]
# Ids, times, versions, revisions and figures of time differ between any two answers.
_VARYING = re.compile(
    r'[0-9a-f]{16,}|\d{4}-\d\d-\d\d[T ][\d:.]+(\+00:00)?|"(revision|version|latency_us|hash)": ?[\d.]+|"(timings_us|applied)": [^}]+'
)


@pytest.fixture
def registry(database_url: str) -> Iterator[Registry]:  # noqa: F811
    with Registry.open(database_url, actor="ada") as registry:
        registry.toolkits.put(Toolkit("hid_above_kit"))
        registry.toolkits.put(Toolkit("hid_toolkit_q", parent="hid_above_kit"))
        registry.toolkits.put(Toolkit("hid_empty_kit"))
        registry.pages.add(PageMapping("deals*", ("hid_toolkit_q",)))
        for name in HIDDEN:
            toolkit = "hid_toolkit_q" if name == "hid_by_kit_qzp" else ""
            status = "retired" if name == "hid_retired_qz" else "active"
            if name != "hid_waiting_qz":
                registry.create(Tool(name, "Of the platform", toolkit=toolkit, status=status))
        registry.delete("hid_erased_qzp")
        waiting = Definitions((Tool("hid_waiting_qz", "Waits"),), (), (), (), ())
        registry.sync(waiting, plugin="careful", review="all")
        registry.create(Tool("open_tool", "Sends what is open", toolkit="open_kit"))
        for name, kind, condition, target in (
            ("secret rule 1", "org", {"org": "acme"}, {"tool": "hid_by_org_qzp"}),
            ("secret rule 2", "user", {"user": {"ne": "bob@beta"}}, {"tool": "hid_by_user_qz"}),
            ("secret rule 3", "org", {"org": "acme"}, {"toolkit": "hid_toolkit_q"}),
            ("secret rule 4", "org", {"org": {"ne": "beta"}}, {"tool": "hid_by_role_qz"}),
        ):
            registry.rules.add(Rule(name, "deny", kind, condition, **target))
        registry.create(Tool("own_tool", "Of acme", toolkit="own_kit"), org="acme")
        registry.rules.add(Rule("own rule", "deny", "role", {"role": "x"}, tool="own_tool", org="acme"))
        registry.pages.add(PageMapping("own*", ("own_kit",), org="acme"))
        yield registry


@pytest.fixture
def key(registry: Registry) -> str:
    """Of acme, for everything."""
    return registry.keys.add("acme", roles=("select", "report", "read", "administer"), org="acme")[1]


@pytest.fixture
def service(registry: Registry, database_url: str, key: str) -> Iterator[Served]:  # noqa: F811
    with served(registry, database_url) as service:
        service.application.state.roll.warm_up(["acme"])
        yield service


class Stranger:
    """Somebody with a key of acme, who compares answers."""

    def __init__(self, service: Served, registry: Registry, key: str) -> None:
        self.service, self.key = service, key
        self.page = registry.pages.list("acme")[0].mapping.page_id

    def answer(self, method: str, path: str, body: Any, names: dict[str, str]) -> str:
        """Status and text of the answer, with NAME in place of the name that was sent."""
        text = json.dumps([path, body])
        if "EVENT" in text:
            _, _, selected = self.service("POST", "/select", {"message": "what is open"}, key=self.key)
            names = {**names, "EVENT": selected["event_id"]}
        names = {**names, "PAGE": self.page}
        for what, name in names.items():
            text = text.replace(what, name)
        path, body = json.loads(text)
        status, headers, answer = self.service(
            method, path, body, key=self.key, headers={"If-Match": "*", "X-Toolroll-Page": "1"}
        )
        answer = answer if isinstance(answer, str) else json.dumps(answer)
        for what, name in names.items():
            answer = answer.replace(name, what)
        return f"{status} {sorted(headers.keys() - {'content-length'})} {_VARYING.sub('…', answer)}"

    def compare(self, method: str, path: str, body: Any) -> tuple[list[str], list[str]]:
        """How the answers for hidden names differ from those for absent ones; and all answers."""
        text = json.dumps([path, body])
        pairs = []
        some = bounded(3, None)
        if "NAME" in text:
            pairs += [
                ({"NAME": one, "KIT": "own_kit"}, {"NAME": other, "KIT": "own_kit"})
                for one, other in [*HIDDEN.items()][:some]
            ]
        if "KIT" in text:
            pairs += [
                ({"NAME": "new", "KIT": one}, {"NAME": "new", "KIT": other})
                for one, other in [*TOOLKITS.items()][:some]
            ]
        differing, answers = [], []
        for hidden, absent in pairs or [({}, {})]:
            there, nowhere = (self.answer(method, path, body, names) for names in (hidden, absent))
            answers += [there, nowhere]
            if there != nowhere:
                differing.append(f"{method} {path} {hidden}\n  {there}\n  {nowhere}")
        return differing, answers


@pytest.fixture
def stranger(service: Served, registry: Registry, key: str) -> Stranger:
    return Stranger(service, registry, key)


def test_a_hidden_name_is_answered_like_one_that_does_not_exist_by_every_route(
    service: Served, stranger: Stranger
) -> None:
    described = {
        (method.upper(), path.removeprefix(PREFIX))
        for path, methods in service.application.openapi()["paths"].items()
        for method in methods
    }
    assert described - ROUTES.keys() == {("POST", "/tools")}, (
        "a new route: what does it say of a hidden name?"
    )
    found, answers = [], []
    for (method, route), requests in ROUTES.items():
        begin = route.partition("/{")[0]
        for path, body in requests:
            whole = path if path.startswith("/sessions") else begin + path
            is_of_registry = begin.split("/")[1] not in (
                *("healthz", "readyz", "metrics", "select", "outcomes", "sessions", "admin"),
            )
            differing, said = stranger.compare(method, (PREFIX if is_of_registry else "") + whole, body)
            found, answers = found + differing, answers + said
    for method, path, body in TAKEN:
        differing, said = stranger.compare(method, PREFIX + path, body)
        found, answers = found + differing, answers + said
    assert not found, "\n".join(found)
    assert not [answer for answer in answers if answer.startswith("500")]
    told = [
        answer
        for answer in answers
        if "hid_" in answer.replace("send hid_by_org_qzp", "") or "secret rule" in answer
    ]
    assert not told, told


def test_no_near_miss_of_a_hidden_name_is_told_the_name(stranger: Stranger) -> None:
    """Before: `PUT /pins/hid_by_org_qz` answered "did you mean 'hid_by_org_qzp'?"."""
    for name in bounded(["hid_by_org_qzp", "hid_toolkit_q"], [*HIDDEN, *TOOLKITS]):
        for near in bounded((name[:-1],), (name[:-1], name + "s", name.replace("_", "-"), name.upper())):
            for (method, route), requests in ROUTES.items():
                begin = route.partition("/{")[0]
                if begin.split("/")[1] in (
                    "healthz",
                    "readyz",
                    "metrics",
                    "select",
                    "outcomes",
                    "sessions",
                    "admin",
                ):
                    continue
                for path, body in requests:
                    if "NAME" in json.dumps([path, body]) or "KIT" in json.dumps([path, body]):
                        answer = stranger.answer(
                            method, PREFIX + begin + path, body, {"NAME": near, "KIT": near}
                        )
                        assert "hid_" not in answer.replace("send hid_by_org_qzp", ""), (method, path, answer)


def test_what_an_organisation_sees_it_may_pin_map_and_name_in_rules(service: Served, key: str) -> None:
    def ask(method: str, path: str, body: Any = None) -> Any:
        return service(method, PREFIX + path, body, key=key, headers={"If-Match": "*"})

    for method, path, body, expected in (
        ("PUT", "/pins/open_tool", {"pinned": True}, 200),
        ("POST", "/visibility-rules", {**RULE, "tool": "open_tool"}, 201),
        ("POST", "/visibility-rules", {**RULE, "name": "k", "toolkit": "open_kit"}, 201),
        ("POST", "/page-mappings", {"pattern": "a*", "categories": ["open_kit"]}, 201),
    ):
        status, _, answer = ask(method, path, body)
        assert status == expected, (path, answer)
    status, _, problem = ask("POST", "/tools", {"name": "open_tool", "description": "x"})
    assert (status, "taken on the platform" in problem["detail"]) == (409, True)
    assert "did you mean 'open_tool'" in ask("PUT", "/pins/open_tol", {"pinned": True})[2]["detail"]


def test_a_pin_of_a_tool_that_is_hidden_since_says_its_id_and_can_be_deleted(
    service: Served, registry: Registry, key: str
) -> None:
    """Its tool may have another name by now, which the organisation does not know."""
    tool_id = registry.tool("hid_by_org_qzp").tool.tool_id
    registry.pins.set("hid_by_org_qzp", org="acme")
    (pin,) = service("GET", PREFIX + "/pins", key=key)[2]["pins"]
    assert pin["tool"] == tool_id
    assert service("DELETE", PREFIX + "/pins/hid_by_org_qzp", key=key)[0] == 404
    assert service("DELETE", PREFIX + f"/pins/{tool_id}", key=key)[0] == 204


def test_a_trial_is_for_the_organisation_of_the_key_alone(service: Served, key: str) -> None:
    """Before: 200, and the catalog of any organisation was built and kept."""
    for number in range(bounded(3, 1_000)):
        path = f"{PREFIX}/test-selection?org=made_up_{number}"
        assert service("POST", path, {"message": "x"}, key=key)[0] == 403


def test_a_plugin_gets_into_no_hidden_toolkit_that_would_give_it_more(registry: Registry) -> None:
    """A name out of reach is free, but a base toolkit has its tools in every selection."""
    registry.toolkits.put(Toolkit("hid_base_kit", base=True))
    reach = Reach({}, frozenset())
    acme = registry.with_actor("plugin", reach)
    for toolkit, is_refused in (("hid_base_kit", True), ("hid_toolkit_q", False), ("new_kit", False)):
        tools = [{"name": "mine", "description": "x", "toolkit": toolkit}]
        report = acme.sync(tools, plugin="p", org="acme", dry_run=True)
        assert bool(report.to_dict()["conflicts"]) is is_refused, toolkit
