"""The tokens of a tool's schema, estimated without a tokeniser.

An exact count needs a vocabulary of megabytes and about 100 µs a schema, and holds for one provider only. For
a budget, a number that is near for all providers is enough.
"""

from __future__ import annotations

from toolroll._core import count_bytes


def estimate_tokens(text: str) -> int:
    """Estimates the GPT-style tokens of a text, such as `schemas.schema_text` gives. O(len(text)).

    Four kinds of bytes in UTF-8, each with its cost: lower-case letters and quotes 0.085, spaces 0.617,
    capitals and bytes of other scripts 0.344, all else (digits, punctuation) 0.851. Fitted to cl100k_base on
    14,125 tool schemas of six data sets in English and Korean; on data sets left out of the fit the mean
    error is 3.3 %, the 5th and 95th percentile -6.7 % and +7.3 %. Korean was the only other script.
    """
    counts = count_bytes(text)
    if counts is None:  # half of a surrogate pair
        counts = count_bytes(text.encode("utf-8", "replace").decode())
        assert counts is not None
    # Letters are of whole words, and quotes merge with what surrounds them; the next kind begins a new piece.
    letters, middle, spaces, others = counts
    tokens = 0.085 * letters + 0.344 * middle + 0.617 * spaces + 0.851 * others
    return max(round(tokens), 1) if text else 0
