"""Catalogs of the tools that come with requests, found again by the content of the list.

A gateway parses the same list from each request, so the objects are new and the content is not. A list is
compared with a copy of an earlier one, which takes a quarter of the time of a digest. The copy also keeps a
catalog independent of the objects of its first request.

Reading needs no lock: it reads a dictionary, and a counter tells the last use of an entry.
"""

from __future__ import annotations

import logging
import marshal
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import count
from operator import is_
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from toolroll._core import Bitset
from toolroll.catalog.tool_text import ToolText
from toolroll.formats.sources.dicts import list_of, toolkits_of
from toolroll.formats.sources.labels import Labels, labels_of, names_of_function
from toolroll.formats.sources.lenient import group_in, read_one
from toolroll.model.embedder import Embedder, as_embedder, vectors_of
from toolroll.model.errors import EmbedderUnavailable
from toolroll.model.tool_list import ItemRows, ToolList
from toolroll.model.tools import Definitions, Tool
from toolroll.selection.effective_policy import EffectivePolicy
from toolroll.selection.listed_visibility import ListedRows, ListedVisibility
from toolroll.selection.pipeline import Pipeline
from toolroll.selection.pipeline_builder import PipelineBuilder
from toolroll.selection.snapshot import Snapshot
from toolroll.selection.stages.visibility import Visibility

_log = logging.getLogger("toolroll")

MOST_LISTS = 256  # lists that are kept
MOST_BYTES = 256 << 20  # bytes of memory for them, estimated
MOST_TOOLS = 4_096  # read tools that are kept for lists which share them
MOST_TOOL_BYTES = 16 << 20  # bytes of their content
MOST_VECTORS = 2 * MOST_TOOLS  # vectors of their texts

_ALIKE = 4  # lists of one length, first and last item that are kept
_COMPARED = 4_096  # bytes of a known list to compare with its copy in each call: some 5 µs
_LONG_TEXT = 256  # characters, from which on a digest stands for a text
_BYTES_PER_TOOL = 6_000  # bytes of memory for each tool of a kept list, beside its texts
_BYTES_PER_BYTE = 8  # bytes of memory for each byte of text: copy, tool and indexes
_NO_RULES = EffectivePolicy()


class _ReadTool(NamedTuple):
    """One tool of a list, with its texts.

    Attributes:
        copy: the tool at the time of reading; the object itself if it is no plain dictionary.
        tool, text: made from the copy; None for an item that is passed on unchanged.
        names: names by which the tool may be called.
        size: bytes of its content.
    """

    copy: Any
    tool: Tool | None
    text: ToolText | None
    names: tuple[str, ...]
    size: int

    @classmethod
    def of(cls, item: Any, is_declaration: bool, size: int) -> _ReadTool:
        tool = read_one(item, is_declaration=is_declaration)
        if tool is None:
            return cls(item, None, None, (), size)
        return cls(item, tool, ToolText.of(tool), names_of_function(item, tool.name), size)


@dataclass(slots=True, eq=False)
class _KnownList:
    """The content of a list, and the pipeline over it.

    Attributes:
        bucket: its key in `ToolLists`.
        copies: the items at the time of reading.
        places: the places of the items.
        size: bytes of its content.
        rows: the names of its rows.
        pipeline: over its functions, without rules.
        ruled: a policy, whether it believes the toolkits in the list, and its rules over the rows.
        is_kept: whether later requests find it: it is not too large, and its tools have their vectors.
        governed: the pipeline under the rules and the registry of a snapshot.
        last: the last request with it.
        used: the time of its last use, by the counter of `ToolLists`.
    """

    bucket: Hashable
    copies: Sequence[Any]
    places: Sequence[ItemRows]
    size: int
    rows: ListedRows
    pipeline: Pipeline
    ruled: tuple[EffectivePolicy, bool, Visibility] | None = None
    is_kept: bool = False
    governed: tuple[Snapshot, Pipeline] | None = None
    last: _ListRequest | None = None
    used: int = 0

    @property
    def memory_bytes(self) -> int:
        """The estimated memory, in bytes."""
        return _memory_bytes(self.size, len(self.copies))


