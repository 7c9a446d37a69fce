"""A provider on a loopback address that plays a model by script, and refuses requests as strictly as it can."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

pydantic = pytest.importorskip("pydantic")

OPENAI, ANTHROPIC = "/v1/chat/completions", "/v1/messages"
NAMES = {OPENAI: r"[a-zA-Z0-9_-]{1,64}", ANTHROPIC: r"[a-zA-Z0-9_-]{1,128}"}


@dataclass(frozen=True)
class Reply:
    """What the model says next.

    Attributes:
        text: the text of the reply.
        calls: (name, arguments) of each call; for OpenAI, arguments may be text.
        must_call: whether the request has to demand a call.
    """

    text: str = ""
    calls: Sequence[tuple[str, Any]] = ()
    must_call: bool = False


class ScriptedModel(HTTPServer):
    """Answers each request with the next reply of the script, and keeps the requests."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.script: list[Reply] = []
        self.requests: list[dict[str, Any]] = []
        self._calls = 0

    def reply(self, path: str, request: dict[str, Any]) -> dict[str, Any]:
        """The next reply, in the provider's form."""
        (_check_openai if path == OPENAI else _check_anthropic)(request)
        tools = [_name(tool) for tool in request["tools"]]
        assert len(set(tools)) == len(tools), "a name is there twice"
        assert all(re.fullmatch(NAMES[path], name) for name in tools)
        turn = _turn(request["messages"])
        if self.requests and _turn(self.requests[-1]["messages"]) == turn:
            before = self.requests[-1]["tools"]
            assert request["tools"][: len(before)] == before, "the list has changed within the turn"
        reply = self.script.pop(0)
        forced = {OPENAI: "required", ANTHROPIC: {"type": "any"}}[path]
        assert request.get("tool_choice") == (forced if reply.must_call else None)
        self.requests.append(request)
        ids = [
            f"{'call' if path == OPENAI else 'toolu'}_{self._calls + at}" for at in range(len(reply.calls))
        ]
        self._calls += len(ids)
        calls = [(id, *call) for id, call in zip(ids, reply.calls, strict=True)]
        return (_openai if path == OPENAI else _anthropic)(reply.text, calls)


@contextmanager
def scripted_model() -> Iterator[ScriptedModel]:
    """The server, while it runs."""
    server = ScriptedModel()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: ScriptedModel

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        try:
            status, body = 200, self.server.reply(self.path, request)
        except Exception as error:
            status, body = 400, {"error": {"type": "invalid_request_error", "message": repr(error)}}
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None: ...


def _check_openai(request: Mapping[str, Any]) -> None:
    from openai.types.chat import ChatCompletionFunctionToolParam

    kind = pydantic.TypeAdapter(ChatCompletionFunctionToolParam)
    for tool in request["tools"]:
        kind.validate_python(tool, strict=True)
        assert tool["function"]["parameters"]["type"] == "object"
    check_openai_messages(request["messages"])


def check_openai_messages(messages: Sequence[Mapping[str, Any]]) -> None:
    """Raises an AssertionError or ValueError if OpenAI would refuse the list."""
    open_calls: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            open_calls.remove(message["tool_call_id"])  # a result belongs to a call right before it
            assert isinstance(message["content"], str)
            continue
        assert not open_calls, f"calls without results: {open_calls}"
        assert message["role"] in ("user", "assistant", "system")
        assert message.get("content") or message.get("tool_calls"), "an empty message"
        assert message.get("tool_calls") != []
        for call in message.get("tool_calls", ()):
            assert call["type"] == "function" and isinstance(call["function"]["arguments"], str)
            open_calls.append(call["id"])
        assert len(set(open_calls)) == len(open_calls)
    assert not open_calls, f"calls without results: {open_calls}"
    assert messages[-1]["role"] in ("user", "tool")


def _check_anthropic(request: Mapping[str, Any]) -> None:
    from anthropic.types import MessageParam, ToolParam

    for tool in request["tools"]:
        pydantic.TypeAdapter(ToolParam).validate_python(tool, strict=True)
        assert tool["input_schema"]["type"] == "object"
    messages = request["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant"] * (len(messages) // 2) + [
        "user"
    ]
    open_calls: list[str] = []
    for message in messages:
        pydantic.TypeAdapter(MessageParam).validate_python(message)
        content = message["content"]
        assert content, "an empty message"
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        kinds = [block["type"] for block in blocks]
        assert all(block["text"].strip() for block in blocks if block["type"] == "text")
        if message["role"] == "assistant":
            open_calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
            assert len(set(open_calls)) == len(open_calls) and "tool_result" not in kinds
            continue
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert sorted(results) == sorted(open_calls), "calls and results differ"
        assert kinds == sorted(kinds, key=lambda kind: kind != "tool_result"), "results come first"


def _turn(messages: Sequence[Mapping[str, Any]]) -> int:
    """How often the user has written."""
    texts = 0
    for message in messages:
        if message["role"] == "user":
            content = message["content"]
            blocks = content if isinstance(content, list) else [{"type": "text"}]
            texts += sum(block["type"] == "text" for block in blocks)
    return texts


def _name(tool: Mapping[str, Any]) -> str:
    name: str = tool["function"]["name"] if "function" in tool else tool["name"]
    return name


def _openai(text: str, calls: Sequence[tuple[str, str, Any]]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = [
            {
                "id": id,
                "type": "function",
                "function": {
                    "name": name,
                    "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments),
                },
            }
            for id, name, arguments in calls
        ]
    reason = "tool_calls" if calls else "stop"
    choice = {"index": 0, "finish_reason": reason, "message": message}
    return {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}


def _anthropic(text: str, calls: Sequence[tuple[str, str, Any]]) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    content += [{"type": "tool_use", "id": id, "name": name, "input": given} for id, name, given in calls]
    return {
        "id": "1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
        "content": content,
    }
