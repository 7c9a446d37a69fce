"""What is delivered is what the providers' own libraries take, write and send."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from toolroll import Toolroll
from toolroll.formats.meta_tools import META_TOOLS, read_search
from toolroll.formats.providers import PROVIDERS
from toolroll.formats.schemas import convert_all, provider_name
from toolroll.formats.sources import read_tools
from toolroll.selection.delivery import Delivery, answer_search

openai = pytest.importorskip("openai")
anthropic = pytest.importorskip("anthropic")
pydantic = pytest.importorskip("pydantic")

WEATHER = "If it rains tomorrow, plan an indoor workout and add it to my calendar"
ASK = [{"role": "user", "content": WEATHER}]
REPLIES: dict[str, Any] = {
    "chat/completions": {
        "id": "1", "object": "chat.completion", "created": 0, "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "ok"}}],
    },
    "responses": {
        "id": "1", "object": "response", "created_at": 0, "model": "m", "output": [
            {"type": "tool_search_call", "id": "ts_1", "call_id": "call_1", "execution": "client",
             "status": "completed", "arguments": {"queries": ["weather forecast"]}},
        ], "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
    },
    "messages": {
        "id": "1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use",
        "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
        "content": [{"type": "tool_use", "id": "toolu_1", "name": "search_tools", "input": {"queries": ["weather forecast"]}}],
    },
    "generateContent": {"candidates": [{"content": {"role": "model", "parts": [{"text": "ok"}]}, "finishReason": "STOP"}]},
}  # fmt: skip


class Provider(HTTPServer):
    """Keeps what arrived and says ok."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.seen: list[dict[str, Any]] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class Answer(BaseHTTPRequestHandler):
    server: Provider

    def do_POST(self) -> None:
        self.server.seen.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        path = self.path.split("?")[0]
        body = json.dumps(next(reply for end, reply in REPLIES.items() if path.endswith(end))).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def provider() -> Iterator[Provider]:
    server = Provider()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def roll() -> Toolroll:
    """Part of the demonstration, few enough for OpenAI's whole list, with names and schemas that nobody likes."""
    odd = [
        {"name": "weather.alerts", "description": "Rain warnings for tomorrow", "inputSchema": ODD, "annotations": {"readOnlyHint": True}},
        {"name": "날씨 조회", "description": "Rain forecast", "parameters": ODD},
        {"name": "no_arguments", "description": "Rain now", "parameters": None},
        {"name": "noted", "description": "Rain tomorrow", "input_schema": ODD, "cache_control": {"type": "ephemeral"}, "defer_loading": True},
    ]  # fmt: skip
    return Toolroll.from_tools([*Toolroll.demo().catalog.tools[:100], *odd])


ODD = {
    "anyOf": [{"$ref": "#/$defs/place"}, {"type": "object", "properties": {"when": {"type": ["string", "null"], "format": "uuid"}}}],
    "$defs": {
        "place": {
            "type": "object",
            "properties": {"name": {"type": "string", "minLength": 1}, "inside": {"$ref": "#/$defs/place", "description": "Of what."}},
            "required": ["name"],
        }
    },
}  # fmt: skip


def deliveries(roll: Toolroll, provider: str) -> list[Delivery]:
    """Every way and form of one provider, for a message that needs some of the odd tools."""
    picked = roll.select(WEATHER, k=40)
    forms: list[dict[str, Any]] = [{}]
    if PROVIDERS[provider].takes_strict:
        forms.append({"strict": True})
    if provider == "gemini":
        forms += [{"json_schema": True}, {"json_schema": True, "returns": True}]
    made = [picked.deliver(provider, how, **form) for how in PROVIDERS[provider].hows for form in forms]
    must_call = provider != "mcp"
    made += [
        picked.deliver(provider, how, must_call=must_call, meta_tools=META_TOOLS)
        for how in PROVIDERS[provider].hows
    ]
    return made


def accepted(kind: Any, value: Any) -> None:
    """Holds a value against the library's own type of the parameter, which by itself lets unknown keys pass."""
    pydantic.TypeAdapter(kind).validate_python(value, strict=True)
    if hasattr(kind, "__required_keys__"):
        assert value.keys() <= kind.__required_keys__ | kind.__optional_keys__


