"""An immutable, indexed snapshot of tools, toolkits and routes: the catalog that selection reads.

All expensive work is done here, once: sorting, checking, embedding, indexing, counting tokens. A row is a
tool's place in the catalog. Rows ascend with names, so a tie that is broken by row is broken by name,
whatever the order of the definitions. A row means something within one catalog only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from operator import attrgetter
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from toolroll._core import Bitset, Bm25Index, Fusion, Speller, ToolKeys, VectorIndex, release_free_memory
from toolroll.catalog.build_record import BuildRecord, Samples, digests_of
from toolroll.catalog.calibration import CalibrationSet, ExampleDigests
from toolroll.catalog.damping import MOST_OWN_PROBES, MOST_PROBES, NO_PROBES, ProbeDigests, Probes
from toolroll.catalog.deferred import Deferred, DeferredCosts, readable_schema
from toolroll.catalog.indexes import Indexes
from toolroll.catalog.mark_table import MarkTable
from toolroll.catalog.retriever import CalibratedRetriever, calibration_set_of
from toolroll.catalog.routes import RouteTable
from toolroll.catalog.saved_columns import SavedNames
from toolroll.catalog.spelling import Correction, DeferredSpeller, general_words, speller_of
from toolroll.catalog.stacked import Costs, StackedColumn, StackedRows, StackedTools, layered
from toolroll.catalog.switches import Switches
from toolroll.catalog.tokens import estimate_tokens
from toolroll.catalog.tool2vec import DESCRIPTION_COUNTS, PARAMETERS_WEIGHT, VERB_WEIGHT, ToolVectors
from toolroll.catalog.tool_text import FIELD_WEIGHTS, ToolText, columns, texts_of
from toolroll.catalog.toolkits import (
    NO_TOOLKITS,
    frozen_rows,
    joined_rows,
    numbers_in_toolkits,
    rows_below,
    rows_of_members,
    toolkit_numbers,
    toolkits_of,
)
from toolroll.catalog.toolkits_by_meaning import ToolkitIndex
from toolroll.model.arrays import Rows
from toolroll.model.embedder import Embedder, Scale, as_embedder, scale_of
from toolroll.model.errors import InvalidDefinition, InvalidInput
from toolroll.model.identity import ToolKey, pack_keys, schema_text, tool_key, tool_keys
from toolroll.model.tools import Definitions, Mode, Tool, Toolkit

T = TypeVar("T")

_MANY = 10_000  # tools whose texts take more memory than is worth a few milliseconds
# Of the vectors, from which on a walk through the graph takes clearly less than a scan: 40,000 rows of 256.
LEAST_NUMBERS_FOR_GRAPH = 10_000_000
_REMEMBERED = 4  # sets of weights whose measurements are kept
_FEW = 64  # numbers that Python adds up sooner than numpy
_MOST_TEXTS = 16  # results of `remembered`; each may be megabytes
# Of a `Fusion`: what a measurement depends on.
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


@dataclass(frozen=True, slots=True)
class CatalogOptions:
    """How a catalog is built.

    Attributes:
        hnsw: whether the vectors get an HNSW graph: at once (True), in the background if it pays ("auto"), or
            never.
        toolkits_by_meaning: whether toolkits have vectors, for a profile with a `toolkit_threshold`.
        description_counts: the weight of a description in a tool's vector, in examples.
        keyword_mode: the mode of keywords without one; None for the default of their script.
        damping: whether hubs can be damped; if not, no probes are kept.
        deferred: tokens, revision and the speller's words are computed at their first use. A schema without a
            form in JSON is no error. For the tools of one request.
    """

    hnsw: bool | Literal["auto"] = False
    toolkits_by_meaning: bool = False
    description_counts: float = DESCRIPTION_COUNTS
    keyword_mode: Mode | None = None
    damping: bool = True
    deferred: bool = False


_PLAIN = CatalogOptions()
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, eq=False)
class Catalog:
    """Tools by row, and the indexes over them. Built whole, never edited, safe to read from many threads.

    Attributes:
        tools: by row, ascending by name; of a stacked catalog the shared ones first.
        names: tool name → row.
        toolkits: by name, including toolkits that only a tool mentions.
        below: toolkit → rows of its tools and of its descendants' tools, ascending, without members: rules,
            settings and pages read this.
        indexes: for retrieval; of a stacked catalog the shared part's, see `retriever`.
        parts: the shared catalog and the own part of a stacked catalog; the own part is not complete alone.
        samples: texts that tell how the tools compete.
        routes: compiled keywords and patterns; a hit selects members, too.
        marks: the tools for each kind of mark and each service.
        toolkit_index: vectors of the toolkits; None if no profile needs them.
        scale: how the embedder's cosines compare to others'.
        speller: corrects messages by the words of tools and keywords.
        switches: toolkits that need settings.
        inactive: rows that are not "active"; None if all are.
        not_public: rows that are hidden if the policy cannot be read.
        base: rows of base toolkits and their members, ascending.
        pinned: rows of pinned tools, heaviest first.
        costs: int32[n], estimated tokens of each tool's schema.
        keys: of the statistics of outcomes, by row; computed at the first call.
        hosted: tools that the provider runs and no selection chooses; returned with every selection.
        space: identity of the embedder behind the vectors; "" without vectors.
        dim: width of the vectors; 0 without.
        record: the inputs of the build; None for a catalog that cannot have changes.
    """

    tools: Sequence[Tool]
    names: Mapping[str, int]
    toolkits: Mapping[str, Toolkit]
    below: Mapping[str, Rows]
    indexes: Indexes
    parts: tuple[Catalog, Catalog] | None
    samples: Deferred[Samples]
    toolkit_index: ToolkitIndex | None
    scale: Scale
    routes: RouteTable
    marks: MarkTable
    speller: Speller | DeferredSpeller
    switches: Switches
    inactive: Bitset | None
    not_public: Bitset
    base: Rows
    pinned: Rows
    costs: Costs
    keys: Deferred[ToolKeys]
    hosted: tuple[object, ...]
    space: str
    dim: int
    options: CatalogOptions
    _revision: Deferred[str]
    record: BuildRecord | None = None
    _retrievers: dict[tuple[float, ...], CalibratedRetriever] = field(default_factory=dict, repr=False)
    _tool_keys: dict[int, ToolKey] = field(default_factory=dict, repr=False)  # keys of rows that were shown
    _core_names: list[frozenset[str]] = field(default_factory=list, repr=False)  # once it is known
    _packed_keys: dict[int, bytes] = field(default_factory=dict, repr=False)  # the same as bytes
    _texts: dict[Hashable, Any] = field(default_factory=dict, repr=False)  # see `remembered`

    @classmethod
    def build(
        cls,
        definitions: Definitions,
        embedder: Embedder | None,
        options: CatalogOptions = _PLAIN,
        progress: Progress | None = None,
        text_of: Callable[[Tool], ToolText] = ToolText.of,
    ) -> Catalog:
        """Checks the definitions and builds every index.

        progress: called with (texts embedded, texts in all). text_of: reads a tool's texts; a caller may
        cache them.

        Raises InvalidDefinition for duplicate names, unknown parents, a cycle of parents or a lost route.
        """
        catalog = _built(definitions, embedder, options, progress, None, text_of)
        if len(catalog) >= _MANY:
            release_free_memory()  # the texts' memory is a third of the process's
        return catalog

    @classmethod
    def stacked(
        cls, shared: Catalog, own: Definitions, embedder: Embedder | None, options: CatalogOptions = _PLAIN
    ) -> Catalog:
        """An organisation's catalog: the shared one, unchanged, and its own tools behind it.

        Takes the time and memory of its own part, and a few bitsets over both. Own toolkits may be below
        shared ones. An own tool hides a shared one of the same name; own tools join a shared toolkit of the
        same name, whose settings count.

        The weights of words in own tools are those of one catalog with all tools; in shared tools, those of
        the shared catalog. Damping is measured within each part, calibration in the shared part if it has
        enough examples. The own part has no HNSW graph.

        Raises:
            InvalidDefinition: as `build` does, of the own part.
            InvalidInput: the shared catalog was built with another embedder, or is stacked itself.
        """
        if shared.parts is not None:
            raise InvalidInput("shared: is stacked itself, must be a plain catalog")
        if embedder is not None and embedder.identity != shared.space:
            raise InvalidInput(
                f"embedder: is {embedder.identity!r}, must be that of the shared catalog, {shared.space!r}"
                if shared.space
                else f"embedder: is {embedder.identity!r}, must be None: the shared catalog has no vectors"
            )
        if not (own.tools or own.toolkits or own.routes):
            return shared
        part = _built(own, embedder, replace(options, hnsw=False), None, shared)
        n = len(shared)
        hidden = frozen_rows(sorted(shared.names[name] for name in part.names if name in shared.names))
        return cls(
            tools=StackedTools(shared.tools, part.tools),
            names=layered({name: n + row for name, row in part.names.items()}, shared.names),
            toolkits=part.toolkits,
            below=part.below,
            indexes=shared.indexes,
            parts=(shared, part),
            samples=Deferred(lambda: Samples(part.probes, shared.calibration_set or part.calibration_set)),
            toolkit_index=part.toolkit_index,
            scale=part.scale,
            routes=part.routes,
            marks=part.marks,
            speller=part.speller,
            switches=part.switches.behind(shared.switches),
            inactive=_joined_inactive(shared, part, hidden),
            not_public=Bitset.join(shared.not_public, part.not_public),
            base=_without(frozen_rows(np.union1d(shared.base, part.base)), hidden),
            pinned=heaviest_first(
                (*_without(shared.pinned, hidden).tolist(), *(n + row for row in part.pinned.tolist())),
                StackedTools(shared.tools, part.tools),
            ),
            costs=StackedColumn(shared.costs, part.costs),
            keys=Deferred(lambda: ToolKeys.stacked(shared.keys(), part.keys())),
            hosted=(*shared.hosted, *part.hosted),
            space=shared.space,
            dim=shared.dim,
            options=options,
            _revision=Deferred(
                lambda: hashlib.sha256(f"{shared.revision} {part.revision}".encode()).hexdigest()[:16]
            ),
        )

    @property
    def probes(self) -> Probes:
        """Texts whose searches show the tools that most messages find."""
        return self.samples().probes

    @property
    def calibration_set(self) -> CalibrationSet | None:
        """Held-out messages, to learn what scores mean; None if there are too few."""
        return self.samples().calibration_set

    def measured(self) -> Catalog:
        """The catalog with damping and calibration measured again; itself if they are unchanged.

        For a catalog with changes, which begins with the measurements of the catalog before it.
        """
        measured = replace(self, _retrievers={})
        is_same = True
        for key, known in list(self._retrievers.items()):
            fusion = Fusion(**dict(zip(_WEIGHTS, key[1:], strict=True)))
            is_same &= measured.retriever(fusion, bool(key[0])).measures_as(known)
        return self if is_same else measured

    def retriever(self, fusion: Fusion, damped: bool) -> CalibratedRetriever:
        """Retrieval with these weights, calibrated at the first call.

        damped: whether tools that most messages find count less.
        """
        key = (damped, *(getattr(fusion, name) for name in _WEIGHTS))
        known = self._retrievers.get(key)
        if known is None:
            if self.parts is not None:
                known = CalibratedRetriever.stacked(*(part.retriever(fusion, damped) for part in self.parts))
            else:
                known = CalibratedRetriever.of(
                    self.indexes, self.probes, self.calibration_set, fusion, damped
                )
            if len(self._retrievers) >= _REMEMBERED:
                self._retrievers.clear()
            self._retrievers[key] = known
        return known

    @property
    def wants_graph(self) -> bool:
        """Whether to build a graph: the options allow one, and request it or would select faster with it.

        A build makes a requested graph at once, but a catalog with changes begins without.
        """
        vectors = self.indexes.vectors
        if vectors is None or self.parts is not None:
            return False
        is_large = vectors.size * vectors.dim >= LEAST_NUMBERS_FOR_GRAPH
        return self.options.hnsw is True or (self.options.hnsw == "auto" and is_large)

    def __len__(self) -> int:
        return len(self.tools)

    @property
    def revision(self) -> str:
        """Digest of the content: equal for equal definitions and embedder."""
        return self._revision()

    def names_of(self, rows: Sequence[int]) -> tuple[str, ...]:
        """The names of the tools in these rows."""
        if isinstance(self.names, SavedNames):
            return self.names.of_rows(np.array(rows, np.int32))
        tools = self.tools
        return tuple([tools[row].name for row in rows])

    def tool_key(self, row: int) -> ToolKey:
        """The key of the tool's statistics, as in `keys`; computed once, for tools that are shown."""
        known = self._tool_keys.get(row)
        if known is None:
            known = self._tool_keys[row] = tool_key(self.tools[row])
        return known

    @property
    def core_names(self) -> frozenset[str]:
        """Names of the tools in every selection: pinned ones, and the tools of base toolkits."""
        known = self._core_names
        if not known:
            rows = (*self.base.tolist(), *self.pinned.tolist())
            known.append(frozenset([self.tools[row].name for row in rows]))
        return known[0]

    def tool_keys_of(self, rows: Sequence[int]) -> list[ToolKey]:
        """`tool_key` of each row."""
        return _each(self._tool_keys, rows, lambda new: tool_keys([self.tools[row] for row in new]))

    def packed_keys(self, rows: Sequence[int]) -> list[bytes]:
        """The keys of each row's statistics as bytes; computed once, for tools that are shown."""
        return _each(self._packed_keys, rows, lambda new: pack_keys(self.tool_keys_of(new)))

    def remembered(self, key: Hashable, make: Callable[[], T]) -> T:
        """The result of `make` for the key, computed once; the last few are kept.

        For results that are the same on each turn and take long, such as all tools as one provider's JSON.
        """
        known: T | None = self._texts.get(key)
        if known is None:
            known = make()
            if len(self._texts) >= _MOST_TEXTS:
                self._texts.clear()
            self._texts[key] = known
        return known

    def corrections(self, text: str, visible: Bitset) -> list[Correction]:
        """The misspelt words of a text whose correction a caller with these rows may see.

        A correction to a word that only other tools have would reveal these tools.
        """
        return [
            one
            for one in self.speller.corrections(text)
            if general_words().knows(one[2]) or self.may_show(one[2], visible)
        ]

    def may_show(self, word: str, visible: Bitset) -> bool:
        """Whether a caller with these rows may see a word that the general vocabulary does not know."""
        return len(visible) == len(self) or self._has_word(word, visible)

    def _has_word(self, word: str, rows: Bitset) -> bool:
        """Whether the texts of one of these tools, or a keyword that activates it, have the word."""
        if self.routes.has_word(word, rows):
            return True
        if self.parts is None:
            return len(self.indexes.postings.search(word, 1, rows)[0]) > 0
        begin = 0
        for part in self.parts:
            own = rows.slice(begin, begin + len(part))
            if len(part.indexes.postings.search(word, 1, own)[0]):
                return True
            begin += len(part)
        return False

    def tokens_of(self, rows: Rows) -> int:
        """Estimated tokens of these tools' schemas."""
        costs = self.costs[rows]
        return sum(costs.tolist()) if len(rows) <= _FEW else int(costs.sum(dtype=np.int64))


