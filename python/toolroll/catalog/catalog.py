"""An immutable, indexed snapshot of tools, toolkits and routes: what selection reads.

Everything that costs is done here, once: sorting, checking, embedding, indexing, counting tokens. A row is
a tool's place in the catalog; rows ascend with names, so a tie that is broken by row is broken by name,
whatever the order the tools came in. A row means something within one catalog only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from toolroll._core import Bitset, Bm25Index, Fusion, Speller, ToolKeys, VectorIndex
from toolroll.arrays import Rows
from toolroll.catalog.calibration import Trial
from toolroll.catalog.damping import MOST_OWN_PROBES, MOST_PROBES, Probed, Probes, probes_of
from toolroll.catalog.retriever import CalibratedRetriever, Indexes, trial_of, vectors_of_probes
from toolroll.catalog.routes import RouteTable
from toolroll.catalog.settings import StackedSwitches, Switches
from toolroll.catalog.spelling import speller_of
from toolroll.catalog.stacked import Costs, Layered, StackedColumn, StackedRows, StackedTools
from toolroll.catalog.tokens import estimate_tokens
from toolroll.catalog.tool2vec import DESCRIPTION_COUNTS, Embedded
from toolroll.catalog.tool_text import FIELD_WEIGHTS, columns
from toolroll.catalog.toolkits import (
    NO_TOOLKITS,
    frozen_rows,
    joined_rows,
    rows_below,
    rows_of_members,
    toolkits_of,
)
from toolroll.catalog.toolkits_by_meaning import ToolkitIndex
from toolroll.embedder import Embedder, Scale, scale_of
from toolroll.errors import InvalidDefinition, InvalidInput
from toolroll.identity import ToolKey, schema_text, tool_key
from toolroll.tools import Definitions, Mode, Tool, Toolkit

T = TypeVar("T")

_REMEMBERED = 4  # sets of weights whose measurements are kept
_MOST_TEXTS = 16  # of `remembered`; each may be megabytes
_WEIGHTS = (
    "dense",
    "dense_floor",
    "lexical",
    "lexical_saturation",
    "intents",
    "intent_floor",
    "clauses",
    "threshold",
)


@dataclass(frozen=True, slots=True, eq=False)
class Catalog:
    """Tools by row, and the indexes over them. Built whole, never edited, safe to read from many threads.

    Attributes:
        tools: by row, ascending by name; of a stacked catalog the shared ones first.
        names: tool name → row.
        toolkits: by name; those that only a tool mentions are among them.
        below: toolkit → rows of its tools and of those of the toolkits below it, ascending. Members are not
            among them: rules, settings and pages read this.
        indexes: what retrieval searches; of a stacked catalog the shared part's, see `tuned`.
        parts: of a stacked catalog, the shared one and the own part, which is no whole by itself.
        probes: texts that show which tools are found for everybody's messages.
        probed: float32[m, dim], their vectors, of an own part float16; None without an embedder.
        is_english: whether the embedder has learnt English alone.
        routes: compiled keywords and patterns; what they switch on has its members, too.
        toolkit_index: vectors of the toolkits; None where no profile asked for them.
        trial: example messages held out, to learn what scores mean here; None where there are too few.
        scale: how the embedder's cosines compare to others'.
        speller: mends messages after the words of tools and keywords.
        switches: toolkits that need settings.
        inactive: rows that are not "active"; None where all are.
        not_public: rows that may not be shown where policy cannot be read.
        base: rows of base toolkits and their members, ascending.
        pinned: rows of pinned tools, heaviest first.
        costs: int32[n], estimated tokens of each tool's schema.
        keys: which statistics of outcomes belong to which row.
        space: identity of the embedder behind the vectors; "" for a catalog without vectors.
        dim: width of the vectors; 0 without.
        revision: digest of the content: equal for equal definitions and embedder.
    """

    tools: Sequence[Tool]
    names: Mapping[str, int]
    toolkits: Mapping[str, Toolkit]
    below: Mapping[str, Rows]
    indexes: Indexes
    parts: tuple[Catalog, Catalog] | None
    probes: Probes
    probed: Probed | None
    is_english: bool
    toolkit_index: ToolkitIndex | None
    trial: Trial | None
    scale: Scale
    routes: RouteTable
    speller: Speller
    switches: Switches | StackedSwitches
    inactive: Bitset | None
    not_public: Bitset
    base: Rows
    pinned: Rows
    costs: Costs
    keys: ToolKeys
    space: str
    dim: int
    revision: str
    _tunings: dict[tuple[float, ...], CalibratedRetriever] = field(default_factory=dict, repr=False)
    _tool_keys: dict[int, ToolKey] = field(default_factory=dict, repr=False)  # of rows that were shown
    _texts: dict[Hashable, Any] = field(default_factory=dict, repr=False)  # see `remembered`

    @classmethod
    def build(
        cls,
        definitions: Definitions,
        embedder: Embedder | None,
        *,
        hnsw: bool = False,
        toolkits_by_meaning: bool = False,
        description_counts: float = DESCRIPTION_COUNTS,
        keyword_mode: Mode | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Catalog:
        """Checks the definitions and builds every index.

        hnsw: also builds an HNSW graph over the vectors; pays above some 50,000 tools, costs about 50 s of
        CPU for 100,000. toolkits_by_meaning: also embeds the toolkits, for a profile with a
        `toolkit_threshold`. description_counts: as many examples as a description does in a tool's vector.
        keyword_mode: how keywords stand in a message where their author did not say; None for what their
        script asks for. progress: called with (texts embedded, texts in all).

        Raises:
            InvalidDefinition: duplicate names, unknown parents, a cycle of parents, a lost route.
        """
        return _built(
            definitions,
            embedder,
            hnsw=hnsw,
            toolkits_by_meaning=toolkits_by_meaning,
            description_counts=description_counts,
            keyword_mode=keyword_mode,
            progress=progress,
        )

    @classmethod
    def stacked(
        cls,
        shared: Catalog,
        own: Definitions,
        embedder: Embedder | None,
        *,
        hnsw: bool = False,
        toolkits_by_meaning: bool = False,
        description_counts: float = DESCRIPTION_COUNTS,
        keyword_mode: Mode | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Catalog:
        """An organisation's catalog: the shared one, as it is, and its own tools behind it.

        Takes the time and memory of its own part, and a few bitsets over both. Own toolkits may be below
        shared ones. Of what both define by the same name, the own tool is there and the shared one is not;
        own tools join the shared toolkit, and what it needs is what the shared one says.

        The own part's words are weighed as if all tools were one catalog; those of the shared part as if it
        were alone. Whether tools are greedy is measured within each part, and what scores mean in the shared
        one, where its examples are enough for it. The other parameters are as for `build`.

        Raises:
            InvalidDefinition: as `build` does, of the own part.
            InvalidInput: the shared catalog was built with another embedder, or is stacked itself.
        """
        if shared.parts is not None:
            raise InvalidInput("shared: is stacked itself, must be a catalog by itself")
        if embedder is not None and embedder.identity != shared.space:
            raise InvalidInput(
                f"embedder: is {embedder.identity!r}, must be that of the shared catalog, {shared.space!r}"
                if shared.space
                else f"embedder: is {embedder.identity!r}, must be None: the shared catalog has no vectors"
            )
        if not (own.tools or own.toolkits or own.routes):
            return shared
        part = _built(
            own,
            embedder,
            hnsw=hnsw,
            toolkits_by_meaning=toolkits_by_meaning,
            description_counts=description_counts,
            keyword_mode=keyword_mode,
            progress=progress,
            shared=shared,
        )
        n = len(shared)
        hidden = frozen_rows(sorted(shared.names[name] for name in part.names if name in shared.names))
        return cls(
            tools=StackedTools(shared.tools, part.tools),
            names=Layered({name: n + row for name, row in part.names.items()}, shared.names),
            toolkits=part.toolkits,
            below=part.below,
            indexes=shared.indexes,
            parts=(shared, part),
            probes=part.probes,
            probed=part.probed,
            is_english=shared.is_english,
            toolkit_index=part.toolkit_index,
            trial=shared.trial or part.trial,
            scale=part.scale,
            routes=part.routes,
            speller=part.speller,
            switches=StackedSwitches(shared.switches, part.switches),
            inactive=_joined_inactive(shared, part, hidden),
            not_public=Bitset.join(shared.not_public, part.not_public),
            base=_without(frozen_rows(np.union1d(shared.base, part.base)), hidden),
            pinned=_heaviest_first(
                (*_without(shared.pinned, hidden).tolist(), *(n + row for row in part.pinned.tolist())),
                StackedTools(shared.tools, part.tools),
            ),
            costs=StackedColumn(shared.costs, part.costs),
            keys=ToolKeys.stacked(shared.keys, part.keys),
            space=shared.space,
            dim=shared.dim,
            revision=hashlib.sha256(f"{shared.revision} {part.revision}".encode()).hexdigest()[:16],
        )

    def tuned(self, fusion: Fusion, damped: bool) -> CalibratedRetriever:
        """Retrieval with these weights, measured when they are first asked for.

        damped: whether tools that are found for everybody's messages count less.
        """
        key = (damped, *(getattr(fusion, name) for name in _WEIGHTS))
        tuned = self._tunings.get(key)
        if tuned is None:
            tuned = self._tune(fusion, damped)
            if len(self._tunings) >= _REMEMBERED:
                self._tunings.clear()
            self._tunings[key] = tuned
        return tuned

    def _tune(self, fusion: Fusion, damped: bool) -> CalibratedRetriever:
        if self.parts is not None:
            shared, own = self.parts
            return CalibratedRetriever.stacked(shared.tuned(fusion, damped), own.tuned(fusion, damped))
        return CalibratedRetriever.of(
            self.indexes,
            self.tools,
            self.probes,
            self.probed,
            self.is_english,
            self.trial,
            fusion,
            damped,
        )

    def __len__(self) -> int:
        return len(self.tools)

    def tool_key(self, row: int) -> ToolKey:
        """Which statistics belong to the tool: what `keys` has of it, hashed once if it is shown."""
        known = self._tool_keys.get(row)
        if known is None:
            known = self._tool_keys[row] = tool_key(self.tools[row])
        return known

    def remembered(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` makes of this catalog for the key, made once; the last few are kept.

        For what is the same on each turn and takes long, such as the whole list as one provider's JSON.
        """
        known: T | None = self._texts.get(key)
        if known is None:
            known = make()
            if len(self._texts) >= _MOST_TEXTS:
                self._texts.clear()
            self._texts[key] = known
        return known

    def tokens_of(self, rows: Rows) -> int:
        """Estimated tokens of these tools' schemas."""
        return int(self.costs[rows].sum())


