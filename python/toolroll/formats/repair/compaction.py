"""Replaces old messages of a long history by a summary, which the caller's own function writes.

Nothing here calls a model: the function gets the old messages and returns the text.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from toolroll.formats.providers.message_fields import Message
from toolroll.formats.repair.history import check
from toolroll.formats.repair.trimming import beginning, check_count, is_system
from toolroll.model.argument_checks import check_callable
from toolroll.model.errors import InvalidInput, quoted


@dataclass(frozen=True, slots=True)
class Compaction:
    """A history with its beginning replaced by a summary.

    Attributes:
        messages: the messages to keep: system messages, and the last ones.
        summary: the summary of everything before them, for the system prompt; "" if there is none yet.
        summarised: the number of messages that the summary replaced in this call.
    """

    messages: list[Message]
    summary: str
    summarised: int


def compact(
    messages: Sequence[Message],
    summarise: Callable[[list[Message], str], str],
    summary: str = "",
    *,
    most: int = 50,
    keep_last: int = 20,
    form: str | None = None,
) -> Compaction:
    """Summarises the old messages of a history that has grown beyond `most` messages.

    A shorter history stays as it is. Like `window`, it never separates a result from its call: an exchange is
    summarised whole or kept whole. System messages stay.

    Args:
        messages: the history, without its summary.
        summarise: gets the old messages and the summary so far, and returns the new summary of both. It may
            call a model; its exceptions are raised here, and nothing is lost.
        summary: the summary so far.
        most: how many messages, beside system messages, are left as they are.
        keep_last: how many of them are kept when there are more.
        form: the provider's name; None infers it from the messages.

    Raises:
        InvalidInput: messages are no list of objects or mix several forms, a count is no count,
            `keep_last` is more than `most`, `summarise` is no function, or the summary is blank or no
            text.
    """
    old, kept = _parts(messages, summarise, summary, most, keep_last, form)
    return Compaction(kept, _text(summarise(old, summary)), len(old)) if old else Compaction(kept, summary, 0)


async def acompact(
    messages: Sequence[Message],
    summarise: Callable[[list[Message], str], Awaitable[str]],
    summary: str = "",
    *,
    most: int = 50,
    keep_last: int = 20,
    form: str | None = None,
) -> Compaction:
    """`compact` with a function that is awaited."""
    old, kept = _parts(messages, summarise, summary, most, keep_last, form)
    if not old:
        return Compaction(kept, summary, 0)
    return Compaction(kept, _text(await summarise(old, summary)), len(old))


def _parts(
    messages: Sequence[Message],
    summarise: object,
    summary: object,
    most: int,
    keep_last: int,
    form: str | None,
) -> tuple[list[Message], list[Message]]:
    """The messages to summarise (empty for a short history) and the messages to keep."""
    messages = check(messages)
    check_callable(summarise, "summarise", "(old messages, summary so far)", optional=False)
    if not isinstance(summary, str):
        raise InvalidInput(f"summary is {quoted(summary)}, must be text")
    check_count("most", most)
    check_count("keep_last", keep_last)
    if keep_last > most:
        raise InvalidInput(f"keep_last is {quoted(keep_last)}, must be at most {most}, the number in most")
    if sum(not is_system(message) for message in messages) <= most:
        return [], messages
    begin = beginning(messages, keep_last, form)
    old = [message for message in messages[:begin] if not is_system(message)]
    return old, [message for message in messages[:begin] if is_system(message)] + messages[begin:]


def _text(summary: object) -> str:
    if not isinstance(summary, str) or not summary.strip():
        raise InvalidInput(f"the summary is {quoted(summary)}, must be text that is not blank")
    return summary
