"""What a selection ranked, as columns: an event is made of them without an object for each candidate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

FloatColumn = npt.NDArray[np.floating[Any]]


class CandidateColumns(NamedTuple):
    """Ranked tools, best first.

    Attributes:
        names: of the tools.
        keys: the packed keys (`pack_key`) of each of them, one behind the other.
        score, mean, sd, show, propensity: float[n]; None if it is not known.
    """

    names: Sequence[str] = ()
    keys: bytes = b""
    score: FloatColumn | None = None
    mean: FloatColumn | None = None
    sd: FloatColumn | None = None
    show: FloatColumn | None = None
    propensity: FloatColumn | None = None

    @property
    def numbers(self) -> tuple[FloatColumn | None, ...]:
        """The columns of numbers."""
        return self[2:]

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """For each tool its name and its numbers."""
        empty = [None] * len(self.names)
        lists = (empty if column is None else column.tolist() for column in self.numbers)
        return zip(self.names, *lists, strict=True)
