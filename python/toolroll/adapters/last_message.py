"""`LastMessage`: the user's last message of a conversation, and the messages around it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from hashlib import blake2b
from itertools import islice
from typing import Any, NamedTuple

from toolroll.adapters.messages import ReadMessage
from toolroll.model.context import Context

ReadMessages = Callable[[Sequence[Any]], Sequence[ReadMessage]]

MOST_BEFORE = 16  # messages before the user's last one that are read
_MOST_CALLED = 8  # tools called before that stay, as many as a session keeps


class LastMessage(NamedTuple):
    """The user's last message in a list of messages.

    Attributes:
        text: its text; the first text of any message if the user has said nothing.
        after: the later messages.
        place: its index in the list; -1 if the user has said nothing.
        before: earlier parts of the same list item, such as results of calls.
    """

    text: str
    after: Sequence[ReadMessage]
    place: int
    before: Sequence[ReadMessage] = ()


def last_message(messages: Sequence[Any], read: ReadMessages) -> LastMessage:
    """Reads from the end, so that the time does not grow with the conversation."""
    after: list[ReadMessage] = []  # newest first
    for place in range(len(messages) - 1, -1, -1):
        found = read(messages[place : place + 1])
        for at in range(len(found) - 1, -1, -1):
            if found[at].role == "user":
                return LastMessage(found[at].text, after[::-1], place, found[:at])
            after.append(found[at])
    after.reverse()
    return LastMessage(next((one.text for one in after if one.text), ""), after, -1)


def messages_before(
    messages: Sequence[Any], last: LastMessage, read: ReadMessages, users: int = MOST_BEFORE
) -> list[ReadMessage]:
    """The messages before the user's last one, oldest first.

    users: the number of the user's messages to go back.
    """
    found = list(reversed(last.before))
    for place in range(last.place - 1, max(-1, last.place - 1 - MOST_BEFORE), -1):
        for one in reversed(read(messages[place : place + 1])):
            found.append(one)
            users -= one.role == "user" and bool(one.text)
        if users <= 0:
            break
    found.reverse()
    return found


def called_tools(read: Sequence[ReadMessage], names: Collection[str]) -> tuple[str, ...]:
    """Names of the tools that were called last, newest first."""
    called = (call.name for one in reversed(read) for call in one.calls if call.name in names)
    return tuple(islice(dict.fromkeys(called), _MOST_CALLED))


def turn_digest(context: Context, last: LastMessage, before: Sequence[ReadMessage]) -> bytes:
    """The key of a turn without a name: a digest of the caller and the messages so far."""
    texts = [context.org, context.user, str(last.place), last.text]
    texts += [text for one in before for text in (one.role, one.text)]
    return blake2b("\0".join(texts).encode("utf-8", "surrogatepass"), digest_size=16).digest()
