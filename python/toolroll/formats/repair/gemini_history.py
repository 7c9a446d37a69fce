"""Repairs a list of Gemini's contents: a message with the responses directly follows a message with calls.

The names of fields may be in camel case, as in the REST interface, or in snake case, as in the SDK.
"""

from __future__ import annotations

from typing import Any

from toolroll.formats.repair.fields import (
    Message,
    field,
    fields,
    is_object,
    like,
    list_field,
    text_field,
    with_field,
)
from toolroll.formats.repair.messages import EARLIER, MISSING, HistoryChange
from toolroll.formats.repair.pairing import Place, pairs, part_field, parts_of


def repaired(messages: list[Message], changes: list[HistoryChange]) -> list[Message]:
    """The repaired list; adds to `changes`."""
    messages = [_with_sound_calls(index, message, changes) for index, message in enumerate(messages)]
    full: list[tuple[int, Message]] = []
    for index, message in _with_results(messages, changes):
        if _is_empty(message):
            changes.append(HistoryChange(index, "empty removed"))
        else:
            full.append((index, message))
    kept: list[Message] = []
    for index, message in full:
        if _has_calls(message):  # must follow the user
            texts: list[Message] = []
            while kept and _is_model(kept[-1]):
                texts.append(kept.pop())
                changes.append(HistoryChange(index, "merged"))
            if texts:
                parts = [part for one in (*reversed(texts), message) for part in list_field(one, "parts")]
                message = with_field(texts[-1], "parts", parts)
            if not kept:
                kept.append(like(message, {"role": "user", "parts": [{"text": EARLIER}]}))
                changes.append(HistoryChange(index, "user added"))
        kept.append(message)
    return kept


def _with_sound_calls(index: int, message: Message, changes: list[HistoryChange]) -> Message:
    """The message without calls of the user or without a name."""
    parts = list_field(message, "parts")
    kept = []
    for part in parts:
        call = part_field(part, "function_call")
        if call is not None and not (_is_model(message) and text_field(call, "name")):
            changes.append(HistoryChange(index, "call removed", text_field(call, "id")))
        else:
            kept.append(part)
    return message if len(kept) == len(parts) else with_field(message, "parts", kept)


def _with_results(messages: list[Message], changes: list[HistoryChange]) -> list[tuple[int, Message]]:
    """Every message with its index; behind each message with calls, one with exactly their results."""
    answers = pairs(messages, "gemini")
    call_of = {result: call for call, result in answers.items()}
    turns: list[tuple[int, Message]] = []
    due: list[Any] = []  # results of the last message that are not in this one
    for index, message in enumerate(messages):
        own = {place.part for place in _results_at(index, message) if _follows(call_of.get(place), index)}
        if due and (not own or _is_model(message)):
            turns.append((index - 1, _message_of_results(messages[index - 1], due)))
            due = []
        turns.append((index, _with_results_of(index, message, own, due, call_of, changes)))
        due = []
        for part, call in parts_of(message, "function_call"):
            result = answers.get(Place(index, part))
            call_id = text_field(call, "id")
            if result is None:
                due.append(_missing(list_field(message, "parts")[part], call))
                changes.append(HistoryChange(index, "result added", call_id))
            elif result.message != index + 1 or _is_model(messages[index + 1]):
                due.append(list_field(messages[result.message], "parts")[result.part])
                changes.append(HistoryChange(result.message, "result moved", call_id))
    if due:
        turns.append((len(messages) - 1, _message_of_results(messages[-1], due)))
    return turns


def _with_results_of(
    index: int,
    message: Message,
    own: set[int],
    due: list[Any],
    call_of: dict[Place, Place],
    changes: list[HistoryChange],
) -> Message:
    """The message with its own results and those that are due, without results that belong elsewhere."""
    strange: set[int] = set()
    for place in _results_at(index, message):
        if place.part not in own or _is_model(message):
            strange.add(place.part)
            if place not in call_of:
                response = part_field(list_field(message, "parts")[place.part], "function_response")
                changes.append(HistoryChange(index, "result removed", text_field(response, "id")))
    if not strange and not due:
        return message
    kept = [part for place, part in enumerate(list_field(message, "parts")) if place not in strange]
    return with_field(message, "parts", [*due, *kept])


def _results_at(index: int, message: Message) -> list[Place]:
    return [Place(index, part) for part, _ in parts_of(message, "function_response")]


def _follows(call: Place | None, index: int) -> bool:
    return call is not None and call.message == index - 1


def _missing(part: Message, call: Message) -> Message:
    """A part that says that there is no result, of the type and in the case of the call's part."""
    response: dict[str, Any] = {"name": text_field(call, "name"), "response": {"error": MISSING}}
    if call_id := text_field(call, "id"):
        response = {"id": call_id, **response}
    key = "functionResponse" if field(part, "functionCall") is not None else "function_response"
    return like(part, {key: response})


def _message_of_results(calling: Message, parts: list[Any]) -> Message:
    return like(calling, {"role": "user", "parts": parts})


def _is_model(message: Message) -> bool:
    return bool(field(message, "role") == "model")


def _has_calls(message: Message) -> bool:
    return next(parts_of(message, "function_call"), None) is not None


def _is_empty(message: Message) -> bool:
    """Whether a message has no part but blank text; `parts` that are no list (the SDK takes a text) stay."""
    parts = field(message, "parts")
    if not isinstance(parts, (list, tuple)):
        return parts is None
    return all(_is_blank(part) for part in parts)


def _is_blank(part: object) -> bool:
    filled = (
        {key: value for key, value in fields(part).items() if value is not None}
        if is_object(part)
        else {"": 0}
    )
    return not filled or (filled.keys() == {"text"} and not str(filled["text"]).strip())