def _built(
    definitions: Definitions,
    embedder: Embedder | None,
    options: CatalogOptions,
    progress: Progress | None,
    shared: Catalog | None,
    text_of: Callable[[Tool], ToolText] = ToolText.of,
) -> Catalog:
    """A plain catalog, or the part behind a shared one.

    Rows count within the part. Only `below`, `routes` and `base` have rows of both parts.
    """
    embedder = None if embedder is None else as_embedder(embedder)
    tools = tuple(sorted(definitions.tools, key=lambda tool: tool.name))
    names = {tool.name: row for row, tool in enumerate(tools)}
    if len(names) != len(tools):
        raise duplicate_in(tools)
    own_toolkits = toolkits_of(
        definitions.toolkits, tools, NO_TOOLKITS if shared is None else shared.toolkits
    )
    toolkits = own_toolkits if shared is None else layered(shared.toolkits, own_toolkits)
    toolkit_names, numbers = toolkit_numbers(tools)
    below = rows_below(toolkits, toolkit_names, numbers, own_toolkits)
    members = members_of(own_toolkits.values(), toolkits, map(attrgetter("name"), tools))
    everywhere, reached, base = _reached(toolkits, own_toolkits, members, below, shared)
    costs: Costs
    if options.deferred:
        costs, digests = DeferredCosts(tools), None
    else:
        schemas = [schema_text(tool) for tool in tools]
        costs = np.fromiter(map(estimate_tokens, schemas), np.int32, len(tools))
        digests = digests_of(tools, schemas)
    texts = texts_of(tools, text_of)
    probes, probe_digests = NO_PROBES, None
    descriptions: dict[str, tuple[Tool, str]] = {}
    if options.damping:

        def description_of(row: int) -> str:
            descriptions[tools[row].name] = tools[row], texts[row].description
            return texts[row].description

        probe_digests = ProbeDigests.of(tools)
        probes = probe_digests.probes(
            tools,
            numbers_in_toolkits(toolkit_names, numbers),
            description_of,
            MOST_PROBES if shared is None else MOST_OWN_PROBES,
        )
    scale = Scale() if shared is None else shared.scale
    vectors = index = intents = None
    if embedder is not None and tools:
        if shared is None or not shared.tools:
            scale = scale_of(embedder)
        vectors = ToolVectors.of(texts, embedder, progress, options.description_counts, scale.centre)
        index, intents = VectorIndex.build(vectors.vectors(), options.hnsw is True), vectors.intents()
        # Many own parts are in memory, and half the bits are enough to find hubs.
        if options.damping:
            probes = probes.embedded(texts, vectors, embedder, np.float32 if shared is None else np.float16)
    fields = columns(texts)
    postings = Bm25Index.build(
        fields, FIELD_WEIGHTS, background=None if shared is None else shared.indexes.postings
    )
    keywords = [keyword for route in definitions.routes for keyword in route.keywords]
    speller: Speller | DeferredSpeller
    if options.deferred:
        speller = DeferredSpeller(lambda: speller_of(fields, keywords))
    else:
        known_words = None if shared is None else shared.speller
        speller = speller_of(fields, keywords, known_words if isinstance(known_words, Speller) else None)
    toolkit_index = None if shared is None else shared.toolkit_index
    if embedder is not None and options.toolkits_by_meaning:
        toolkit_index = ToolkitIndex.of(own_toolkits, tools, below, embedder, toolkit_index)
    calibration_set = example_digests = record = None
    if shared is None or shared.calibration_set is None:  # else the shared part says what a score means
        example_digests = ExampleDigests.of(texts)
        calibration_set = calibration_set_of(example_digests, texts, vectors, embedder)
    samples = Samples(
        probes,
        calibration_set,
        tuple(tools[owners[0]] for owners in probes.owners),
        ()
        if calibration_set is None or calibration_set.held_out is None
        else tuple(tools[row] for row in calibration_set.held_out.rows.tolist()),
        descriptions,
    )
    if shared is None and digests is not None and example_digests is not None:
        record = BuildRecord(
            digests,
            probe_digests,
            example_digests,
            toolkit_names,
            numbers,
            definitions.toolkits,
            definitions.routes,
            members,
        )
    identity = "" if embedder is None else embedder.identity

    def revision() -> str:
        of_tools = (
            digests_of(tools, [readable_schema(tool) for tool in tools]) if digests is None else digests
        )
        return revision_of(of_tools, definitions, identity, options)

    return Catalog(
        tools=tools,
        names=names,
        toolkits=toolkits,
        below=everywhere,
        indexes=Indexes(len(tools), index, postings, intents),
        parts=None,
        samples=Deferred.of(samples),
        scale=scale,
        toolkit_index=toolkit_index,
        routes=RouteTable.of(
            len(tools) if shared is None else len(shared) + len(tools),
            definitions.routes,
            reached,
            None if shared is None else shared.routes,
            options.keyword_mode,
        ),
        marks=MarkTable.of(
            texts,
            None if shared is None else shared.marks,
            0 if shared is None else len(shared),
            options.deferred,
        ),
        speller=speller,
        switches=Switches.of(len(tools), [toolkits[name] for name in below], below),
        inactive=_rows_where(tools, lambda tool: tool.status != "active"),
        not_public=Bitset.of(
            len(tools), frozen_rows(row for row, tool in enumerate(tools) if not tool.public)
        ),
        base=base,
        pinned=heaviest_first((row for row, tool in enumerate(tools) if tool.pinned), tools),
        costs=costs,
        keys=Deferred(lambda: keys_of(tools)),
        hosted=definitions.hosted,
        space=identity,
        dim=embedder.dim if embedder is not None else 0,
        options=options,
        _revision=Deferred(revision) if digests is None else Deferred.of(revision()),
        record=record,
    )


