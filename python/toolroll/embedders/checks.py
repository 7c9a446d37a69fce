"""What embedders share about texts and refusals."""

from __future__ import annotations

import re

from toolroll.errors import EmbedderUnavailable


class RequestRejected(EmbedderUnavailable):
    """The embedder works and says no; it would say so again, so nobody asks again.

    Attributes:
        only_this_text: whether other texts may be accepted. False: a wrong key, an unknown model.
    """

    def __init__(self, message: str, *, only_this_text: bool = False) -> None:
        super().__init__(message)
        self.only_this_text = only_this_text


_LONE = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """The text with U+FFFD for each lone surrogate, which has no UTF-8 and comes from broken JSON escapes."""
    return text if text.isascii() else _LONE.sub("\N{REPLACEMENT CHARACTER}", text)
