"""Message lists of four dialects: which dialect a list is in, and which messages are empty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeGuard

from toolroll.formats.repair.fields import Message, field, fields, is_object, list_field, text_field
from toolroll.model.errors import InvalidInput, quoted

Form = Literal["openai", "openai_responses", "anthropic", "gemini"]
FORMS: tuple[Form, ...] = ("openai", "openai_responses", "anthropic", "gemini")

# Responses: the item that answers each kind of call.
OUTPUTS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "computer_call": "computer_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
}
CALLS = {output: call for call, output in OUTPUTS.items()}

MISSING = "[no result: this call was not finished]"
EARLIER = "[earlier messages were left out]"

What = Literal[
    "result removed",
    "result added",
    "result moved",
    "call removed",
    "reasoning removed",
    "id removed",
    "empty removed",
    "merged",
    "user added",
]

# Fields that are no content.
_BARE = frozenset(
    {"role", "content", "parts", "name", "id", "type", "status", "phase"}
    | {"model", "usage", "stop_reason", "stop_sequence"}
)


@dataclass(frozen=True, slots=True)
class HistoryChange:
    """One change to a message list.

    Attributes:
        index: in the given list, of the message that was wrong or that needed an addition.
        what: the kind of change.
        call_id: of the call concerned; "" for none.
    """

    index: int
    what: What
    call_id: str = ""


def check(messages: object) -> list[Message]:
    """The messages as a list. Raises InvalidInput if one is not an object."""
    if not isinstance(messages, (list, tuple)):
        raise InvalidInput(f"messages are {type(messages).__name__}, must be a list of message objects")
    for index, message in enumerate(messages):
        known = isinstance(message, Mapping) or any(
            hasattr(message, name) for name in ("role", "type", "parts")
        )
        if not known or not is_object(message):
            raise InvalidInput(f"messages[{index}] is {quoted(message)}, must be a message object")
    return list(messages)


def form_of(messages: Sequence[Message], form: str | None = None) -> Form:
    """The form named by `form`, or inferred from the messages; "openai" without any sign.

    Raises InvalidInput for an unknown name, and for calls of several forms in one list.
    """
    if form is not None:
        if not isinstance(form, str) or form not in FORMS:
            raise InvalidInput(f"form is {quoted(form)}, must be one of {', '.join(FORMS)}")
        return form
    signs: dict[Form, int] = {}
    for index, message in enumerate(messages):
        if (sign := _sign(message)) is not None:
            signs.setdefault(sign, index)
    if len(signs) > 1:
        found = ", ".join(f"messages[{index}] is {sign}'s" for sign, index in signs.items())
        raise InvalidInput(f"messages are in several forms: {found}; must be in one")
    return next(iter(signs), "openai")


def _sign(message: Message) -> Form | None:
    kind = text_field(message, "type")
    if kind in OUTPUTS or kind in CALLS or kind == "reasoning":
        return "openai_responses"
    if (field(message, "role") == "tool" and field(message, "parts") is None) or field(message, "tool_calls"):
        return "openai"
    if field(message, "role") == "model" or isinstance(field(message, "parts"), (list, tuple)):
        return "gemini"
    if any(text_field(block, "type") in ("tool_use", "tool_result") for block in blocks(message)):
        return "anthropic"
    return None


def blocks(message: Message) -> list[Message]:
    """The content blocks of a message that are objects; none if its content is text."""
    return [block for block in list_field(message, "content") if is_object(block)]


def is_blank(block: object) -> bool:
    """Whether a content block is blank text."""
    if not is_object(block) or field(block, "type") not in ("text", "input_text", "output_text"):
        return False
    text = field(block, "text")
    return text is None or (isinstance(text, str) and not text.strip())


def is_empty(message: Message) -> bool:
    """Whether a user's or assistant's message has neither content nor calls."""
    if field(message, "role") not in ("user", "assistant"):
        return False
    if any(value for key, value in fields(message).items() if key not in _BARE):
        return False
    content: Any = field(message, "content")
    if isinstance(content, (list, tuple)):
        return all(is_blank(block) for block in content)
    return content is None or (isinstance(content, str) and not content.strip())


def is_id(value: object) -> TypeGuard[str]:
    """Whether this is a usable id of a call."""
    return isinstance(value, str) and value != ""
