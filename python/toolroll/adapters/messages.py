"""Reads the messages of any framework: roles, texts, calls of tools, and their results.

It reads dictionaries and objects in the forms of OpenAI (chat and Responses), Anthropic, Gemini, Bedrock and
LangChain. An adapter for another form passes its own reader.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

from toolroll.model.conversation import field_of
from toolroll.model.errors import InvalidInput, quoted

Role: TypeAlias = Literal["user", "assistant", "tool", "system"]

_ROLES: Mapping[str, Role] = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "model": "assistant",
    "tool": "tool",
    "function": "tool",
    "tool-response": "tool",
    "system": "system",
    "developer": "system",
}
_CALLS = ("tool_use", "function_call", "tool_call", "mcp_call")  # types of blocks and items
_RESULTS = ("tool_result", "function_call_output", "function_result", "tool_call_result")
_CALL_FIELDS = ("functionCall", "function_call", "toolUse")  # of blocks without a type
_RESULT_FIELDS = ("functionResponse", "function_response", "toolResult")
_ERRORS = ("error", "traceback (most recent call last)", "exception:", "failed to ")
_EXAMPLE = '{"role": "user", "content": "…"}'
_FAILED_STATUS = ("error", "failed", "failure")


@dataclass(frozen=True, slots=True)
class MadeCall:
    """A call that the model made.

    Attributes:
        call_id: the id in its result, too; "" if the framework has none.
        name: of the tool.
    """

    call_id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of a call.

    Attributes:
        call_id: of the call; "" if the framework has none.
        name: of the tool; "" if the result does not say it.
        worked: whether the tool did what was asked; None if the call was refused or never ran.
    """

    call_id: str
    name: str
    worked: bool | None


@dataclass(frozen=True, slots=True)
class ReadMessage:
    """One message in the form that a selection reads.

    Attributes:
        role: of the speaker; "tool" for a message with nothing but results.
        text: the text of all its blocks.
        calls: the model's calls in it.
        results: of calls.
    """

    role: Role
    text: str
    calls: tuple[MadeCall, ...] = ()
    results: tuple[CallResult, ...] = ()


def read_messages(messages: Iterable[object]) -> list[ReadMessage]:
    """The messages, oldest first. Skips objects that have no role and are neither a call nor a result."""
    return [read for message in messages if (read := read_message(message)) is not None]


def read_own_messages(messages: Iterable[object]) -> list[ReadMessage]:
    """`read_messages` for messages from a program, whose mistakes are errors.

    Raises:
        InvalidInput: one is not a message, or is a dictionary without a role.
    """
    read = []
    for message in messages:
        if (one := read_message(message)) is not None:
            read.append(one)
        elif message is None or isinstance(message, (bytes, int, float)):
            raise InvalidInput(f"messages: holds {quoted(message)}, must hold messages, such as {_EXAMPLE}")
        elif isinstance(message, Mapping) and message.get("role") is None and message.get("type") is None:
            raise InvalidInput(f"messages: holds {quoted(message)} without a role, must be like {_EXAMPLE}")
    return read


def read_message(message: object) -> ReadMessage | None:
    """One message; None for any other object. A text is a message of the user."""
    if isinstance(message, ReadMessage):
        return message
    if isinstance(message, str):
        return ReadMessage("user", message)
    if isinstance(message, tuple) and len(message) == 2 and isinstance(message[0], str):
        message = {"role": message[0], "content": message[1]}  # LangChain's short form
    get = _getter(message)
    kind, role, content = get("type"), get("role"), get("content")
    if kind in _CALLS:  # an item of the Responses API
        return ReadMessage("assistant", "", (_call(message),))
    if kind in _RESULTS:
        return ReadMessage("tool", "", (), (_result(message),))
    role = role_of(kind if role is None else role)  # LangChain's messages have a type
    if role is None:
        return None
    if content is None:
        content = get("parts")
    if role == "tool" and not _is_blocks(content):
        return ReadMessage("tool", "", (), (_result(message),))
    calls = [_call(call) for call in get("tool_calls") or ()]
    if isinstance(content, str):  # as most messages have it
        return ReadMessage(role, content, tuple(calls))
    results, texts = [], []
    for block in content if _is_blocks(content) else ():
        if isinstance(block, str):
            texts.append(block)
        elif (call := _call_or_result(block, _CALLS, _CALL_FIELDS)) is not None:
            calls.append(_call(call))
        elif (result := _call_or_result(block, _RESULTS, _RESULT_FIELDS)) is not None:
            results.append(_result(result))
        elif isinstance(text := _field(block, "text"), str):
            texts.append(text)
    if role == "tool" and not results:
        results.append(_result(message))
    said = "\n".join(texts)
    if role == "user" and results and not said:
        role = "tool"  # results in the user's name
    known = dict.fromkeys(calls)  # LangChain has a call in `tool_calls` and among the blocks
    return ReadMessage(role, said, tuple(known), tuple(results))


