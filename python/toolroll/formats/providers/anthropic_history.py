"""Repairs a history for Anthropic: user and assistant alternate; results come first behind their calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from toolroll.formats.providers.history_form import (
    EARLIER,
    MISSING,
    HistoryChange,
    HistoryForm,
    Position,
    blocks,
    is_blank,
    is_empty,
    is_id,
)
from toolroll.formats.providers.message_fields import Message, field, is_object, text_field, with_field


class AnthropicHistory(HistoryForm):
    """The conversation in a request to Anthropic's Messages."""

    def is_sign(self, message: Message) -> bool:
        return any(text_field(block, "type") in ("tool_use", "tool_result") for block in blocks(message))

    def calls_in(self, message: Message) -> Iterator[tuple[int, str, str]]:
        if field(message, "role") != "assistant":
            return
        for part, block in enumerate(blocks(message)):
            if field(block, "type") == "tool_use" and (call_id := text_field(block, "id")):
                yield part, call_id, text_field(block, "name")

    def results_in(self, message: Message) -> Iterator[tuple[int, str, str]]:
        for part, block in enumerate(blocks(message)):
            if field(block, "type") == "tool_result":
                yield part, text_field(block, "tool_use_id"), ""

    def content(self, message: Message, part: int) -> object:
        return field(blocks(message)[part], "content")

    def with_contents(self, message: Message, texts: Mapping[int, str]) -> Message:
        content: list[Any] = []
        part = -1
        for block in field(message, "content"):
            part += is_object(block)
            is_changed = is_object(block) and part in texts
            content.append(with_field(block, "content", texts[part]) if is_changed else block)
        return with_field(message, "content", content)

    def repaired(self, messages: list[Message], changes: list[HistoryChange]) -> list[Message]:
        """Puts results first in the message behind their calls, and makes user and assistant alternate."""
        messages = [
            _without_misplaced_calls(index, message, changes) for index, message in enumerate(messages)
        ]
        full: list[tuple[int, Message]] = []
        for index, message in _with_results(messages, self.pairs(messages), changes):
            filled = _without_blanks(message)
            if filled is not message or is_empty(message):
                changes.append(HistoryChange(index, "empty removed"))
            if not is_empty(message):
                full.append((index, filled))
        merged = _merged(full, changes)
        for place, (index, message) in enumerate(merged):
            if field(message, "role") == "user":
                break
            if field(message, "role") == "assistant":
                merged.insert(place, (index, {"role": "user", "content": EARLIER}))
                changes.append(HistoryChange(index, "user added"))
                break
        return [message for _, message in merged]


def _without_misplaced_calls(index: int, message: Message, changes: list[HistoryChange]) -> Message:
    """Removes calls that cannot have a result: by the user, without an id, or with a repeated id."""
    seen: set[str] = set()

    def is_sound(block: Any) -> bool:
        if not is_object(block) or field(block, "type") != "tool_use":
            return True
        call_id = field(block, "id")
        if field(message, "role") == "assistant" and is_id(call_id) and call_id not in seen:
            seen.add(call_id)
            return True
        changes.append(HistoryChange(index, "call removed", call_id if is_id(call_id) else ""))
        return False

    return _filtered(message, is_sound)


def _with_results(
    messages: list[Message], answers: dict[Position, Position], changes: list[HistoryChange]
) -> list[tuple[int, Message]]:
    """Every message with its index; the results of an assistant's calls come first in the next message."""
    parts = [blocks(message) for message in messages]
    call_of = {result: call for call, result in answers.items()}
    turns: list[tuple[int, Message]] = []
    due: list[Any] = []  # results of the last assistant message that are not in the next message
    for index, message in enumerate(messages):
        if due and field(message, "role") != "user":
            turns.append((index - 1, {"role": "user", "content": due}))
            due = []
        turns.append((index, _answered(index, message, due, call_of, changes)))
        due = []
        for part, block in enumerate(parts[index]):
            if field(block, "type") != "tool_use":
                continue
            call_id = field(block, "id")
            result = answers.get(Position(index, part))
            if result is None:
                due.append(_missing(call_id))
                changes.append(HistoryChange(index, "result added", call_id))
            elif result.message != index + 1 or field(messages[index + 1], "role") != "user":
                due.append(parts[result.message][result.part])
                changes.append(HistoryChange(result.message, "result moved", call_id))
    if due:
        turns.append((len(messages) - 1, {"role": "user", "content": due}))
    return turns


def _answered(
    index: int,
    message: Message,
    due: list[Any],
    call_of: dict[Position, Position],
    changes: list[HistoryChange],
) -> Message:
    """The message with its own results first, and without results that belong elsewhere."""
    content = field(message, "content")
    if not isinstance(content, (list, tuple)):
        if not due:
            return message
        return with_field(message, "content", [*due, *_as_blocks(content)])
    here, rest, part = [], [], 0
    in_order = True
    for block in content:
        if not is_object(block):
            rest.append(block)
            continue
        place = Position(index, part)
        part += 1
        if field(block, "type") != "tool_result":
            rest.append(block)
            continue
        call = call_of.get(place)
        if call is not None and call.message == index - 1 and field(message, "role") == "user":
            in_order = in_order and not rest
            here.append(block)
        elif call is None:
            changes.append(HistoryChange(index, "result removed", text_field(block, "tool_use_id")))
    if not in_order:
        changes.append(HistoryChange(index, "result moved", text_field(here[-1], "tool_use_id")))
    if in_order and not due and len(here) + len(rest) == len(content):
        return message
    return with_field(message, "content", [*here, *due, *rest])


def _without_blanks(message: Message) -> Message:
    if field(message, "role") not in ("user", "assistant"):
        return message
    return _filtered(message, lambda block: not is_blank(block))


def _merged(turns: list[tuple[int, Message]], changes: list[HistoryChange]) -> list[tuple[int, Message]]:
    groups: list[list[tuple[int, Message]]] = []
    for index, message in turns:
        role = field(message, "role")
        if groups and role in ("user", "assistant") and field(groups[-1][0][1], "role") == role:
            groups[-1].append((index, message))
            changes.append(HistoryChange(index, "merged"))
        else:
            groups.append([(index, message)])
    return [
        (group[0][0], group[0][1] if len(group) == 1 else _joined([message for _, message in group]))
        for group in groups
    ]


def _joined(messages: list[Message]) -> Message:
    parts = [part for message in messages for part in _as_blocks(field(message, "content"))]
    return with_field(messages[0], "content", parts)


def _filtered(message: Message, keep: Callable[[Any], bool]) -> Message:
    content = field(message, "content")
    if not isinstance(content, (list, tuple)):
        return message
    kept = [block for block in content if keep(block)]
    return message if len(kept) == len(content) else with_field(message, "content", kept)


def _as_blocks(content: object) -> list[Any]:
    if isinstance(content, (list, tuple)):
        return list(content)
    block = {"type": "text", "text": content}
    return [] if is_blank(block) else [block]


def _missing(call_id: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": MISSING, "is_error": True}
