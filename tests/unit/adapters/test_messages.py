"""Messages of all providers and frameworks are read alike."""

from __future__ import annotations

import json
from types import SimpleNamespace

from tests.table import each_row
from toolroll.adapters.messages import CallResult, MadeCall, ReadMessage, failed_by_text, read_messages

ASKED = ReadMessage("user", "Pay it")
CALLED = ReadMessage("assistant", "", (MadeCall("1", "pay"),))
ANSWERED = ReadMessage("assistant", "Paid")

OPENAI = [
    {"role": "user", "content": [{"type": "text", "text": "Pay it"}, {"type": "image_url", "image_url": {}}]},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "pay"}}]},
    {"role": "tool", "tool_call_id": "1", "content": "ok"},
    {"role": "assistant", "content": "Paid"},
]
RESPONSES = [
    {"role": "user", "content": [{"type": "input_text", "text": "Pay it"}]},
    {"type": "function_call", "call_id": "1", "id": "fc_9", "name": "pay", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "1", "output": "ok"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Paid"}]},
]
ANTHROPIC = [
    {"role": "user", "content": "Pay it"},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "pay", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "ok"}]},
    {"role": "assistant", "content": [{"type": "text", "text": "Paid"}]},
]
GEMINI = [
    {"role": "user", "parts": [{"text": "Pay it"}]},
    {"role": "model", "parts": [{"functionCall": {"id": "1", "name": "pay", "args": {}}}]},
    {
        "role": "user",
        "parts": [{"functionResponse": {"id": "1", "name": "pay", "response": {"result": "ok"}}}],
    },
    {"role": "model", "parts": [{"text": "Paid"}]},
]
BEDROCK = [
    {"role": "user", "content": [{"text": "Pay it"}]},
    {"role": "assistant", "content": [{"toolUse": {"toolUseId": "1", "name": "pay", "input": {}}}]},
    {
        "role": "user",
        "content": [{"toolResult": {"toolUseId": "1", "status": "success", "content": [{"text": "ok"}]}}],
    },
    {"role": "assistant", "content": [{"text": "Paid"}]},
]
LANGCHAIN = [
    SimpleNamespace(type="human", content="Pay it"),
    SimpleNamespace(type="ai", content="", tool_calls=[{"id": "1", "name": "pay", "args": {}}]),
    SimpleNamespace(type="tool", content="ok", tool_call_id="1", name="pay", status="success"),
    SimpleNamespace(type="ai", content=[{"type": "text", "text": "Paid"}], tool_calls=[]),
]
SHORT = ["Pay it", ("ai", "Paid")]


@each_row(
    "messages",
    [OPENAI, RESPONSES, ANTHROPIC, GEMINI, BEDROCK, LANGCHAIN],
)
def test_the_same_turn_is_read_from_each_form(messages):
    asked, called, result, answered = read_messages(messages)
    assert (asked, called, answered) == (ASKED, CALLED, ANSWERED)
    assert result.role == "tool" and result.text == ""
    assert [(one.call_id, one.worked) for one in result.results] == [("1", True)]


def test_objects_are_read_like_dictionaries():
    def as_object(value):
        if isinstance(value, dict):
            return SimpleNamespace(**{key: as_object(inner) for key, inner in value.items()})
        return [as_object(one) for one in value] if isinstance(value, list) else value

    for messages in (OPENAI, RESPONSES, ANTHROPIC, BEDROCK):
        assert read_messages(as_object(messages)) == read_messages(messages)


def test_a_text_is_the_users_and_a_pair_has_its_role():
    assert read_messages(SHORT) == [ASKED, ANSWERED]


def test_what_is_no_message_is_left_out():
    assert (
        read_messages([3, None, {}, {"role": "critic", "content": "no"}, {"type": "reasoning"}, object()])
        == []
    )


@each_row(
    ("result", "worked"),
    [
        ({"type": "tool_result", "tool_use_id": "1", "is_error": True, "content": "ok"}, False),
        ({"type": "tool_result", "tool_use_id": "1", "is_error": False, "content": "Error: none"}, True),
        ({"role": "tool", "tool_call_id": "1", "content": "Error: no such customer"}, False),
        ({"role": "tool", "tool_call_id": "1", "content": "No errors were found"}, True),
        (
            {
                "role": "tool",
                "tool_call_id": "1",
                "content": [{"type": "text", "text": "Traceback (most recent call last):"}],
            },
            False,
        ),
        ({"type": "function_call_output", "call_id": "1", "output": '{"status": "error"}'}, False),
        ({"type": "function_call_output", "call_id": "1", "output": '{"error": null, "status": "ok"}'}, True),
    ],
)
def test_whether_a_call_failed_is_read_from_its_flag_and_else_from_its_text(result, worked):
    (read,) = read_messages([result])
    assert read.results == (CallResult("1", "", worked),)


@each_row(
    "text", ['{"error": "x"}', '{"success": false}', '{"isError": true}', "  ERROR 42", "Failed to open"]
)
def test_a_text_that_looks_like_an_error_is_one(text):
    assert failed_by_text(text)


@each_row(
    "text", ["", "{", "[" * 100_000, '{"a": ' * 100_000, json.dumps({"errors": []}), None, 3, ["a", {"b": 1}]]
)
def test_any_other_content_is_no_error(text):
    assert not failed_by_text(text)
