"""Repairs a list of OpenAI's chat messages: the results of an assistant's calls directly follow it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from toolroll.formats.providers.history_form import (
    MISSING,
    HistoryChange,
    HistoryForm,
    Position,
    is_empty,
    is_id,
)
from toolroll.formats.providers.message_fields import (
    Message,
    field,
    is_object,
    list_field,
    text_field,
    with_field,
    without_field,
)


class ChatHistory(HistoryForm):
    """The messages of OpenAI's chat completions, which many other providers use too."""

    def is_sign(self, message: Message) -> bool:
        if text_field(message, "type") not in ("", "message"):
            return False
        is_result = field(message, "role") == "tool" and field(message, "parts") is None
        return is_result or bool(field(message, "tool_calls"))

    def calls_in(self, message: Message) -> Iterator[tuple[int, str, str]]:
        if field(message, "role") != "assistant":
            return
        for part, call in enumerate(list_field(message, "tool_calls")):
            if is_object(call) and (call_id := text_field(call, "id")):
                function = field(call, "function") or field(call, "custom")
                yield part, call_id, text_field(function, "name")

    def results_in(self, message: Message) -> Iterator[tuple[int, str, str]]:
        """The result in a message of the role "tool"."""
        if field(message, "role") == "tool":
            yield 0, text_field(message, "tool_call_id"), text_field(message, "name")

    def content(self, message: Message, part: int) -> object:
        return field(message, "content")

    def with_contents(self, message: Message, texts: Mapping[int, str]) -> Message:
        return with_field(message, "content", texts[0])

    def repaired(self, messages: list[Message], changes: list[HistoryChange]) -> list[Message]:
        """Puts each result directly behind the message with its call."""
        messages = [_with_sound_calls(index, message, changes) for index, message in enumerate(messages)]
        answers = self.pairs(messages)
        taken = set(answers.values())
        by_message: dict[int, list[Position]] = {}
        for call in answers:
            by_message.setdefault(call.message, []).append(call)
        kept: list[Message] = []
        for index, message in enumerate(messages):
            if field(message, "role") == "tool":
                if Position(index, 0) not in taken:
                    changes.append(
                        HistoryChange(index, "result removed", text_field(message, "tool_call_id"))
                    )
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
                if Position(index, part) not in answers:
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
