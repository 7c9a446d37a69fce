"""A server of embeddings on loopback, real down to its sockets, that answers as badly as a test wants.

Speaks Ollama's `/api/embed` and OpenAI's `/v1/embeddings`. `behave` says what the next requests meet, one item
each; when the list is used up, requests are answered well. Every request is counted before it is answered.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from tests.loopback_server import LoopbackHandler, LoopbackServer, closed_at_the_end
from toolroll.embedders.hashing import HashingEmbedder

Answer = Callable[["_Handler", list[str]], None]


class ModelServer(LoopbackServer):
    """Attributes: behave, always, model (what it runs)."""

    def __init__(self, port: int = 0, dim: int = 64) -> None:
        self.behave: list[Answer] = []
        self.always: Answer = good
        self.model: Callable[[list[str]], np.ndarray] = bag_of_words(dim)
        super().__init__(_Handler, port)
        self.url = f"http://127.0.0.1:{self.port}"

    @property
    def texts(self) -> list[list[str]]:
        """What each request asked for."""
        return [request["body"]["input"] for request in self.requests]


def running(port: int = 0, dim: int = 64) -> AbstractContextManager[ModelServer]:
    return closed_at_the_end(ModelServer(port, dim))


def bag_of_words(dim: int) -> Callable[[list[str]], np.ndarray]:
    """Vectors that are not of unit length, and never zero, as models give them."""

    def model(texts: list[str]) -> np.ndarray:
        return 3 * (HashingEmbedder(dim).embed(texts).astype(np.float64) + 0.01)

    return model


class _Handler(LoopbackHandler):
    of: ModelServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.of.requests.append({"path": self.path, "headers": dict(self.headers), "body": body})
        answer = self.of.behave.pop(0) if self.of.behave else self.of.always
        try:
            answer(self, body["input"])
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the client gave up: what the test wants

    def send_vectors(self, vectors: Any, order: list[int] | None = None) -> None:
        rows = [list(map(float, row)) for row in vectors]
        if self.path == "/api/embed":
            answer: Any = {"embeddings": rows}
        else:
            data = [{"object": "embedding", "index": i, "embedding": row} for i, row in enumerate(rows)]
            answer = {"data": [data[i] for i in order] if order else data}
        self.send(200, json.dumps(answer).encode(), Content_Type="application/json")


def good(handler: _Handler, texts: list[str]) -> None:
    handler.send_vectors(handler.of.model(texts))


def shuffled(handler: _Handler, texts: list[str]) -> None:
    handler.send_vectors(handler.of.model(texts), order=list(range(len(texts)))[::-1])


def hanging(handler: _Handler, texts: list[str]) -> None:
    handler.of.closing.wait(30)
    handler.close_connection = True


def dripping(handler: _Handler, texts: list[str]) -> None:
    """A byte of a header at a time: no single wait is long."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
    while not handler.of.closing.wait(0.02):
        handler.wfile.write(b"x")
    handler.close_connection = True


def hanging_up(handler: _Handler, texts: list[str]) -> None:
    handler.close_connection = True


def endless(handler: _Handler, texts: list[str]) -> None:
    handler.send_response(200)
    handler.end_headers()
    handler.close_connection = True
    while not handler.of.closing.is_set():
        handler.wfile.write(b" " * 65_536)


def redirect(handler: _Handler, texts: list[str]) -> None:
    handler.send(307, b"", Location=f"{handler.of.url}/elsewhere")


def slow(seconds: float) -> Answer:
    def answer(handler: _Handler, texts: list[str]) -> None:
        time.sleep(seconds)
        good(handler, texts)

    return answer


def status(code: int, content: str = "", **headers: str) -> Answer:
    return lambda handler, texts: handler.send(code, content.encode(), **headers)


def json_of(answer: Any) -> Answer:
    return lambda handler, texts: handler.send(200, json.dumps(answer).encode())


def vectors_of(make: Callable[[np.ndarray], Any]) -> Answer:
    """Answers with what `make` does to the right vectors."""
    return lambda handler, texts: handler.send_vectors(make(handler.of.model(texts)))
