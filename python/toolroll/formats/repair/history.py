"""Repairs a message list so that a provider accepts it: each call is followed by its result.

Histories break when a process dies between call and result, when a window cuts a pair apart, or when two
writers interleave. A single such place makes the provider reject every later request of the conversation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from toolroll.formats.repair import anthropic_history
from toolroll.formats.repair.messages import (
    MISSING,
    OUTPUTS,
    HistoryChange,
    Message,
    Place,
    check,
    form_of,
    is_empty,
    is_id,
    pairs,
    results,
    with_sound_calls,
)

__all__ = ["HistoryChange", "History", "repair_history"]


@dataclass(frozen=True, slots=True)
class History:
    """A list to send, and the changes.

    Attributes:
        messages: a new list; messages that needed no change are the caller's own objects.
        changes: in the order of the list; empty if it was valid.
    """

    messages: list[Message]
    changes: tuple[HistoryChange, ...]


def repair_history(
    messages: Sequence[Message], form: Literal["openai", "responses", "anthropic"] | None = None
) -> History:
    """Puts calls and results of a message list into the order that the provider requires.

    - A result without a call, and a second result of one call, is removed.
    - A call without a result gets a placeholder result.
    - A result elsewhere in the list moves behind its call.
    - A call without an id, or with an id that its message has already used, is removed.
    - User and assistant messages without content are removed; for Anthropic, blank text blocks too.
    - Anthropic only: adjacent messages of one role are merged, results come first in their message, and a
        list
      that does not begin with the user gets a first message that says so.

    A valid list is not changed, and a second repair changes nothing. Linear time.

    Args:
        messages: OpenAI's chat messages, the items of its Responses interface, or Anthropic's messages.
        form: which of these; None infers it from the calls and results ("openai" if there are none).

    Raises:
        InvalidInput: it is not a list of objects, or mixes several forms.
    """
    messages = check(messages)
    form = form_of(messages, form)
    changes: list[HistoryChange] = []
    if form == "anthropic":
        repaired = anthropic_history.repaired(messages, changes)
    else:
        repaired = (_chat if form == "openai" else _responses)(messages, changes)
    return History(repaired, tuple(sorted(changes, key=lambda change: change.index)))


def _chat(messages: list[Message], changes: list[HistoryChange]) -> list[Message]:
    messages = [with_sound_calls(index, message, changes) for index, message in enumerate(messages)]
    answers = pairs(messages, "openai")
    taken = set(answers.values())
    by_message: dict[int, list[Place]] = {}
    for call in answers:
        by_message.setdefault(call.message, []).append(call)
    repaired: list[Message] = []
    for index, message in enumerate(messages):
        if message.get("role") == "tool":
            if Place(index, 0) not in taken:
                changes.append(HistoryChange(index, "result removed", _id(message, "tool_call_id")))
            continue
        if is_empty(message):
            changes.append(HistoryChange(index, "empty removed"))
            continue
        repaired.append(message)
        if message.get("role") != "assistant" or not message.get("tool_calls"):
            continue
        behind = index + 1
        while behind < len(messages) and messages[behind].get("role") == "tool":
            behind += 1
        found = sorted(answers[call].message for call in by_message.get(index, ()))
        here = [place for place in found if index < place < behind]
        elsewhere = [place for place in found if not index < place < behind]
        repaired += [messages[place] for place in (*here, *elsewhere)]
        changes += [
            HistoryChange(place, "result moved", _id(messages[place], "tool_call_id")) for place in elsewhere
        ]
        for part, call in enumerate(message["tool_calls"]):
            if Place(index, part) not in answers:
                repaired.append({"role": "tool", "tool_call_id": call["id"], "content": MISSING})
                changes.append(HistoryChange(index, "result added", call["id"]))
    return repaired


def _responses(messages: list[Message], changes: list[HistoryChange]) -> list[Message]:
    answers = pairs(messages, "responses")
    call_of = {result.message: call.message for call, result in answers.items()}
    outputs = {result.place.message for result in results(messages, "responses")}
    repaired: list[Message] = []
    for index, item in enumerate(messages):
        if index in outputs:
            if index not in call_of:
                changes.append(HistoryChange(index, "result removed", _id(item, "call_id")))
            elif call_of[index] < index:
                repaired.append(item)
            continue
        kind = item.get("type")
        is_call = isinstance(kind, str) and kind in OUTPUTS
        if is_empty(item) or (is_call and not is_id(item.get("call_id"))):
            changes.append(HistoryChange(index, "call removed" if is_call else "empty removed"))
            continue
        repaired.append(item)
        if not is_call:
            continue
        answer = answers.get(Place(index, 0))
        if answer is None:
            repaired.append({"type": OUTPUTS[item["type"]], "call_id": item["call_id"], "output": MISSING})
            changes.append(HistoryChange(index, "result added", item["call_id"]))
        elif answer.message < index:
            repaired.append(messages[answer.message])
            changes.append(HistoryChange(answer.message, "result moved", item["call_id"]))
    return repaired


def _id(message: Message, key: str) -> str:
    value: Any = message.get(key)
    return value if isinstance(value, str) else ""
