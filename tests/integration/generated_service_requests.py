"""Requests that schemathesis generates from the OpenAPI description of the service, with and without keys.

Half of them name rows of an organisation that is not the caller's. `tools/long_tier.sh service` installs
schemathesis and runs this file. TOOLROLL_SERVICE_REQUESTS is how many requests each operation gets from each
caller.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
import sqlalchemy as sa
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from toolroll import Context, Registry, Tool
from toolroll.model.errors import InvalidInput
from toolroll.model.rules import PageMapping, Rule
from toolroll.model.tools import Definitions, Toolkit
from toolroll.registry.store import tables
from toolroll.server import problems, selections
from toolroll.server.application import create_application
from toolroll.server.callers import Caller
from toolroll.server.settings import ServerSettings

REQUESTS = int(os.environ.get("TOOLROLL_SERVICE_REQUESTS", "30"))
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
ROLES = ("select", "report", "read", "administer")
GLOBEX = "globex"  # the organisation whose rows no key of another one may show or change
SECRET = "canary_of_globex"  # is in its rows, and in no request
# The statistics of outcomes. A thread computes them, so they change without a request.
COMPUTED = {"learning_state", "learned", "reporter_counts", "open_events"}
GENERATED = settings(
    max_examples=REQUESTS,
    deadline=None,
    database=None,
    derandomize=False,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)


class Service:
    """A service whose registry has rows of the platform and of two organisations.

    Attributes:
        names: of rows of globex, by the member or parameter that names them. Requests may have them.
        keys: with every role but that of a plugin, of each organisation and of any.
        statuses: how often each was answered.
    """

    def __init__(self, url: str) -> None:
        self.registry = Registry.open(url)
        self.registry.toolkits.put(Toolkit("network"))
        self.registry.create(Tool("ping", "asks whether a host is there", toolkit="network"))
        self.registry.create(Tool("ping_of_acme", "asks whether a host is there"), org="acme")
        names = _add_rows(self.registry)
        self.keys = {
            org: self.registry.keys.add(f"{org}", roles=list(ROLES), org=org)[1] for org in (None, "acme")
        }
        given = ServerSettings(catalog=url, hosts=("*",), key_rate="1000000/second")
        self.application = create_application(given)
        roll, context = self.application.state.roll, Context(org=GLOBEX, user=SECRET)
        selection = roll.select("asks a host", context)
        roll.record(selection, {"ping": True})
        roll.session("session_of_globex", context).select("asks a host")
        roll.flush()
        self.names = {**names, "selection": [selection.event_id], "session": ["session_of_globex"]}
        self.statuses: Counter[int] = Counter()

    def answer_all(self, key: str = "", *, hides_globex: bool = True, paths: str = "") -> None:
        """Fails at an answer that the description does not have, or that shows content of globex.

        paths: a part of the paths to request; "" for all.
        """
        headers = {"X-Service-Key": key} if key else {}
        schema = schemathesis.openapi.from_asgi("/openapi.json", self.application)
        for found in schema.get_all_operations():
            operation = found.ok()
            if paths not in operation.path:
                continue

            @GENERATED
            @given(case=operation.as_strategy(), data=st.data())
            def check(case: Any, data: st.DataObject) -> None:
                if data.draw(st.booleans()):
                    self._aim_at_globex(case, data)
                response = case.call(headers=headers)
                self.statuses[response.status_code] += 1
                case.validate_response(response, checks=CHECKS)
                assert not hides_globex or SECRET not in response.text, case

            check()

    def rows(self, org: str) -> dict[str, list[str]]:
        """The rows of an organisation in each table of the registry, without those that are computed."""
        found = {}
        with self.registry.database.reading() as connection:
            for table in tables.metadata.sorted_tables:
                if "org" in table.c and table.name not in COMPUTED:
                    rows = connection.execute(sa.select(table).where(table.c.org == org))
                    found[table.name] = sorted(map(repr, rows))
        return found

    def close(self) -> None:
        self.application.state.roll.close()
        self.application.state.registry.close()
        self.registry.close()

    def _aim_at_globex(self, case: Any, data: st.DataObject) -> None:
        """Makes the request name rows of globex, and mostly the organisation too. Drops other parameters."""

        def name(member: str) -> str:
            return data.draw(st.sampled_from(self.names[member]))

        def aimed(value: Any, member: str = "") -> Any:
            if isinstance(value, dict):
                return {key: aimed(each, key) for key, each in value.items()}
            if isinstance(value, list):
                return [aimed(each, member) for each in value]
            return name(member) if member in self.names and isinstance(value, str) else value

        org = data.draw(st.sampled_from([GLOBEX, GLOBEX, ""]))
        kind = next((kind for kind in self.names if f"/{kind}s/" in case.path), "tool")
        case.path_parameters = {
            key: name(key if key in self.names else kind) for key in case.path_parameters or {}
        }
        case.query = {"org": org} if "org" in (case.query or {}) or case.operation.query else {}
        if isinstance(case.body, dict):
            case.body = aimed(case.body)
            if "context" in case.body or "message" in case.body:
                case.body["context"] = {"org": org}
        if case.headers and "If-Match" in case.headers:
            case.headers["If-Match"] = "*"


def _add_rows(registry: Registry) -> dict[str, list[str]]:
    """Rows of globex of every kind that people and plugins write. Their names and ids, by kind."""
    registry.toolkits.put(Toolkit("toolkit_of_globex", SECRET), org=GLOBEX)
    ping = Tool("ping_of_globex", SECRET, toolkit="toolkit_of_globex")
    tool = registry.create(ping, org=GLOBEX, reason=SECRET)
    condition = {"role": SECRET}
    rule = Rule("rule_of_globex", "deny", "role", condition, tool="ping_of_globex", org=GLOBEX)
    record = registry.rules.add(rule, reason=SECRET)
    mapping = PageMapping(f"{SECRET}*", ("toolkit_of_globex",), org=GLOBEX)
    page = registry.pages.add(mapping, reason=SECRET)
    registry.pins.set("ping", org=GLOBEX, weight=7, reason=SECRET)
    registry.settings.set(SECRET, True, org=GLOBEX, reason=SECRET)
    for plugin in ("plugin_of_globex", SECRET):
        synced = Definitions((Tool(f"pong_of_{plugin}", SECRET),), (), (), (), ())
        registry.sync(synced, plugin=plugin, org=GLOBEX, trusted=True)
    tools = ["ping_of_globex", tool.tool.tool_id]
    return {
        **dict.fromkeys(("tool", "name", "names"), tools),
        "category": ["toolkit_of_globex"],
        "plugin_id": ["plugin_of_globex"],
        "visibility-rule": ["rule_of_globex", record.rule.rule_id],
        "page-mapping": [page.page_id],
    }


@pytest.fixture
def service(new_database_url: Any) -> Iterator[Service]:
    running = Service(new_database_url("sqlite"))
    yield running
    running.close()


def test_each_answer_to_a_key_of_any_organisation_is_described(service):
    service.answer_all(service.keys[None], hides_globex=False)
    assert service.statuses[200] > 0


def test_a_key_of_one_organisation_neither_sees_nor_changes_another_one(service):
    key = service.keys["acme"]
    before = service.rows(GLOBEX), service.rows("")
    service.answer_all(key)
    assert service.statuses[200] > 0
    assert (service.rows(GLOBEX), service.rows("")) == before


def test_without_a_key_each_answer_is_described_and_nothing_changes(service):
    before = [service.rows(org) for org in ("acme", GLOBEX, "")]
    service.answer_all()
    assert service.statuses[401] > 0
    assert [service.rows(org) for org in ("acme", GLOBEX, "")] == before


# The checks themselves: each finds a fault of its kind.


@pytest.mark.parametrize(
    "paths",
    ["/tools", "/visibility-rules", "/page-mappings", "/plugins", "/settings", "/select", "/sessions"],
)
def test_a_service_that_believes_the_organisation_of_a_request_is_found(service, monkeypatch, paths):
    key = service.keys["acme"]
    before = service.rows(GLOBEX)
    monkeypatch.setattr(Caller, "org_of", lambda caller, org: org or caller.org or "")
    try:
        service.answer_all(key, paths=paths)
    except AssertionError:
        return
    assert service.rows(GLOBEX) != before


def test_a_selection_that_fails_is_found(service, monkeypatch):
    monkeypatch.setattr(selections, "selection_json", lambda *_: 1 / 0)
    with pytest.raises((FailureGroup, ZeroDivisionError)):
        service.answer_all(service.keys["acme"], paths="/select")


def test_a_selection_of_another_form_is_found(service, monkeypatch):
    monkeypatch.setattr(selections, "selection_json", lambda *_: b'{"names": "ping"}')
    with pytest.raises(FailureGroup, match="names"):
        service.answer_all(service.keys["acme"], paths="/select")


def test_a_status_that_the_description_does_not_have_is_found(service, monkeypatch):
    monkeypatch.setitem(problems.STATUSES, InvalidInput, (418, "Teapot"))
    with pytest.raises(FailureGroup, match="418"):
        service.answer_all(service.keys["acme"], paths="/select")
