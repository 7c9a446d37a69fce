"""What the shell implements and everybody else sees: protocols, no classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt


class Embedder(Protocol):
    """Turns texts into unit vectors whose inner product says how much two texts have in common.

    A vector is a function of its text and of `identity` alone, whatever else is embedded beside it. Any str
    is accepted: empty, a megabyte long, with NUL or lone surrogates. A zero row means that nothing is known
    of the text; it matches nothing. Calls from several threads are safe. Failing raises EmbedderUnavailable.

    Two attributes may be left out. `is_english` (bool): it has learnt English alone, so of a text in another
    script its vector says nothing. `scale` (`toolroll.scale.Scale`): how its cosines compare to others';
    measured where it is missing.
    """

    @property
    def identity(self) -> str:
        """`name@revision`: keys every cache, and vectors of two identities are never compared."""
        ...

    @property
    def dim(self) -> int:
        """Width of a vector."""
        ...

    @property
    def is_instant(self) -> bool:
        """Whether a message is embedded without waiting, so that an event loop may do it itself."""
        ...

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """float32[n, dim], a row for each text, each of unit length or zero."""
        ...

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        """float32[dim]: the row that `embed([text])` gives, for the one message that a turn has."""
        ...
