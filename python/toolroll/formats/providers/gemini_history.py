"""Repairs a list of Gemini's contents: a message with the responses directly follows a message with calls.

The names of fields may be in camel case, as in the REST interface, or in snake case, as in the SDK.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from toolroll.formats.providers.history_form import (
    EARLIER,
    MISSING,
    HistoryChange,
    HistoryForm,
    PlacedCall,
    PlacedResult,
    Position,
)
from toolroll.formats.providers.message_fields import (
    Message,
    field,
    fields,
    is_object,
    like,
    list_field,
    text_field,
    with_field,
)

_CAMEL_CASE = {"function_call": "functionCall", "function_response": "functionResponse"}


class GeminiHistory(HistoryForm):
    """The contents of Gemini."""

    def is_sign(self, message: Message) -> bool:
        return field(message, "role") == "model" or isinstance(field(message, "parts"), (list, tuple))

    def calls_in(self, message: Message) -> Iterator[tuple[int, str, str]]:
        """Part, id and name of each of the model's calls with a name. The id may be ""."""
        if field(message, "role") == "model":
            for part, call in _parts_of(message, "function_call"):
                if name := text_field(call, "name"):
                    yield part, text_field(call, "id"), name

    def results_in(self, message: Message) -> Iterator[tuple[int, str, str]]:
        for part, answer in _parts_of(message, "function_response"):
            yield part, text_field(answer, "id"), text_field(answer, "name")

    def content(self, message: Message, part: int) -> object:
        response = field(_part_field(list_field(message, "parts")[part], "function_response"), "response")
        output = field(response, "output") if isinstance(response, Mapping) and len(response) == 1 else None
        return output if isinstance(output, str) else response

    def with_contents(self, message: Message, texts: Mapping[int, str]) -> Message:
        # The media that the old responses refer to are left out.
        parts = list(list_field(message, "parts"))
        for place, text in texts.items():
            part = parts[place]
            answer = _part_field(part, "function_response")
            kept = {key: value for key, value in fields(answer).items() if key in ("id", "name")}
            key = "functionResponse" if field(part, "functionResponse") is not None else "function_response"
            parts[place] = with_field(part, key, like(answer, {**kept, "response": {"output": text}}))
        return with_field(message, "parts", parts)

    def pairs(self, messages: Sequence[Message]) -> dict[Position, Position]:
        """First the pairs with the same id, then pairs with the same name and not the same id, in order.

        In the message after the call, different ids do not matter: Gemini uses the order. Further away, one
        of the two must have no id.
        """
        found = super().pairs(messages)
        taken = set(found.values())
        marks: list[tuple[int, int, PlacedCall | PlacedResult]]
        marks = [(call.place.message, 0, call) for call in self.calls(messages) if call.place not in found]
        marks += [
            (result.place.message, 1, result)
            for result in self.results(messages)
            if result.place not in taken
        ]
        waiting: dict[str, list[deque[PlacedCall]]] = {}  # by name, for each message with calls
        for _, _, mark in sorted(marks, key=lambda mark: mark[:2]):
            turns = waiting.setdefault(mark.name, [])
            if isinstance(mark, PlacedCall):
                if not turns or turns[-1][0].place.message != mark.place.message:
                    turns.append(deque())
                turns[-1].append(mark)
                continue
            if not turns:
                continue
            call = turns[-1][0]
            if call.place.message + 1 == mark.place.message or not call.call_id or not mark.call_id:
                found[call.place] = mark.place
                turns[-1].popleft()
                if not turns[-1]:
                    turns.pop()
        return found

    def repaired(self, messages: list[Message], changes: list[HistoryChange]) -> list[Message]:
        """Puts exactly the responses to its calls behind each message with calls."""
        messages = [_with_sound_calls(index, message, changes) for index, message in enumerate(messages)]
        full: list[tuple[int, Message]] = []
        for index, message in _with_results(messages, self.pairs(messages), changes):
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
    """The message without unusable calls: a call of the user, and a call without a name."""
    parts = list_field(message, "parts")
    kept = []
    for part in parts:
        call = _part_field(part, "function_call")
        if call is not None and not (_is_model(message) and text_field(call, "name")):
            changes.append(HistoryChange(index, "call removed", text_field(call, "id")))
        else:
            kept.append(part)
    return message if len(kept) == len(parts) else with_field(message, "parts", kept)


def _with_results(
    messages: list[Message], answers: dict[Position, Position], changes: list[HistoryChange]
) -> list[tuple[int, Message]]:
    """Every message with its index; behind each message with calls, one with exactly their results."""
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
        for part, call in _parts_of(message, "function_call"):
            result = answers.get(Position(index, part))
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
    call_of: dict[Position, Position],
    changes: list[HistoryChange],
) -> Message:
    """The message with its own results and the due ones, without results that belong elsewhere."""
    strange: set[int] = set()
    for place in _results_at(index, message):
        if place.part not in own or _is_model(message):
            strange.add(place.part)
            if place not in call_of:
                response = _part_field(list_field(message, "parts")[place.part], "function_response")
                changes.append(HistoryChange(index, "result removed", text_field(response, "id")))
    if not strange and not due:
        return message
    kept = [part for place, part in enumerate(list_field(message, "parts")) if place not in strange]
    return with_field(message, "parts", [*due, *kept])


def _results_at(index: int, message: Message) -> list[Position]:
    return [Position(index, part) for part, _ in _parts_of(message, "function_response")]


def _follows(call: Position | None, index: int) -> bool:
    return call is not None and call.message == index - 1


def _missing(part: Message, call: Message) -> Message:
    """A part that reports a missing result, with the type and the case of the call's part."""
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
    return next(_parts_of(message, "function_call"), None) is not None


def _is_empty(message: Message) -> bool:
    """Whether a message has only blank text. `parts` that are no list count as content."""
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


def _parts_of(message: Message, name: str) -> Iterator[tuple[int, Any]]:
    """Index and value of each part of one kind."""
    for index, part in enumerate(list_field(message, "parts")):
        if (value := _part_field(part, name)) is not None:
            yield index, value


def _part_field(part: object, name: str) -> Any:
    """A field of a part that is an object, under its snake case or its camel case name; else None."""
    if not is_object(part):
        return None
    value = field(part, name)
    if value is None:
        value = field(part, _CAMEL_CASE[name])
    return value if is_object(value) else None
