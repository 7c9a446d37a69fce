"""Reads message lists: their form, and the places of calls and results in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeGuard

from toolroll.errors import InvalidInput, quoted

Message = Mapping[str, Any]
Form = Literal["openai", "responses", "anthropic"]
FORMS: tuple[Form, ...] = ("openai", "responses", "anthropic")

OUTPUTS = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}
_ANSWERED = {output: call for call, output in OUTPUTS.items()}


class Place(NamedTuple):
    """The place of a call or a result.

    Attributes:
        message: index of the message.
        part: index of the call or content block in it; 0 for the message itself.
    """

    message: int
    part: int


class Call(NamedTuple):
    """A tool call in a history."""

    place: Place
    call_id: str
    name: str


class Result(NamedTuple):
    """A tool's answer in a history."""

    place: Place
    call_id: str


def check(messages: object) -> list[Message]:
    """The messages as a list. Raises InvalidInput if one is not an object."""
    if not isinstance(messages, (list, tuple)):
        raise InvalidInput(f"messages are {type(messages).__name__}, must be a list of message objects")
    for index, message in enumerate(messages):
        if not isinstance(message, Mapping):
            raise InvalidInput(f"messages[{index}] is {quoted(message)}, must be a message object")
    return list(messages)


def form_of(messages: Sequence[Message], form: str | None = None) -> Form:
    """The form named by `form`, or inferred from the messages; "openai" without any sign.

    Raises InvalidInput for an unknown name, and for calls of several forms in one list.
    """
    if form is not None:
        if form not in FORMS:
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
    if isinstance(kind := message.get("type"), str) and (kind in OUTPUTS or kind in _ANSWERED):
        return "responses"
    if message.get("role") == "tool" or message.get("tool_calls"):
        return "openai"
    if any(block.get("type") in ("tool_use", "tool_result") for block in blocks(message)):
        return "anthropic"
    return None


def blocks(message: Message) -> list[Message]:
    """The content blocks of a message that are objects; none if its content is text."""
    content = message.get("content")
    if not isinstance(content, (list, tuple)):
        return []
    return [block for block in content if isinstance(block, Mapping)]


def calls(messages: Sequence[Message], form: Form) -> Iterator[Call]:
    """Every call that has an id, in order."""
    for index, message in enumerate(messages):
        for part, call_id, name in _calls_in(message, form):
            yield Call(Place(index, part), call_id, name)


def results(messages: Sequence[Message], form: Form) -> Iterator[Result]:
    """Every result, in order; one without an id has the id ""."""
    for index, message in enumerate(messages):
        if form == "openai":
            if message.get("role") == "tool":
                yield Result(Place(index, 0), _text(message.get("tool_call_id")))
        elif form == "responses":
            if _text(message.get("type")) in _ANSWERED:
                yield Result(Place(index, 0), _text(message.get("call_id")))
        else:
            for part, block in enumerate(blocks(message)):
                if block.get("type") == "tool_result":
                    yield Result(Place(index, part), _text(block.get("tool_use_id")))


def pairs(messages: Sequence[Message], form: Form) -> dict[Place, Place]:
    """Place of each answered call → place of its result.

    Ids may repeat in a later turn, since some providers count from 0 in each: a result belongs to the last
    call with its id before it, and of several results for one call the first counts. A result before its call
    belongs to it only if no other call has that id.
    """
    found: dict[Place, Place] = {}
    latest: dict[str, Place] = {}
    counts: dict[str, int] = {}
    early: dict[str, Place] = {}
    marks: list[tuple[int, int, Call | Result]]
    marks = [(call.place.message, 0, call) for call in calls(messages, form)]
    marks += [(result.place.message, 1, result) for result in results(messages, form)]
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
    return found


def _calls_in(message: Message, form: Form) -> Iterator[tuple[int, str, str]]:
    if form == "responses":
        kind = message.get("type")
        if isinstance(kind, str) and kind in OUTPUTS and (call_id := _text(message.get("call_id"))):
            yield 0, call_id, _text(message.get("name"))
        return
    if message.get("role") != "assistant":
        return
    if form == "anthropic":
        for part, block in enumerate(blocks(message)):
            if block.get("type") == "tool_use" and (call_id := _text(block.get("id"))):
                yield part, call_id, _text(block.get("name"))
        return
    listed = message.get("tool_calls")
    for part, call in enumerate(listed if isinstance(listed, (list, tuple)) else ()):
        if isinstance(call, Mapping) and (call_id := _text(call.get("id"))):
            function = call.get("function") or call.get("custom")
            yield part, call_id, _text(function.get("name")) if isinstance(function, Mapping) else ""


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


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

_BARE = frozenset({"role", "content", "name", "id", "type", "status"})  # keys that are no content


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


def is_blank(block: object) -> bool:
    """Whether a content block is blank text."""
    if not isinstance(block, Mapping) or block.get("type") not in ("text", "input_text", "output_text"):
        return False
    text = block.get("text")
    return text is None or (isinstance(text, str) and not text.strip())


def is_empty(message: Message) -> bool:
    """Whether a user's or assistant's message has neither content nor calls."""
    if message.get("role") not in ("user", "assistant"):
        return False
    if any(value for key, value in message.items() if key not in _BARE):
        return False
    content = message.get("content")
    if isinstance(content, (list, tuple)):
        return all(is_blank(block) for block in content)
    return content is None or (isinstance(content, str) and not content.strip())


def with_sound_calls(index: int, message: Message, changes: list[HistoryChange]) -> Message:
    """A chat message without calls that have no usable id, and without an empty list of calls."""
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
            changes.append(HistoryChange(index, "call removed", call_id if is_id(call_id) else ""))
    if sound and len(sound) == len(calls):
        return message
    if not calls:
        changes.append(HistoryChange(index, "call removed"))  # providers reject an empty list too
    rest = {key: value for key, value in message.items() if key != "tool_calls"}
    return {**rest, "tool_calls": sound} if sound else rest


def is_id(value: object) -> TypeGuard[str]:
    """Whether this is a usable id of a call."""
    return isinstance(value, str) and value != ""
