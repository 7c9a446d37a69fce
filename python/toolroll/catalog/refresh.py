"""A catalog with changes: replaces a few tools of a large catalog, at the cost of these few.

The result equals a whole build: the same rows, selections, scores and revision. Values of one tool alone are
kept for all unchanged tools. Indexes are copied natively, without the interpreter, and values that depend on
all tools, such as the weights of words, are computed again there. Python code reads changed tools only, so
other threads never wait long.

Damping and calibration take hundreds of searches. A catalog with changes begins with the measurements of the
catalog before it; `Catalog.measured` makes new ones.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from toolroll._core import Bitset, RowChanges, Speller, ToolKeys
from toolroll.catalog.build_record import BuildRecord, Samples, digests_of
from toolroll.catalog.calibration import ExampleDigests
from toolroll.catalog.catalog import (
    Catalog,
    CatalogOptions,
    duplicate_in,
    heaviest_first,
    keys_of,
    members_of,
    revision_of,
    rows_of_base,
)
from toolroll.catalog.changed_samples import changed_samples
from toolroll.catalog.damping import ProbeDigests
from toolroll.catalog.deferred import Deferred
from toolroll.catalog.indexes import Indexes
from toolroll.catalog.retriever import CalibratedRetriever
from toolroll.catalog.routes import RouteTable
from toolroll.catalog.row_names import RowNames
from toolroll.catalog.spelling import changed_speller
from toolroll.catalog.switches import Switches
from toolroll.catalog.tokens import estimate_tokens
from toolroll.catalog.tool2vec import ToolVectors
from toolroll.catalog.tool_text import ToolText, columns, texts_of
from toolroll.catalog.toolkits import (
    joined_rows,
    moved_rows,
    rows_below,
    rows_of_members,
    toolkit_numbers,
    toolkits_of,
)
from toolroll.catalog.toolkits_by_meaning import ToolkitIndex
from toolroll.model.arrays import NO_ROWS, Rows
from toolroll.model.embedder import Embedder, as_embedder
from toolroll.model.identity import schema_text, tool_key
from toolroll.model.tools import Definitions, Tool, Toolkit
from toolroll.runtime.gil import GilYielder

_SLICE = 4_096  # tools that are copied between two moments at which other threads may run
_MOST_MOVED = 8  # names are looked up beside the old ones until one in so many is new


@dataclass(frozen=True, slots=True)
class ToolChanges:
    """The differences between a catalog's tools and others.

    Attributes:
        removed: names of removed and changed tools.
        added: new tools, and changed ones as they are now.
    """

    removed: frozenset[str]
    added: tuple[Tool, ...]

    def __len__(self) -> int:
        return len(self.removed) + len(self.added)

    @classmethod
    def between(cls, catalog: Catalog, tools: Iterable[Tool]) -> ToolChanges:
        """The changes that turn the catalog's tools into these. O(n); other threads run meanwhile."""
        left: dict[str, None] = {}
        added, yielder = [], GilYielder()
        for tool in tools:
            row = catalog.names.get(tool.name)
            known = None if row is None or tool.name in left else catalog.tools[row]
            if known is not None and (known is tool or _is_same(known, tool)):
                left[tool.name] = None
            else:
                added.append(tool)
            yielder()
        removed = []
        for tool in catalog.tools:
            if tool.name not in left:
                removed.append(tool.name)
            yielder()
        return cls(frozenset(removed), tuple(added))


def _is_same(one: Tool, other: Tool) -> bool:
    # 1 equals True, but JSON and rules tell them apart. Selections give back the caller's own object.
    return one.original is other.original and one == other and repr(one) == repr(other)


