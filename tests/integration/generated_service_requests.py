"""Requests that schemathesis generates from the OpenAPI description of the service, with and without keys.

`tools/long_tier.sh service` installs schemathesis and runs this file. TOOLROLL_SERVICE_REQUESTS is how many requests
each operation gets from each caller.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from toolroll import Registry, Tool
from toolroll.server.application import create_application
from toolroll.server.settings import ServerSettings
from toolroll.tools import Toolkit

REQUESTS = int(os.environ.get("TOOLROLL_SERVICE_REQUESTS", "30"))
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
ROLES = ("select", "report", "read", "administer")
HIDDEN = "ping_of_globex"  # a tool of the organisation globex, which no other one's key may show
GENERATED = settings(
    max_examples=REQUESTS,
    deadline=None,
    database=None,
    derandomize=False,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)


class Service:
    """A service whose registry has tools of the platform and of two organisations."""

    def __init__(self, url: str) -> None:
        self.registry = Registry.open(url)
        self.registry.toolkits.put(Toolkit("network"))
        self.registry.create(Tool("ping", "asks whether a host is there", toolkit="network"))
        self.registry.create(Tool("ping_of_acme", "asks whether a host is there"), org="acme")
        self.registry.create(Tool(HIDDEN, "asks whether a host is there"), org="globex")
        given = ServerSettings(catalog=url, hosts=("*",), key_rate="1000000/second")
        self.application = create_application(given)
        self.statuses: Counter[int] = Counter()

    def key(self, org: str | None) -> str:
        """A key with every role but that of a plugin."""
        return self.registry.keys.add("generated", roles=list(ROLES), org=org)[1]

    def answer_all(self, key: str = "", hidden: str = "") -> None:
        """Fails at an answer that the description does not have, or that has the text `hidden`."""
        headers = {"X-Service-Key": key} if key else {}
        schema = schemathesis.openapi.from_asgi("/openapi.json", self.application)
        for found in schema.get_all_operations():
            operation = found.ok()

            @GENERATED
            @given(case=operation.as_strategy())
            def check(case: Any) -> None:
                response = case.call(headers=headers)
                self.statuses[response.status_code] += 1
                case.validate_response(response, checks=CHECKS)
                assert not hidden or response.status_code >= 400 or hidden not in response.text, case

            check()


@pytest.fixture
def service(new_database_url):
    running = Service(new_database_url("sqlite"))
    yield running
    running.application.state.roll.close()
    running.application.state.registry.close()
    running.registry.close()


def tools_of(service: Service, org: str) -> list[str]:
    """The tools of an organisation with all that the registry says of them."""
    return sorted(map(repr, service.registry.tools(org=org).records))


def test_each_answer_to_a_key_of_any_organisation_is_described(service):
    service.answer_all(service.key(None))
    assert service.statuses[200] > 0


def test_a_key_of_one_organisation_neither_sees_nor_changes_another_one(service):
    before = tools_of(service, "globex"), tools_of(service, "")
    service.answer_all(service.key("acme"), hidden=HIDDEN)
    assert service.statuses[200] > 0
    assert (tools_of(service, "globex"), tools_of(service, "")) == before


def test_without_a_key_each_answer_is_described_and_nothing_changes(service):
    before = tools_of(service, "acme"), tools_of(service, "globex"), tools_of(service, "")
    service.answer_all(hidden="ping")
    assert service.statuses[401] > 0
    assert (tools_of(service, "acme"), tools_of(service, "globex"), tools_of(service, "")) == before
