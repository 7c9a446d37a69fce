"""Servers' questions to clients: bounded in number and length, and labelled with the server's name.

A person reads the server's words, and so does the client's model.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any

from mcp import MCPError

from toolroll.formats.visible_text import is_visible, one_line
from toolroll.gateway.protocol import INVALID_PARAMS, Json
from toolroll.gateway.server_spec import LONGEST_NAME

LARGEST = 1_000_000  # characters of a question as JSON
_LONGEST_MESSAGE = 2_000  # characters of a question to a person
_LONGEST_LABEL = 200  # characters of the name or description of a field
_LABELS = ("title", "description")
_UNSEEN = ("default", "pattern")  # a person may change them, or does not see them
TOO_MANY = -32_029  # of the codes that JSON-RPC leaves to servers
URL_NEEDED = -32_042  # the protocol's: whoever calls is to open the addresses in the error first
_MINUTE_S = 60.0


class Questions:
    """The questions of one server over one connection."""

    def __init__(
        self, server: str, a_call: int, a_minute: int, clock: Callable[[], float] = monotonic
    ) -> None:
        """a_call, a_minute: the most questions to a client during one call, and in a minute."""
        self._sign = f"[{one_line(server, LONGEST_NAME)}] asks:"
        self._a_call, self._a_minute, self._clock = a_call, a_minute, clock
        self._asked: deque[tuple[float, str]] = deque()  # of the last minute: when, and which client

    def check(self, method: str, params: Json, client: str, in_call: int) -> None:
        """Counts a question. in_call: number of earlier questions during the call.

        Raises:
            MCPError: it is one too many, or too large.
        """
        now = self._clock()
        while self._asked and now - self._asked[0][0] > _MINUTE_S:
            self._asked.popleft()
        if in_call >= self._a_call:
            raise MCPError(TOO_MANY, f"{method}: asked {in_call} times during this call, which is the most")
        if sum(one == client for _, one in self._asked) >= self._a_minute:
            raise MCPError(TOO_MANY, f"{method}: asked {self._a_minute} times this minute, which is the most")
        if (size := len(json.dumps(params))) > LARGEST:
            raise MCPError(INVALID_PARAMS, f"{method}: has {size:,} characters, may have {LARGEST:,}")
        self._asked.append((now, client))

    def signed(self, method: str, params: Json) -> Json:
        """Returns the question for the client. Its texts begin with the server's name.

        A message for a person is one line, so that no words of the server stand apart from that name.

        Raises:
            MCPError: a field of a form, or one of its options, has a name that a person cannot read.
        """
        if method == "elicitation/create":
            message = one_line(str(params.get("message", "")), _LONGEST_MESSAGE)
            schema = params.get("requestedSchema")
            labelled = {} if schema is None else {"requestedSchema": _labelled(schema)}
            return {**params, **labelled, "message": f"{self._sign} {message}"}
        if method == "sampling/createMessage":
            begun = f"{self._sign} {params.get('systemPrompt') or ''}".rstrip()
            signed = self._signed(params.get("messages"))
            # For the client, "this server" means all servers behind the gateway.
            return {**params, "includeContext": "none", "systemPrompt": begun, "messages": signed}
        return params

    def in_error(self, error: MCPError, client: str, in_call: int) -> MCPError:
        """Returns the server's error for a client. Each address in it that asks to be opened is a question.

        Raises:
            MCPError: it is one question too many, too large, or malformed.
        """
        if error.code != URL_NEEDED:
            return error
        asked = error.data.get("elicitations") if isinstance(error.data, dict) else None
        if not isinstance(asked, list) or not all(isinstance(each, dict) for each in asked):
            raise MCPError(INVALID_PARAMS, error.message)
        method = "elicitation/create"
        for number, each in enumerate(asked, in_call):
            self.check(method, each, client, number)
        named = [self.signed(method, each) for each in asked]
        return MCPError(error.code, f"{self._sign} {error.message}", {"elicitations": named})

    def _signed(self, messages: Any) -> Any:
        """Returns the messages. The first text begins with the server's name."""
        if not isinstance(messages, list) or not messages or not isinstance(messages[0], dict):
            return messages
        content = messages[0].get("content")
        parts = content if isinstance(content, list) else [content]
        for number, part in enumerate(parts):
            if isinstance(part, dict) and part.get("type") == "text":
                signed = {**part, "text": f"{self._sign} {part.get('text', '')}"}
                parts = [*parts[:number], signed, *parts[number + 1 :]]
                break
        first = {**messages[0], "content": parts if isinstance(content, list) else parts[0]}
        return [first, *messages[1:]]


def _labelled(schema: Any) -> Any:
    """Returns the schema of a form; each label is one line."""
    if isinstance(schema, list):
        return [_labelled(each) for each in schema]
    if isinstance(schema, str):
        return _checked(schema)  # an option: the answer has it as it is
    if not isinstance(schema, dict):
        return schema
    return {
        _checked(name): one_line(value, _LONGEST_LABEL)
        if name in _LABELS and isinstance(value, str)
        else value
        if name in _UNSEEN and not isinstance(value, dict)
        else _labelled(value)
        for name, value in schema.items()
    }


def _checked(text: str) -> str:
    if len(text) > _LONGEST_LABEL or not is_visible(text):
        raise MCPError(
            INVALID_PARAMS,
            f"elicitation/create: {text[:50]!a} names a field or an option, must be one line of "
            f"{_LONGEST_LABEL} visible characters at most",
        )
    return text