def _reached(
    toolkits: Mapping[str, Toolkit],
    own_toolkits: Mapping[str, Toolkit],
    members: Mapping[str, Rows],
    below: Mapping[str, Rows],
    shared: Catalog | None,
) -> tuple[Mapping[str, Rows], Mapping[str, Rows], Rows]:
    """Toolkit → rows below it; toolkit → rows with members; own rows of base toolkits.

    With a shared catalog, the rows count over both parts. Own toolkits may have shared tools as members.
    A shared toolkit has only shared tools: the platform's definitions mean the same for every
    organisation.
    """
    if shared is None:
        reached = joined_rows(below, members) if members else below
        return below, reached, rows_of_base(reached, toolkits)
    n = len(shared)
    own = {name: frozen_rows(rows + n) for name, rows in below.items()}
    everywhere = StackedRows(shared.below, own)
    members = joined_rows(
        members_of(own_toolkits.values(), toolkits, shared.names),
        {name: frozen_rows(rows + n) for name, rows in members.items()},
    )
    if not members and shared.routes.rows is shared.below:
        return everywhere, everywhere, rows_of_base(own, toolkits)
    own = joined_rows(own, members)
    return everywhere, StackedRows(shared.routes.rows, own), rows_of_base(own, toolkits)


def members_of(
    named: Iterable[Toolkit], toolkits: Mapping[str, Toolkit], names: Iterable[str]
) -> dict[str, Rows]:
    """Toolkit → rows of its own and its descendants' members. names: of all tools, ascending."""
    having = [toolkit for toolkit in named if toolkit.members]
    return rows_of_members(having, toolkits, list(names)) if having else {}


