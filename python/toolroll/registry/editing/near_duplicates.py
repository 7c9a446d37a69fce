"""Proposes tools of different owners that seem to do the same, for people to accept or not.

Three things count for a pair: the cosine of the tools' texts, shared names of parameters, and whether each is
the other's best match among its owner's tools. Verbs of different kinds exclude a pair, since "create an
event" and "delete an event" are almost the same text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from toolroll.catalog.tool_text import words
from toolroll.model.embedder import Embedder, vectors_of
from toolroll.model.tools import Tool

LEAST = 0.75  # finds 40 of 46 planted duplicates and no wrong one (test_near_duplicates.py)
_PARAMETERS = 0.3  # the score of two tools with the same parameters, beside their cosine
_NEAREST = 16  # tools of other owners that are compared closely, for each tool
_ROWS = 512  # of the matrix of cosines at a time
_LONGEST = 2_000  # characters of a tool's text

_VERBS = tuple(
    frozenset(kind.split())
    for kind in (
        "create set add new insert make write compose draft book schedule register ingest import save start "
        "open launch",
        "delete remove cancel clear erase forget trash purge unsubscribe drop",
        "update edit change modify rename move patch adjust append replace merge",
        "get list read show fetch find search look lookup query retrieve view describe check display track "
        "browse enumerate recall report monitor",
        "send post publish forward notify message push",
        "reply respond answer",
        "stop pause suspend close end disable",
        "run execute invoke",
    )
)
_KIND_OF = {verb: kind for kind, verbs in enumerate(_VERBS) for verb in verbs}
_WORD = re.compile(r"[a-z]+")


@dataclass(frozen=True, slots=True)
class Duplicate:
    """Two tools that seem to do the same.

    Attributes:
        first, second: their names, in alphabetical order.
        score: of the cosine and the parameters, at most 1.3.
        cosine: of their texts.
        parameters: the names of shared parameters.
    """

    first: str
    second: str
    score: float
    cosine: float
    parameters: tuple[str, ...]


def near_duplicates(
    tools: Sequence[Tool], owners: Sequence[str], embedder: Embedder, *, least: float = LEAST
) -> tuple[Duplicate, ...]:
    """The pairs with a score of at least `least` and different owners, the best first.

    Omits pairs that are declared interchangeable already. Time grows with the square of the number of tools:
        some 6 s for 5,000.

    owners: of each tool, such as its plugin.

    Raises:
        EmbedderUnavailable: the embedder fails.
    """
    if not tools:
        return ()
    vectors = vectors_of(embedder, [_text(tool) for tool in tools])
    parameters = [_parameters(tool) for tool in tools]
    kinds = [_kind(tool) for tool in tools]
    best: dict[tuple[int, str], tuple[float, int]] = {}  # tool and other owner → score, tool
    cosines: dict[tuple[int, int], float] = {}
    for one, other, cosine in _near(vectors, owners):
        if kinds[one] is not None and kinds[other] is not None and kinds[one] != kinds[other]:
            continue
        either, both = parameters[one] | parameters[other], parameters[one] & parameters[other]
        score = cosine + (_PARAMETERS * len(both) / len(either) if either else 0.0)
        cosines[one, other] = cosine
        for tool, match in ((one, other), (other, one)):
            key = (tool, owners[match])
            best[key] = max(best.get(key, (score, match)), (score, match))
    found = []
    for (one, other), cosine in cosines.items():
        score, match = best[one, owners[other]]
        is_mutual = match == other and best[other, owners[one]][1] == one
        group = tools[one].interchangeable
        is_known = bool(group) and group == tools[other].interchangeable
        if is_mutual and not is_known and score >= least:
            first, second = sorted((tools[one].name, tools[other].name))
            shared = tuple(sorted(parameters[one] & parameters[other]))
            found.append(Duplicate(first, second, round(score, 4), round(cosine, 4), shared))
    return tuple(sorted(found, key=lambda pair: (-pair.score, pair.first, pair.second)))


def _near(vectors: npt.NDArray[np.float32], owners: Sequence[str]) -> Iterator[tuple[int, int, float]]:
    """Each pair of a tool and one of its nearest, of other owners, once: two ascending rows, and a cosine."""
    numbers = np.unique(np.asarray(owners, np.object_).astype(str), return_inverse=True)[1]
    seen: set[tuple[int, int]] = set()
    for start in range(0, len(vectors), _ROWS):
        cosines = vectors[start : start + _ROWS] @ vectors.T
        cosines[numbers[start : start + _ROWS, None] == numbers[None]] = -2.0
        count = min(_NEAREST, len(vectors))
        nearest = np.argpartition(-cosines, count - 1, axis=1)[:, :count]
        for at, others in enumerate(nearest.tolist()):
            for other in others:
                pair = (min(start + at, other), max(start + at, other))
                if cosines[at, other] > 0 and pair not in seen:
                    seen.add(pair)
                    yield *pair, float(cosines[at, other])


def _text(tool: Tool) -> str:
    """The tool's own texts, without its toolkit, which differs between owners."""
    return f"{words(tool.name)}. {tool.description or tool.summary}"[:_LONGEST]


def _parameters(tool: Tool) -> frozenset[str]:
    properties = (tool.parameters or {}).get("properties")
    names = properties if isinstance(properties, dict) else ()
    return frozenset(word for name in names for word in words(str(name)).casefold().split())


def _kind(tool: Tool) -> int | None:
    """The kind of the tool's verb: the first or last word of the name, else the description's first word."""
    said = words(tool.name).casefold().split() or [""]
    for word in (said[0], said[-1]):
        if word in _KIND_OF:
            return _KIND_OF[word]
    opening = _WORD.match(tool.description.casefold())
    word = opening.group() if opening else ""
    return next((_KIND_OF[form] for form in (word, word[:-1], word[:-2]) if form in _KIND_OF), None)
