"""One vector a tool: from the messages it is known to answer, and from its own words.

A message lies nearer to other messages than to any description, so example messages make the better
vector, but a tool that has them would then win against every tool that has none. The vector of a tool
with examples is therefore half its examples' mean and half its description's.

Source: S. Moon et al., "Efficient and Scalable Estimation of Tool Representations in Vector Space"
(Tool2Vec), 2024, for the mean of the example queries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from toolroll.candidates import Scores
from toolroll.errors import EmbedderUnavailable
from toolroll.ports import Embedder
from toolroll.tool_text import MOST_EXAMPLES, description_text
from toolroll.tools import Tool

EXAMPLE_SHARE = 0.5

_BATCH = 4096


def tool_vectors(
    tools: Sequence[Tool], embedder: Embedder, progress: Callable[[int, int], None] | None = None
) -> Scores:
    """Embeds the tools: float32[len(tools), embedder.dim], unit rows, zero where nothing is known.

    progress: called with (texts embedded, texts in all) after each batch.
    """
    texts = [description_text(tool) for tool in tools]
    owners = [row for row, tool in enumerate(tools) if tool.examples for _ in tool.examples[:MOST_EXAMPLES]]
    texts += [text for tool in tools if tool.examples for text in tool.examples[:MOST_EXAMPLES]]
    embedded = np.empty((len(texts), embedder.dim), np.float32)
    for at in range(0, len(texts), _BATCH):
        embedded[at : at + _BATCH] = _checked(embedder, texts[at : at + _BATCH])
        if progress is not None:
            progress(min(at + _BATCH, len(texts)), len(texts))
    vectors = embedded[: len(tools)]
    if owners:
        examples = np.zeros_like(vectors)
        np.add.at(examples, owners, embedded[len(tools) :])
        warm = np.unique(owners)
        vectors[warm] = (1 - EXAMPLE_SHARE) * vectors[warm] + EXAMPLE_SHARE * _unit(examples[warm])
        vectors[warm] = _unit(vectors[warm])
    return vectors


def _checked(embedder: Embedder, texts: list[str]) -> Scores:
    vectors = embedder.embed(texts)
    shape = getattr(vectors, "shape", None)
    if shape != (len(texts), embedder.dim) or not np.isfinite(vectors).all():
        raise EmbedderUnavailable(
            f"embedder {embedder.identity}: answered {len(texts)} texts with shape {shape}, must be "
            f"({len(texts)}, {embedder.dim}) and finite"
        )
    return vectors


def _unit(rows: Scores) -> Scores:
    lengths: Scores = np.linalg.norm(rows, axis=1, keepdims=True)
    lengths[lengths == 0] = 1
    unit: Scores = rows / lengths
    return unit