def rows_of_base(reached: Mapping[str, Rows], toolkits: Mapping[str, Toolkit]) -> Rows:
    """The rows of base toolkits and their members. reached: toolkit → rows below it, and members."""
    return frozen_rows(
        sorted({row for name, rows in reached.items() if toolkits[name].base for row in rows.tolist()})
    )


def keys_of(tools: Sequence[Tool]) -> ToolKeys:
    """The statistics' keys of these tools."""
    arms, intents, groups = zip(*map(tool_key, tools), strict=True) if tools else ((), (), ())
    return ToolKeys(np.array(arms, np.uint64), np.array(intents, np.uint64), np.array(groups, np.uint64))


def _each(known: dict[int, T], rows: Sequence[int], make: Callable[[list[int]], Iterable[T]]) -> list[T]:
    """The known value of each row; `make` computes the missing ones."""
    try:
        return [known[row] for row in rows]
    except KeyError:
        new = [row for row in rows if row not in known]
        known.update(zip(new, make(new), strict=True))
        return [known[row] for row in rows]


def _joined_inactive(shared: Catalog, own: Catalog, hidden: Rows) -> Bitset | None:
    """Inactive rows of both parts, and shared rows that an own tool hides."""
    if shared.inactive is None and own.inactive is None and not len(hidden):
        return None
    head = Bitset.of(len(shared), hidden)
    if shared.inactive is not None:
        head = head | shared.inactive
    return Bitset.join(head, own.inactive or Bitset.empty(len(own)))


