"""Classifies a message by its request. Statistics of tools are kept separately for each category.

- **read**: something that exists is shown, found or looked up; includes recommendations and how-tos
- **write**: something is changed or done: created, sent, booked, switched on, deleted
- **analyse**: an answer is worked out: computed, compared, classified, explained, summed up
- **generate**: something new is made, or made over: a text, a picture, code, a plan, a translation
- **general**: none of these (thanks, an answer to a question, another language), or not certain

Logistic regression over the built-in table's vector of the message and its cue words. Training and quality:
`docs/model-card.md`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt

from toolroll._core import CueClassifier, latin_share
from toolroll.model.errors import InvalidInput

CATEGORIES = ("read", "write", "analyse", "generate")
GENERAL = "general"
FILE = "categories.json"  # beside the other models

LONGEST = 4_000  # characters that are searched for cues; a pasted document says little about the request
LEAST_LATIN = 0.5  # share of Latin letters below which the table knows too little of the text

_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
# Words that may come before the actual request.
_POLITE = frozenset(
    (
        "a", "able", "am", "an", "and", "assist", "automatically", "be", "can", "could", "day", "do", "for",
        "going", "good", "have", "hello", "help", "hey", "hi", "how", "i", "i'd", "i'm", "if", "in", "is",
        "it", "kindly", "let's", "like", "looking", "me", "mind", "morning", "my", "name", "need", "next",
        "now", "of", "our", "please", "possible", "so", "some", "that", "the", "then", "there", "this",
        "to", "trying", "us", "want", "way", "we", "we'd", "will", "with", "would", "you", "your",
    )
)  # fmt: skip


def cue_words(text: str) -> set[str]:
    """The words of a text and, as "^word", its first word that is not in `_POLITE`."""
    words = _WORD.findall(text[:LONGEST].lower().replace("\u2019", "'"))
    opening = next((word for word in words if word not in _POLITE), None)
    return {*words} if opening is None else {*words, f"^{opening}"}


@dataclass(frozen=True, slots=True, eq=False)
class Classifier:
    """A trained classifier: immutable, safe to share between threads, about 3 µs for 20 words.

    Attributes:
        classes: `CATEGORIES` and `GENERAL`.
        dim: width of the vectors.
        least: the probability below which the answer is `GENERAL`.
        core: the regression; it has the cues of `cue_words`.
    """

    classes: tuple[str, ...]
    dim: int
    least: float
    core: CueClassifier

    def category(self, text: str, vector: npt.NDArray[np.float32]) -> str:
        """One of `CATEGORIES`, or `GENERAL`.

        vector: the built-in table's, of this text alone, without the messages before it.

        Raises InvalidInput if the vector has another shape.
        """
        if vector.shape != (self.dim,):
            raise InvalidInput(
                f"vector of the message: has shape {vector.shape}, must be {(self.dim,)}"
                " (the built-in table's)"
            )
        if not text.isascii() and latin_share(text) < LEAST_LATIN:
            return GENERAL
        found = self.core.classify(text[:LONGEST].lower(), vector, self.least)
        return GENERAL if found is None else self.classes[found]

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Classifier:
        """Reads the result of `tools.train.categories`: whole numbers, in units of `unit`."""
        unit = np.float32(record["unit"])
        cues: dict[str, list[int]] = record["cues"]
        of_vector = np.asarray(record["vector"], np.float32) * unit
        return cls(
            tuple(record["classes"]),
            of_vector.shape[1],
            record["least"],
            CueClassifier(
                of_vector.ravel(),
                np.asarray(record["bias"], np.float32) * unit,
                [*cues],
                np.asarray([*cues.values()], np.int32).ravel(),
                float(unit),
                sorted(_POLITE),
            ),
        )


@lru_cache(maxsize=1)
def built_in() -> Classifier:
    """The built-in classifier, read once."""
    text = resources.files("toolroll.learning").joinpath(FILE).read_text("utf-8")
    return Classifier.from_record(json.loads(text))


def category(text: str, vector: npt.NDArray[np.float32]) -> str:
    """The category by the built-in classifier: see `Classifier.category`."""
    return built_in().category(text, vector)
