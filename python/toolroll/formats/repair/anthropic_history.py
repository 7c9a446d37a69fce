"""Repairs a history for Anthropic: user and assistant alternate; results come first behind their calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from toolroll.formats.repair.messages import (
    EARLIER,
    MISSING,
    HistoryChange,
    Message,
    Place,
    blocks,
    is_blank,
    is_empty,
    is_id,
    pairs,
)


def repaired(messages: list[Message], changes: list[HistoryChange]) -> list[Message]:
    """The repaired list; adds to `changes`."""
    messages = [_without_misplaced_calls(index, message, changes) for index, message in enumerate(messages)]
    full: list[tuple[int, Message]] = []
    for index, message in _with_results(messages, changes):
        filled = _without_blanks(message)
        if filled is not message or is_empty(message):
            changes.append(HistoryChange(index, "empty removed"))
        if not is_empty(message):
            full.append((index, filled))
    merged = _merged(full, changes)
    for place, (index, message) in enumerate(merged):
        if message.get("role") == "user":
            break
        if message.get("role") == "assistant":
            merged.insert(place, (index, {"role": "user", "content": EARLIER}))
            changes.append(HistoryChange(index, "user added"))
            break
    return [message for _, message in merged]


def _without_misplaced_calls(index: int, message: Message, changes: list[HistoryChange]) -> Message:
    """Removes calls without a possible result: the user's, those without an id, the second of one id."""
    seen: set[str] = set()

    def is_sound(block: Any) -> bool:
        if not isinstance(block, Mapping) or block.get("type") != "tool_use":
            return True
        call_id = block.get("id")
        if message.get("role") == "assistant" and is_id(call_id) and call_id not in seen:
            seen.add(call_id)
            return True
        changes.append(HistoryChange(index, "call removed", call_id if is_id(call_id) else ""))
        return False

    return _filtered(message, is_sound)


def _with_results(messages: list[Message], changes: list[HistoryChange]) -> list[tuple[int, Message]]:
    """Every message with its index; the results of an assistant's calls come first in the next message."""
    answers = pairs(messages, "anthropic")
    parts = [blocks(message) for message in messages]
    call_of = {result: call for call, result in answers.items()}
    turns: list[tuple[int, Message]] = []
    due: list[Any] = []  # results of the last assistant message that are not in the next message
    for index, message in enumerate(messages):
        if due and message.get("role") != "user":
            turns.append((index - 1, {"role": "user", "content": due}))
            due = []
        turns.append((index, _answered(index, message, due, call_of, changes)))
        due = []
        for part, block in enumerate(parts[index]):
            if block.get("type") != "tool_use":
                continue
            call_id = block["id"]
            result = answers.get(Place(index, part))
            if result is None:
                due.append(_missing(call_id))
                changes.append(HistoryChange(index, "result added", call_id))
            elif result.message != index + 1 or messages[index + 1].get("role") != "user":
                due.append(parts[result.message][result.part])
                changes.append(HistoryChange(result.message, "result moved", call_id))
    if due:
        turns.append((len(messages) - 1, {"role": "user", "content": due}))
    return turns


def _answered(
    index: int, message: Message, due: list[Any], call_of: dict[Place, Place], changes: list[HistoryChange]
) -> Message:
    """The message with its own results first, and without results that belong elsewhere."""
    content = message.get("content")
    if not isinstance(content, (list, tuple)):
        if not due:
            return message
        return {**message, "content": [*due, *_as_blocks(content)]}
    here, rest, part = [], [], 0
    in_order = True
    for block in content:
        if not isinstance(block, Mapping):
            rest.append(block)
            continue
        place = Place(index, part)
        part += 1
        if block.get("type") != "tool_result":
            rest.append(block)
            continue
        call = call_of.get(place)
        if call is not None and call.message == index - 1 and message.get("role") == "user":
            in_order = in_order and not rest
            here.append(block)
        elif call is None:
            changes.append(HistoryChange(index, "result removed", _result_id(block)))
    if not in_order:
        changes.append(HistoryChange(index, "result moved", _result_id(here[-1])))
    if in_order and not due and len(here) + len(rest) == len(content):
        return message
    return {**message, "content": [*here, *due, *rest]}


def _without_blanks(message: Message) -> Message:
    if message.get("role") not in ("user", "assistant"):
        return message
    return _filtered(message, lambda block: not is_blank(block))


def _merged(turns: list[tuple[int, Message]], changes: list[HistoryChange]) -> list[tuple[int, Message]]:
    merged: list[tuple[int, Message]] = []
    parts: list[Any] | None = None  # the content of the last message once it is a new list
    for index, message in turns:
        role = message.get("role")
        if not merged or role not in ("user", "assistant") or merged[-1][1].get("role") != role:
            merged.append((index, message))
            parts = None
            continue
        if parts is None:
            first, last = merged[-1]
            parts = _as_blocks(last.get("content"))
            merged[-1] = first, {**last, "content": parts}
        parts += _as_blocks(message.get("content"))
        changes.append(HistoryChange(index, "merged"))
    return merged


def _filtered(message: Message, keep: Callable[[Any], bool]) -> Message:
    content = message.get("content")
    if not isinstance(content, (list, tuple)):
        return message
    kept = [block for block in content if keep(block)]
    return message if len(kept) == len(content) else {**message, "content": kept}


def _as_blocks(content: object) -> list[Any]:
    if isinstance(content, (list, tuple)):
        return list(content)
    block = {"type": "text", "text": content}
    return [] if is_blank(block) else [block]


def _missing(call_id: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": MISSING, "is_error": True}


def _result_id(block: Mapping[str, Any]) -> str:
    value = block.get("tool_use_id")
    return value if isinstance(value, str) else ""
