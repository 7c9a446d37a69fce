"""The OpenAPI description: complete, with examples. `Served` holds each answer of all tests against it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("fastapi")

from tests.integration.described import Description
from tests.integration.served import Served, served
from toolroll.registry.registry import Registry

# Their bodies have nothing of their own but who asks, or a list of what `/select` takes.
WITHOUT = ("sessions_end_turn", "selections_select_batch")


@pytest.fixture
def service(new_database_url: Any) -> Iterator[Served]:
    url = new_database_url("sqlite")
    with Registry.open(url) as registry, served(registry, url) as service:
        yield service


@pytest.fixture
def description(service: Served) -> dict[str, Any]:
    """As a client gets it, who has no key yet."""
    status, _, answer = service("GET", "/openapi.json")
    assert status == 200
    return dict(answer)


def test_each_operation_has_a_name_of_its_own_and_says_what_it_does(description):
    operations = Description(description).operations
    ids = [operation["operationId"] for operation in operations.values()]
    assert len(set(ids)) == len(ids) > 30
    assert {"selections_select", "sessions_select", "tools_update_tool"} <= set(ids)
    for name, operation in operations.items():
        assert operation["description"], name
        assert operation["tags"], name


def test_each_body_has_an_example(description):
    found = Description(description)
    for name, operation in found.operations.items():
        for content in operation.get("requestBody", {}).get("content", {}).values():
            written = json.dumps(content)
            refs = [part.partition('"')[0] for part in written.split("#/components/schemas/")[1:]]
            schemas = [found.components["schemas"][ref] for ref in refs]
            assert "example" in written + json.dumps(schemas) or operation["operationId"] in WITHOUT, name


def test_each_error_is_a_problem_and_what_may_be_shed_says_when_to_come_again(description):
    for (_, path), operation in Description(description).operations.items():
        for status, answer in operation["responses"].items():
            if int(status) >= 400 and path != "/readyz":
                assert set(answer["content"]) == {"application/problem+json"}, (path, status)
                assert ("Retry-After" in answer.get("headers", {})) == (status in ("429", "503"))


def test_all_but_probes_and_sign_in_need_a_key_and_changes_of_rows_need_an_etag(description):
    operations = Description(description).operations
    open_ones = {path for (_, path), operation in operations.items() if operation.get("security") == []}
    assert open_ones == {"/healthz", "/readyz", "/admin/sign-in"}
    assert description["security"] == [{"bearer": []}, {"service-key": []}]
    conditional = {
        operation["operationId"]
        for operation in operations.values()
        if any(one["name"] == "If-Match" and one["required"] for one in operation.get("parameters", ()))
    }
    assert conditional == {
        "tools_update_tool",
        "tools_delete_tool",
        "tools_roll_back",
        "tools_approve",
        "tools_reject",
        "categories_update_mapping",
        "categories_delete_mapping",
        "visibility_rules_update_rule",
        "visibility_rules_delete_rule",
    }
