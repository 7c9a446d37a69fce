"""An immutable, indexed snapshot of tools, toolkits and routes: what selection reads.

Everything that costs is done here, once: sorting, checking, embedding, indexing, counting tokens. A row is
a tool's place in the catalog; rows ascend with names, so a tie that is broken by row is broken by name,
whatever the order the tools came in. A row means something within one catalog only.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from toolroll._core import Bitset, Bm25Index, Intents, Retriever, Speller, VectorIndex
from toolroll.calibration import HeldOut, Trial
from toolroll.candidates import Rows, Scores
from toolroll.capture import Probes, probes_of
from toolroll.errors import InvalidDefinition
from toolroll.ports import Embedder
from toolroll.route_table import RouteTable
from toolroll.scale import Scale, scale_of
from toolroll.schemas.canonical import schema_text
from toolroll.spelling import speller_of
from toolroll.switches import Switches
from toolroll.tokens import estimate_tokens
from toolroll.tool2vec import DESCRIPTION_COUNTS, Embedded
from toolroll.tool_text import FIELD_WEIGHTS, fields
from toolroll.toolkit_index import ToolkitIndex
from toolroll.tools import Definitions, Tool, Toolkit
from toolroll.vectors import vectors_of


@dataclass(frozen=True, slots=True, eq=False)
class Indexes:
    """What retrieval searches: vectors and intents, which need an embedder, and postings."""

    size: int
    vectors: VectorIndex | None
    postings: Bm25Index
    intents: Intents | None

    def retriever(self, damping: Scores | None = None) -> Retriever:
        """All of them as one. damping: float32[size], a factor for each tool's evidence."""
        return Retriever(self.size, self.vectors, self.postings, self.intents, damping)


