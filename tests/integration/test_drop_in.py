"""The official clients run tool-calling loops through the drop-in, and what happens when something breaks."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
import logging
import re
import shlex
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("httpx")
import uvicorn

import toolroll
from tests.adapters.loopback import anthropic_reply, gemini_reply, openai_reply
from tests.loopback_server import LoopbackHandler, LoopbackServer, closed_at_the_end
from tests.ports import free_port, refusing_port
from tests.table import each_row
from toolroll import Registry, Rule, Tool, Toolroll
from toolroll.adapters.http_client import toolroll_async_client, toolroll_client
from toolroll.adapters.provider_requests import HEADER, RequestSelector
from toolroll.cli import main
from toolroll.lab.evaluation import workloads
from toolroll.model.errors import InvalidInput
from toolroll.server.drop_in.application import create_drop_in
from toolroll.server.drop_in.upstream import check_upstream
from toolroll.server.settings import ServerSettings

pytestmark = pytest.mark.slow
TOOLS = workloads.tools(200)
WANTED = TOOLS[0]["name"]
SECRET = "sk-canary-of-a-provider-key"
SCHEMA = {"type": "object", "properties": {"target": {"type": "string"}}}


def asked(name: str) -> str:
    server, verb, *noun = name.split("_")
    return f"Could you {verb} the {' '.join(noun)} in {server.capitalize()} for me?"


class Upstream(LoopbackServer):
    """A provider. `answers` says what the next requests get; then all get an empty object."""

    def __init__(self) -> None:
        self.answers: list[Callable[[_Handler], None]] = []
        self.gone = threading.Event()  # a client has closed its connection before its answer ended
        self.go_on = threading.Event()
        super().__init__(_Handler)
        self.url = f"http://127.0.0.1:{self.port}"

    def body(self, at: int = -1) -> Any:
        return json.loads(self.requests[at]["body"])

    def then(self, *answers: Callable[[_Handler], None]) -> Upstream:
        self.answers[:] = answers
        return self


class _Handler(LoopbackHandler):
    of: Upstream

    def do_POST(self) -> None:
        if self.headers["Transfer-Encoding"] == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        self.of.requests.append({"path": self.path, "headers": dict(self.headers), "body": body})
        answer = self.of.answers.pop(0) if self.of.answers else json_of({})
        try:
            answer(self)
        except (BrokenPipeError, ConnectionResetError):
            self.of.gone.set()
            self.close_connection = True

    do_GET = do_DELETE = do_POST

    def begin_events(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def part(self, content: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(content), content))


def json_of(value: Any, status: int = 200, **headers: str) -> Callable[[_Handler], None]:
    return lambda handler: handler.send(
        status, json.dumps(value).encode(), Content_Type="application/json", **headers
    )


def events_of(*events: Any) -> Callable[[_Handler], None]:
    """Server-sent events; a pair is a type and its data."""

    def answer(handler: _Handler) -> None:
        handler.begin_events()
        for event in events:
            kind, data = event if isinstance(event, tuple) else ("", event)
            text = data if isinstance(data, str) else json.dumps(data)
            handler.part((f"event: {kind}\n" if kind else "").encode() + f"data: {text}\n\n".encode())
        handler.part(b"")

    return answer


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with closed_at_the_end(Upstream()) as server:
        yield server


@contextmanager
def served(url: str, **settings: Any) -> Iterator[int]:
    """The port of a drop-in in a thread of its own."""
    values = {"upstream": url, "authentication": "none", "embedder": "static", "grace_s": 4, **settings}
    application = create_drop_in(ServerSettings(**values))
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        application,
        log_config=None,
        access_log=False,
        ws="none",
        date_header=False,
        timeout_graceful_shutdown=2,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


@pytest.fixture
def port(upstream: Upstream) -> Iterator[int]:
    with served(upstream.url, upstream_max_tools=12) as found:
        yield found


def ask(
    port: int, body: Any, path: str = "/v1/chat/completions", method: str = "POST", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """One request without any library's opinions."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, content, sent)
    answer = connection.getresponse()
    found = answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    connection.close()
    return found


def chat(name: str = WANTED, **members: Any) -> dict[str, Any]:
    listed = [
        {"type": "function", "function": {"name": tool["name"], "description": tool["description"]}}
        for tool in TOOLS
    ]
    return {"model": "m", "messages": [{"role": "user", "content": asked(name)}], "tools": listed, **members}


