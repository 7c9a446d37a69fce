"""Repairs a list of items of OpenAI's Responses API: calls, their outputs, and reasoning.

The API requires that a reasoning item is followed by an item that the model wrote after it, and that an item
with an id keeps the reasoning before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from toolroll.formats.providers.history_form import (
    MISSING,
    HistoryChange,
    HistoryForm,
    Position,
    is_empty,
    is_id,
)
from toolroll.formats.providers.message_fields import Message, field, text_field, with_field, without_field

# The item that answers each kind of call.
OUTPUTS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "computer_call": "computer_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
}
CALLS = {output: call for call, output in OUTPUTS.items()}

_TEXT_OUTPUTS = ("function_call", "custom_tool_call")  # their output may be a text


class ResponsesHistory(HistoryForm):
    """The items of OpenAI's Responses."""

    def is_sign(self, message: Message) -> bool:
        kind = text_field(message, "type")
        return kind in OUTPUTS or kind in CALLS or kind == "reasoning"

    def calls_in(self, message: Message) -> Iterator[tuple[int, str, str]]:
        if _is_call(message) and (call_id := text_field(message, "call_id")):
            yield 0, call_id, text_field(message, "name")

    def results_in(self, message: Message) -> Iterator[tuple[int, str, str]]:
        if text_field(message, "type") in CALLS:
            yield 0, text_field(message, "call_id"), text_field(message, "name")

    def content(self, message: Message, part: int) -> object:
        return field(message, "output")

    def with_contents(self, message: Message, texts: Mapping[int, str]) -> Message:
        return with_field(message, "output", texts[0])

    def needs_previous(self, messages: Sequence[Message]) -> list[bool]:
        """For each item, whether reasoning stands before it in the same run of the model's items."""
        found: list[bool] = []
        has_reasoned = False
        for message in messages:
            has_reasoned = has_reasoned and _is_of_model(message)
            found.append(has_reasoned)
            has_reasoned = has_reasoned or _is_reasoning(message)
        return found

    def exchanges(self, messages: Sequence[Message]) -> list[int]:
        """For each item, the first of its calls. Calls in a row are one exchange: an item holds one."""
        first: list[int] = []
        for index, message in enumerate(messages):
            follows = index > 0 and _is_call(message) and _is_call(messages[index - 1])
            first.append(first[-1] if follows else index)
        return first

    def repaired(self, messages: list[Message], changes: list[HistoryChange]) -> list[Message]:
        """Puts outputs behind their run of calls, and removes reasoning that nothing follows."""
        items = messages
        dropped = self._unusable_calls(items)
        # A dropped call keeps its index and has no id, so that no output belongs to it.
        answers = self.pairs([{} if index in dropped else item for index, item in enumerate(items)])
        call_of = {result.message: call.message for call, result in answers.items()}
        moved = {result for result, call in call_of.items() if call > result}
        empty = {index for index, item in enumerate(items) if is_empty(item)}
        alone = _lone_reasoning(items, dropped | moved | empty)
        without_id = {index for start in alone for index in _next_run(items, start)}
        kept: list[Message] = []
        due: list[Message] = []  # outputs of the calls in a row so far, to follow the last of them
        for index, item in enumerate(items):
            call_id = text_field(item, "call_id")
            kind = text_field(item, "type")
            if kind in CALLS:
                if index not in call_of:
                    changes.append(HistoryChange(index, "result removed", call_id))
                elif index not in moved:
                    kept.append(item)
                continue
            if index in dropped:
                changes.append(HistoryChange(index, "call removed", call_id))
            elif index in empty:
                changes.append(HistoryChange(index, "empty removed"))
            elif index in alone:
                changes.append(HistoryChange(index, "reasoning removed"))
            else:
                if index in without_id and field(item, "id") is not None:
                    changes.append(HistoryChange(index, "id removed", call_id))
                    item = without_field(item, "id")
                kept.append(item)
                answer = answers.get(Position(index, 0))
                if answer is not None and answer.message in moved:
                    due.append(items[answer.message])
                    changes.append(HistoryChange(answer.message, "result moved", call_id))
                elif answer is None and kind in OUTPUTS:
                    due.append({"type": OUTPUTS[kind], "call_id": call_id, "output": MISSING})
                    changes.append(HistoryChange(index, "result added", call_id))
            if due and not (index + 1 < len(items) and _is_call(items[index + 1])):
                kept += due
                due = []
        return kept

    def _unusable_calls(self, items: list[Message]) -> set[int]:
        """The indexes of calls without an id, repeated in a row, or whose output cannot be text."""
        dropped: set[int] = set()
        seen: set[str] = set()
        for index, item in enumerate(items):
            if not _is_call(item):
                seen.clear()
                continue
            call_id = text_field(item, "call_id")
            if not is_id(call_id) or call_id in seen:
                dropped.add(index)
            seen.add(call_id)
        answered = {call.message for call in self.pairs(items)}
        return dropped | {
            index
            for index, item in enumerate(items)
            if _is_call(item) and index not in answered and text_field(item, "type") not in _TEXT_OUTPUTS
        }


def _is_call(item: Message) -> bool:
    """Whether an item is a call that an output must follow."""
    return text_field(item, "type") in OUTPUTS


def _is_reasoning(item: Message) -> bool:
    """Whether an item is the model's reasoning."""
    return text_field(item, "type") == "reasoning"


def _is_of_model(item: Message) -> bool:
    """Whether the model wrote an item: a call, reasoning, a message, or the use of a hosted tool."""
    kind = text_field(item, "type")
    if kind in ("", "message"):
        return bool(field(item, "role") == "assistant")
    return not kind.endswith(("_output", "_response"))


def _lone_reasoning(items: list[Message], absent: set[int]) -> set[int]:
    """The reasoning that no item of the model follows, apart from `absent` items and reasoning."""
    alone: set[int] = set()
    followed = False
    for index in range(len(items) - 1, -1, -1):
        if index in absent:
            continue
        if not _is_reasoning(items[index]):
            followed = _is_of_model(items[index])
        elif not followed:
            alone.add(index)
    return alone


def _next_run(items: list[Message], start: int) -> range:
    """The next items in a row of the model, up to other reasoning, after the reasoning at `start`.

    One of them may belong to the reasoning; the provider would refuse it with its id.
    """
    begin = start + 1
    while begin < len(items) and not _is_of_model(items[begin]):
        begin += 1
    end = begin
    while end < len(items) and _is_of_model(items[end]) and not _is_reasoning(items[end]):
        end += 1
    return range(begin, end)
