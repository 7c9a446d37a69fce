"""`HistoryForm`: how one interface writes the calls and results of a conversation, and in which order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeGuard

from toolroll.formats.providers.message_fields import Message, field, fields, is_object, list_field

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
        index: the place in the caller's list of the message with the error or addition.
        what: the kind of change.
        call_id: the call's; "" if no call is concerned.
    """

    index: int
    what: What
    call_id: str = ""


class Position(NamedTuple):
    """The place of a call or a result.

    Attributes:
        message: index of the message.
        part: index of the call, content block or part in it; 0 for the message itself.
    """

    message: int
    part: int


class PlacedCall(NamedTuple):
    """A tool call in a history. The id is "" for a call of Gemini without one."""

    place: Position
    call_id: str
    name: str


class PlacedResult(NamedTuple):
    """A tool's result in a history. Id and name are "" if the message has none."""

    place: Position
    call_id: str
    name: str


class HistoryForm(ABC):
    """How one interface writes a conversation. Instances have no state.

    A provider with the messages of another one uses that provider's instance.
    """

    @abstractmethod
    def is_sign(self, message: Message) -> bool:
        """Whether only this form has messages like this one."""

    @abstractmethod
    def calls_in(self, message: Message) -> Iterator[tuple[int, str, str]]:
        """Part, id and name of each call in a message. Calls that no result can answer are left out."""

    @abstractmethod
    def results_in(self, message: Message) -> Iterator[tuple[int, str, str]]:
        """Part, id and name of each result in a message."""

    @abstractmethod
    def repaired(self, messages: list[Message], changes: list[HistoryChange]) -> list[Message]:
        """The messages in an order that the provider accepts. Adds each change to `changes`."""

    @abstractmethod
    def content(self, message: Message, part: int) -> object:
        """The content of the result at a part of a message."""

    @abstractmethod
    def with_contents(self, message: Message, texts: Mapping[int, str]) -> Message:
        """A copy of a message with other contents. texts: part of a result → its new content."""

    def needs_previous(self, messages: Sequence[Message]) -> list[bool]:
        """For each message, whether the provider refuses it without the message before it.

        Pairs of calls and results do not count here; `pairs` finds them.
        """
        return [False] * len(messages)

    def exchanges(self, messages: Sequence[Message]) -> list[int]:
        """For each message, the index at which the calls that it belongs to begin."""
        return list(range(len(messages)))

    def calls(self, messages: Sequence[Message]) -> Iterator[PlacedCall]:
        """Every call that a result can answer, in order."""
        for index, message in enumerate(messages):
            for part, call_id, name in self.calls_in(message):
                yield PlacedCall(Position(index, part), call_id, name)

    def results(self, messages: Sequence[Message]) -> Iterator[PlacedResult]:
        """Every result, in order."""
        for index, message in enumerate(messages):
            for part, call_id, name in self.results_in(message):
                yield PlacedResult(Position(index, part), call_id, name)

    def pairs(self, messages: Sequence[Message]) -> dict[Position, Position]:
        """Position of each answered call → position of its result.

        Some providers count ids from 0 in each turn, so ids may repeat. A result belongs to the last
        earlier call with its id. Of several results for a call, the first counts. A result before its
        call belongs to it only if no other call has the id.
        """
        found: dict[Position, Position] = {}
        latest: dict[str, Position] = {}
        counts: dict[str, int] = {}
        early: dict[str, Position] = {}
        marks: list[tuple[int, int, PlacedCall | PlacedResult]]
        marks = [(call.place.message, 0, call) for call in self.calls(messages) if call.call_id]
        marks += [(result.place.message, 1, result) for result in self.results(messages)]
        for _, _, mark in sorted(marks, key=lambda mark: mark[:2]):
            if isinstance(mark, PlacedCall):
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
