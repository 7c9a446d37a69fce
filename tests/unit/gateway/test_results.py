"""Calls with wrong arguments are told from failures of a tool."""

from __future__ import annotations

import pytest

pytest.importorskip("mcp")

from tests.table import each_row
from toolroll import Tool
from toolroll.gateway.results import are_wrong

SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "n": {"type": "integer", "minimum": 1}},
    "required": ["text"],
    "additionalProperties": False,
}
TOOL = Tool("send", "Sends", SCHEMA)


def said(text: object) -> dict[str, object]:
    return {"content": [{"type": "text", "text": text}], "isError": True}


@each_row("arguments", [{}, {"text": 7}, {"text": "x", "n": 0}, {"text": "x", "more": 1}, {"text": None}])
def test_arguments_that_do_not_fit_are_wrong(arguments):
    assert are_wrong(TOOL, arguments, said("it went wrong"))


@each_row(
    "text",
    [
        "MCP error -32602: Input validation error: Invalid arguments for tool send",
        "Input validation error: 'text' is a required property",
        "Error executing tool send: 1 validation error for sendArguments\ntext\n  Field required",
        "2 validation errors for call[send]",
    ],
)
def test_a_server_that_refuses_arguments_says_so(text):
    assert are_wrong(TOOL, {"text": "x"}, said(text))


@each_row(
    "result",
    [
        said("it went wrong"),
        said("1 validation error for Weather"),  # of what another service has answered
        said("x" * 3_000 + " -32602"),
        said(None),
        {"content": None, "isError": True},
        {"content": ["text"], "isError": True},
        {"isError": True},
    ],
)
def test_a_failure_with_right_arguments_is_the_tools(result):
    assert not are_wrong(TOOL, {"text": "x", "n": 1}, result)
    assert not are_wrong(Tool("send", "Sends"), {"any": "thing"}, result)


def test_a_schema_that_cannot_be_checked_blames_nobody():
    deep: dict[str, object] = {}
    for _ in range(300):
        deep = {"allOf": [deep], "type": "object"}
    assert are_wrong(Tool("send", "Sends", deep), {}, said("it went wrong"))
