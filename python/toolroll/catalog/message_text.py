"""The texts of a turn: the message, its clauses, and the turns before it.

The core reads them (message_reader.hpp). This file knows the forms of histories and the bounds of lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from toolroll._core import Bitset, MessageReader, MultilingualTable, Reading, Speller
from toolroll.catalog.spelling import DeferredSpeller
from toolroll.model.conversation import content_of, field_of, text_of
from toolroll.model.errors import InvalidInput, quoted

LONGEST = 8_192  # characters that are read: the beginning and the end, where requests stand
LONGEST_EARLIER = 500  # characters of an earlier turn; of the assistant's the end, where it asks


class Reader:
    """Reads messages for one catalog."""

    __slots__ = ("_as_it_is", "_deferred", "_reader", "_with")

    def __init__(
        self,
        speller: Speller | DeferredSpeller | None,
        *,
        clauses: bool,
        may_show: Callable[[str, Bitset], bool] | None = None,
    ) -> None:
        """speller: corrects the spelling; None to read messages unchanged.

        clauses: whether a message is also read clause by clause. may_show: whether a correction may show this
        word to a caller who sees these rows only; None if every caller sees all.
        """
        self._deferred = speller if isinstance(speller, DeferredSpeller) else None
        self._with = clauses, may_show
        self._as_it_is = MessageReader(None, clauses)
        self._reader = None if isinstance(speller, DeferredSpeller) else MessageReader(speller, *self._with)

    def read(
        self,
        message: str,
        history: Sequence[object] = (),
        visible: Callable[[], Bitset] | None = None,
        table: MultilingualTable | None = None,
        is_english: bool = False,
    ) -> Reading:
        """The texts of one turn: valid Unicode, of bounded length.

        visible: the rows that the caller may have, called if a word is misspelt; None for all. table: the
        built-in table, if that is the embedder. is_english: as in `Embedder`.

        Raises InvalidInput if message or history are not of their type.
        """
        if not isinstance(message, str):
            raise InvalidInput(f"message: is {type(message).__name__}, must be str")
        if len(message) > LONGEST:
            message = f"{message[: LONGEST // 2]} {message[-LONGEST // 2 :]}"
        earlier: Sequence[tuple[bool, str]] = ()
        if not isinstance(history, (list, tuple, type(None))) or history:
            earlier = _last(_said(history))
        reader = self._reader or self._reader_of(message)
        return reader.read(message, earlier, visible, table, is_english)

    def _reader_of(self, message: str) -> MessageReader:
        """The reader for a message while the speller is deferred."""
        assert self._deferred is not None
        if self._deferred.knows_words_of(message):
            return self._as_it_is
        self._reader = MessageReader(self._deferred.speller, *self._with)
        return self._reader


def _last(said: Sequence[tuple[str, str]]) -> Sequence[tuple[bool, str]]:
    """The user's last two turns and the assistant's last, oldest first: (whether the user's, text)."""
    users = [text for role, text in said if role == "user"][-2:]
    last = [(True, text[:LONGEST_EARLIER]) for text in users]
    if said and said[-1][0] == "assistant":
        last.append((False, said[-1][1][-LONGEST_EARLIER:]))
    return last


def _said(history: Sequence[object]) -> list[tuple[str, str]]:
    """(role, text) of the messages of user and assistant, oldest first."""
    if isinstance(history, (str, bytes)) or not isinstance(history, Sequence):
        raise InvalidInput(f"history: is {quoted(history)}, must be a sequence of messages")
    said = []
    for at, message in enumerate(history):
        if isinstance(message, str):
            said.append(("user", message))
            continue
        role = field_of(message, "role")
        if not isinstance(role, str):
            if isinstance(message, Mapping) and "type" in message:
                continue  # OpenAI's Responses has calls and results without a role
            raise InvalidInput(
                f"history[{at}]: is {quoted(message)}, must be a str or a message with role and content"
            )
        text = text_of(content_of(message))
        if role in ("user", "assistant", "model") and text.strip():
            said.append(("user" if role == "user" else "assistant", text))
    return said
