"""Shortens a history: keeps the last messages, and replaces old results by one line each.

Call in this order: `window`, `repair_history`, `truncate_results`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from toolroll.formats.foreign_text import name_text
from toolroll.formats.providers.history_form import HistoryForm, Position
from toolroll.formats.providers.message_fields import Message, field, fields, is_object
from toolroll.formats.repair.history import check, form_of
from toolroll.model.errors import InvalidInput, quoted


def window(messages: Sequence[Message], last: int = 50, form: str | None = None) -> list[Message]:
    """The system messages and the `last` others, beginning where no result is separated from its call.

    In Responses, an item also stays with the reasoning before it. So there may be fewer messages than
    `last`, or more if the last exchange alone is longer.

    Raises:
        InvalidInput: it is not a list of objects, mixes several forms, or `last` is not a count.
    """
    messages = check(messages)
    check_count("last", last)
    begin = beginning(messages, last, form)
    return [message for message in messages[:begin] if is_system(message)] + messages[begin:]


def beginning(messages: list[Message], last: int, form: str | None) -> int:
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
    messages: Sequence[Message], keep_last: int = 2, form: str | None = None
) -> list[Message]:
    """Replaces the results of all but the last exchanges by one line each: "[name: truncated, was X chars]".

    An exchange is an assistant's calls with their results. A result that is shorter than its line stays,
    and so does an earlier line.

    Raises:
        InvalidInput: it is not a list of objects, mixes several forms, or `keep_last` is not a count.
    """
    messages = check(messages)
    check_count("keep_last", keep_last)
    history = form_of(messages, form)
    names = {call.place: call.name for call in history.calls(messages)}
    call_of = {result: call for call, result in history.pairs(messages).items()}
    first = history.exchanges(messages)
    exchange_of: dict[Position, int] = {}
    by_result: dict[Position, str] = {}
    for result in history.results(messages):
        call = call_of.get(result.place)
        exchange_of[result.place] = -1 - result.place.message if call is None else first[call.message]
        by_result[result.place] = (names[call] if call is not None else "") or result.name
    order = list(dict.fromkeys(exchange_of.values()))
    old = set(order[: max(0, len(order) - keep_last)])
    lines: dict[int, dict[int, str]] = {}
    for place, exchange in exchange_of.items():
        if exchange in old:
            line = _line(history.content(messages[place.message], place.part), by_result[place])
            if line is not None:
                lines.setdefault(place.message, {})[place.part] = line
    for index, texts in lines.items():
        messages[index] = history.with_contents(messages[index], texts)
    return messages


def _cuts(messages: list[Message], form: HistoryForm) -> list[bool]:
    """For each index, whether a list that begins there would separate a message from one before it."""
    changes = [0] * (len(messages) + 1)
    for call, result in form.pairs(messages).items():
        low, high = sorted((call.message, result.message))
        changes[low + 1] += 1
        changes[high + 1] -= 1
    open_pairs, cut = 0, []
    for change in changes[:-1]:
        open_pairs += change
        cut.append(open_pairs > 0)
    return [a or b for a, b in zip(cut, form.needs_previous(messages), strict=True)]


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
    """The number of characters of a result; an image, or other content, counts as its JSON."""
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
    """Raises InvalidInput unless the value is a whole number of at least 0."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidInput(f"{name} is {quoted(value)}, must be a whole number, 0 or more")