def _built(
    definitions: Definitions,
    embedder: Embedder | None,
    *,
    hnsw: bool,
    toolkits_by_meaning: bool,
    description_counts: float,
    keyword_mode: Mode | None,
    progress: Callable[[int, int], None] | None,
    shared: Catalog | None = None,
) -> Catalog:
    """A catalog by itself, or the part that is put behind a shared one.

    Rows of a part are its own, but for those of toolkits (`below`, `routes`, `base`), which are of both.
    """
    tools = tuple(sorted(definitions.tools, key=lambda tool: tool.name))
    names = {tool.name: row for row, tool in enumerate(tools)}
    if len(names) != len(tools):
        raise _duplicate(tools)
    own_toolkits = toolkits_of(
        definitions.toolkits, tools, NO_TOOLKITS if shared is None else shared.toolkits
    )
    toolkits: Mapping[str, Toolkit] = own_toolkits
    if shared is not None:
        toolkits = Layered(shared.toolkits, own_toolkits)
    below: Mapping[str, Rows] = rows_below(toolkits, tools, own_toolkits)
    everywhere, reached, base = _reached(toolkits, own_toolkits, tools, below, shared)
    schemas = [schema_text(tool) for tool in tools]
    embedded = vectors = intents = None
    probed: Probed | None = None
    scale = Scale() if shared is None else shared.scale
    probes = probes_of(tools, MOST_PROBES if shared is None else MOST_OWN_PROBES)
    if embedder is not None and tools:
        if shared is None or not shared.tools:
            scale = scale_of(embedder)
        embedded = Embedded.of(tools, embedder, progress, description_counts)
        vectors, intents = VectorIndex.build(embedded.vectors(), hnsw), embedded.intents()
        probed = vectors_of_probes(probes, tools, embedded, embedder)
        if shared is not None:  # many parts are kept, and half the bits say who is greedy as well
            probed = probed.astype(np.float16)
    texts = columns(tools)
    postings = Bm25Index.build(
        texts, FIELD_WEIGHTS, background=None if shared is None else shared.indexes.postings
    )
    keywords = [keyword for route in definitions.routes for keyword in route.keywords]
    toolkit_index = None if shared is None else shared.toolkit_index
    if embedder is not None and toolkits_by_meaning:
        toolkit_index = ToolkitIndex.of(own_toolkits, tools, below, embedder, toolkit_index)
    return Catalog(
        tools=tools,
        names=names,
        toolkits=toolkits,
        below=everywhere,
        indexes=Indexes(len(tools), vectors, postings, intents),
        parts=None,
        probes=probes,
        probed=probed,
        is_english=bool(getattr(embedder, "is_english", False)),
        # what a score means is read from the shared part where that could be measured
        trial=trial_of(tools, embedded, embedder) if shared is None or shared.trial is None else None,
        scale=scale,
        toolkit_index=toolkit_index,
        routes=RouteTable.of(
            len(tools) if shared is None else len(shared) + len(tools),
            definitions.routes,
            reached,
            None if shared is None else shared.routes,
            keyword_mode,
        ),
        speller=speller_of(texts, keywords, None if shared is None else shared.speller),
        switches=Switches.of(len(tools), [toolkits[name] for name in below], below),
        inactive=_rows_where(tools, lambda tool: tool.status != "active"),
        not_public=Bitset.of(
            len(tools), frozen_rows(row for row, tool in enumerate(tools) if not tool.public)
        ),
        base=base,
        pinned=_heaviest_first((row for row, tool in enumerate(tools) if tool.pinned), tools),
        costs=np.fromiter(map(estimate_tokens, schemas), np.int32, len(tools)),
        keys=_keys(tools),
        space=embedder.identity if embedder is not None else "",
        dim=embedder.dim if embedder is not None else 0,
        revision=_revision(definitions, tools, schemas, embedder, description_counts, keyword_mode),
    )