@dataclass(frozen=True, slots=True, eq=False)
class _Placement:
    """The origin of each row of the changed catalog.

    Attributes:
        tools: the added ones, by name.
        sources: int32[n], for each row the old one, or -1 for an added one.
        targets: for each old row the new one, or -1.
        added: the rows of the added tools, ascending.
        removed: the old rows of the removed ones, ascending.
        is_in_place: whether each added tool replaces a removed one of the same name.
    """

    tools: tuple[Tool, ...]
    sources: Rows
    targets: Rows
    added: Rows
    removed: Rows
    is_in_place: bool

    @classmethod
    def of(cls, catalog: Catalog, changes: ToolChanges) -> _Placement:
        """Raises InvalidDefinition for two tools of one name."""
        tools = tuple(sorted(changes.added, key=attrgetter("name")))
        for tool, other in pairwise(tools):
            if tool.name == other.name:
                raise duplicate_in((tool, other))
        for tool in tools:
            row = catalog.names.get(tool.name)
            if row is not None and tool.name not in changes.removed:
                raise duplicate_in((catalog.tools[row], tool))
        n = len(catalog)
        removed = np.array(sorted(catalog.names[name] for name in changes.removed), np.int32)
        kept = np.delete(np.arange(n, dtype=np.int32), removed)
        at = np.array(
            [bisect_left(catalog.tools, tool.name, key=attrgetter("name")) for tool in tools], np.int64
        )
        sources = np.insert(kept, at - np.searchsorted(removed, at), -1)
        added = np.flatnonzero(sources < 0).astype(np.int32)
        targets = np.full(n, -1, np.int32)
        targets[kept] = np.flatnonzero(sources >= 0)
        names = {tool.name for tool in tools}
        return cls(tools, sources, targets, added, removed, names == changes.removed)


def with_changes(
    catalog: Catalog,
    changes: ToolChanges,
    rest: Definitions,
    embedder: Embedder | None,
    options: CatalogOptions,
) -> Catalog:
    """The catalog that a build of the changed definitions makes, with the old damping and calibration.

    The vectors have no graph: searches are exact.

    rest: the definitions without tools: toolkits and routes. embedder, options: of the catalog.

    Raises:
        InvalidDefinition: as `Catalog.build` does.
        EmbedderUnavailable: the embedder fails.
    """
    record = catalog.record
    assert record is not None and len(catalog) and isinstance(catalog.costs, np.ndarray)
    embedder = None if embedder is None else as_embedder(embedder)
    yielder = GilYielder()
    place = _Placement.of(catalog, changes)
    yielder()
    tools = _tools(catalog.tools, place, yielder)
    n, sources, targets, is_added = len(tools), place.sources, place.targets, place.sources < 0

    old = [catalog.tools[row] for row in place.removed.tolist()]
    texts, old_texts = texts_of(place.tools), texts_of(old)
    yielder()
    schemas = [schema_text(tool) for tool in place.tools]
    costs = catalog.costs[sources]
    costs[is_added] = [estimate_tokens(schema) for schema in schemas]
    digests = record.digests[sources]
    digests[is_added] = digests_of(place.tools, schemas)
    yielder()

    names, added_numbers = toolkit_numbers(place.tools, record.toolkit_names)
    numbers = record.toolkit_numbers[sources]
    numbers[is_added] = added_numbers
    toolkits = toolkits_of(rest.toolkits, _first_of_each(tools, names, numbers))
    is_same_tree = toolkits == catalog.toolkits and list(toolkits) == list(catalog.toolkits)
    if is_same_tree and place.is_in_place and np.array_equal(numbers, record.toolkit_numbers):
        below = catalog.below
    else:
        below = rows_below(toolkits, names, numbers, toolkits)
    yielder()
    members = _members(catalog, record, place, toolkits, tools, is_same_tree)
    reached = joined_rows(below, members) if members else below

    centre = catalog.scale.centre  # `embed` outlives this call, and must not keep the old catalog

    def embed(some: Sequence[ToolText]) -> ToolVectors:
        assert embedder is not None
        return ToolVectors.of(some, embedder, None, options.description_counts, centre)

    vectors = None if embedder is None else embed(texts)
    indexes = catalog.indexes.with_changes(sources, texts, vectors)
    yielder()
    probe_digests = record.probe_digests
    if probe_digests is not None:
        probe_digests = probe_digests.with_changes(sources, ProbeDigests.of(place.tools))
        yielder()
    new_record = BuildRecord(
        digests,
        probe_digests,
        record.example_digests.with_changes(sources, ExampleDigests.of(texts)),
        names,
        numbers,
        rest.toolkits,
        rest.routes,
        members,
    )
    yielder()
    toolkit_index = None
    if embedder is not None and options.toolkits_by_meaning:
        toolkit_index = ToolkitIndex.of(toolkits, tools, below, embedder)
    words = [keyword for route in rest.routes for keyword in route.keywords]
    old_words = [keyword for route in record.routes for keyword in route.keywords]
    speller = catalog.speller
    assert isinstance(speller, Speller)
    yielder()
    speller = changed_speller(speller, (columns(old_texts), old_words), (columns(texts), words))
    yielder()
    marks = catalog.marks.with_changes(targets, place.added, texts)
    yielder()
    not_public = _rows_where(catalog.not_public, place, n, [not tool.public for tool in place.tools])
    yielder()
    revision = revision_of(digests, rest, catalog.space, options)
    yielder()
    changed = Catalog(
        tools=tools,
        names=_names(catalog.names, place, tools),
        toolkits=toolkits,
        below=below,
        indexes=indexes,
        parts=None,
        samples=_samples(catalog.samples, new_record, tools, None if embedder is None else embed, embedder),
        toolkit_index=toolkit_index,
        scale=catalog.scale,
        routes=_routes(catalog, record, rest, n, reached, options),
        marks=marks,
        speller=speller,
        switches=Switches.of(n, [toolkits[name] for name in below], below),
        inactive=_inactive(catalog, place, n),
        not_public=not_public,
        base=rows_of_base(reached, toolkits),
        pinned=heaviest_first(
            (
                *(row for row in targets[catalog.pinned].tolist() if row >= 0),
                *_chosen(place, [tool.pinned for tool in place.tools]).tolist(),
            ),
            tools,
        ),
        costs=costs,
        keys=_keys(catalog.keys, place, tools),
        hosted=rest.hosted,
        space=catalog.space,
        dim=catalog.dim,
        options=options,
        _revision=Deferred.of(revision),
        record=new_record,
    )
    for key, known in catalog._retrievers.items():
        changed._retrievers[key] = _carried(known, indexes, place, catalog)
    return changed