def failed_by_text(content: object) -> bool:
    """Whether the text of a result looks like an error, for results without a flag.

    It does if it begins with "error", "traceback", "exception:" or "failed to", or if it is a JSON object
    with `isError`, `error`, or a `status` or `success` that reports a failure.
    """
    if isinstance(content, Mapping):
        return _says_failure(content)
    text = _text(content).lstrip()
    if text[:1] == "{":
        try:
            return _says_failure(json.loads(text))
        except (ValueError, RecursionError):
            return False
    return text[:40].lower().startswith(_ERRORS)


def _says_failure(result: Mapping[Any, Any]) -> bool:
    status = result.get("status")
    return (
        bool(result.get("isError") or result.get("is_error") or result.get("error"))
        or result.get("success") is False
        or (isinstance(status, str) and status.lower() in _FAILED_STATUS)
    )


def _getter(message: object) -> Callable[[str], Any]:
    """Reads fields as `field_of` does, but three times as fast for dictionaries."""
    return message.get if type(message) is dict else partial(field_of, message)


def _field(message: object, name: str) -> Any:
    return message.get(name) if type(message) is dict else field_of(message, name)


def role_of(role: Any) -> Role | None:
    """The role that a framework's word or enumeration names; None for any other value."""
    role = getattr(role, "value", role)
    return _ROLES.get(role) if isinstance(role, str) else None


def _is_blocks(content: object) -> bool:
    return type(content) is list or (isinstance(content, Sequence) and not isinstance(content, (str, bytes)))


def _call(call: Any) -> MadeCall:
    get = _getter(call)
    function = get("function")
    name = get("name") if function is None else _field(function, "name")
    return MadeCall(_name(get("call_id") or get("id") or get("toolUseId")), _name(name))


def _call_or_result(block: object, types: tuple[str, ...], fields: tuple[str, ...]) -> Any:
    """The call or result in a block of a message's content: the block itself or one of its fields."""
    get = _getter(block)
    if get("type") in types:
        return block
    for name in fields:
        if (held := get(name)) is not None:
            return held
    return None


def _result(result: Any) -> CallResult:
    get = _getter(result)
    ids = ("tool_call_id", "tool_use_id", "call_id", "toolUseId", "id")
    call_id = next((value for key in ids if isinstance(value := get(key), str)), "")
    return CallResult(call_id, _name(get("name")), not _is_failed(get))


def _is_failed(get: Callable[[str], Any]) -> bool:
    """Whether a result belongs to a failed call: by its flag, else by its text."""
    for key in ("is_error", "isError", "tool_call_error"):
        if isinstance(flag := get(key), bool):
            return flag
    status = get("status")
    if isinstance(status, str) and status.lower() in (*_FAILED_STATUS, "success"):
        return status.lower() != "success"
    for key in ("content", "output", "response", "result"):
        if (content := get(key)) is not None:
            return failed_by_text(content)
    return False


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    if _is_blocks(content):
        return next((text for block in content if (text := _text_in(block))), "")  # type: ignore[attr-defined]
    return ""


def _text_in(block: object) -> str:
    text = block if isinstance(block, str) else _field(block, "text")
    return text if isinstance(text, str) else ""


def _name(value: object) -> str:
    return value if isinstance(value, str) else ""