def _reached(
    toolkits: Mapping[str, Toolkit],
    own_toolkits: Mapping[str, Toolkit],
    tools: Sequence[Tool],
    below: Mapping[str, Rows],
    shared: Catalog | None,
) -> tuple[Mapping[str, Rows], Mapping[str, Rows], Rows]:
    """What each toolkit holds, what it holds and has as members, and what the base ones have of the own part.

    All are rows of the whole, where there is a shared catalog. Own toolkits may have shared tools as members.
    Shared ones have shared tools alone: what the platform wrote means the same for every organisation.
    """
    members = _members(own_toolkits.values(), toolkits, tools)
    if shared is None:
        reached = joined_rows(below, members) if members else below
        return below, reached, _base(reached, toolkits)
    n = len(shared)
    own = {name: frozen_rows(rows + n) for name, rows in below.items()}
    everywhere = StackedRows(shared.below, own)
    members = joined_rows(
        _members(own_toolkits.values(), toolkits, shared.tools),
        {name: frozen_rows(rows + n) for name, rows in members.items()},
    )
    if not members and shared.routes.rows is shared.below:
        return everywhere, everywhere, _base(own, toolkits)
    own = joined_rows(own, members)
    return everywhere, StackedRows(shared.routes.rows, own), _base(own, toolkits)


