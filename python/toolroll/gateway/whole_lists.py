"""Lists with a value that JSON parsers refuse: such a value costs the item that it stands in, not the list.

Parsers refuse a whole message for one value that is nested too deeply, has a lone surrogate, a control
character or a number of thousands of digits. Here such a value is replaced by `MARK`, so that the rest can be
read. Whoever reads the list leaves out items with the mark.
"""

from __future__ import annotations

import json
import re

from pydantic_core import from_json

from toolroll.gateway.budget import Budget

MARK = "nested too deeply, or no text or number of JSON"
DEEPEST = 100  # levels of a message
LARGEST = 10_000_000  # bytes; a longer list is refused anyway
PER_S = 100_000  # bytes that are searched for such values all the time; it takes a second for 8 MB
_LISTS = re.compile(rb'"(?:tools|prompts|resources|resourceTemplates)"\s*:')
_TOKENS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]|[^\s,:"\[\]{}]+', re.DOTALL)
_ODD = re.compile(rb"[\\\x00-\x1f\x80-\xff]")  # in a string
_MARK = json.dumps(MARK).encode()


class WholeLists:
    """Makes the lists of one server readable, within limits."""

    def __init__(self) -> None:
        self._budget = Budget(2 * LARGEST, PER_S)

    def readable(self, message: bytes) -> bytes:
        """The message; of a list that parsers refuse, with `MARK` in place of what they refuse it for."""
        if len(message) > LARGEST or not has_list(message) or _is_json(message):
            return message
        return _marked(message) if self._budget.take(len(message)) else message


def has_list(message: bytes) -> bool:
    """Whether a message may have a list; quick."""
    return _LISTS.search(message) is not None


def _marked(message: bytes) -> bytes:
    parts: list[bytes] = []
    at, depth, begin = 0, 0, -1  # begin: of a value that is nested too deeply
    for token in _TOKENS.finditer(message):
        kind = token[0][:1]
        if kind in b"[{":
            depth += 1
            if depth == DEEPEST + 1:
                begin = token.start()
        elif kind in b"]}":
            depth -= 1
            if depth == DEEPEST and begin >= 0:
                parts += message[at:begin], _MARK
                at, begin = token.end(), -1
        elif begin < 0 and (kind != b'"' or _ODD.search(token[0])) and not _is_json(token[0]):
            parts += message[at : token.start()], _MARK
            at = token.end()
    return b"".join((*parts, message[at:]))


def _is_json(text: bytes) -> bool:
    try:
        from_json(text)
    except ValueError:
        return False
    return True
