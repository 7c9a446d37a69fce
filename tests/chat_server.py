"""A server of chat completions on loopback, real down to its sockets, that answers as badly as a test wants.

`behave` says what the next requests meet, one item each; when the list is used up, `always` answers. Every
request is noted before it is answered. Run as a program it prints its address and answers well, after the
seconds of its argument.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from threading import Lock
from typing import Any

from tests.loopback_server import LoopbackHandler, LoopbackServer, closed_at_the_end

Answer = Callable[["Handler"], None]

# What the model writes, where a test does not say: for a tool of that name, or else by the words of the name.
WRITTEN = {
    "get_forecast": [
        "will it rain in Oslo on Sunday",
        "do I need an umbrella tomorrow",
        "how warm does it get in Rome",
    ],
    "get_air_quality": ["is the air clean in Delhi", "how bad is the smog in Paris today"],
    "crm_export": ["put all our customers into a spreadsheet", "export the customer list"],
    "crm_find": ["which customer is called Miller", "look up the customer Jane Doe"],
}

# Of similar tools, one for each: a message about one of them fits several.
PARTS_OF_A_HOUSE = (
    "door", "window", "gate", "garage", "fridge", "oven", "curtain", "roof", "cellar", "attic", "safe", "closet",
)  # fmt: skip


class ChatServer(LoopbackServer):
    """Attributes: behave, always, written, near_misses."""

    def __init__(self) -> None:
        self.behave: list[Answer] = []
        self.always: Answer = good
        self.written: dict[str, list[str]] = dict(WRITTEN)
        self.near_misses: dict[str, list[str]] = {}
        self.busy = self.most_busy = 0
        self.lock = Lock()
        super().__init__(Handler)
        self.url = f"http://127.0.0.1:{self.port}/v1"

    @property
    def asked(self) -> list[str]:
        """The tools that were asked for, in the order of the requests."""
        return [tool["name"] for request in self.requests for tool in tools_in(request["body"])]


def running() -> AbstractContextManager[ChatServer]:
    return closed_at_the_end(ChatServer())


def tools_in(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The tools that a request asks for."""
    return json.loads(body["messages"][-1]["content"])["tools"]


class Handler(LoopbackHandler):
    of: ChatServer
    body: dict[str, Any]

    def do_POST(self) -> None:
        self.body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server = self.of
        with server.lock:
            server.requests.append({"path": self.path, "headers": dict(self.headers), "body": self.body})
            answer = server.behave.pop(0) if server.behave else server.always
            server.busy += 1
            server.most_busy = max(server.most_busy, server.busy)
        try:
            answer(self)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the client gave up: what the test wants
        finally:
            with server.lock:
                server.busy -= 1

    def say(self, content: Any) -> None:
        """Answers with a completion of this text."""
        message = {"role": "assistant", "content": content}
        answer = {"object": "chat.completion", "choices": [{"index": 0, "message": message}]}
        self.send(200, json.dumps(answer).encode(), Content_Type="application/json")


def written(handler: Handler) -> dict[str, Any]:
    """What the model writes for the tools of a request."""
    found = []
    for tool in tools_in(handler.body):
        name = tool["name"]
        words = name.replace("_", " ")
        messages = handler.of.written.get(name) or [
            f"please {words} number {i} for me" for i in range(tool["messages"])
        ]
        found.append(
            {"name": name, "messages": messages, "near_misses": handler.of.near_misses.get(name, [])}
        )
    return {"tools": found}


def good(handler: Handler) -> None:
    handler.say(json.dumps(written(handler)))


def in_prose(handler: Handler) -> None:
    handler.say(
        f"<think>{{maybe}}</think>Sure, {{here}} you are:\n```json\n{json.dumps(written(handler))}\n```\nDone!"
    )


def saying(content: Any) -> Answer:
    return lambda handler: handler.say(content)


def failing(status: int, **headers: str) -> Answer:
    return lambda handler: handler.send(status, b'{"error": {"message": "not now"}}', **headers)


def dropping(handler: Handler) -> None:
    handler.connection.shutdown(socket.SHUT_RDWR)
    handler.close_connection = True


def dropping_halfway(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [')
    dropping(handler)


def hanging(handler: Handler) -> None:
    handler.of.closing.wait(30)
    handler.close_connection = True


def dripping(handler: Handler) -> None:
    """A byte of a header at a time: no single wait is long."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
    while not handler.of.closing.wait(0.02):
        handler.wfile.write(b"x")


def endless(handler: Handler) -> None:
    """An answer without an end."""
    handler.send_response(200)
    handler.send_header("Connection", "close")
    handler.end_headers()
    handler.close_connection = True
    while not handler.of.closing.is_set():
        handler.wfile.write(b" " * 65_536)


def strict(handler: Handler) -> None:
    """A server that knows no parameters but model and messages."""
    if handler.body.keys() <= {"model", "messages"}:
        good(handler)
    else:
        handler.send(400, b'{"error": {"message": "unknown parameter"}}')


def after(seconds: float) -> Answer:
    def answer(handler: Handler) -> None:
        time.sleep(seconds)
        good(handler)

    return answer


if __name__ == "__main__":
    with running() as server:
        server.always = after(float(sys.argv[1]))
        print(server.url, flush=True)
        sys.stdin.read()
