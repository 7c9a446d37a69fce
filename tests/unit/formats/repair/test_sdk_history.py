"""Histories that hold objects of the providers' SDKs."""

from __future__ import annotations

import types as standard_types

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.formats.repair.histories import FORMS, broken, faults, valid
from toolroll.formats.providers.history_form import MISSING
from toolroll.formats.repair.history import repair_history
from toolroll.formats.repair.trimming import truncate_results, window
from toolroll.model.errors import InvalidInput

PACKAGES = {
    "openai": "openai",
    "openai_responses": "openai",
    "anthropic": "anthropic",
    "gemini": "google.genai",
}


def as_sdk(message, form):
    """The message as the SDK returns it, or with its parts as the SDK returns them; itself if it is none."""
    try:
        if form == "openai" and message["role"] == "assistant":
            from openai.types.chat import ChatCompletionMessage

            return ChatCompletionMessage.model_validate(message)
        if form == "openai_responses" and message.get("type") in ("function_call", "reasoning"):
            from openai.types.responses import ResponseFunctionToolCall, ResponseReasoningItem

            model = ResponseReasoningItem if message["type"] == "reasoning" else ResponseFunctionToolCall
            return model.model_validate(message)
        if form == "anthropic" and message["role"] == "assistant":
            from anthropic.types import TextBlock, ToolUseBlock

            models = {"text": TextBlock, "tool_use": ToolUseBlock}
            return {
                **message,
                "content": [models[block["type"]].model_validate(block) for block in message["content"]],
            }
        if form == "gemini":
            from google.genai.types import Content

            return Content.model_validate(message)
    except (ValueError, KeyError, TypeError):
        pass
    return message


def plain(value):
    """Dictionaries and lists for objects, with the names in snake case."""
    if hasattr(value, "model_dump"):
        return plain(value.model_dump(exclude_unset=True))
    if isinstance(value, dict):
        names = {"functionCall": "function_call", "functionResponse": "function_response"}
        return {names.get(key, key): plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, (list, tuple)) else value


@pytest.mark.parametrize("form", FORMS)
@given(st.data())
@settings(max_examples=60)
def test_a_history_in_order_comes_back_as_the_same_objects(form, data):
    pytest.importorskip(PACKAGES[form])
    messages = data.draw(valid(form))
    mixed = [as_sdk(message, form) if data.draw(st.booleans()) else message for message in messages]
    repaired = repair_history(mixed, form)
    assert repaired.changes == ()
    assert len(repaired.messages) == len(mixed)
    assert all(made is given for made, given in zip(repaired.messages, mixed, strict=True))


@pytest.mark.parametrize("form", FORMS)
@given(st.data())
@settings(max_examples=150)
def test_objects_are_repaired_as_dictionaries_are(form, data):
    pytest.importorskip(PACKAGES[form])
    messages = data.draw(broken(form))
    mixed = [as_sdk(message, form) if data.draw(st.booleans()) else message for message in messages]
    before = plain(mixed)
    repaired = repair_history(mixed, form)
    expected = repair_history(messages, form)
    assert plain(repaired.messages) == plain(expected.messages) and repaired.changes == expected.changes
    assert faults(plain(repaired.messages), form) == []
    assert repair_history(repaired.messages, form).changes == ()
    last = data.draw(st.integers(0, len(messages)))
    assert plain(window(mixed, last, form)) == plain(window(messages, last, form))
    assert plain(truncate_results(mixed, 0, form)) == plain(truncate_results(messages, 0, form))
    assert plain(mixed) == before


def test_blocks_that_anthropic_returned_are_calls():
    anthropic = pytest.importorskip("anthropic")
    use = anthropic.types.ToolUseBlock(type="tool_use", id="t1", name="f", input={})
    messages = [
        {"role": "user", "content": "w?"},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "12"}]},
    ]
    repaired = repair_history(messages)
    assert (
        repaired.changes == () and repaired.messages == messages and repaired.messages[1]["content"][0] is use
    )
    lost = repair_history([*messages[:2], {"role": "user", "content": "never mind"}])
    assert lost.messages[1] is messages[1] and lost.messages[2]["content"][0]["content"] == MISSING


