"""The direct way answers each request as the framework's route does, byte for byte."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

pytest.importorskip("fastapi")

from fastapi import FastAPI

from tests.table import each_row
from toolroll import Toolroll
from toolroll.front.bodies import BodiesInFlight
from toolroll.server.callers import Caller
from toolroll.server.direct_select import DirectSelect
from toolroll.server.selections import selection_router

LIMIT = 2_000
GOOD = {"message": "Should I bring an umbrella?", "k": 3}
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def roll():
    return Toolroll.demo()


class Refusing:
    """Stands in the framework's place where a request must be answered before it."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("was handed on")


def framework(roll: Toolroll) -> FastAPI:
    application = FastAPI()
    application.include_router(selection_router(roll))
    return application


def ask(
    application: Any, body: bytes, query: str, headers: dict[str, str], caller: Caller | None, parts: int
) -> Any:
    size = max(1, -(-len(body) // parts))
    messages = [
        {"type": "http.request", "body": body[at : at + size], "more_body": at + size < len(body)}
        for at in range(0, max(1, len(body)), size)
    ]
    sent: list[Any] = []

    async def receive() -> Any:
        if not messages:
            await asyncio.Event().wait()
        return messages.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/select",
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "state": {} if caller is None else {"caller": caller},
    }
    with BodiesInFlight(LIMIT, 2 * LIMIT).limited(receive, "key") as limited:
        asyncio.run(asyncio.wait_for(application(scope, limited, send), 20))
    content = b"".join(message.get("body", b"") for message in sent)
    answer = json.loads(content)
    if "event_id" in answer:
        assert answer.pop("event_id")
        answer.pop("receipt", "")  # names the event
    return sent[0]["status"], sorted(name for name, _ in sent[0]["headers"]), answer


def any_org(*roles: str) -> Caller:
    return Caller("test", frozenset(roles), None)


ANSWERED = [
    (GOOD, ""),
    (GOOD, "schemas=openai"),
    (GOOD, "schemas=gemini&receipt=true"),
    (GOOD, "receipt=false"),
    ({"message": "pay the invoice", "context": {"org": "acme", "tier": "team", "settings": ["a"]}}, ""),
    ({"message": "tomorrow", "history": ["the weather", {"role": "user", "content": "in Oslo"}]}, ""),
    ({"message": "pay", "k": None, "always_include": ["get_forecast"], "sent": ["get_forecast"]}, ""),
    ({"message": "pay", "k": "3"}, ""),  # the framework takes it as a number
    ({"message": "pay", "k": -1}, ""),
    ({"message": "pay", "max_tools": -1}, ""),
]
HANDED_ON = [
    (GOOD, "schemas=nobody"),
    (GOOD, "schemas=openai&schemas=mcp"),
    (GOOD, "receipt=1"),
    (GOOD, "receipt=maybe"),
    (GOOD, "else=1"),
    ({"message": "pay", "unknown": 1}, ""),
    ({"message": 7}, ""),
    ({}, ""),
    ([], ""),
    (None, ""),
    ({"message": "x" * LIMIT}, ""),
]


@each_row("parts", [1, 3])
@each_row(("body", "query"), ANSWERED + HANDED_ON)
def test_the_answer_is_the_frameworks(roll, body, query, parts):
    content, plain = json.dumps(body).encode(), framework(roll)
    expected = ask(plain, content, query, JSON, any_org("select"), parts)
    assert ask(DirectSelect(plain, roll), content, query, JSON, any_org("select"), parts) == expected
    if (body, query) in ANSWERED:
        assert ask(DirectSelect(Refusing(), roll), content, query, JSON, any_org("select"), parts) == expected


@each_row("content", [b"", b"{", b"\xff", b'{"message": "pay", "k": NaN}', b"[" * 1_900])
def test_what_is_no_json_is_answered_by_the_framework(roll, content):
    plain = framework(roll)
    expected = ask(plain, content, "", JSON, any_org("select"), 1)
    assert expected[0] in (400, 422)
    assert ask(DirectSelect(plain, roll), content, "", JSON, any_org("select"), 1) == expected


@pytest.mark.parametrize(
    "headers", [{}, {"content-type": "text/plain"}, {"content-type": "application/JSON"}]
)
def test_other_types_of_content_are_the_frameworks(roll, headers):
    content, plain = json.dumps(GOOD).encode(), framework(roll)
    expected = ask(plain, content, "", headers, any_org("select"), 1)
    assert ask(DirectSelect(plain, roll), content, "", headers, any_org("select"), 1) == expected


@each_row(
    ("caller", "org", "status"),
    [
        (any_org("read"), "", 403),
        (None, "", 403),
        (Caller("test", frozenset({"select"}), "acme"), "other", 403),
        (Caller("test", frozenset({"select"}), "acme"), "acme", 200),
    ],
)
def test_who_may_not_gets_the_same_refusal(roll, caller, org, status):
    content, plain = json.dumps({**GOOD, "context": {"org": org}}).encode(), framework(roll)
    expected = ask(plain, content, "", JSON, caller, 1)
    assert expected[0] == status
    assert ask(DirectSelect(plain, roll), content, "", JSON, caller, 1) == expected
