"""Shortens a history: keeps the last messages, and replaces old results by one line each.

Call in this order: `window`, `repair_history`, `truncate_results`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from toolroll.errors import InvalidInput, quoted
from toolroll.formats.repair.messages import (
    OUTPUTS,
    Form,
    Message,
    Place,
    calls,
    check,
    form_of,
    pairs,
    results,
)

_AnyForm = Literal["openai", "responses", "anthropic"]


def window(messages: Sequence[Message], last: int = 50, form: _AnyForm | None = None) -> list[Message]:
    """The system messages and the `last` others, beginning where no result is separated from its call.

    So there may be fewer messages, or more if the last exchange alone is longer.

    Raises:
        InvalidInput: it is not a list of objects, mixes several forms, or `last` is not a count.
    """
    messages = check(messages)
    _check_count("last", last)
    others = [index for index, message in enumerate(messages) if not _is_system(message)]
    if len(others) <= last:
        return messages
    cut = _cuts(messages, form_of(messages, form))
    start = others[-last] if last else len(messages)
    begin = next((index for index in range(start, len(messages)) if not cut[index]), len(messages))
    if begin == len(messages) and last:
        begin = next(index for index in range(start, -1, -1) if not cut[index])
    return [message for message in messages[:begin] if _is_system(message)] + messages[begin:]


def truncate_results(
    messages: Sequence[Message], keep_last: int = 2, form: _AnyForm | None = None
) -> list[Message]:
    """Replaces the results of all but the last exchanges by one line each: "[name: truncated, was X chars]".

    An exchange is an assistant's calls with their results. Results shorter than their line and earlier such
    lines stay.

    Raises:
        InvalidInput: it is not a list of objects, mixes several forms, or `keep_last` is not a count.
    """
    messages = check(messages)
    _check_count("keep_last", keep_last)
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
    """For each index, whether a list that begins there has a result whose call is before it."""
    changes = [0] * (len(messages) + 1)
    for call, result in pairs(messages, form).items():
        low, high = sorted((call.message, result.message))
        changes[low + 1] += 1
        changes[high + 1] -= 1
    open_pairs, cut = 0, []
    for change in changes[:-1]:
        open_pairs += change
        cut.append(open_pairs > 0)
    return cut


def _first_of_run(messages: list[Message], form: Form) -> list[int]:
    """For each message, the first of its run of calls: an item of Responses holds one call."""
    first: list[int] = []
    for index, message in enumerate(messages):
        follows = index > 0 and form == "responses" and _is_call(message) and _is_call(messages[index - 1])
        first.append(first[-1] if follows else index)
    return first


def _shortened(message: Message, names: Mapping[int, str], form: Form) -> Message:
    """With a line for each result in `names`, which maps its place in the message to the tool's name."""
    key = "output" if form == "responses" else "content"
    if form != "anthropic":
        said = message.get("name")
        line = _line(message.get(key), names[0] or (said if isinstance(said, str) else ""))
        return message if line is None else {**message, key: line}
    content: list[Any] = []
    part = -1
    for block in message["content"]:
        part += isinstance(block, Mapping)
        if isinstance(block, Mapping) and part in names:
            line = _line(block.get("content"), names[part])
            block = block if line is None else {**block, "content": line}
        content.append(block)
    return {**message, "content": content}


def _line(content: object, name: str) -> str | None:
    size = _size(content)
    name = name or "tool"
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
    text = block.get("text") if isinstance(block, Mapping) else block
    if isinstance(text, str):
        return len(text)
    try:
        return len(json.dumps(block, default=str, ensure_ascii=False))
    except (TypeError, ValueError, RecursionError):
        return 0


def _is_system(message: Message) -> bool:
    return message.get("role") in ("system", "developer")


def _is_call(message: Message) -> bool:
    return isinstance(kind := message.get("type"), str) and kind in OUTPUTS


def _check_count(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidInput(f"{name} is {quoted(value)}, must be a whole number, 0 or more")