@dataclass(frozen=True, slots=True, eq=False)
class Catalog:
    """Tools by row, and the indexes over them. Built whole, never edited, safe to read from many threads.

    Attributes:
        tools: by row, ascending by name.
        names: tool name → row.
        toolkits: by name; those that only a tool mentions are among them.
        below: toolkit → rows of its tools and of those of the toolkits below it, ascending.
        indexes: what retrieval searches.
        probes: texts that show which tools are found for everybody's messages.
        probed: float32[m, dim], their vectors; None without an embedder.
        is_english: whether the embedder has learnt English alone.
        routes: compiled keywords and patterns.
        toolkit_index: vectors of the toolkits; None where no profile asked for them.
        trial: example messages held out, to learn what scores mean here; None where there are too few.
        scale: how the embedder's cosines compare to others'.
        speller: mends messages after the words of tools and keywords.
        switches: toolkits that need settings.
        inactive: rows that are not "active"; None where all are.
        not_public: rows that may not be shown where policy cannot be read.
        base: rows of base toolkits.
        pinned: rows of pinned tools, heaviest first.
        costs: int32[n], estimated tokens of each tool's schema.
        space: identity of the embedder behind the vectors; "" for a catalog without vectors.
        dim: width of the vectors; 0 without.
        revision: digest of the content: equal for equal definitions and embedder.
    """

    tools: tuple[Tool, ...]
    names: Mapping[str, int]
    toolkits: Mapping[str, Toolkit]
    below: Mapping[str, Rows]
    indexes: Indexes
    probes: Probes
    probed: Scores | None
    is_english: bool
    toolkit_index: ToolkitIndex | None
    trial: Trial | None
    scale: Scale
    routes: RouteTable
    speller: Speller
    switches: Switches
    inactive: Bitset | None
    not_public: Bitset
    base: Rows
    pinned: Rows
    costs: npt.NDArray[np.int32]
    space: str
    dim: int
    revision: str

    @classmethod
    def build(
        cls,
        definitions: Definitions,
        embedder: Embedder | None,
        *,
        graph: bool = False,
        toolkits_by_meaning: bool = False,
        description_counts: float = DESCRIPTION_COUNTS,
        progress: Callable[[int, int], None] | None = None,
    ) -> Catalog:
        """Checks the definitions and builds every index.

        graph: also builds an HNSW graph over the vectors; pays above some 50,000 tools, costs about 50 s of
        CPU for 100,000. toolkits_by_meaning: also embeds the toolkits, for a profile with a
        `toolkit_threshold`. description_counts: as many examples as a description does in a tool's vector.
        progress: called with (texts embedded, texts in all).

        Raises:
            InvalidDefinition: duplicate names, unknown parents, a cycle of parents, a lost route.
        """
        tools = tuple(sorted(definitions.tools, key=lambda tool: tool.name))
        names = {tool.name: row for row, tool in enumerate(tools)}
        if len(names) != len(tools):
            raise _duplicate(tools)
        toolkits = _toolkits(definitions.toolkits, tools)
        below = _rows_below(toolkits, tools)
        schemas = [schema_text(tool) for tool in tools]
        embedded = scale = vectors = intents = probed = None
        probes = probes_of(tools)
        if embedder is not None and tools:
            scale = scale_of(embedder)
            embedded = Embedded.of(tools, embedder, progress, description_counts)
            vectors, intents = VectorIndex.build(embedded.vectors(), graph), embedded.intents()
            probed = vectors_of(embedder, probes.texts)
        columns = _columns(tools)
        postings = Bm25Index.build(columns, FIELD_WEIGHTS)
        keywords = [keyword for route in definitions.routes for keyword in route.keywords]
        return cls(
            tools=tools,
            names=names,
            toolkits=toolkits,
            below=below,
            indexes=Indexes(len(tools), vectors, postings, intents),
            probes=probes,
            probed=probed,
            is_english=bool(getattr(embedder, "is_english", False)),
            trial=_trial(tools, embedded, embedder),
            scale=scale or Scale(),
            toolkit_index=ToolkitIndex.of(toolkits, tools, below, embedder)
            if embedder is not None and toolkits_by_meaning
            else None,
            routes=RouteTable.of(len(tools), definitions.routes, below),
            speller=speller_of(columns, keywords),
            switches=Switches.of(len(tools), toolkits.values(), below),
            inactive=_rows_where(tools, lambda tool: tool.status != "active"),
            not_public=Bitset.of(len(tools), _rows(row for row, tool in enumerate(tools) if not tool.public)),
            base=_rows(
                sorted({row for kit in toolkits.values() if kit.base for row in below[kit.name].tolist()})
            ),
            pinned=_rows(
                sorted(
                    (row for row, tool in enumerate(tools) if tool.pinned),
                    key=lambda row: (-tools[row].pin_weight, row),
                )
            ),
            costs=np.fromiter(map(estimate_tokens, schemas), np.int32, len(tools)),
            space=embedder.identity if embedder is not None else "",
            dim=embedder.dim if embedder is not None else 0,
            revision=_revision(definitions, tools, schemas, embedder, description_counts),
        )

    def __len__(self) -> int:
        return len(self.tools)

    def tokens_of(self, rows: Rows) -> int:
        """Estimated tokens of these tools' schemas."""
        return int(self.costs[rows].sum())


def _columns(tools: Sequence[Tool]) -> list[list[str]]:
    return [list(column) for column in zip(*map(fields, tools), strict=True)] or [[] for _ in FIELD_WEIGHTS]


def _trial(tools: Sequence[Tool], embedded: Embedded | None, embedder: Embedder | None) -> Trial | None:
    """A catalog of its own for messages that are held out of it."""
    held_out = HeldOut.of(tools)
    if held_out is None:
        return None
    vectors = intents = None
    if embedded is not None:
        rest = held_out.rest(embedded)
        vectors, intents = VectorIndex.build(rest.vectors()), rest.intents()
    world = held_out.world(tools)
    retriever = Retriever(len(world), vectors, Bm25Index.build(_columns(world), FIELD_WEIGHTS), intents)
    return held_out.trial(tools, retriever, embedded, embedder)


