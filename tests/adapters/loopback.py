"""A provider on this machine: it keeps the bodies of requests and replies what it is told to."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Provider:
    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.replies: list[Any] = []
        self.url = ""

    def then(self, *replies: Any) -> Provider:
        """replies: one for each request; a list is a stream of events."""
        self.bodies.clear()
        self.replies[:] = replies
        return self


@contextmanager
def provider() -> Iterator[Provider]:
    """Serves until the block is left."""
    state = Provider()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            state.bodies.append(body)
            reply = state.replies.pop(0)
            content, kind = json.dumps(reply).encode(), "application/json"
            if isinstance(reply, list):
                events = [*map(json.dumps, reply), "[DONE]"]
                content, kind = (
                    "".join(f"data: {event}\n\n" for event in events).encode(),
                    "text/event-stream",
                )
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def openai_reply(*names: str, text: str = "done", step: int = 0) -> dict[str, Any]:
    """A chat completion with calls of these tools, or with a text."""
    message: dict[str, Any] = {"role": "assistant", "content": None if names else text}
    if names:
        message["tool_calls"] = [
            {
                "id": f"call_{step}_{at}",
                "type": "function",
                "function": {"name": name, "arguments": '{"target": "x"}'},
            }
            for at, name in enumerate(names)
        ]
    choice = {"index": 0, "finish_reason": "tool_calls" if names else "stop", "message": message}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [choice],
        "usage": usage,
    }


def openai_stream(*names: str, text: str = "done", step: int = 0) -> list[dict[str, Any]]:
    """The events of `openai_reply`."""
    reply = openai_reply(*names, text=text, step=step)
    (choice,) = reply["choices"]
    delta = choice["message"]
    for at, call in enumerate(delta.get("tool_calls", ())):
        call["index"] = at
    parts = [
        {"index": 0, "delta": delta, "finish_reason": None},
        {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]},
    ]
    head = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "m"}
    return [{**head, "choices": [part]} for part in parts]


def anthropic_reply(*names: str, text: str = "done", step: int = 0) -> dict[str, Any]:
    """A message with calls of these tools, or with a text."""
    blocks: list[dict[str, Any]] = [
        {"type": "tool_use", "id": f"toolu_{step}_{at}", "name": name, "input": {"target": "x"}}
        for at, name in enumerate(names)
    ] or [{"type": "text", "text": text}]
    reason = "tool_use" if names else "end_turn"
    usage = {"input_tokens": 1, "output_tokens": 1}
    return {
        "id": "1", "type": "message", "role": "assistant", "model": "m", "content": blocks,
        "stop_reason": reason, "stop_sequence": None, "usage": usage,
    }  # fmt: skip


def gemini_reply(*names: str, text: str = "done") -> dict[str, Any]:
    """Content with calls of these tools, or with a text."""
    parts = [{"functionCall": {"name": name, "args": {"target": "x"}}} for name in names] or [{"text": text}]
    return {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}]
    }