# The official clients, through the proxy and through the HTTP client.


@contextmanager
def way(how: str, upstream: Upstream) -> Iterator[tuple[str, dict[str, Any]]]:
    """The base URL for a library's client, and the HTTP client if it has to be given one."""
    if how == "proxy":
        with served(upstream.url, upstream_max_tools=12) as port:
            yield f"http://127.0.0.1:{port}", {}
    else:
        with toolroll_client(max_tools=12) as client:
            yield upstream.url, {"http_client": client}


WAYS = pytest.mark.parametrize("how", ["proxy", "client"])


@WAYS
def test_openais_client_runs_a_loop_of_chat_completions(how, upstream):
    openai = pytest.importorskip("openai")
    upstream.then(json_of(openai_reply(WANTED)), json_of(openai_reply(text="It is done.")))
    with (
        way(how, upstream) as (url, more),
        openai.OpenAI(api_key=SECRET, base_url=f"{url}/v1", max_retries=0, **more) as client,
    ):
        request = chat()
        messages = request.pop("messages")
        raw = client.chat.completions.with_raw_response.create(messages=messages, **request)
        assert raw.headers[HEADER].startswith("200->7 tools, ")
        (call,) = raw.parse().choices[0].message.tool_calls
        messages += [
            raw.parse().choices[0].message.to_dict(),
            {"role": "tool", "tool_call_id": call.id, "content": "done"},
        ]
        reply = client.chat.completions.create(messages=messages, **request)
    assert reply.choices[0].message.content == "It is done."
    check_two_steps(upstream, [tool["function"]["name"] for tool in upstream.body()["tools"]])


@WAYS
def test_openais_client_runs_a_streamed_loop(how, upstream):
    openai = pytest.importorskip("openai")

    def part(**delta: Any) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": None}
        return {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": [choice]}

    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": WANTED, "arguments": "{}"}}
    upstream.then(
        events_of(part(role="assistant", tool_calls=[call]), "[DONE]"),
        events_of(part(content="It is "), part(content="done."), "[DONE]"),
    )
    with (
        way(how, upstream) as (url, more),
        openai.OpenAI(api_key=SECRET, base_url=f"{url}/v1", max_retries=0, **more) as client,
    ):
        request = chat(stream=True)
        messages = request.pop("messages")
        with client.chat.completions.create(messages=messages, **request) as stream:
            (found,) = [one for each in stream for one in each.choices[0].delta.tool_calls or ()]
        made = {
            "id": found.id,
            "type": "function",
            "function": {"name": found.function.name, "arguments": "{}"},
        }
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [made]},
            {"role": "tool", "tool_call_id": "c1", "content": "done"},
        ]
        with client.chat.completions.create(messages=messages, **request) as stream:
            text = "".join(each.choices[0].delta.content or "" for each in stream)
    assert text == "It is done."
    check_two_steps(upstream, [tool["function"]["name"] for tool in upstream.body()["tools"]])


@WAYS
def test_openais_client_runs_a_loop_of_responses(how, upstream):
    openai = pytest.importorskip("openai")
    blank = {
        "id": "1",
        "object": "response",
        "created_at": 0,
        "model": "m",
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    call = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "c1",
        "name": WANTED,
        "arguments": "{}",
        "status": "completed",
    }
    said = {
        "type": "message",
        "id": "m1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "Done.", "annotations": []}],
    }
    done = {**blank, "output": [said], "status": "completed"}
    upstream.then(
        json_of({**blank, "output": [call], "status": "completed"}),
        events_of(
            ("response.completed", {"type": "response.completed", "sequence_number": 0, "response": done})
        ),
    )
    hosted = {"type": "web_search"}
    tools = [
        {
            "type": "function",
            "name": one["name"],
            "description": one["description"],
            "parameters": SCHEMA,
            "strict": False,
        }
        for one in TOOLS
    ]
    with (
        way(how, upstream) as (url, more),
        openai.OpenAI(api_key=SECRET, base_url=f"{url}/v1", max_retries=0, **more) as client,
    ):
        request: dict[str, Any] = {"model": "m", "tools": [*tools, hosted]}
        items: list[Any] = [{"role": "user", "content": asked(WANTED)}]
        reply = client.responses.create(input=items, **request)
        items += [
            reply.output[0].to_dict(),
            {"type": "function_call_output", "call_id": "c1", "output": "done"},
        ]
        with client.responses.create(input=items, stream=True, **request) as stream:
            (event,) = list(stream)
    assert event.response.output_text == "Done."
    assert upstream.body()["tools"][0] == hosted
    check_two_steps(upstream, [tool["name"] for tool in upstream.body()["tools"][1:]])


