"""The text cleaning and the refusal that all embedders share."""

from __future__ import annotations

import re

from toolroll.model.errors import EmbedderUnavailable


class RequestRejected(EmbedderUnavailable):
    """The embedder works but rejects the request. There is no retry: it would be rejected again.

    Attributes:
        only_this_text: whether it may accept other texts. False for a wrong key or an unknown model.
    """

    def __init__(self, message: str, *, only_this_text: bool = False) -> None:
        super().__init__(message)
        self.only_this_text = only_this_text


_LONE = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """The text with U+FFFD for each lone surrogate, which has no UTF-8; broken JSON escapes produce them."""
    return text if text.isascii() else _LONE.sub("\N{REPLACEMENT CHARACTER}", text)