@dataclass(slots=True, eq=False)
class _ListRequest:
    """The objects of one request, and the content that they had.

    Attributes:
        key: its key in `ToolLists`.
        compared: the number of items that were compared with their copies so far.
        snapshots: the base snapshot of the last call, and the snapshot over these objects.
    """

    key: tuple[int, int, int]
    tool_list: ToolList
    known: _KnownList
    compared: int = 0
    snapshots: tuple[Snapshot, Snapshot] | None = None

    def has_objects(self, items: Sequence[Any]) -> bool:
        """Whether these are the same objects, unchanged.

        Each call compares about `_COMPARED` bytes, and the next call other ones. So a change in place in a
        long list, or an equal object in the place of another, is noticed some calls later.
        """
        own = self.tool_list.items
        try:
            if own != items:  # without a look at objects that are the same: 500 cost 1 µs, not 50
                return False
        except Exception:  # nested too deeply to compare, or of objects that cannot be
            return False
        at = self.compared
        end = at + max(1, len(own) * _COMPARED // (self.known.size + 1))
        self.compared = end if end < len(items) else 0
        part = items[at:end]
        return all(map(is_, own[at:end], part)) and _are_equal(part, self.known.copies[at:end])


class ToolLists:
    """The catalogs of the latest lists. Safe to share between threads, without locks.

    They retrieve like every other catalog, but without damping, whose measurement takes longer than all else.
    """

    def __init__(
        self, builder: PipelineBuilder, most: int = MOST_LISTS, most_bytes: int = MOST_BYTES
    ) -> None:
        """builder: of the catalog beside these. most, most_bytes: number and bytes of lists to keep."""
        embedder = builder.embedder
        self._builder = replace(
            builder,
            embedder=None if embedder is None else _RecentVectors(as_embedder(embedder)),
            parameters=builder.parameters.with_(damping=False),
            hnsw=False,
            variants={name: profile.with_(damping=False) for name, profile in builder.variants.items()},
            is_deferred=True,
        )
        self._most, self._most_bytes = most, most_bytes
        # Every change is one operation on a dictionary, or replaces it: what two threads lose between them is
        # read again.
        self._buckets: dict[Hashable, tuple[_KnownList, ...]] = {}
        self._requests: dict[tuple[int, int, int], _ListRequest] = {}
        self._tools: dict[tuple[bytes, bool], _ReadTool] = {}
        self._tool_bytes = 0
        self._base: Snapshot | None = None  # the base of the last call
        self._clock = count(1)
        self._has_vectors = True

    def snapshot(self, tools: Iterable[Any], base: Snapshot) -> Snapshot:
        """The tools of a request, under the rules, settings and failures of `base`.

        Raises:
            InvalidDefinition: `tools` is no list.
        """
        if base is not self._base:
            self._base = base
            self._release()  # the lists would keep the catalog of before
        items = tools if type(tools) is list else list_of(tools)
        # The request keeps its objects alive, so no other object has their ids.
        key = (id(items[0]), id(items[-1]), len(items)) if items else (0, 0, 0)
        request = self._requests.get(key)
        if request is None or not request.has_objects(items):
            items = list(items)  # the caller may change the list
            request = self._remember(key, items, self._known(items) or self._read(items))
        known, kept = request.known, request.snapshots
        known.used = next(self._clock)
        if kept is None or kept[0] is not base:
            governed = known.governed
            if governed is None or governed[0] is not base:
                governed = known.governed = base, self._governed(known, base)
            kept = request.snapshots = base, base.over(governed[1], request.tool_list)
        return kept[1]

    def _release(self) -> None:
        for known in self._all():
            known.governed = None
            if known.last is not None:
                known.last.snapshots = None

    def _governed(self, known: _KnownList, base: Snapshot) -> Pipeline:
        ruled, are_believed = known.ruled, not base.has_tools
        if ruled is None or ruled[0] is not base.policy or ruled[1] is not are_believed:
            listed = known.rows.listed._replace(are_believed=are_believed)
            rules = base.policy.over_list(known.pipeline.catalog, len(known.rows), listed)
            ruled = known.ruled = base.policy, are_believed, rules
        visibility = ListedVisibility(known.rows, ruled[2], base)
        return known.pipeline.governed(visibility, known.pipeline.pages)

    def __len__(self) -> int:
        return len(self._all())

    def _known(self, items: Sequence[Any]) -> _KnownList | None:
        for known in self._buckets.get(_bucket_of(items), ()):
            if _are_equal(items, known.copies):
                return known
        return None

    def _remember(self, key: tuple[int, int, int], items: list[Any], known: _KnownList) -> _ListRequest:
        tool_list = ToolList(items, known.places, known.rows.size, memory_bytes=known.memory_bytes)
        request = _ListRequest(key, tool_list, known)
        if not known.is_kept:
            return request
        if known.last is not None:
            self._requests.pop(known.last.key, None)
        known.last = self._requests[key] = request
        if len(self._requests) > 2 * self._most:  # after a race of two threads
            self._requests = {}
        return request

    def _read(self, items: Sequence[Any]) -> _KnownList:
        """Reads and indexes a new list, and keeps it if it is not too large."""
        is_kept = _memory_bytes(sum(map(_size_of, items)), len(items)) <= self._most_bytes
        groups = [group_in(item) for item in items]
        read = [
            [self._read_tool(item, is_kept)]
            if group is None
            else [self._read_tool(one, is_kept, group.key != "tools") for one in group.members]
            for item, group in zip(items, groups, strict=True)
        ]
        found = [one for members in reversed(read) for one in reversed(members) if one.tool is not None]
        tools = {one.tool.name: one.tool for one in found if one.tool is not None}  # the first of a name
        texts = {one.tool.name: one.text for one in found if one.tool is not None and one.text is not None}
        definitions = Definitions(tuple(tools.values()), toolkits_of(tools.values()))
        is_whole = True
        try:
            pipeline = self._builder.pipeline(definitions, _NO_RULES, text_of=lambda tool: texts[tool.name])
        except EmbedderUnavailable as error:
            pipeline, is_whole = self._builder.by_words(definitions, _NO_RULES, error), False
            if self._has_vectors:  # once, and not for each request until the embedder answers
                _log.warning("tools of requests: without vectors until the embedder answers: %s", error)
        self._has_vectors = is_whole
        # A stranger's list makes no tool public: `ListedVisibility` decides which tools are shown.
        catalog = replace(pipeline.catalog, not_public=Bitset.empty(len(pipeline.catalog)))
        pipeline, names = replace(pipeline, catalog=catalog), catalog.names
        others: list[Labels] = []
        named: dict[int, list[str]] = {}

        def row_of(one: _ReadTool) -> int:
            if one.tool is None:
                others.append(labels_of(one.copy))
                return len(names) + len(others) - 1
            named.setdefault(row := names[one.tool.name], []).extend(one.names)
            return row

        copies, places, size = [], [], 0
        for item, group, members in zip(items, groups, read, strict=True):
            if group is None:
                (one,) = members
                size += one.size
                copies.append(one.copy)
                row = row_of(one)
                places.append(ItemRows((), hosted=row) if one.tool is None else ItemRows((row,)))
            else:
                rows, hosted = tuple(map(row_of, members)), -1
                size += sum([one.size for one in members])
                if group.key != "tools" and len(item) > 1:
                    hosted = len(names) + len(others)
                    others.append(labels_of({key: item[key] for key in item if key != group.key}))
                copies.append(_copy({**item, group.key: []}) | {group.key: [one.copy for one in members]})
                places.append(ItemRows(rows, group.key, hosted))
        listed = ListedRows(catalog, named, others)
        known = _KnownList(_bucket_of(items), copies, places, size, listed, pipeline)
        if is_whole and is_kept:
            self._keep(known)
        return known

    def _read_tool(self, item: Any, is_kept: bool, is_declaration: bool = False) -> _ReadTool:
        """Reads a tool. is_kept: whether its list is kept; otherwise the item needs no copy."""
        content = _content(item)
        if content is None or not is_kept:
            return _ReadTool.of(item, is_declaration, len(content or b""))
        known = self._tools.get((content, is_declaration))
        if known is None:
            known = _ReadTool.of(marshal.loads(content), is_declaration, len(content))
            self._tools[content, is_declaration] = known
            self._tool_bytes += known.size
            if len(self._tools) > MOST_TOOLS or self._tool_bytes > MOST_TOOL_BYTES:
                self._forget_tools()
        return known

    def _forget_tools(self) -> None:
        """Forgets the tools that were read first, until half of the allowed bytes are left."""
        kept, left = dict[tuple[bytes, bool], _ReadTool](), MOST_TOOL_BYTES // 2
        for key, known in reversed(list(self._tools.items())):
            left -= known.size
            if left < 0 or len(kept) >= MOST_TOOLS // 2:
                break
            kept[key] = known
        self._tools = dict(reversed(kept.items()))
        self._tool_bytes = sum(known.size for known in kept.values())

    def _keep(self, known: _KnownList) -> None:
        """Keeps a list, and forgets the least recently used lists."""
        known.is_kept, known.used = True, next(self._clock)
        self._buckets[known.bucket] = (known, *self._buckets.get(known.bucket, ())[: _ALIKE - 1])
        kept = sorted(self._all(), key=lambda other: other.used)
        total = sum(other.memory_bytes for other in kept)
        for count_left, other in zip(range(len(kept), 0, -1), kept, strict=True):
            if count_left <= self._most and total <= self._most_bytes:
                break
            total -= other.memory_bytes
            alike = tuple(one for one in self._buckets.get(other.bucket, ()) if one is not other)
            if alike:
                self._buckets[other.bucket] = alike
            else:
                self._buckets.pop(other.bucket, None)
            if other.last is not None:
                self._requests.pop(other.last.key, None)

    def _all(self) -> list[_KnownList]:
        return [known for alike in list(self._buckets.values()) for known in alike]


class _RecentVectors(Embedder):
    """Embeds the texts of tools, and keeps the last few thousand vectors."""

    def __init__(self, inner: Embedder) -> None:
        self.identity, self.dim, self.is_instant = inner.identity, inner.dim, inner.is_instant
        self.is_english, self.scale = inner.is_english, inner.scale
        self._inner = inner
        self._vectors: dict[str | bytes, npt.NDArray[np.float32]] = {}

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """float32[n, dim], from the kept vectors and from the inner embedder."""
        known, keys = self._vectors, list(map(_key_of, texts))
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        rows = (
            vectors_of(self._inner, list(missing.values()))
            if missing
            else np.empty((0, self.dim), np.float32)
        )
        embedded = dict(zip(missing, rows, strict=True))
        if len(missing) == len(texts):
            answer = rows
        else:
            answer = np.stack([embedded[key] if key in embedded else known[key] for key in keys])
        self._vectors.update(embedded)
        if len(self._vectors) > MOST_VECTORS:
            self._vectors = dict(list(self._vectors.items())[MOST_VECTORS // 2 :])
        return answer

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        """float32[dim], from the inner embedder."""
        return self._inner.embed_query(text)


def _key_of(text: str) -> str | bytes:
    """The key of a text: itself, or a digest of a long text."""
    if len(text) < _LONG_TEXT:
        return text
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _bucket_of(items: Sequence[Any]) -> Hashable:
    """A key that equal lists share with few others: their length and their ends."""
    return (len(items), *(_content(item) or id(item) for item in (*items[:1], *items[-1:])))


def _content(item: Any) -> bytes | None:
    """A dictionary of JSON values as bytes, equal for equal values; None for any other object."""
    if type(item) is not dict:
        return None
    try:
        return marshal.dumps(item, 2)  # from version 3 on it depends on which values are one object
    except ValueError:
        return None


def _size_of(item: Any) -> int:
    return len(_content(item) or b"")


def _memory_bytes(size: int, count: int) -> int:
    """The estimated memory of a list with this many items and bytes of content."""
    return _BYTES_PER_BYTE * size + _BYTES_PER_TOOL * count


def _copy(item: Mapping[str, Any]) -> dict[str, Any]:
    content = _content(item)
    return dict(item) if content is None else marshal.loads(content)


def _are_equal(items: Sequence[Any], copies: Sequence[Any]) -> bool:
    """Whether all dictionaries are equal and all other objects identical."""
    if len(items) != len(copies):
        return False
    try:
        return all(
            item is copy or (type(item) is dict and type(copy) is dict and item == copy)
            for item, copy in zip(items, copies, strict=True)
        )
    except Exception:  # nested too deeply to compare, or of objects that cannot be
        return False