def _tools(before: Sequence[Tool], place: _Placement, yielder: GilYielder) -> Sequence[Tool]:
    """The tools by row. The result is a list because a tuple could not be copied in slices."""
    tools: list[Tool] = []
    added = iter(place.tools)
    cuts = np.flatnonzero((np.diff(place.sources) != 1) | (place.sources[:-1] < 0)) + 1
    for begin, end in zip([0, *cuts.tolist()], [*cuts.tolist(), len(place.sources)], strict=True):
        source = int(place.sources[begin]) if begin < end else 0
        if begin < end and source < 0:
            tools.append(next(added))
            continue
        for at in range(source, source + end - begin, _SLICE):
            tools += before[at : min(at + _SLICE, source + end - begin)]
            yielder()
    return tools


def _names(before: Mapping[str, int], place: _Placement, tools: Sequence[Tool]) -> Mapping[str, int]:
    if place.is_in_place:
        return before
    new = {tool.name: row for tool, row in zip(place.tools, place.added.tolist(), strict=True)}
    if not isinstance(before, RowNames):
        return RowNames(before, place.targets, new, tools)
    if len(before.added) * _MOST_MOVED > len(tools):
        names, yielder = {}, GilYielder()
        for row, tool in enumerate(tools):
            names[tool.name] = row
            yielder()
        return names
    moved = before.targets.copy()
    moved[moved >= 0] = place.targets[moved[moved >= 0]]
    for name, row in before.added.items():
        if (now := int(place.targets[row])) >= 0:
            new[name] = now
    return RowNames(before.before, moved, new, tools)