def test_the_libraries_types_refuse_what_is_wrong():
    from anthropic.types import ToolParam
    from openai.types.chat import ChatCompletionToolChoiceOptionParam
    from openai.types.responses import FunctionToolParam

    right = {"type": "function", "name": "a", "parameters": {}, "strict": False}
    accepted(FunctionToolParam, right)
    for kind, wrong in (
        (FunctionToolParam, {**right, "strict": "no"}),
        (FunctionToolParam, {**right, "annotations": {}}),
        (ToolParam, {"name": "a"}),
        (ChatCompletionToolChoiceOptionParam, {"type": "allowed_tools", "mode": "auto", "tools": []}),
    ):
        with pytest.raises((pydantic.ValidationError, AssertionError)):
            accepted(kind, wrong)


def test_openais_chat_completions_take_what_is_delivered(roll, provider):
    from openai.types.chat import ChatCompletionFunctionToolParam, ChatCompletionToolChoiceOptionParam
    from openai.types.shared_params import FunctionDefinition

    with openai.OpenAI(api_key="x", base_url=provider.url, max_retries=0) as client:
        for delivery in deliveries(roll, "openai"):
            client.chat.completions.create(model="m", messages=ASK, **delivery.request)
            assert {key: provider.seen[-1].get(key) for key in delivery.request} == delivery.request
            for tool in delivery.request["tools"]:
                accepted(ChatCompletionFunctionToolParam, tool)
                accepted(FunctionDefinition, tool["function"])
            if "tool_choice" in delivery.request:
                accepted(ChatCompletionToolChoiceOptionParam, delivery.request["tool_choice"])


def test_openais_responses_take_what_is_delivered_and_the_answer_to_a_search(roll, provider):
    from openai.types.responses import FunctionToolParam, ToolChoiceAllowedParam, ToolSearchToolParam
    from openai.types.responses.response_create_params import ToolChoice
    from openai.types.responses.response_tool_search_output_item_param_param import (
        ResponseToolSearchOutputItemParamParam,
    )

    with openai.OpenAI(api_key="x", base_url=provider.url, max_retries=0) as client:
        for delivery in deliveries(roll, "openai_responses"):
            reply = client.responses.create(model="m", input=ASK, **delivery.request)
            assert {key: provider.seen[-1].get(key) for key in delivery.request} == delivery.request
            for tool in delivery.request["tools"]:
                accepted(ToolSearchToolParam if tool["type"] == "tool_search" else FunctionToolParam, tool)
            if isinstance(choice := delivery.request.get("tool_choice"), dict):
                accepted(ToolChoiceAllowedParam, choice)
            elif choice is not None:
                accepted(ToolChoice, choice)

        call = reply.output[0]
        queries, limit = read_search(call.arguments)
        found = roll.select(queries[0], k=limit).definitions
        answer = answer_search("openai_responses", call, found)
        accepted(ResponseToolSearchOutputItemParamParam, answer)
        for tool in answer["tools"]:
            accepted(FunctionToolParam, tool)
        client.responses.create(model="m", input=[*ASK, call.to_dict(), answer], **delivery.request)
        assert provider.seen[-1]["input"][-1] == answer
        assert all(tool["defer_loading"] for tool in answer["tools"]) and answer["tools"]


def test_openais_own_strict_form_is_the_one_that_is_delivered(roll):
    from openai.lib._pydantic import _ensure_strict_json_schema

    strict = [tool["function"] for tool in roll.select(WEATHER, k=60).schemas("openai", strict=True)]
    assert sum(function.get("strict", False) for function in strict) > 50
    for function in strict:
        if function.get("strict"):
            schema = json.loads(json.dumps(function["parameters"]))
            assert _ensure_strict_json_schema(schema, path=(), root=schema) == function["parameters"]


