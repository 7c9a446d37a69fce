"""`Heard`: the user's last message of a conversation, and what was said before and after it."""

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


class Heard(NamedTuple):
    """The end of a conversation, from the user's last message on.

    Attributes:
        message: the user's last one; without one, the first text.
        since: messages after it.
        place: which message of the list it is; -1 without one.
        before: what the same message of the list says before it, such as results.
    """

    message: str
    since: Sequence[ReadMessage]
    place: int
    before: Sequence[ReadMessage] = ()


def heard_in(messages: Sequence[Any], read: ReadMessages) -> Heard:
    """Reads from the end, so that the time does not grow with the conversation."""
    since: list[ReadMessage] = []  # newest first
    for place in range(len(messages) - 1, -1, -1):
        said = read(messages[place : place + 1])
        for at in range(len(said) - 1, -1, -1):
            if said[at].role == "user":
                return Heard(said[at].text, since[::-1], place, said[:at])
            since.append(said[at])
    since.reverse()
    return Heard(next((one.text for one in since if one.text), ""), since, -1)


def said_before(
    messages: Sequence[Any], heard: Heard, read: ReadMessages, users: int = MOST_BEFORE
) -> list[ReadMessage]:
    """What was said before the user's last message, oldest first.

    users: after how many messages of the user it is enough.
    """
    found = list(reversed(heard.before))
    for place in range(heard.place - 1, max(-1, heard.place - 1 - MOST_BEFORE), -1):
        for one in reversed(read(messages[place : place + 1])):
            found.append(one)
            users -= one.role == "user" and bool(one.text)
        if users <= 0:
            break
    found.reverse()
    return found


def called_in(read: Sequence[ReadMessage], names: Collection[str]) -> tuple[str, ...]:
    """Names of the tools that were called last, newest first."""
    called = (call.name for one in reversed(read) for call in one.calls if call.name in names)
    return tuple(islice(dict.fromkeys(called), _MOST_CALLED))


def digest(context: Context, heard: Heard, before: Sequence[ReadMessage]) -> bytes:
    """What a turn without a name is known by: who asks, and what was said so far."""
    texts = [context.org, context.user, str(heard.place), heard.message]
    texts += [text for one in before for text in (one.role, one.text)]
    return blake2b("\0".join(texts).encode("utf-8", "surrogatepass"), digest_size=16).digest()