def _duplicate(tools: Sequence[Tool]) -> InvalidDefinition:
    for tool, following in pairwise(tools):
        if tool.name == following.name:
            homes = sorted({tool.toolkit or "no toolkit", following.toolkit or "no toolkit"})
            return InvalidDefinition(
                f"defined more than once (in {' and in '.join(homes)}); names must be unique in a catalog: "
                "rename one, or prefix each server's tools",
                field="name",
                tool=tool.name,
            )
    raise AssertionError("no two names are the same")


def _toolkits(declared: Iterable[Toolkit], tools: Iterable[Tool]) -> dict[str, Toolkit]:
    toolkits: dict[str, Toolkit] = {}
    for toolkit in declared:
        if toolkit.name in toolkits:
            raise InvalidDefinition(f"toolkit {toolkit.name!r}: defined more than once", field="name")
        toolkits[toolkit.name] = toolkit
    for name in {tool.toolkit for tool in tools}:
        if name and name not in toolkits:
            toolkits[name] = Toolkit(name)
    for toolkit in toolkits.values():
        _check_parents(toolkit, toolkits)
    return toolkits


def _check_parents(toolkit: Toolkit, toolkits: Mapping[str, Toolkit]) -> None:
    seen, at = [toolkit.name], toolkit
    while at.parent is not None:
        if at.parent not in toolkits:
            raise InvalidDefinition(
                f"toolkit {at.name!r}: parent {at.parent!r} is not in the catalog", field="parent"
            )
        if at.parent in seen:
            raise InvalidDefinition(
                f"toolkit {toolkit.name!r}: its parents form a cycle: {' → '.join([*seen, at.parent])}",
                field="parent",
            )
        seen.append(at.parent)
        at = toolkits[at.parent]


def _rows_below(toolkits: Mapping[str, Toolkit], tools: Sequence[Tool]) -> dict[str, Rows]:
    """Toolkit → rows of its tools and of those of the toolkits below it, ascending."""
    rows: defaultdict[str, list[int]] = defaultdict(list)
    ancestors = {"": ()} | {name: tuple(_lineage(name, toolkits)) for name in toolkits}
    for row, tool in enumerate(tools):
        for name in ancestors[tool.toolkit]:
            rows[name].append(row)
    return {name: _rows(rows[name]) for name in toolkits}


def _lineage(name: str | None, toolkits: Mapping[str, Toolkit]) -> Iterable[str]:
    while name is not None:
        yield name
        name = toolkits[name].parent


def _rows(rows: Iterable[int]) -> Rows:
    array = np.array(list(rows), np.int32)
    array.flags.writeable = False
    return array


def _rows_where(tools: Sequence[Tool], holds: Callable[[Tool], bool]) -> Bitset | None:
    rows = _rows(row for row, tool in enumerate(tools) if holds(tool))
    return Bitset.of(len(tools), rows) if len(rows) else None


def _revision(
    definitions: Definitions,
    tools: Sequence[Tool],
    schemas: Sequence[str],
    embedder: Embedder | None,
    description_counts: float,
) -> str:
    digest = hashlib.sha256()
    for tool, schema in zip(tools, schemas, strict=True):
        kept = (
            tool.toolkit,
            tool.summary,
            tool.when_to_use,
            tool.tags,
            tool.examples,
            tool.status,
            tool.public,
        )
        digest.update(repr((schema, kept, tool.pinned, tool.pin_weight)).encode("utf-8", "surrogatepass"))
    for toolkit in sorted(definitions.toolkits, key=lambda toolkit: toolkit.name):
        digest.update(repr(toolkit).encode("utf-8", "surrogatepass"))
    for route in definitions.routes:
        digest.update(repr(route).encode("utf-8", "surrogatepass"))
    if embedder is not None:
        digest.update(f"{embedder.identity} {description_counts}".encode())
    return digest.hexdigest()[:16]