def test_anthropic_takes_what_is_delivered_and_the_answer_to_a_search(roll, provider):
    from anthropic.types import ToolChoiceParam, ToolParam, ToolResultBlockParam

    with anthropic.Anthropic(api_key="x", base_url=provider.url, max_retries=0) as client:
        for delivery in deliveries(roll, "anthropic"):
            reply = client.messages.create(model="m", max_tokens=9, messages=ASK, **delivery.request)
            assert {key: provider.seen[-1].get(key) for key in delivery.request} == delivery.request
            for tool in delivery.request["tools"]:
                accepted(ToolParam, tool)
            if "tool_choice" in delivery.request:
                accepted(ToolChoiceParam, delivery.request["tool_choice"])
            deferred = [tool for tool in delivery.request["tools"] if tool.get("defer_loading")]
            assert len(deferred) < len(delivery.request["tools"])
            assert not any("cache_control" in tool for tool in deferred)

        (call,) = reply.content
        queries, limit = read_search(call.input)
        answer = answer_search("anthropic", call, roll.select(queries[0], k=limit).definitions)
        accepted(ToolResultBlockParam, answer)
        turns = [
            *ASK,
            {"role": "assistant", "content": [call.to_dict()]},
            {"role": "user", "content": [answer]},
        ]
        request = roll.select(WEATHER).deliver("anthropic", "defer").request
        client.messages.create(model="m", max_tokens=9, messages=turns, **request)
        assert provider.seen[-1]["messages"][-1]["content"] == [answer]
        listed = {tool["name"] for tool in provider.seen[-1]["tools"]}
        assert {block["tool_name"] for block in answer["content"]} <= listed


def test_gemini_takes_what_is_delivered(roll, provider):
    genai = pytest.importorskip("google.genai")
    types = genai.types

    client = genai.Client(api_key="x", http_options=types.HttpOptions(base_url=provider.url))
    for delivery in deliveries(roll, "gemini"):
        config = types.GenerateContentConfig(**delivery.request)  # refuses what it does not know
        client.models.generate_content(model="m", contents=WEATHER, config=config)
        (sent,) = provider.seen[-1]["tools"]
        (given,) = delivery.request["tools"]
        names = [tool["name"] for tool in given["function_declarations"]]
        assert [tool["name"] for tool in sent["functionDeclarations"]] == names
        if "tool_config" in delivery.request:
            asked = delivery.request["tool_config"]["function_calling_config"]
            arrived = provider.seen[-1]["toolConfig"]["functionCallingConfig"]
            assert arrived["mode"] == asked["mode"]
            assert arrived.get("allowedFunctionNames") == asked.get("allowed_function_names")
    client.close()


def test_an_mcp_server_lists_what_is_delivered(roll):
    mcp_types = pytest.importorskip("mcp_types")

    for delivery in deliveries(roll, "mcp"):
        listed = mcp_types.ListToolsResult.model_validate(delivery.request)
        assert len(listed.tools) == len(delivery.request["tools"])
        again, _ = convert_all(read_tools(listed.tools).tools, "mcp")
        for tool, given in zip(again, delivery.request["tools"], strict=True):
            assert tool == {**given, "name": provider_name(given["name"], "mcp")}


def test_the_metadata_of_an_mcp_tool_is_read_from_the_packages_own_object():
    mcp_types = pytest.importorskip("mcp_types")
    listed = {
        "name": "drop_db",
        "title": "Drop a database",
        "description": "Drops.",
        "inputSchema": {"type": "object", "properties": {}},
        "outputSchema": {"type": "object", "properties": {}},
        "annotations": {"title": "Drop", "readOnlyHint": False, "destructiveHint": True},
        "icons": [{"src": "https://example.org/a.png", "mimeType": "image/png", "sizes": ["48x48"]}],
        "execution": {"taskSupport": "optional"},
        "_meta": {"ui": {"visibility": ["app"]}},
    }
    (tool,) = read_tools([mcp_types.Tool.model_validate(listed)]).tools
    assert tool.hints == {"title": "Drop", "readOnlyHint": False, "destructiveHint": True}
    for one in (tool, replace(tool, original=None)):
        assert convert_all([one], "mcp")[0] == [listed]