def _members(
    named: Iterable[Toolkit], toolkits: Mapping[str, Toolkit], tools: Sequence[Tool]
) -> dict[str, Rows]:
    having = [toolkit for toolkit in named if toolkit.members]
    return rows_of_members(having, toolkits, [tool.name for tool in tools]) if having else {}


def _base(reached: Mapping[str, Rows], toolkits: Mapping[str, Toolkit]) -> Rows:
    return frozen_rows(
        sorted({row for name, rows in reached.items() if toolkits[name].base for row in rows.tolist()})
    )


def _keys(tools: Sequence[Tool]) -> ToolKeys:
    arms, intents, groups = zip(*map(tool_key, tools), strict=True) if tools else ((), (), ())
    return ToolKeys(np.array(arms, np.uint64), np.array(intents, np.uint64), np.array(groups, np.uint64))


def _joined_inactive(shared: Catalog, own: Catalog, hidden: Rows) -> Bitset | None:
    """What neither part has in play, and of the shared one what the own one has by the same name."""
    if shared.inactive is None and own.inactive is None and not len(hidden):
        return None
    head = Bitset.of(len(shared), hidden)
    if shared.inactive is not None:
        head = head | shared.inactive
    return Bitset.join(head, own.inactive or Bitset.empty(len(own)))


