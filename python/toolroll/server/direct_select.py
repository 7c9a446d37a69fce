"""Answers `POST /select` without the framework's routing and dependencies, which cost several selections.

It answers requests that match the description. The framework's route gets all others, also wrong ones, and
reads the same body, so both give the same answers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolroll import Toolroll
from toolroll.formats.providers import PROVIDERS
from toolroll.model.errors import ToolrollError
from toolroll.server.callers import Caller
from toolroll.server.large_requests import LARGE_BYTES
from toolroll.server.problems import problem_of
from toolroll.server.selections import SelectBody, selected, selection_answer

PATH = "/select"
_RECEIPT = {"true": True, "false": False}
_JSON = (b"content-type", b"application/json")


@dataclass(frozen=True, eq=False)
class DirectSelect:
    """An ASGI middleware between the gate and the framework's routes."""

    application: ASGIApp
    roll: Toolroll

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, or passes it on."""
        query = _query(scope) if _is_ours(scope) else None
        caller = scope["state"].get("caller") if query is not None else None
        if query is None or not isinstance(caller, Caller):
            await self.application(scope, receive, send)
            return
        read = _Body()
        try:
            content = await read.whole(receive)
            body = None if len(content) > LARGE_BYTES else SelectBody.model_validate(json.loads(content))
        except (HTTPException, ValidationError, ValueError, RecursionError):
            body = None
        if body is None:
            await self.application(scope, read.again(receive), send)
            return
        scope["route"] = PATH
        try:
            caller.require("select")
            provider = query.get("schemas")
            receipt = _RECEIPT[query.get("receipt", "false")]
            answer = selection_answer(await selected(self.roll, caller, body, provider, receipt))
        except ToolrollError as error:
            answer = problem_of(error)
        await answer(scope, receive, send)


class _Body:
    """A body that can be read a second time."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._error: HTTPException | None = None

    async def whole(self, receive: Receive) -> bytes:
        """Reads the whole body."""
        try:
            while not self._messages or self._messages[-1].get("more_body", False):
                self._messages.append(await receive())
        except HTTPException as error:  # it is too long
            self._error = error
            raise
        return b"".join([message.get("body", b"") for message in self._messages])

    def again(self, receive: Receive) -> Receive:
        """Receives the same messages and error again, then the further messages."""
        messages = iter(self._messages)

        async def receive_again() -> Message:
            for message in messages:
                return message
            if self._error is not None:
                raise self._error
            return await receive()

        return receive_again


def _is_ours(scope: Scope) -> bool:
    return (
        scope["type"] == "http"
        and scope["path"] == PATH
        and scope["method"] == "POST"
        and not scope.get("root_path")
        and _JSON in map(tuple, scope["headers"])
    )


def _query(scope: Scope) -> Mapping[str, str] | None:
    """The parameters of the query; None if the framework must check them."""
    text = scope["query_string"]
    if not text:
        return {}
    pairs = parse_qsl(text.decode("latin-1"), keep_blank_values=True)
    found = dict(pairs)
    is_known = found.keys() <= {"schemas", "receipt"} and len(found) == len(pairs)
    if not is_known or found.get("receipt", "false") not in _RECEIPT:
        return None
    return found if "schemas" not in found or found["schemas"] in PROVIDERS else None
