"""Repairs a list of OpenAI's chat messages: the results of an assistant's calls directly follow it."""

from __future__ import annotations

from toolroll.formats.repair.fields import (
    Message,
    field,
    is_object,
    list_field,
    text_field,
    with_field,
    without_field,
)
from toolroll.formats.repair.messages import MISSING, HistoryChange, is_empty, is_id
from toolroll.formats.repair.pairing import Place, pairs


def repaired(messages: list[Message], changes: list[HistoryChange]) -> list[Message]:
    """The repaired list; adds to `changes`."""
    messages = [_with_sound_calls(index, message, changes) for index, message in enumerate(messages)]
    answers = pairs(messages, "openai")
    taken = set(answers.values())
    by_message: dict[int, list[Place]] = {}
    for call in answers:
        by_message.setdefault(call.message, []).append(call)
    kept: list[Message] = []
    for index, message in enumerate(messages):
        if field(message, "role") == "tool":
            if Place(index, 0) not in taken:
                changes.append(HistoryChange(index, "result removed", text_field(message, "tool_call_id")))
            continue
        if is_empty(message):
            changes.append(HistoryChange(index, "empty removed"))
            continue
        kept.append(message)
        if field(message, "role") != "assistant":
            continue
        behind = index + 1
        while behind < len(messages) and field(messages[behind], "role") == "tool":
            behind += 1
        found = sorted(answers[call].message for call in by_message.get(index, ()))
        here = [place for place in found if index < place < behind]
        elsewhere = [place for place in found if not index < place < behind]
        kept += [messages[place] for place in (*here, *elsewhere)]
        changes += [
            HistoryChange(place, "result moved", text_field(messages[place], "tool_call_id"))
            for place in elsewhere
        ]
        for part, called in enumerate(list_field(message, "tool_calls")):
            if Place(index, part) not in answers:
                call_id = text_field(called, "id")
                kept.append({"role": "tool", "tool_call_id": call_id, "content": MISSING})
                changes.append(HistoryChange(index, "result added", call_id))
    return kept


def _with_sound_calls(index: int, message: Message, changes: list[HistoryChange]) -> Message:
    """The message without calls that have no usable id, and without an empty list of calls."""
    if field(message, "tool_calls") is None or field(message, "role") != "assistant":
        return message
    calls = list_field(message, "tool_calls")
    seen: set[str] = set()
    sound = []
    for call in calls:
        call_id = field(call, "id") if is_object(call) else None
        if is_id(call_id) and call_id not in seen:
            seen.add(call_id)
            sound.append(call)
        else:
            changes.append(HistoryChange(index, "call removed", call_id if is_id(call_id) else ""))
    if sound and len(sound) == len(calls):
        return message
    if not calls:
        changes.append(HistoryChange(index, "call removed"))  # providers reject an empty list too
    return with_field(message, "tool_calls", sound) if sound else without_field(message, "tool_calls")
