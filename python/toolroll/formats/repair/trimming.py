"""Shortens a history: keeps the last messages, and replaces old results by one line each.

Call in this order: `window`, `repair_history`, `truncate_results`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from toolroll.formats.foreign_text import name_text
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
from toolroll.formats.repair.messages import Form, check, form_of
from toolroll.formats.repair.pairing import Place, calls, pairs, part_field, results
from toolroll.formats.repair.responses_history import is_call, is_of_model, is_reasoning
from toolroll.model.errors import InvalidInput, quoted


def window(messages: Sequence[Message], last: int = 50, form: Form | None = None) -> list[Message]:
    """The system messages and the `last` others, beginning where no result is separated from its call.

    In Responses, no item is separated from the reasoning before it either. So there may be fewer messages, or
    more if the last exchange alone is longer.

    Raises:
        InvalidInput: it is not a list of objects, mixes several forms, or `last` is not a count.
    """
    messages = check(messages)
    check_count("last", last)
    begin = beginning(messages, last, form)
    return [message for message in messages[:begin] if is_system(message)] + messages[begin:]


def beginning(messages: list[Message], last: int, form: Form | None) -> int:
    """The index of the first message of `window`, beside system messages."""
    others = [index for index, message in enumerate(messages) if not is_system(message)]
    if len(others) <= last:
        return 0
    cut = _cuts(messages, form_of(messages, form))
    start = others[-last] if last else len(messages)
    begin = next((index for index in range(start, len(messages)) if not cut[index]), len(messages))
    if begin == len(messages) and last:
        begin = next(index for index in range(start, -1, -1) if not cut[index])
    return begin


def truncate_results(
    messages: Sequence[Message], keep_last: int = 2, form: Form | None = None
) -> list[Message]:
    """Replaces the results of all but the last exchanges by one line each: "[name: truncated, was X chars]".

    An exchange is an assistant's calls with their results. Results shorter than their line and earlier such
    lines stay.

    Raises:
        InvalidInput: it is not a list of objects, mixes several forms, or `keep_last` is not a count.
    """
    messages = check(messages)
    check_count("keep_last", keep_last)
    form = form_of(messages, form)
    names = {call.place: call.name for call in calls(messages, form)}
    call_of = {result: call for call, result in pairs(messages, form).items()}
    first = _first_of_run(messages, form)
    exchange_of: dict[Place, int] = {}
    for result in results(messages, form):
        call = call_of.get(result.place)
        exchange_of[result.place] = -1 - result.place.message if call is None else first[call.message]
    order = list(dict.fromkeys(exchange_of.values()))
    old = set(order[: max(0, len(order) - keep_last)])
    by_message: dict[int, dict[int, str]] = {}
    for place, exchange in exchange_of.items():
        if exchange in old:
            name = names[call_of[place]] if place in call_of else ""
            by_message.setdefault(place.message, {})[place.part] = name
    for index, shortened in by_message.items():
        messages[index] = _shortened(messages[index], shortened, form)
    return messages


def _cuts(messages: list[Message], form: Form) -> list[bool]:
    """For each index, whether a list that begins there lacks something that its first messages need."""
    changes = [0] * (len(messages) + 1)
    for call, result in pairs(messages, form).items():
        low, high = sorted((call.message, result.message))
        changes[low + 1] += 1
        changes[high + 1] -= 1
    open_pairs, cut = 0, []
    for change in changes[:-1]:
        open_pairs += change
        cut.append(open_pairs > 0)
    return [a or b for a, b in zip(cut, _behind_reasoning(messages, form), strict=True)]


def _behind_reasoning(messages: list[Message], form: Form) -> list[bool]:
    """For each index, whether reasoning is before it among the items in a row that the model wrote."""
    behind: list[bool] = []
    reasoned = False
    for message in messages:
        if form != "openai_responses" or not is_of_model(message):
            reasoned = False
        behind.append(reasoned)
        reasoned = reasoned or (form == "openai_responses" and is_reasoning(message))
    return behind


def _first_of_run(messages: list[Message], form: Form) -> list[int]:
    """For each message, the first of its run of calls: an item of Responses holds one call."""
    first: list[int] = []
    for index, message in enumerate(messages):
        follows = (
            index > 0 and form == "openai_responses" and is_call(message) and is_call(messages[index - 1])
        )
        first.append(first[-1] if follows else index)
    return first


def _shortened(message: Message, names: Mapping[int, str], form: Form) -> Message:
    """With a line for each result in `names`, which maps its place in the message to the tool's name."""
    if form == "gemini":
        parts = list(list_field(message, "parts"))
        for place, name in names.items():
            parts[place] = _short_part(parts[place], name)
        return with_field(message, "parts", parts)
    key = "output" if form == "openai_responses" else "content"
    if form != "anthropic":
        line = _line(field(message, key), names[0] or text_field(message, "name"))
        return message if line is None else with_field(message, key, line)
    content: list[Any] = []
    part = -1
    for block in field(message, "content"):
        part += is_object(block)
        if is_object(block) and part in names:
            line = _line(field(block, "content"), names[part])
            block = block if line is None else with_field(block, "content", line)
        content.append(block)
    return with_field(message, "content", content)


def _short_part(part: Message, name: str) -> Message:
    """A Gemini part with a line for its response, and without the media that the response refers to."""
    answer = part_field(part, "function_response")
    response = field(answer, "response")
    output = field(response, "output") if isinstance(response, Mapping) and len(response) == 1 else None
    line = _line(output if isinstance(output, str) else response, name or text_field(answer, "name"))
    if line is None:
        return part
    kept = {key: value for key, value in fields(answer).items() if key in ("id", "name")}
    key = "functionResponse" if field(part, "functionResponse") is not None else "function_response"
    return with_field(part, key, like(answer, {**kept, "response": {"output": line}}))


def _line(content: object, name: str) -> str | None:
    size = _size(content)
    name = name_text(name or "tool")
    line = f"[{name}: truncated, was {size} chars]"
    if size <= len(line):
        return None
    start = f"[{name}: truncated, was "
    is_line = isinstance(content, str) and content.startswith(start) and size < len(start) + 30
    return None if is_line else line


def _size(content: object) -> int:
    """The number of characters of a result; of other content, such as an image, that of its JSON."""
    if isinstance(content, (list, tuple)):
        return sum(map(_block_size, content))
    return 0 if content is None else _block_size(content)


def _block_size(block: object) -> int:
    text = field(block, "text") if is_object(block) else block
    if isinstance(text, str):
        return len(text)
    try:
        return len(json.dumps(block, default=fields, ensure_ascii=False))
    except (TypeError, ValueError, RecursionError):
        return 0


def is_system(message: Message) -> bool:
    """Whether it is part of the system prompt."""
    return field(message, "role") in ("system", "developer")


def check_count(name: str, value: object) -> None:
    """Raises InvalidInput unless it is a whole number of at least 0."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidInput(f"{name} is {quoted(value)}, must be a whole number, 0 or more")
