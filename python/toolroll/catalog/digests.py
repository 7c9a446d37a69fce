"""Digests of the texts of each tool, and the distinct texts in the order of their digests.

Samples of a catalog's texts are chosen by digest: the choice is a function of the texts, looks random, and
hardly changes when a few tools do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from toolroll.model.arrays import Rows

DigestArray = npt.NDArray[np.uint64]

_ENOUGH = 4  # times the wanted texts: so many digests are sorted at first, since several may be equal


@dataclass(frozen=True, slots=True, eq=False)
class TextDigests:
    """The digests of several texts for each row.

    Attributes:
        begins: int64[n + 1]: row r has the digests begins[r] to begins[r + 1].
        digests: uint64[m], in the order of the texts.
    """

    begins: npt.NDArray[np.int64]
    digests: DigestArray

    @classmethod
    def of(cls, texts: Iterable[tuple[str, ...]], digest: Callable[[str], int]) -> TextDigests:
        """digest: returns 64 bits for a text."""
        counts, digests = [0], []
        for some in texts:
            counts.append(len(some))
            digests += [digest(text) for text in some]
        return cls(np.cumsum(np.array(counts, np.int64)), np.array(digests, np.uint64))

    def __len__(self) -> int:
        return len(self.begins) - 1

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """int64[n], the number of texts of each row."""
        return np.diff(self.begins)

    def with_changes(self, sources: Rows, added: TextDigests) -> TextDigests:
        """The digests of the kept rows and the added ones. sources: see `RowChanges`."""
        both = np.concatenate((self.digests, added.digests))
        is_added = sources < 0
        first = np.concatenate((self.begins[:-1], added.begins[:-1] + len(self.digests)))
        counts = np.concatenate((self.counts, added.counts))
        rows = sources.astype(np.int64)
        rows[is_added] = len(self) + np.arange(len(added))
        begins = np.concatenate(([0], np.cumsum(counts[rows])))
        places = np.repeat(first[rows] - begins[:-1], counts[rows]) + np.arange(begins[-1])
        return TextDigests(begins, both[places])

    def ascending(self, wanted: int) -> Iterator[list[tuple[int, int]]]:
        """The distinct texts by ascending digest; for each, (row, number of the text) of all its places.

        wanted: the number of texts that the caller will probably read. O(m) for these.
        """
        return ascending(self.digests, wanted, self.place)

    def place(self, at: int) -> tuple[int, int]:
        """The row and the text's number for a place in `digests`."""
        row = int(np.searchsorted(self.begins, at, side="right")) - 1
        return row, at - int(self.begins[row])


def ascending(
    digests: DigestArray, wanted: int, place: Callable[[int], tuple[int, int]]
) -> Iterator[list[tuple[int, int]]]:
    """The groups of equal digests, ascending. place: the row and number of a digest."""
    first, bound = min(_ENOUGH * wanted, len(digests) - 1), None
    if 0 <= first < len(digests) - 1:
        bound = np.partition(digests, first)[first]
        yield from _groups(digests, np.flatnonzero(digests <= bound), place)
    rest = np.arange(len(digests)) if bound is None else np.flatnonzero(digests > bound)
    yield from _groups(digests, rest, place)


def _groups(
    digests: DigestArray, among: npt.NDArray[np.intp], place: Callable[[int], tuple[int, int]]
) -> Iterator[list[tuple[int, int]]]:
    order = among[np.argsort(digests[among], kind="stable")]
    begins = np.flatnonzero(np.diff(digests[order], prepend=np.uint64(0)) != 0)
    if len(order) and (not len(begins) or begins[0] != 0):  # a digest of 0
        begins = np.concatenate(([0], begins))
    for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(order)], strict=False):
        yield [place(at) for at in order[begin:end].tolist()]
