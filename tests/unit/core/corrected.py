"""A text with what a speller corrects in it."""

from __future__ import annotations

from typing import Any


def corrected(speller: Any, text: str) -> str:
    for begin, end, word in reversed(speller.corrections(text)):
        text = text[:begin] + word + text[end:]
    return text
