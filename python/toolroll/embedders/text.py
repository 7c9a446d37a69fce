"""What every embedder does to a text before it reads it."""

from __future__ import annotations

import re

_LONE = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """The text with U+FFFD for each lone surrogate, which has no UTF-8 and comes from broken JSON escapes."""
    return text if text.isascii() else _LONE.sub("\N{REPLACEMENT CHARACTER}", text)
