"""How an embedder's cosines compare to the ones that the weights of retrieval were fitted on.

Unrelated texts have a cosine of 0.05 ± 0.08 for one embedder, and 0.77 ± 0.03 for another. So each is
measured on the same small set of unrelated pairs, and its cosines are moved and stretched to one scale.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from toolroll.ports import Embedder
from toolroll.vectors import vectors_of

# Units of score that are one nat of the odds of being called, by maximum likelihood over the 40 best tools:
# 0.10 on metatool and multiturn, 0.08 on azure-cli, 0.12 on toolret-4, and with MiniLM 0.085
# (`python -m bench.quality.temperature FOLDER`).
TEMPERATURE = 0.1

MEAN, SPREAD = 0.05, 0.076  # of the pairs below for all-MiniLM-L6-v2
_LEAST_SPREAD = 0.005  # below it there is nothing to stretch

# Eight messages, and eight tools that have nothing to do with any but their own.
_MESSAGES = (
    "Will it rain in Oslo on Sunday?",
    "Send Anna the minutes of yesterday's call",
    "How many euros are 300 dollars?",
    "Play something quiet by Miles Davis",
    "Who won the match between Ajax and Porto?",
    "Restart the web server on the staging machine",
    "I need a recipe with lentils and spinach",
    "Translate this letter into Portuguese",
)
_TOOLS = (
    "get forecast: Weather forecast for a city: temperature, rain and wind for the next days.",
    "send email: Sends a message with attachments to one or more recipients.",
    "convert currency: Converts an amount from one currency into another at today's rate.",
    "play music: Plays a song, an album or a playlist on the speaker.",
    "sports results: Scores and tables of football leagues.",
    "run command: Runs a shell command on a remote host and returns what it prints.",
    "find recipes: Looks up recipes by their ingredients.",
    "translate text: Translates a text from one language into another.",
)
SAMPLES = (*_MESSAGES, *_TOOLS)


@dataclass(frozen=True, slots=True)
class Scale:
    """cosine on the common scale = gain * (cosine - floor).

    Attributes:
        gain: at least 0.
        floor: the cosine that stands for 0.
    """

    gain: float = 1.0
    floor: float = 0.0


def scale_of(embedder: Embedder) -> Scale:
    """The embedder's own `scale` where it has one, else what the pairs say: 16 texts are embedded.

    Raises:
        EmbedderUnavailable: the embedder fails, or answers what is no vector.
    """
    own = getattr(embedder, "scale", None)
    if isinstance(own, Scale):
        return own
    vectors = vectors_of(embedder, SAMPLES)
    cosines = vectors[: len(_MESSAGES)] @ vectors[len(_MESSAGES) :].T
    unrelated = cosines[~np.eye(len(_MESSAGES), dtype=np.bool_)]
    spread = max(float(unrelated.std()), _LEAST_SPREAD)
    gain = SPREAD / spread
    return Scale(gain, float(unrelated.mean()) - MEAN / gain)