def test_a_reply_of_anthropic_may_stand_in_the_list_as_a_whole():
    anthropic = pytest.importorskip("anthropic")
    reply = anthropic.types.Message.model_validate(
        {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use",
            "content": [{"type": "text", "text": " "}, {"type": "tool_use", "id": "t1", "name": "f", "input": {}}],
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
    )  # fmt: skip
    answer = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "12"}]}
    made = repair_history([{"role": "user", "content": "w?"}, reply, answer])
    assert [change.what for change in made.changes] == ["empty removed"]
    assert type(made.messages[1]) is type(reply) and made.messages[1].content == [reply.content[1]]
    assert made.messages[1].content[0] is reply.content[1] and made.messages[2] is answer


def test_messages_and_calls_that_openai_returned_are_read():
    chat = pytest.importorskip("openai.types.chat")
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    message = chat.ChatCompletionMessage.model_validate(
        {"role": "assistant", "content": None, "tool_calls": [call]}
    )
    answer = {"role": "tool", "tool_call_id": "c1", "content": "12"}
    question = {"role": "user", "content": "w?"}
    held = {"role": "assistant", "content": None, "tool_calls": message.tool_calls}
    for calling in (message, held):
        assert repair_history([question, calling, answer]).changes == ()
        lost = repair_history([question, calling]).messages
        assert lost[1] is calling and lost[2] == {**answer, "content": MISSING}
    assert window([question, message, answer], 1) == [message, answer]


def test_a_changed_model_stays_one_of_its_class_if_the_class_accepts_the_change():
    chat = pytest.importorskip("openai.types.chat")
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    message = chat.ChatCompletionMessage.model_validate(
        {"role": "assistant", "content": "x", "tool_calls": [call, call]}
    )
    made = repair_history([{"role": "user", "content": "w?"}, message], "openai").messages[1]
    assert isinstance(made, chat.ChatCompletionMessage) and made.tool_calls == message.tool_calls[:1]
    assert made.tool_calls[0] is message.tool_calls[0] and len(message.tool_calls) == 2


def test_contents_of_gemini_get_parts_of_their_own_class():
    types = pytest.importorskip("google.genai.types")
    calling = types.Content(
        role="model",
        parts=[
            types.Part(function_call=types.FunctionCall(id="a", name="f", args={}), thought_signature=b"x")
        ],
    )
    question = types.Content(role="user", parts=[types.Part(text="w?")])
    made = repair_history([question, calling, {"role": "user", "parts": [{"text": "well?"}]}])
    assert made.messages[1] is calling and isinstance(made.messages[2], types.Content)
    response = made.messages[2].parts[0].function_response
    assert (response.id, response.name, response.response) == ("a", "f", {"error": MISSING})


def test_classes_of_contents_that_fix_the_role_are_read_and_replaced_by_their_base():
    types = pytest.importorskip("google.genai.types")
    empty, call = types.FunctionCall(name="", args={}), types.FunctionCall(name="f", args={})
    question = types.UserContent(parts=[types.Part(text="w?")])
    calling = types.ModelContent(parts=[types.Part(function_call=empty), types.Part(function_call=call)])
    made = repair_history([calling, question]).messages
    assert [message.role for message in made] == ["user", "model", "user", "user"] and made[3] is question
    assert all(isinstance(message, types.Content) for message in made)
    assert made[1].parts[0] is calling.parts[1] and len(made[1].parts) == 1


def test_other_objects_with_the_fields_of_messages_are_read_too():
    call = standard_types.SimpleNamespace(id="c1", function=standard_types.SimpleNamespace(name="f"))
    message = standard_types.SimpleNamespace(role="assistant", content="", tool_calls=[call, call])
    made = repair_history([{"role": "user", "content": "w?"}, message]).messages
    assert made[1] == {"role": "assistant", "content": "", "tool_calls": [call]}
    with pytest.raises(InvalidInput, match="must be a message object"):
        repair_history([standard_types.SimpleNamespace(text="hi")])