def _without(rows: Rows, hidden: Rows) -> Rows:
    return rows[~np.isin(rows, hidden)] if len(hidden) else rows


def heaviest_first(rows: Iterable[int], tools: Sequence[Tool]) -> Rows:
    """Rows of pinned tools in the order in which they are selected."""
    return frozen_rows(sorted(rows, key=lambda row: (-tools[row].pin_weight, row)))


def duplicate_in(tools: Sequence[Tool]) -> InvalidDefinition:
    """The error of two tools of one name, which are neighbours."""
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


def revision_of(
    digests: npt.NDArray[np.uint8], definitions: Definitions, space: str, options: CatalogOptions
) -> str:
    """The revision. digests: `digests_of` the tools. The tools in the definitions are not read."""
    digest = hashlib.sha256(digests.tobytes())
    for toolkit in sorted(definitions.toolkits, key=lambda toolkit: toolkit.name):
        digest.update(_written(toolkit).encode("utf-8", "surrogatepass"))
    for route in definitions.routes:
        digest.update(repr(route).encode("utf-8", "surrogatepass"))
    if space:
        weights = f"{options.description_counts} {PARAMETERS_WEIGHT} {VERB_WEIGHT}"
        digest.update(f"{space} {weights}".encode())
    if options.keyword_mode is not None:
        digest.update(f"keywords {options.keyword_mode}".encode())
    return digest.hexdigest()[:16]


def revision_of_definitions(definitions: Definitions, space: str, options: CatalogOptions) -> str:
    """The revision of the catalog of these definitions. space: identity of the embedder."""
    tools = tuple(sorted(definitions.tools, key=lambda tool: tool.name))
    digests = digests_of(tools, [schema_text(tool) for tool in tools])
    return revision_of(digests, definitions, space, options)


def _written(toolkit: Toolkit) -> str:
    """A toolkit in the form that a revision reads. Events outlive releases, so it never changes."""
    name, description, parent = toolkit.name, toolkit.description, toolkit.parent
    settings_keys, base, tier = toolkit.settings_keys, toolkit.base, toolkit.tier
    members = f", members={toolkit.members!r}" if toolkit.members else ""
    return f"Toolkit({name=}, {description=}, {parent=}, {settings_keys=}, {base=}, {tier=}{members})"
