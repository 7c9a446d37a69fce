"""Selections, outcomes and conversations over HTTP, on the whole application."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

pytest.importorskip("fastapi")

from tests.integration.outcomes import eventually
from tests.integration.served import Served, served
from toolroll.model.rules import Rule
from toolroll.model.tools import Tool
from toolroll.registry.registry import Registry
from toolroll.registry.store import tables

TOOLS = {
    "get_forecast": "Gives the weather forecast of a city",
    "send_mail": "Sends a mail to somebody",
    "pay_invoice": "Pays an invoice",
    "play_music": "Plays a song",
    "book_flight": "Books a flight",
}
RAIN = {"message": "weather forecast", "k": 1}


@pytest.fixture
def registry(sqlite_url: str) -> Iterator[Registry]:
    with Registry.open(sqlite_url, actor="ada") as registry:
        for name, description in TOOLS.items():
            registry.create(Tool(name, description))
        registry.rules.add(Rule("no music", "deny", "org", {"org": "acme"}, tool="play_music"))
        yield registry


@pytest.fixture
def keys(registry: Registry) -> dict[str, str]:
    """Texts of keys by what they may."""
    return {
        org or "any": registry.keys.add(org or "any", roles=["select", "report", "read"], org=org)[1]
        for org in ("acme", "globex", None)
    }


@pytest.fixture
def service(registry: Registry, keys: dict[str, str], sqlite_url: str) -> Iterator[Served]:
    with served(registry, sqlite_url) as service:
        yield service


@pytest.fixture
def acme(service: Served, keys: dict[str, str]) -> Any:
    """Makes requests with acme's key; asserts their status."""

    def ask(method: str, path: str, body: object = None, status: int = 200) -> Any:
        found, _, answer = service(method, path, body, key=keys["acme"])
        assert found == status, answer
        return answer

    return ask


def test_an_outcome_counts_once_however_often_it_is_reported(acme):
    for asked in ("event_id", "receipt"):
        selection = acme("POST", "/select?receipt=true", RAIN)
        report = {"selection": selection[asked], "called": {"get_forecast": True}}
        first = acme("POST", "/outcomes", report)
        assert (first["counted"], first["event_id"]) == (1, selection["event_id"])
        again = acme("POST", "/outcomes", report)
        assert (again["counted"], again["pending"]) == (0, {"get_forecast": "repeated"})


def test_outcomes_say_how_long_calls_took(acme, service):
    took = {"get_forecast": {"succeeded": True, "duration_ms": 84.5}}
    selection = acme("POST", "/select", RAIN)
    acme("POST", "/outcomes", {"selection": selection["event_id"], "called": took})
    acme("POST", "/sessions/talk/select", RAIN)
    used = {"get_forecast": {"succeeded": False, "duration_ms": 1_000}}
    assert acme("POST", "/sessions/talk/used", {"called": used}) == {"refused": []}
    eventually(lambda: durations(service) == [{"get_forecast": 84.5}, {"get_forecast": 1_000}])
    for wrong in (-1, "x", 1e9, True, "84"):
        called = {"get_forecast": {"succeeded": True, "duration_ms": wrong}}
        acme("POST", "/outcomes", {"selection": selection["event_id"], "called": called}, 422)
        acme("POST", "/sessions/talk/used", {"called": called}, 422)


def durations(service: Served) -> list[dict[str, float]]:
    """Of all outcomes with some, the shortest first."""
    with service.registry.database.reading() as connection:
        found = [took for took in connection.scalars(sa.select(tables.outcomes.c.durations_ms)) if took]
    return sorted(found, key=lambda took: sum(took.values()))


def test_another_organisation_reports_on_no_selection(service, keys, acme):
    selection = acme("POST", "/select?receipt=true", RAIN)
    for picked in (selection["event_id"], selection["receipt"]):
        body = {"selection": picked, "called": {"get_forecast": False}}
        assert service("POST", "/outcomes", body, key=keys["globex"])[0] in (403, 404)
        assert service("POST", "/outcomes", {**body, "org": "acme"}, key=keys["globex"])[0] == 403
    body = {"selection": selection["receipt"], "called": {"get_forecast": True}}
    assert service("POST", "/outcomes", body, key=keys["any"])[0] == 200