def _without(rows: Rows, hidden: Rows) -> Rows:
    return rows[~np.isin(rows, hidden)] if len(hidden) else rows


def _heaviest_first(rows: Iterable[int], tools: Sequence[Tool]) -> Rows:
    return frozen_rows(sorted(rows, key=lambda row: (-tools[row].pin_weight, row)))


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


def _rows_where(tools: Sequence[Tool], holds: Callable[[Tool], bool]) -> Bitset | None:
    rows = frozen_rows(row for row, tool in enumerate(tools) if holds(tool))
    return Bitset.of(len(tools), rows) if len(rows) else None


def _revision(
    definitions: Definitions,
    tools: Sequence[Tool],
    schemas: Sequence[str],
    embedder: Embedder | None,
    description_counts: float,
    keyword_mode: Mode | None,
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
        governed = (tool.pinned, tool.pin_weight, *([tool.interchangeable] if tool.interchangeable else ()))
        digest.update(repr((schema, kept, *governed)).encode("utf-8", "surrogatepass"))
    for toolkit in sorted(definitions.toolkits, key=lambda toolkit: toolkit.name):
        digest.update(_said_of(toolkit).encode("utf-8", "surrogatepass"))
    for route in definitions.routes:
        digest.update(repr(route).encode("utf-8", "surrogatepass"))
    if embedder is not None:
        digest.update(f"{embedder.identity} {description_counts}".encode())
    if keyword_mode is not None:
        digest.update(f"keywords {keyword_mode}".encode())
    return digest.hexdigest()[:16]


def _said_of(toolkit: Toolkit) -> str:
    """A toolkit as a revision reads it: the same in every release, for events outlive them."""
    name, description, parent = toolkit.name, toolkit.description, toolkit.parent
    settings_keys, base, tier = toolkit.settings_keys, toolkit.base, toolkit.tier
    members = f", members={toolkit.members!r}" if toolkit.members else ""
    return f"Toolkit({name=}, {description=}, {parent=}, {settings_keys=}, {base=}, {tier=}{members})"
