"""What an embedder answered: unit vectors, or an error that says whether asking again may help."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from toolroll.errors import EmbedderUnavailable

UNIT = 1e-3  # how far a row's length may be from 1


class Refused(EmbedderUnavailable):
    """The embedder works and says no; it would say so again, so nobody asks again.

    Attributes:
        only_this_text: whether other texts may be accepted. False: a wrong key, an unknown model.
    """

    def __init__(self, message: str, *, only_this_text: bool = False) -> None:
        super().__init__(message)
        self.only_this_text = only_this_text


def unit_rows(answer: object, count: int, dim: int, identity: str) -> npt.NDArray[np.float32]:
    """The answer as float32[count, dim], if it is that and each row has length 1 or 0; read, not copied.

    Raises:
        EmbedderUnavailable: it is no array of that shape, or a row is of another length, or NaN.
    """
    try:
        rows = np.asarray(answer, np.float32)
    except (TypeError, ValueError) as error:
        raise EmbedderUnavailable(f"embedder {identity}: its answer is no array: {error}") from error
    if rows.shape != (count, dim):
        raise EmbedderUnavailable(
            f"embedder {identity}: answered shape {rows.shape}, must be ({count}, {dim})"
        )
    squares = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    wrong = ~((np.abs(squares - 1) <= 2 * UNIT) | (squares == 0))  # a NaN is neither
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise EmbedderUnavailable(
            f"embedder {identity}: row {row} has length {np.sqrt(squares[row]):.6g}, "
            "must be 1 (or 0: nothing known)"
        )
    return rows


_LONE = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """The text with U+FFFD for each lone surrogate, which has no UTF-8 and comes from broken JSON escapes."""
    return text if text.isascii() else _LONE.sub("\N{REPLACEMENT CHARACTER}", text)