def _first_of_each(
    tools: Sequence[Tool], names: Sequence[str], numbers: npt.NDArray[np.int32]
) -> Iterator[Tool]:
    """The first tool of each toolkit, by row."""
    first = np.full(len(names), -1, np.int64)
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]  # the last one that is written stays
    return (tools[row] for row in np.sort(first[first >= 0]).tolist())


def _members(
    catalog: Catalog,
    record: BuildRecord,
    place: _Placement,
    toolkits: Mapping[str, Toolkit],
    tools: Sequence[Tool],
    is_same_tree: bool,
) -> Mapping[str, Rows]:
    """`members_of` the changed catalog: the old ones under their new rows, and the added ones."""
    having = [toolkit for toolkit in toolkits.values() if toolkit.members]
    if not having:
        return {}
    if not is_same_tree:
        return members_of(having, toolkits, [tool.name for tool in tools])
    more = rows_of_members(having, toolkits, [tool.name for tool in place.tools])
    found = {}
    for name in dict.fromkeys((*record.members, *more)):
        added = place.added[more.get(name, NO_ROWS)]
        rows = moved_rows(record.members.get(name, NO_ROWS), place.targets, added)
        if len(rows):
            found[name] = rows
    return found


def _samples(
    before: Deferred[Samples],
    record: BuildRecord,
    tools: Sequence[Tool],
    embed: Callable[[Sequence[ToolText]], ToolVectors] | None,
    embedder: Embedder | None,
) -> Deferred[Samples]:
    """The samples, computed when the catalog is measured, from the last measured catalog's samples."""
    known = before.known or before.earlier or Samples()
    return Deferred(lambda: changed_samples(known, record, tools, embed, embedder), known)


def _routes(
    catalog: Catalog,
    record: BuildRecord,
    rest: Definitions,
    n: int,
    reached: Mapping[str, Rows],
    options: CatalogOptions,
) -> RouteTable:
    """The routes of the changed catalog. Unchanged routes are not compiled again."""
    if rest.routes != record.routes:
        return RouteTable.of(n, rest.routes, reached, None, options.keyword_mode)
    return catalog.routes.over(n, rest.routes, reached)


def _chosen(place: _Placement, are: Sequence[bool]) -> Rows:
    """The rows of the added tools whose flag in `are` is set."""
    return place.added[np.array(are, np.bool_)]


def _rows_where(before: Bitset, place: _Placement, n: int, are: Sequence[bool]) -> Bitset:
    return Bitset.of(n, moved_rows(before.rows(), place.targets, _chosen(place, are)))


def _inactive(catalog: Catalog, place: _Placement, n: int) -> Bitset | None:
    before = catalog.inactive or Bitset.empty(len(catalog))
    rows = _rows_where(before, place, n, [tool.status != "active" for tool in place.tools])
    return rows if len(rows) else None


def _keys(before: Deferred[ToolKeys], place: _Placement, tools: Sequence[Tool]) -> Deferred[ToolKeys]:
    known = before.known
    if known is None:
        return Deferred(lambda: keys_of(tools))
    keys = np.array([tool_key(tool) for tool in place.tools], np.uint64).reshape(-1, 3)
    arms, intents, groups = (np.ascontiguousarray(column) for column in keys.T)
    changes = RowChanges(len(place.targets), place.sources)
    return Deferred.of(known.with_changes(changes, arms, intents, groups))


def _carried(
    known: CalibratedRetriever, indexes: Indexes, place: _Placement, catalog: Catalog
) -> CalibratedRetriever:
    """The retriever over the changed indexes, with the old measurements. A new tool is not damped."""
    before = known.damping
    if before is None:
        return replace(known, retriever=indexes.retriever())
    assert isinstance(before, np.ndarray)
    factors = before[place.sources]
    for row, tool in zip(place.added.tolist(), place.tools, strict=True):
        old = catalog.names.get(tool.name)
        factors[row] = 1 if old is None else before[old]
    return replace(known, retriever=indexes.retriever(factors), damping=factors)
