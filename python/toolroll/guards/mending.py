"""What the repairs of both forms share: what is reported, what stands in, what counts as empty."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeGuard

from toolroll.guards.messages import Message

MISSING = "[no result: this call was not finished]"
EARLIER = "[earlier messages were left out]"

What = Literal[
    "result removed",
    "result added",
    "result moved",
    "call removed",
    "empty removed",
    "merged",
    "user added",
]

_BARE = frozenset({"role", "content", "name", "id", "type", "status"})  # say nothing by themselves


@dataclass(frozen=True, slots=True)
class Fix:
    """One thing that was put in order.

    Attributes:
        index: of the message in the given list that was wrong, or that made an addition necessary.
        what: what was done.
        call_id: of the call it concerns; "" for none.
    """

    index: int
    what: What
    call_id: str = ""


def is_blank(block: object) -> bool:
    """Whether a content block is text without anything in it."""
    if not isinstance(block, Mapping) or block.get("type") not in ("text", "input_text", "output_text"):
        return False
    text = block.get("text")
    return text is None or (isinstance(text, str) and not text.strip())


def is_empty(message: Message) -> bool:
    """Whether a user's or assistant's message has no content, no calls, nothing."""
    if message.get("role") not in ("user", "assistant"):
        return False
    if any(value for key, value in message.items() if key not in _BARE):
        return False
    content = message.get("content")
    if isinstance(content, (list, tuple)):
        return all(is_blank(block) for block in content)
    return content is None or (isinstance(content, str) and not content.strip())


def with_sound_calls(index: int, message: Message, fixes: list[Fix]) -> Message:
    """A message of chat completions without calls that nothing can answer, nor an empty list of them."""
    listed = message.get("tool_calls")
    if listed is None or message.get("role") != "assistant":
        return message
    calls = listed if isinstance(listed, (list, tuple)) else ()
    seen: set[str] = set()
    sound = []
    for call in calls:
        call_id = call.get("id") if isinstance(call, Mapping) else None
        if is_id(call_id) and call_id not in seen:
            seen.add(call_id)
            sound.append(call)
        else:
            fixes.append(Fix(index, "call removed", call_id if is_id(call_id) else ""))
    if sound and len(sound) == len(calls):
        return message
    if not calls:
        fixes.append(Fix(index, "call removed"))  # providers refuse an empty list too
    rest = {key: value for key, value in message.items() if key != "tool_calls"}
    return {**rest, "tool_calls": sound} if sound else rest


def is_id(value: object) -> TypeGuard[str]:
    """Whether a call can be answered by this id."""
    return isinstance(value, str) and value != ""