@WAYS
def test_anthropics_client_runs_a_loop_and_streams(how, upstream):
    anthropic = pytest.importorskip("anthropic")
    start = {**anthropic_reply(), "content": [], "stop_reason": None}
    upstream.then(
        json_of(anthropic_reply(WANTED)),
        events_of(
            ("message_start", {"type": "message_start", "message": start}),
            (
                "content_block_start",
                {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            ),
            (
                "content_block_delta",
                {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Done."}},
            ),
            ("content_block_stop", {"type": "content_block_stop", "index": 0}),
            (
                "message_delta",
                {
                    "type": "message_delta",
                    "delta": {"stop_reason": "end_turn", "stop_sequence": None},
                    "usage": {"output_tokens": 1},
                },
            ),
            ("message_stop", {"type": "message_stop"}),
        ),
    )
    tools = [
        {"name": one["name"], "description": one["description"], "input_schema": SCHEMA} for one in TOOLS
    ]
    with (
        way(how, upstream) as (url, more),
        anthropic.Anthropic(api_key=SECRET, base_url=url, max_retries=0, **more) as client,
    ):
        messages: list[Any] = [{"role": "user", "content": asked(WANTED)}]
        request: dict[str, Any] = {"model": "m", "max_tokens": 9, "tools": tools}
        reply = client.messages.create(messages=messages, **request)
        (call,) = reply.content
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "done"}
        messages += [
            {"role": "assistant", "content": [call.to_dict()]},
            {"role": "user", "content": [result]},
        ]
        with client.messages.stream(messages=messages, **request) as stream:
            assert "".join(stream.text_stream) == "Done."
    check_two_steps(upstream, [tool["name"] for tool in upstream.body()["tools"]])


@WAYS
def test_geminis_client_runs_a_loop_and_streams(how, upstream):
    genai = pytest.importorskip("google.genai")
    types = genai.types
    upstream.then(json_of(gemini_reply(WANTED)), events_of(gemini_reply(text="Do"), gemini_reply(text="ne.")))
    functions = [
        types.FunctionDeclaration(
            name=one["name"], description=one["description"], parameters_json_schema=SCHEMA
        )
        for one in TOOLS
    ]
    off = types.AutomaticFunctionCallingConfig(disable=True)
    config = types.GenerateContentConfig(
        tools=[types.Tool(function_declarations=functions)], automatic_function_calling=off
    )
    with way(how, upstream) as (url, more):
        options = {"httpx_client": more["http_client"]} if more else {}
        client = genai.Client(api_key=SECRET, http_options=types.HttpOptions(base_url=url, **options))
        contents = [types.Content(role="user", parts=[types.Part(text=asked(WANTED))])]
        reply = client.models.generate_content(model="m", contents=contents, config=config)
        (call,) = reply.function_calls
        result = types.Part.from_function_response(name=call.name, response={"result": "done"})
        contents += [reply.candidates[0].content, types.Content(role="user", parts=[result])]
        parts = client.models.generate_content_stream(model="m", contents=contents, config=config)
        assert "".join(part.text for part in parts) == "Done."
        client.close()
    assert upstream.requests[-1]["path"].split("?")[0].endswith("/models/m:streamGenerateContent")
    check_two_steps(upstream, [one["name"] for one in upstream.body()["tools"][0]["functionDeclarations"]])


def check_two_steps(upstream: Upstream, names: list[str]) -> None:
    """Both steps of the turn had one short list with the tool that was needed, and the caller's own key."""
    first, second = (upstream.body(at) for at in (-2, -1))
    assert first["tools"] == second["tools"]
    assert WANTED in names and len(names) <= 12
    assert all(SECRET in str(request["headers"]) for request in upstream.requests)
    assert not any("x-toolroll" in str(request["headers"]).lower() for request in upstream.requests)


def test_openais_async_client_works_with_the_async_client(upstream):
    openai = pytest.importorskip("openai")
    upstream.then(json_of(openai_reply(text="ok")))

    async def run() -> str:
        async with (
            toolroll_async_client(max_tools=12) as http_client,
            openai.AsyncOpenAI(api_key="x", base_url=f"{upstream.url}/v1", http_client=http_client) as client,
        ):
            reply = await client.chat.completions.create(
                **chat(), extra_headers={"x-toolroll-conversation": "c"}
            )
            return reply.choices[0].message.content

    assert asyncio.run(run()) == "ok"
    assert len(upstream.body()["tools"]) <= 12


def test_the_client_answers_for_the_provider_where_rules_cannot_be_applied(upstream):
    openai = pytest.importorskip("openai")
    roll = Toolroll.from_tools(
        [], rules=[Rule("no", "deny", "tier", {"tier": "free"}, tool=WANTED)], tiers=["free"]
    )
    with (
        toolroll_client(roll) as http_client,
        openai.OpenAI(api_key="x", base_url=upstream.url, http_client=http_client) as client,
        pytest.raises(openai.BadRequestError, match="rules cannot be applied"),
    ):
        client.chat.completions.create(model="m", messages=[], extra_body={"tools": {"a": 1}})
    assert not upstream.requests


def test_an_own_selector_and_an_own_library_may_be_given(upstream):
    import httpx

    with toolroll_client(RequestSelector(max_tools=3), library=httpx, timeout=5) as client:
        assert isinstance(client, httpx.Client) and client.timeout.read == 5
        answer = client.post(f"{upstream.url}/v1/chat/completions", json=chat())
    assert answer.headers[HEADER].startswith("200->3 tools") and len(upstream.body()["tools"]) == 3


# What is passed on as it is.


def test_other_requests_pass_byte_for_byte(upstream, port):
    body = bytes(range(256)) * 40
    upstream.then(lambda handler: handler.send(207, b"\x00\xff answer", X_Odd="yes", Content_Type="x/y"))
    status, headers, answer = ask(
        port, body, "/v1/files/a%2Fb?x=1&y=%20", "DELETE", authorization="Bearer k", x_toolroll_key="no"
    )
    assert (status, answer, headers["x-odd"], headers["content-type"]) == (
        207,
        b"\x00\xff answer",
        "yes",
        "x/y",
    )
    request = upstream.requests[-1]
    assert (request["path"], request["body"]) == ("/v1/files/a%2Fb?x=1&y=%20", body)
    assert HEADER not in headers
    sent = {name.lower(): value for name, value in request["headers"].items()}
    assert sent["authorization"] == "Bearer k" and "x-toolroll-key" not in sent
    assert sent["host"] == f"127.0.0.1:{upstream.port}" and "user-agent" not in sent


def test_a_request_without_a_body_has_none_behind_the_proxy(upstream, port):
    assert ask(port, None, "/v1/models", "GET")[0] == 200
    assert upstream.requests[-1]["body"] == b""


def test_the_paths_that_the_service_opens_to_all_are_the_providers_here(upstream, port):
    assert ask(port, None, "/openapi.json", "GET")[0] == 200
    assert upstream.requests[-1]["path"].endswith("/openapi.json")
    assert ask(port, None, "/openapi.json", "GET", host="evil.example")[0] == 421


def test_a_compressed_answer_and_an_error_pass_as_they_are(upstream, port):
    content = gzip.compress(b'{"id": "1"}')
    upstream.then(
        lambda handler: handler.send(200, content, Content_Encoding="gzip"),
        json_of({"error": {"message": "slow down"}}, 429, Retry_After="7"),
    )
    status, headers, answer = ask(port, chat(), accept_encoding="gzip")
    assert (status, headers["content-encoding"], answer) == (200, "gzip", content)
    assert headers[HEADER].startswith("200->7 tools")
    status, headers, answer = ask(port, chat())
    assert (status, headers["retry-after"], json.loads(answer)) == (
        429,
        "7",
        {"error": {"message": "slow down"}},
    )


@pytest.mark.parametrize("status", [600, 999])
def test_a_status_that_no_server_can_pass_on_is_a_bad_gateway(upstream, port, status):
    """Before: the client's connection was closed, and the log had a KeyError."""
    upstream.then(json_of({}, status))
    answered, _, answer = ask(port, chat())
    assert answered == 502
    assert f"answered with the HTTP status {status}".encode() in answer


def test_headers_of_one_connection_are_not_passed_on(upstream, port):
    def answer(handler: _Handler) -> None:
        handler.send(200, b"{}", Connection="X-Private", X_Private="1", Keep_Alive="timeout=5", X_Public="2")

    upstream.then(answer)
    _, headers, _ = ask(port, chat(), connection="x-mine", x_mine="1", te="trailers", x_yours="2")
    assert headers["x-public"] == "2" and not headers.keys() & {"x-private", "keep-alive"}
    sent = {name.lower() for name in upstream.requests[-1]["headers"]}
    assert "x-yours" in sent and not sent & {"x-mine", "te"}


def test_cookies_of_one_caller_never_reach_another(upstream, port):
    upstream.then(json_of({}, Set_Cookie="session=ann; Path=/"))
    assert ask(port, chat())[1]["set-cookie"] == "session=ann; Path=/"
    ask(port, chat())
    assert "cookie" not in str(upstream.requests[-1]["headers"]).lower()


@pytest.mark.parametrize("path", ["", "/v1", "/api/v1"])
@pytest.mark.parametrize("asked_for", ["/chat/completions", "/v1/chat/completions"])
def test_the_version_is_written_once(upstream, path, asked_for):
    with served(upstream.url + path) as port:
        ask(port, chat(), asked_for)
    both = path + asked_for.removeprefix("/v1") if path else asked_for
    assert upstream.requests[-1]["path"] == both


def test_a_streams_first_part_arrives_before_the_rest_is_made(upstream, port):
    def answer(handler: _Handler) -> None:
        handler.begin_events()
        handler.part(b"data: 1\n\n")
        assert handler.of.go_on.wait(20)
        handler.part(b"data: 2\n\n")
        handler.part(b"")

    upstream.then(answer)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("POST", "/v1/chat/completions", json.dumps(chat(stream=True)))
    response = connection.getresponse()
    assert response.read1() == b"data: 1\n\n"
    upstream.go_on.set()
    assert response.read() == b"data: 2\n\n"
    connection.close()


# What breaks.


def test_a_client_that_leaves_ends_the_call_of_the_provider(upstream, port):
    def endless(handler: _Handler) -> None:
        handler.begin_events()
        while not handler.of.closing.wait(0.01):
            handler.part(b"data: x\n\n")

    upstream.then(endless)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("POST", "/v1/chat/completions", json.dumps(chat(stream=True)))
    connection.getresponse().read1()
    connection.sock.shutdown(socket.SHUT_RDWR)
    connection.close()
    assert upstream.gone.wait(10)


def test_a_client_that_leaves_before_the_answer_begins_ends_the_call_too(upstream, port):
    def silent(handler: _Handler) -> None:
        handler.connection.settimeout(20)
        if handler.connection.recv(1) == b"":  # the proxy has closed the connection
            handler.of.gone.set()
        handler.close_connection = True

    upstream.then(silent)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("POST", "/v1/chat/completions", json.dumps(chat()))
    while not upstream.requests:
        time.sleep(0.01)
    connection.sock.shutdown(socket.SHUT_RDWR)
    connection.close()
    assert upstream.gone.wait(10)


ERRORS = {
    "/v1/chat/completions": lambda body: body["error"]["type"],
    "/v1/responses": lambda body: body["error"]["type"],
    "/v1/messages": lambda body: (body["type"], body["error"]["type"]),
    "/v1beta/models/m:generateContent": lambda body: (body["error"]["code"], body["error"]["status"]),
}
KINDS = ["server_error", "server_error", ("error", "api_error"), (502, "UNAVAILABLE")]


def test_a_provider_that_is_away_is_an_error_in_its_own_form():
    with refusing_port() as closed, served(f"http://127.0.0.1:{closed}") as port:
        for (path, kind_of), kind in zip(ERRORS.items(), KINDS, strict=True):
            status, headers, answer = ask(port, chat(), path)
            assert (status, headers["content-type"]) == (502, "application/json")
            assert kind_of(json.loads(answer)) == kind
            assert "the provider (127.0.0.1) cannot be reached" in answer.decode()


def test_a_provider_that_drops_the_connection_is_told_from_one_that_is_away(upstream, port):
    def drop(handler: _Handler) -> None:
        handler.connection.shutdown(socket.SHUT_RDWR)
        handler.close_connection = True

    upstream.then(drop)
    status, _, answer = ask(port, chat())
    assert status == 502 and b"the provider (127.0.0.1) dropped the connection" in answer


def test_a_provider_that_says_nothing_is_given_up(upstream):
    upstream.then(lambda handler: handler.of.closing.wait(20))  # type: ignore[arg-type]
    with served(upstream.url, upstream_timeout_s=0.3) as port:
        assert ask(port, chat())[0] == 504


def test_an_answer_that_is_cut_is_cut_for_the_client_too_and_one_line_says_so(upstream, port, caplog):
    def cut(handler: _Handler) -> None:
        handler.begin_events()
        handler.part(b"data: 1\n\n")
        handler.close_connection = True

    upstream.then(cut)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("POST", "/v1/chat/completions", json.dumps(chat(stream=True)))
    response = connection.getresponse()
    with pytest.raises(http.client.IncompleteRead):
        response.read()
    connection.close()
    assert ask(port, chat())[0] == 200
    assert [record.getMessage() for record in caplog.records] == [
        "the answer of the provider was cut: RemoteProtocolError"
    ]


@pytest.mark.parametrize(
    "body", [b"{", b"\xff\xfe", b"[1]", gzip.compress(b"{}", mtime=0), zlib.compress(b"{}"), b""]
)
def test_a_body_that_is_no_json_is_the_providers_to_refuse(upstream, port, body):
    upstream.then(json_of({"error": "no JSON"}, 400))
    assert ask(port, body)[0] == 400
    assert upstream.requests[-1]["body"] == body


def test_a_body_that_is_too_long_is_refused_in_the_providers_form(upstream):
    with served(upstream.url, upstream_max_body_bytes=2_000) as port:
        status, _, answer = ask(port, chat(), "/v1/messages")
        assert (status, json.loads(answer)["error"]["type"]) == (413, "request_too_large")
        for path in ("/v1/chat/completions", "/v1/files"):  # without a length
            with suppress(BrokenPipeError, ConnectionResetError):
                assert chunked(port, path, b"x" * 5_000) == 413


def chunked(port: int, path: str, body: bytes) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request(
        "POST",
        path,
        iter([body[:100], body[100:]]),
        encode_chunked=True,
        headers={"transfer-encoding": "chunked"},
    )
    status = connection.getresponse().status
    connection.close()
    return status


def test_a_body_without_a_length_passes(upstream, port):
    assert chunked(port, "/v1/files", b"x" * 5_000) == 200
    assert upstream.requests[-1]["body"] == b"x" * 5_000


def test_if_our_selection_raises_the_request_goes_on_unchanged(upstream, port, monkeypatch):
    from toolroll.adapters import ToolSelector

    async def raises(*_: Any, **__: Any) -> Any:
        raise RuntimeError("odd")

    monkeypatch.setattr(ToolSelector, "aturn", raises)
    body = json.dumps(chat(), indent=1).encode()
    status, headers, _ = ask(port, body)
    assert status == 200 and upstream.requests[-1]["body"] == body
    assert headers[HEADER].startswith("200->200 tools, selection failed")


def test_a_conversation_whose_name_is_too_long_is_refused_without_naming_it(upstream, port, caplog):
    status, _, answer = ask(port, chat(), x_toolroll_conversation="nnn" * 400)
    assert status == 400 and b"x-toolroll-conversation: is too long" in answer
    assert not upstream.requests and "nnn" not in caplog.text + answer.decode()


# Who may.


def test_a_service_key_lets_in_and_goes_no_further(upstream, tmp_path):
    url = f"sqlite:///{tmp_path}/tools.db"
    with Registry.open(url) as registry:
        _, key = registry.keys.add("acme", roles=["select"], org="acme")
        _, reader = registry.keys.add("reader", roles=["read"], org="acme")
        registry.create(Tool(WANTED, "is no tool of the platform for acme"))
        registry.rules.add(Rule("none", "deny", "org", {"org": "acme"}, tool=WANTED))
    with served(upstream.url, catalog=url, authentication="keys") as port:
        for headers in ({}, {"authorization": f"Bearer {key}"}, {"x_service_key": key}):
            status, _, answer = ask(port, chat(), "/v1/messages", **headers)
            assert (status, json.loads(answer)["error"]["type"]) == (401, "authentication_error")
        for path in ("/v1/models", "/openapi.json", "/admin/"):
            assert ask(port, None, path, "GET")[0] == 401
        assert ask(port, chat(), x_toolroll_key=reader)[0] == 403
        other = json.dumps({"org": "other"})
        assert ask(port, chat(), x_toolroll_key=key, x_toolroll_context=other)[0] == 403
        assert ask(port, b"{", x_toolroll_key=key)[0] == 400  # rules cannot be applied to it
        assert not upstream.requests
        assert ask(port, chat(), x_toolroll_key=key, authorization=f"Bearer {SECRET}")[0] == 200
    names = [tool["function"]["name"] for tool in upstream.body()["tools"]]
    assert names and WANTED not in names
    assert key not in str(upstream.requests) and SECRET in str(upstream.requests)


def test_a_page_of_another_site_and_another_host_name_are_refused(upstream, port):
    assert ask(port, chat(), sec_fetch_site="cross-site")[0] == 401
    assert ask(port, chat(), host="evil.example")[0] == 421
    assert not upstream.requests


def test_keys_are_in_no_log_and_no_file(upstream, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    url = f"sqlite:///{tmp_path}/tools.db"
    Registry.open(url).close()
    with served(
        upstream.url, catalog=url, log_requests=True, messages="kept", outbox=str(tmp_path / "outbox")
    ) as port:
        upstream.then(json_of({}), lambda handler: setattr(handler, "close_connection", True))
        for _ in range(3):
            ask(port, chat(), f"/v1beta/models/m:generateContent?key={SECRET}", x_goog_api_key=SECRET)
            ask(port, chat(), authorization=f"Bearer {SECRET}", x_api_key=SECRET)
    assert SECRET not in caplog.text and SECRET not in str([vars(record) for record in caplog.records])
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes(), file


def test_probes_and_metrics_are_our_own(upstream, port):
    ask(port, chat())
    assert json.loads(ask(port, None, "/readyz", "GET")[2])["ready"]
    text = ask(port, None, "/metrics", "GET")[2].decode()
    assert 'toolroll_http_requests_total{method="POST",route="/chat/completions",status="200"} 1.0' in text
    assert len(upstream.requests) == 1


# The page.

PAGE = (Path(__file__).parents[2] / "docs" / "drop-in.md").read_text("utf-8")
DEMO = Path(toolroll.__file__).parent / "demo" / "toolkits"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_the_commands_of_the_page_work_in_their_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    commands = [line for line in "\n".join(blocks("sh")).splitlines() if line.startswith("toolroll ")]
    assert len(commands) == 4
    for command in commands:
        arguments = shlex.split(command)[1:]
        arguments = [str(DEMO) if argument == "toolkits/" else argument for argument in arguments]
        if arguments[0] == "serve" and "--check" not in arguments:
            arguments.append("--check")  # that it serves, the other tests show
        if arguments[0] == "serve":
            arguments += ["--port", str(free_port())]
        assert main(arguments) == 0, (command, capsys.readouterr())
    assert "the settings are right" in capsys.readouterr().out


def test_the_python_of_the_page_runs(upstream, monkeypatch):
    pytest.importorskip("openai")
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    with served(upstream.url) as port:
        for block in blocks("python"):
            world: dict[str, Any] = {}
            exec(compile(block.replace("8080", str(port)), "docs/drop-in.md", "exec"), world)
            with world["client"] as client:
                client = client if "roll" not in world else client.with_options(base_url=upstream.url)
                upstream.then(json_of(openai_reply()))
                client.chat.completions.create(**chat())
                assert len(upstream.body()["tools"]) <= 12


def test_the_page_has_every_setting_of_the_drop_in():
    for name in ServerSettings.model_fields:
        if name.startswith("upstream"):
            assert f"| `{name}` |" in PAGE, name


@each_row(
    "url",
    ["", "api.openai.com", "ftp://x", "http://", "http://u:p@x", "http://x?key=1", "http://x:99999", "//x"],
)
def test_a_url_at_which_no_provider_can_be_is_an_error_that_does_not_repeat_it(url):
    with pytest.raises(InvalidInput, match="upstream must be the URL") as raised:
        check_upstream(url)
    assert "u:p" not in str(raised.value) and "key=1" not in str(raised.value)


def test_without_a_registry_keys_cannot_be_asked_for(capsys):
    assert main(["serve", "--upstream", "http://x", "--check"]) == 1
    assert "authentication = none" in capsys.readouterr().err
