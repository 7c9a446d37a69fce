"""The canonical caseless form of a text, by the interpreter's tables."""

from __future__ import annotations

import string
import unicodedata

_ORDINARY = string.ascii_letters + string.digits
WIDE = {ord(c): chr(ord(c) + 0xFEE0) for c in _ORDINARY}  # for str.translate
NARROW = {ord(c) + 0xFEE0: c for c in _ORDINARY}


def caseless(text: str) -> str:
    """The same for texts that differ in case, in composition or in the width of Latin letters only."""
    decomposed = unicodedata.normalize("NFD", text).translate(NARROW)
    return unicodedata.normalize("NFC", decomposed.casefold())
