"""Tokenises a text with a SentencePiece unigram model: the most probable sequence of pieces.

In Python: a message of a few dozen characters takes 0.05 to 0.2 ms here and milliseconds in the encoder. The
`tokenizers` package would add more than the whole extra weighs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # stands for a space, at the start of a word
_UNKNOWN_BELOW = 10.0  # an unknown character scores this much below the rarest piece, as in SentencePiece

_SPACES = re.compile(" {2,}")


class Unigram:
    """Pieces with the logarithms of their probabilities.

    A piece begins with the space before it, if any, so words are tokenised independently. Of two sequences
    with the same probability, the one that begins with the shorter piece wins.

    Source: Kudo, "Subword Regularization", ACL 2018, section 3.2 (the Viterbi path alone).
    """

    def __init__(
        self,
        pieces: Sequence[str],
        scores: Sequence[float],
        *,
        unknown: int,
        controls: frozenset[int],
        rewritten: Mapping[int, str],
    ) -> None:
        """Takes pieces and scores by id; pieces of `controls` never match a text.

        `unknown` is the id of a character that is in no piece. `rewritten` maps code points to their
        replacements, which are applied first.
        """
        self._ids = {piece: i for i, piece in enumerate(pieces) if i not in controls}
        self._scores = list(map(float, scores))
        self._unknown, self._rewritten = unknown, dict(rewritten)
        self._longest = max(map(len, self._ids))
        self._unknown_score = min(self._scores) - _UNKNOWN_BELOW

    def encode(self, text: str, most: int) -> list[int]:
        """At most `most` ids from the start of the text; only the characters they can cover are read."""
        limit = most * self._longest
        text = _SPACES.sub(" ", text[: 4 * limit].translate(self._rewritten)).strip(" ")[:limit]
        ids: list[int] = []
        for word in text.split(" ") if text else ():
            self._cut(SPACE + word, ids)
            if len(ids) >= most:
                break
        return ids[:most]

    def _cut(self, word: str, ids: list[int]) -> None:
        """Appends the ids of the most probable pieces of one word."""
        n = len(word)
        best = [0.0] + [-float("inf")] * n
        came_from = [(0, 0)] * (n + 1)  # start and id of the last piece of the best sequence
        find, scores = self._ids.get, self._scores
        for start in range(n):
            so_far = best[start]
            for end in range(start + 1, min(start + self._longest, n) + 1):
                piece = find(word[start:end])
                if piece is not None and so_far + scores[piece] > best[end]:
                    best[end], came_from[end] = so_far + scores[piece], (start, piece)
            if so_far + self._unknown_score > best[start + 1]:
                best[start + 1] = so_far + self._unknown_score
                came_from[start + 1] = start, self._unknown
        backwards = []
        end = n
        while end:
            end, piece = came_from[end]
            backwards.append(piece)
        ids.extend(reversed(backwards))
