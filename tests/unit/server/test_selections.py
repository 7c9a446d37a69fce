from __future__ import annotations

import pytest

pytest.importorskip("fastapi")

from fastapi import FastAPI

from tests.table import each_row
from tests.unit.server.asgi import request
from toolroll import Context, Rule, Tool, Toolroll
from toolroll.server.callers import trusted
from toolroll.server.outcomes import outcome_router
from toolroll.server.selections import selection_router

MESSAGE = "Will it rain in Oslo?"
WEATHER = Tool(
    "get_weather", "Tells whether it will rain", {"type": "object", "properties": {"q": {"type": "string"}}}
)
TOOLS = (WEATHER, Tool("send_mail", "Sends a mail to somebody"), Tool("pay_invoice", "Pays an invoice"))
DENY = Rule("no payments", "deny", "org", {"org": "acme"}, tool="pay_invoice")


@pytest.fixture
def roll() -> Toolroll:
    return Toolroll.from_tools(TOOLS, rules=[DENY])


@pytest.fixture
def host(roll):
    application = FastAPI()
    for router in (selection_router, outcome_router):
        application.include_router(router(roll, trusted), prefix="/tools")
    return application


def test_a_selection_answers_with_names_as_the_library_selects_them(host, roll):
    status, _, body = request(host, "POST", "/tools/select", {"message": MESSAGE, "k": 1})
    assert status == 200
    assert tuple(body["names"]) == roll.select(MESSAGE, k=1).names == ("get_weather",)
    assert body["degraded"] == []
    assert "schemas" not in body
    assert "receipt" not in body


@each_row("provider", ["openai", "openai_responses", "anthropic", "gemini", "mcp"])
def test_schemas_are_those_of_the_library(host, roll, provider):
    body = request(host, "POST", "/tools/select", {"message": MESSAGE}, f"schemas={provider}")[2]
    assert body["schemas"] == roll.select(MESSAGE).schemas(provider)
    assert tuple(body["names"]) == roll.select(MESSAGE).names


def test_a_denied_tool_is_not_in_the_answer_even_if_it_is_always_included(host):
    wanted = {"message": "pay the invoice", "always_include": ["pay_invoice"]}
    allowed = request(host, "POST", "/tools/select", {**wanted, "context": {"org": "other"}})[2]
    assert "pay_invoice" in allowed["names"]
    body = request(host, "POST", "/tools/select", {**wanted, "context": {"org": "acme"}})[2]
    assert "pay_invoice" not in body["names"]
    assert body["missing_required"] == ["pay_invoice"]


def test_a_receipt_is_given_where_it_is_asked_for_and_can_be_recorded(host, roll):
    body = request(host, "POST", "/tools/select", {"message": MESSAGE, "k": 1}, "receipt=true")[2]
    assert roll.record(body["receipt"], {"get_weather": True}).counted == 1


@each_row(
    "body",
    [
        {},
        {"message": 3},
        {"message": "x", "k": -1},
        {"message": "x", "kk": 1},
        {"message": "x", "context": {"o": 1}},
    ],
)
def test_a_wrong_request_is_a_problem(host, body):
    status, headers, answer = request(host, "POST", "/tools/select", body)
    assert (status, headers["content-type"]) == (422, "application/problem+json")
    assert answer["detail"]


def test_an_unknown_provider_is_a_problem(host):
    status, _, answer = request(host, "POST", "/tools/select", {"message": "x"}, "schemas=opnai")
    assert status == 422
    assert answer["detail"] == (
        "query.schemas: provider is 'opnai', must be one of openai, openai_responses, anthropic, gemini, mcp"
    )


@each_row(
    ("path", "body", "problems"),
    [
        (
            "select",
            {"mesage": "s3cret"},
            {"body.message": "is missing", "body.mesage": "is no known field; did you mean 'message'?"},
        ),
        ("select", {"message": 3}, {"body.message": "must be a text"}),
        ("select", {"message": "x", "k": "s3cret"}, {"body.k": "must be a whole number"}),
        (
            "select",
            {"message": "x", "context": {"og": 1}},
            {"body.context.og": "is no known field; did you mean 'org'?"},
        ),
        (
            "select",
            {"message": "x", "context": {"roles": "s3cret"}},
            {"body.context.roles": "must be a list"},
        ),
        ("select", [1], {"body": "must be an object"}),
        ("select", None, {"body": "is missing"}),
        ("select/batch", {"requests": [{"message": "x"}, {}]}, {"body.requests.1.message": "is missing"}),
        ("select/batch", {"requests": []}, {"body.requests": "must be a list of 1 or more"}),
        ("outcomes", {"selection": "x", "called": 3}, {"body.called": "must be an object or a list"}),
        (
            "outcomes",
            {"selection": "x", "called": {"a": 3}},
            {"body.called.a": "must be true or false or an object"},
        ),
        (
            "outcomes",
            {"selection": "x", "called": {"a": {}}},
            {"body.called.a.succeeded": "is missing"},
        ),
        (
            "outcomes",
            {"selection": "x", "called": {"a": 1, "b": "s3cret"}},
            {
                "body.called.a": "must be true or false or an object",
                "body.called.b": "must be true or false or an object",
            },
        ),
        (
            "outcomes",
            {"selection": "x", "wanted": {"a": {"succeeded": "yes", "duration_ms": "84"}}},
            {
                "body.wanted.a.succeeded": "must be true or false",
                "body.wanted.a.duration_ms": "must be a number",
            },
        ),
        (
            "outcomes",
            {"selection": "x", "called": {"a": {"succeeded": True, "duration_ms": True, "s3": 1}}},
            {
                "body.called.a.duration_ms": "must be a number",
                "body.called.a.s3": "is no known field",
            },
        ),
    ],
)
def test_what_is_wrong_in_a_request_is_told_in_plain_words(host, path, body, problems):
    status, _, answer = request(host, "POST", f"/tools/{path}", body)
    assert status == 422
    assert {each["field"]: each["problem"] for each in answer["errors"]} == problems
    assert "s3cret" not in str(answer)


def test_a_body_that_is_no_json_says_why(host):
    body = {"message": "x"}
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        answer = request(host, "POST", "/tools/select", body, headers={"content-type": kind})[2]
        assert answer["detail"] == (
            "body: must be an object, sent with the header Content-Type: application/json"
        )


def test_the_parameters_of_a_hosts_own_are_the_hosts(host):
    assert request(host, "POST", "/tools/select", {"message": "x"}, "tenant=7")[0] == 200


def test_a_body_has_every_field_of_a_context_but_the_session():
    from dataclasses import fields

    from toolroll.server.bodies import ContextBody

    assert {field.name for field in fields(Context)} - {"session"} == set(ContextBody.model_fields)


def test_a_batch_answers_each_request_in_its_place_also_the_wrong_one(host, roll):
    asked = [{"message": MESSAGE, "k": 1}, {"message": MESSAGE, "k": -1}, {"message": "send a mail", "k": 1}]
    status, _, body = request(host, "POST", "/tools/select/batch", {"requests": asked}, "schemas=openai")
    assert status == 200
    first, wrong, last = body["results"]
    assert (first["names"], last["names"]) == (["get_weather"], ["send_mail"])
    assert last["schemas"][0]["function"]["name"] == "send_mail"
    assert (wrong["status"], wrong["title"]) == (422, "Invalid input")


@pytest.mark.parametrize("count", [0, 101])
def test_a_batch_has_from_1_to_100_requests(host, count):
    asked = {"requests": [{"message": "x"}] * count}
    assert request(host, "POST", "/tools/select/batch", asked)[0] == 422
