"""Finds the calls and the results in a message list, and the result of each call."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from toolroll.formats.repair.fields import Message, field, is_object, list_field, text_field
from toolroll.formats.repair.messages import CALLS, OUTPUTS, Form, blocks

_CAMEL_CASE = {"function_call": "functionCall", "function_response": "functionResponse"}


class Place(NamedTuple):
    """The place of a call or a result.

    Attributes:
        message: index of the message.
        part: index of the call, content block or part in it; 0 for the message itself.
    """

    message: int
    part: int


class Call(NamedTuple):
    """A tool call in a history; the id is "" only in Gemini's form."""

    place: Place
    call_id: str
    name: str


class Result(NamedTuple):
    """A tool's answer in a history; the id is "" if it has none, the name only known in Gemini's form."""

    place: Place
    call_id: str
    name: str = ""


def calls(messages: Sequence[Message], form: Form) -> Iterator[Call]:
    """Every call that can be answered, in order: one with an id, or in Gemini's form with a name."""
    for index, message in enumerate(messages):
        for part, call_id, name in _calls_in(message, form):
            yield Call(Place(index, part), call_id, name)


def results(messages: Sequence[Message], form: Form) -> Iterator[Result]:
    """Every result, in order."""
    for index, message in enumerate(messages):
        if form == "openai":
            if field(message, "role") == "tool":
                yield Result(Place(index, 0), text_field(message, "tool_call_id"))
        elif form == "openai_responses":
            if text_field(message, "type") in CALLS:
                yield Result(Place(index, 0), text_field(message, "call_id"))
        elif form == "anthropic":
            for part, block in enumerate(blocks(message)):
                if field(block, "type") == "tool_result":
                    yield Result(Place(index, part), text_field(block, "tool_use_id"))
        else:
            for part, answer in parts_of(message, "function_response"):
                yield Result(Place(index, part), text_field(answer, "id"), text_field(answer, "name"))


def parts_of(message: Message, name: str) -> Iterator[tuple[int, Any]]:
    """The parts of a Gemini message that are of one kind: index and value."""
    for index, part in enumerate(list_field(message, "parts")):
        if (value := part_field(part, name)) is not None:
            yield index, value


def part_field(part: object, name: str) -> Any:
    """A field of a Gemini part that is an object, under its snake case or its camel case name; else None."""
    if not is_object(part):
        return None
    value = field(part, name)
    if value is None:
        value = field(part, _CAMEL_CASE[name])
    return value if is_object(value) else None


def pairs(messages: Sequence[Message], form: Form) -> dict[Place, Place]:
    """Place of each answered call → place of its result.

    Ids may repeat in a later turn, since some providers count from 0 in each: a result belongs to the last
    call with its id before it, and of several results for one call the first counts. A result before its call
    belongs to it only if no other call has that id. Gemini's calls may be without ids; see `_by_name`.
    """
    found: dict[Place, Place] = {}
    latest: dict[str, Place] = {}
    counts: dict[str, int] = {}
    early: dict[str, Place] = {}
    all_calls = list(calls(messages, form))
    all_results = list(results(messages, form))
    marks: list[tuple[int, int, Call | Result]]
    marks = [(call.place.message, 0, call) for call in all_calls if call.call_id]
    marks += [(result.place.message, 1, result) for result in all_results]
    for _, _, mark in sorted(marks, key=lambda mark: mark[:2]):
        if isinstance(mark, Call):
            latest[mark.call_id] = mark.place
            counts[mark.call_id] = counts.get(mark.call_id, 0) + 1
        elif (call := latest.get(mark.call_id)) is not None:
            found.setdefault(call, mark.place)
        else:
            early.setdefault(mark.call_id, mark.place)
    for call_id, place in early.items():
        if counts.get(call_id) == 1:
            found.setdefault(latest[call_id], place)
    if form == "gemini":
        _by_name(all_calls, all_results, found)
    return found


def _by_name(all_calls: list[Call], all_results: list[Result], found: dict[Place, Place]) -> None:
    """Adds pairs of one name and not the same id, in order, to the pairs of one id.

    In the message behind the call, different ids do not matter: the provider goes by the order. Further away,
    one of the two must be without an id.
    """
    taken = set(found.values())
    marks: list[tuple[int, int, Call | Result]]
    marks = [(call.place.message, 0, call) for call in all_calls if call.place not in found and call.name]
    marks += [(result.place.message, 1, result) for result in all_results if result.place not in taken]
    waiting: dict[str, list[deque[Call]]] = {}  # by name, for each message with calls
    for _, _, mark in sorted(marks, key=lambda mark: mark[:2]):
        turns = waiting.setdefault(mark.name, [])
        if isinstance(mark, Call):
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


def _calls_in(message: Message, form: Form) -> Iterator[tuple[int, str, str]]:
    if form == "openai_responses":
        if text_field(message, "type") in OUTPUTS and (call_id := text_field(message, "call_id")):
            yield 0, call_id, text_field(message, "name")
    elif form == "gemini":
        if field(message, "role") == "model":
            for part, call in parts_of(message, "function_call"):
                if name := text_field(call, "name"):
                    yield part, text_field(call, "id"), name
    elif field(message, "role") != "assistant":
        return
    elif form == "anthropic":
        for part, block in enumerate(blocks(message)):
            if field(block, "type") == "tool_use" and (call_id := text_field(block, "id")):
                yield part, call_id, text_field(block, "name")
    else:
        for part, call in enumerate(list_field(message, "tool_calls")):
            if is_object(call) and (call_id := text_field(call, "id")):
                function = field(call, "function") or field(call, "custom")
                yield part, call_id, text_field(function, "name")
