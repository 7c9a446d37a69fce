"""Who may do what over HTTP: keys, roles and organisations, on the whole application."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("fastapi")

from tests.integration.served import Served, served
from toolroll.model.rules import Rule
from toolroll.model.tools import Tool
from toolroll.registry.registry import Registry

ASK = {"message": "pay the invoice"}


@pytest.fixture
def registry(sqlite_url: str) -> Iterator[Registry]:
    with Registry.open(sqlite_url, actor="ada") as registry:
        registry.create(Tool("pay_invoice", "Pays an invoice"))
        registry.create(Tool("send_mail", "Sends a mail"))
        registry.create(Tool("acme_forecast", "Says which invoice will be paid"), org="acme")
        registry.rules.add(Rule("no payments", "deny", "org", {"org": "acme"}, tool="pay_invoice"))
        yield registry


@pytest.fixture
def keys(registry: Registry) -> dict[str, str]:
    """Texts of keys by name of what they may."""
    return {
        "acme": registry.keys.add("acme", roles=["select"], org="acme")[1],
        "platform": registry.keys.add("platform", roles=["select"], org="")[1],
        "any": registry.keys.add("any", roles=["select"], org=None)[1],
        "reporter": registry.keys.add("reporter", roles=["report"], org=None)[1],
    }


@pytest.fixture
def service(registry: Registry, keys: dict[str, str], sqlite_url: str) -> Iterator[Served]:
    with served(registry, sqlite_url) as service:
        yield service


def test_a_key_selects_for_its_own_organisation_whatever_the_request_says(service, keys):
    for context in ({}, {"org": ""}, {"org": "acme"}):
        status, _, body = service("POST", "/select", {**ASK, "context": context}, key=keys["acme"])
        assert status == 200
        assert "pay_invoice" not in body["names"]
    status, _, body = service("POST", "/select", {**ASK, "context": {"org": "globex"}}, key=keys["acme"])
    assert (status, body["title"]) == (403, "Denied")
    status, _, _ = service("POST", "/select", {**ASK, "context": {"org": "acme"}}, key=keys["platform"])
    assert status == 403


def test_a_key_of_any_organisation_selects_for_the_one_that_it_names(service, keys):
    _, _, acme = service("POST", "/select", {**ASK, "context": {"org": "acme"}}, key=keys["any"])
    _, _, other = service("POST", "/select", {**ASK, "context": {"org": "globex"}}, key=keys["any"])
    assert "pay_invoice" not in acme["names"]
    assert "pay_invoice" in other["names"]
    assert "acme_forecast" not in other["names"]


def test_a_key_without_the_role_is_denied_and_no_key_is_not_authenticated(service, keys):
    status, _, body = service("POST", "/select", ASK, key=keys["reporter"])
    assert status == 403
    assert "lacks the role 'select'" in body["detail"]
    assert service("POST", "/select", ASK)[0] == 401


def test_paths_and_methods_that_do_not_exist_are_problems(service, keys):
    for method, path, expected in (("GET", "/nowhere", 404), ("DELETE", "/select", 405)):
        status, headers, body = service(method, path, key=keys["any"])
        assert (status, headers["content-type"], body["status"]) == (
            expected,
            "application/problem+json",
            expected,
        )


def test_a_parameter_that_no_route_has_is_refused_with_the_nearest_name(service, keys):
    for method, path, body, problem in (
        ("POST", "/select?schmas=openai", {"message": "x"}, "did you mean 'schemas'?"),
        ("GET", "/internal/tool-registry/tools?catgory=x", None, "did you mean 'category'?"),
        ("GET", "/internal/tool-registry/tiers?zzz=1", None, "query.zzz: is no known parameter"),
    ):
        status, _, answer = service(method, path, body, key=keys["any"])
        assert (status, answer["status"]) == (422, 422)
        assert problem in answer["detail"]


def test_a_body_beyond_the_limit_is_a_problem(service, keys):
    status, _, body = service("POST", "/select", {"message": "x" * 5_000_000}, key=keys["any"])
    assert (status, body["status"]) == (413, 413)