def test_a_wrong_report_is_a_problem(acme):
    selection = acme("POST", "/select", RAIN)["event_id"]
    acme("POST", "/outcomes", {"selection": selection, "called": {"pay_invoice": "yes"}}, 422)
    acme("POST", "/outcomes", {"selection": selection, "called": {"no_tool": True}}, 422)
    acme("POST", "/outcomes", {"selection": "0" * 32, "called": ["get_forecast"]}, 404)
    acme("POST", "/outcomes", {"called": ["get_forecast"]}, 422)


def test_a_conversation_is_held_over_http(acme):
    first = acme("POST", "/sessions/talk/select?schemas=openai", RAIN)
    assert "get_forecast" in first["names"]
    assert len(first["schemas"]) == len(first["names"])
    assert acme("POST", "/sessions/talk/select", RAIN)["event_id"] == first["event_id"]
    assert acme("POST", "/sessions/talk/check", {"name": "get_forecast"})["allowed"]
    assert acme("POST", "/sessions/talk/used", {"called": {"get_forecast": True}}) == {"refused": []}
    found = acme("POST", "/sessions/talk/search", {"queries": ["books a flight"], "k": 1})["tools"]
    assert [tool["name"] for tool in found] == ["book_flight"]
    assert acme("POST", "/sessions/talk/load", {"names": ["send_mail"]})["tools"] == ["send_mail"]
    assert acme("GET", "/sessions/talk") == {"turn": 1, "is_open": True, "loaded": ["send_mail"]}
    assert acme("POST", "/sessions/talk/end-turn", {}) == {"idle": []}
    assert "send_mail" in acme("POST", "/sessions/talk/select", {"message": "pay it", "k": 1})["names"]
    unloaded = acme("POST", "/sessions/talk/unload", {"names": ["send_mail"]})
    assert (unloaded["tools"], unloaded["is_error"]) == (["send_mail"], False)
    acme("DELETE", "/sessions/talk", None, 204)
    assert acme("GET", "/sessions/talk")["turn"] == 0


def test_what_policy_denies_cannot_be_found_loaded_or_called(acme):
    acme("POST", "/sessions/talk/select", {"message": "play a song"})
    checked = acme("POST", "/sessions/talk/check", {"name": "play_music"})
    assert (checked["allowed"], "play_music" in checked["reason"]) == (False, True)
    loaded = acme("POST", "/sessions/talk/load", {"names": ["play_music"]})
    assert (loaded["tools"], loaded["unknown"], loaded["is_error"]) == ([], ["play_music"], True)
    found = acme("POST", "/sessions/talk/search", {"queries": ["plays a song"]})["tools"]
    assert "play_music" not in [tool["name"] for tool in found]


def test_a_conversation_belongs_to_its_organisation(service, keys, acme):
    acme("POST", "/sessions/talk/load", {"names": ["send_mail"]})
    found = service("GET", "/sessions/talk", key=keys["globex"])[2]
    assert found["loaded"] == []
    assert service("GET", "/sessions/talk?org=acme", key=keys["globex"])[0] == 403
    assert service("DELETE", "/sessions/talk", key=keys["globex"])[0] == 204
    assert acme("GET", "/sessions/talk")["loaded"] == ["send_mail"]
    assert service("GET", "/sessions/talk?org=acme", key=keys["any"])[2]["loaded"] == ["send_mail"]


def test_metrics_are_for_callers_who_are_bound_to_no_organisation(service, keys, acme):
    acme("POST", "/select", RAIN)
    assert service("GET", "/metrics", key=keys["acme"])[0] == 403
    status, headers, text = service("GET", "/metrics", key=keys["any"])
    assert (status, headers["content-type"].split(";")[0]) == (200, "text/plain")
    assert 'toolroll_http_requests_total{method="POST",route="/select",status="200"} 1.0' in text
    assert "toolroll_catalog_tools 5.0" in text
