from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

pytest.importorskip("mcp")

import anyio

from toolroll.errors import InvalidInput
from toolroll.gateway.hooks import is_destructive
from toolroll.gateway.modes import FEW, shown_for
from toolroll.gateway.results import LimitResults
from toolroll.gateway.search_markdown import markdown
from toolroll.gateway.traffic import BURST, PER_SECOND, Flood, Traffic
from toolroll.tools import Tool


def test_markdown_says_all_that_the_json_says_in_fewer_characters():
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Where"},
            "days": {"type": "integer", "default": 3},
            "unit": {"enum": ["C", "F"]},
        },
        "required": ["city"],
    }
    answer = json.dumps(
        {"tools": [{"name": "w", "description": "Weather", "parameters": schema}], "note": "Maybe."}
    )
    told = markdown(answer)
    assert told.splitlines() == [
        "Maybe.",
        "",
        "## w",
        "Weather",
        "- `city` (string): Where",
        "- `days` (integer, optional, default 3)",
        '- `unit` ({"enum":["C","F"]}, optional)',
        "",
        "Call them with call_tool.",
    ]


@pytest.mark.parametrize(
    ("mode", "client", "tools", "shown"),
    [
        ("auto", "claude-ai", FEW, "all"),
        ("auto", "claude-ai", FEW + 1, "search"),
        ("auto", "", None, "search"),  # while servers are being started
        ("auto", "Visual Studio Code", 100, "dynamic"),
        ("all", "claude-ai", 1_000, "all"),
        ("search", "claude-ai", 1, "search"),
    ],
)
def test_a_client_is_shown_what_it_can_handle(mode, client, tools, shown):
    assert shown_for(mode, client, tools) == shown


@pytest.mark.parametrize(
    ("annotations", "destructive"),
    [
        (None, True),
        ({"destructiveHint": True}, True),
        ({"destructiveHint": False}, False),
        ({"readOnlyHint": True}, False),
        ({"readOnlyHint": False}, True),
    ],
)
def test_a_tool_may_destroy_something_unless_it_says_otherwise(annotations, destructive):
    assert is_destructive(Tool("t", annotations=annotations)) is destructive


def text(words: str) -> dict:
    return {
        "content": [{"type": "text", "text": words}, {"type": "image", "data": "x", "mimeType": "image/png"}]
    }


def after(limit: LimitResults, result: dict, key: str = "ann") -> dict:
    return anyio.run(limit.after, SimpleNamespace(caller=SimpleNamespace(client_key=key)), result)


def test_pages_of_a_long_result_make_up_the_whole_and_are_the_callers_own():
    limit, whole = LimitResults(10), "0123456789" * 2 + "abc"
    first, image = after(limit, text(whole))["content"]
    assert image["type"] == "image"
    asked = json.loads(first["text"][first["text"].index("{") : first["text"].index("}") + 1])
    pages = [first["text"], limit.read("ann", asked), limit.read("ann", {**asked, "page": "3"})]
    assert "".join(page.partition("\n\n[page")[0] for page in pages) == whole
    for key, arguments in (("bob", asked), ("ann", {**asked, "page": 9}), ("ann", {})):
        with pytest.raises(InvalidInput):
            limit.read(key, arguments)


def test_a_short_result_stays_as_it_is():
    result = text("0123456789")
    assert after(LimitResults(10), result) is result


def sent(traffic: Traffic, items: list) -> list:
    """What of the items is passed on."""

    async def go() -> list:
        source, feed = anyio.create_memory_object_stream[object](len(items)), []
        for item in items:
            source[0].send_nowait(item)
        source[0].close()
        out, into = anyio.create_memory_object_stream[object](len(items) + 1)
        with source[1], into:
            await traffic.pass_on(source[1], out)
            async for item in into:
                feed.append(item)
        return feed

    return anyio.run(go)


def note() -> SimpleNamespace:
    return SimpleNamespace(message=SimpleNamespace(method="notifications/message", id=None))


def test_more_notifications_than_the_limit_are_dropped_and_requests_pass():
    now = [0.0]
    traffic = Traffic(lambda: now[0])
    request = SimpleNamespace(message=SimpleNamespace(method="sampling/createMessage", id=1))
    assert len(sent(traffic, [note() for _ in range(BURST + 50)] + [request])) == BURST + 1
    assert traffic.dropped == 50
    now[0] = 1.0
    assert len(sent(traffic, [note() for _ in range(PER_SECOND + 1)])) == PER_SECOND


def test_lines_that_are_no_messages_end_the_connection_at_last():
    with pytest.raises(Flood, match="are no messages"):
        sent(Traffic(), [ValueError("no JSON")] * 2_000)
