"""The tools and messages from which worlds are drawn, and near-duplicates of tools."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

import toolroll
from toolroll.embedders import named
from toolroll.formats.sources.folder import read_folder
from toolroll.lab.evaluation.dataset import Dataset, Query, read_dataset
from toolroll.model.embedder import Embedder, Scale, scale_of, vectors_of
from toolroll.model.errors import InvalidInput
from toolroll.model.tools import Definitions, Tool

Half = Literal["judge", "tune", "all"]
HALVES: tuple[Half, ...] = get_args(Half)
TOPICS = 12

_DEMO = Path(toolroll.__file__).with_name("demo") / "toolkits"
_LEAST_TOOLS = 8
_ROUNDS = 50  # of k-means

Vectors = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class SourceData:
    """Tools and messages. Rules and page mappings are dropped: worlds have their own contexts.

    Attributes:
        name: of the folder.
        right: the correct tools of each message, as positions in `definitions.tools`; the first one counts as
            its owner.
        embedder: of the simulated model; selection may use another one. scale: of its cosines.
        vectors: float32[m, dim] of the messages. tool_vectors: float32[n, dim] of names and descriptions.
        topics: int64[n], in [0, TOPICS): cluster of a tool's messages; -1 without messages.
        settings: names of all settings that switch toolkits on.
    """

    name: str
    definitions: Definitions
    messages: tuple[Query, ...]
    right: tuple[tuple[int, ...], ...]
    embedder: Embedder
    scale: Scale
    vectors: Vectors
    tool_vectors: Vectors
    topics: Ints
    settings: tuple[str, ...]

    @classmethod
    def read(cls, folder: str | None, half: Half = "judge") -> SourceData:
        """From a dataset folder, or from the demonstration catalog with its tools' examples as messages.

        half: which half of the folder's messages to use, so that parameters tuned on one half can be judged
            on the other. A hash of the dialogs or ids divides them. The demonstration catalog has too few
            messages to divide.

        Raises:
            NotFound, InvalidDefinition: as `read_dataset`.
            InvalidInput: fewer than eight tools have a message.
        """
        if folder is None:
            return cls.of(demonstration(), "all")
        return cls.of(read_dataset(folder), half)

    @classmethod
    def of(cls, dataset: Dataset, half: Half = "all") -> SourceData:
        """From a dataset. Raises InvalidInput if fewer than eight tools have a message."""
        definitions = replace(dataset.definitions, rules=(), pages=(), tiers=())
        places = {tool.name: at for at, tool in enumerate(definitions.tools)}
        messages = tuple(query for query in dataset.queries if query.gold and _is_in(query, half))
        right = tuple(tuple(dict.fromkeys(places[name] for name in _right(query))) for query in messages)
        used = sorted({one[0] for one in right})
        if len(used) < _LEAST_TOOLS:
            raise InvalidInput(
                f"dataset {dataset.name!r}: {len(used)} tools have a message (half: {half}), "
                f"must be at least {_LEAST_TOOLS}"
            )
        embedder = named.embedder("static")
        assert embedder is not None
        vectors = vectors_of(embedder, [query.text for query in messages])
        owners = np.array([one[0] for one in right])
        topics = np.full(len(definitions.tools), -1)
        topics[used] = _clusters(np.array([vectors[owners == tool].mean(0) for tool in used], np.float64))
        return cls(
            dataset.name,
            definitions,
            messages,
            right,
            embedder,
            scale_of(embedder),
            vectors,
            vectors_of(embedder, [text_of(tool) for tool in definitions.tools]),
            topics,
            tuple(sorted({key for toolkit in definitions.toolkits for key in toolkit.settings_keys})),
        )


def text_of(tool: Tool) -> str:
    """The text that the simulated model reads."""
    return f"{tool.name}: {tool.description}"


def demonstration() -> Dataset:
    """The demonstration catalog: its tools without examples, and the examples as messages."""
    definitions = read_folder(_DEMO)
    owners: defaultdict[str, list[str]] = defaultdict(list)
    for tool in definitions.tools:
        for text in tool.examples:
            owners[text].append(tool.name)
    queries = tuple(
        Query(f"demo-{at}", text, (first,), alternatives={first: tuple(others)})
        for at, (text, (first, *others)) in enumerate(owners.items())
    )
    tools = tuple(replace(tool, examples=()) for tool in definitions.tools)
    return Dataset("demo", replace(definitions, tools=tools), queries)


def _right(query: Query) -> Iterator[str]:
    for name in query.gold:
        yield name
        yield from query.alternatives.get(name, ())


def _is_in(query: Query, half: Half) -> bool:
    if half == "all":
        return True
    name = str(query.context.get("dialog", query.id))
    bit = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=1).digest()[0] & 1
    return bit == (half == "judge")


def _clusters(means: npt.NDArray[np.float64]) -> Ints:
    """k-means by cosine, deterministic."""
    means = _unit(means)
    random = np.random.default_rng(7)
    centres = means[random.permutation(len(means))[: min(TOPICS, len(means))]]
    nearest = np.zeros(len(means), np.int64)
    for _ in range(_ROUNDS):
        nearest = (means @ centres.T).argmax(1)
        sums = np.array([means[nearest == topic].sum(0) for topic in range(len(centres))])
        centres = np.where(np.any(sums, axis=1, keepdims=True), _unit(sums), centres)
    return nearest


def _unit(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(lengths, 1e-9), np.float64)


def share_repeated(messages: Sequence[int] | Ints) -> float:
    """The share of messages that occurred earlier."""
    return 1 - len(set(map(int, messages))) / max(1, len(messages))


_MAKERS = (
    "Aldra", "Bexley", "Corvane", "Dunmore", "Elstrom", "Fenwick", "Galtier", "Hollin", "Istra", "Jorvik",
)  # fmt: skip
_SYNONYMS = {
    "find": "look up", "finds": "looks up", "search": "look", "searches": "looks", "get": "fetch",
    "gets": "fetches", "create": "make", "creates": "makes", "show": "display", "shows": "displays",
    "provide": "offer", "provides": "offers", "help": "assist", "helps": "assists", "list": "enumerate",
    "lists": "enumerates", "send": "deliver", "sends": "delivers", "delete": "remove",
    "deletes": "removes", "update": "change", "updates": "changes", "information": "details",
    "data": "figures", "latest": "newest", "your": "the user's", "discover": "come across",
    "analyze": "examine", "generate": "produce", "generates": "produces", "access": "reach",
    "various": "several", "easily": "quickly", "tool": "service",
}  # fmt: skip


def near_duplicates(tools: Sequence[Tool], owners: Sequence[int], random: np.random.Generator) -> list[Tool]:
    """Copies of tools as if from other makers.

    Each has another name, lacks a tenth of its words, and has some words replaced.
    """
    taken = {tool.name for tool in tools}
    made = []
    for owner in owners:
        tool = tools[owner]
        maker = next(
            maker
            for maker in (_MAKERS[place] for place in random.permutation(len(_MAKERS)))
            if f"{tool.name}_{maker.lower()}" not in taken
        )
        taken.add(name := f"{tool.name}_{maker.lower()}")
        sentences = [_reworded(sentence, random) for sentence in tool.description.split(". ")]
        random.shuffle(sentences)
        description = ". ".join([*filter(None, sentences), f"By {maker}"])
        made.append(
            replace(tool, name=name, description=description, original=None, tool_id="", pinned=False)
        )
    return made


def _reworded(sentence: str, random: np.random.Generator) -> str:
    words = []
    for word in sentence.rstrip(".").split():
        if random.random() >= 0.1:
            words.append(_SYNONYMS.get(word.lower(), word) if random.random() < 0.7 else word)
    return " ".join(words)
