"""The tree of toolkits: the toolkits, the rows below each, and the rows of its members."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from toolroll.catalog.stacked import layered
from toolroll.model.arrays import NO_ROWS, Rows
from toolroll.model.errors import InvalidDefinition
from toolroll.model.tools import Tool, Toolkit

NO_TOOLKITS: Mapping[str, Toolkit] = {}


def toolkits_of(
    declared: Iterable[Toolkit], tools: Iterable[Tool], shared: Mapping[str, Toolkit] = NO_TOOLKITS
) -> dict[str, Toolkit]:
    """The toolkits by name, including toolkits that only a tool mentions, but without the shared ones.

    A declaration of a shared toolkit is ignored: the shared declaration counts.

    Raises InvalidDefinition if one is declared twice, a parent is unknown, or parents form a cycle.
    """
    toolkits: dict[str, Toolkit] = {}
    for toolkit in declared:
        if toolkit.name in toolkits:
            raise InvalidDefinition(f"toolkit {toolkit.name!r}: defined more than once", field="name")
        toolkits[toolkit.name] = toolkit
    for tool in tools:
        if tool.toolkit and tool.toolkit not in toolkits:
            toolkits[tool.toolkit] = Toolkit(tool.toolkit)
    toolkits = {name: toolkit for name, toolkit in toolkits.items() if name not in shared}
    everywhere = layered(shared, toolkits) if shared else toolkits
    for toolkit in toolkits.values():
        _check_parents(toolkit, everywhere)
    return toolkits


def rows_below(
    toolkits: Mapping[str, Toolkit],
    names: Sequence[str],
    numbers: npt.NDArray[np.int32],
    empty: Iterable[str] = (),
) -> dict[str, Rows]:
    """Toolkit → rows of its tools and of its descendants' tools, ascending. O(n log n) in numpy.

    names, numbers: from `toolkit_numbers`. empty: toolkits that are listed even without a tool.
    """
    order = np.argsort(numbers, kind="stable").astype(np.int32)
    ends = np.cumsum(np.bincount(numbers, minlength=len(names))).tolist()
    parts: dict[str, list[Rows]] = {name: [] for name in empty}
    for name, begin, end in zip(names, [0, *ends], ends, strict=False):
        if name and begin < end:
            for above in _lineage(name, toolkits):
                parts.setdefault(above, []).append(order[begin:end])
    rows = {name: np.sort(np.concatenate((NO_ROWS, *some))) for name, some in parts.items()}
    for array in rows.values():
        array.flags.writeable = False
    return rows


def rows_of_members(
    named: Iterable[Toolkit], toolkits: Mapping[str, Toolkit], names: Sequence[str]
) -> dict[str, Rows]:
    """Toolkit → rows of its members and of its descendants' members, ascending; without empty lists.

    named: the toolkits whose members are looked up. names: all tools, ascending. O(p log n + m) for p
    patterns and m names that begin like one.
    """
    rows: dict[str, set[int]] = {}
    for toolkit in named:
        found = {row for pattern in toolkit.members for row in _matching(pattern, names)}
        if found:
            for name in _lineage(toolkit.name, toolkits):
                rows.setdefault(name, set()).update(found)
    return {name: frozen_rows(sorted(found)) for name, found in rows.items()}


def absent_members(toolkits: Iterable[Toolkit], names: Container[str]) -> list[tuple[str, str]]:
    """(toolkit, member) for members without a tool. Patterns are not reported: they may wait for new tools.

    names: all tools.
    """
    return [
        (toolkit.name, member)
        for toolkit in toolkits
        for member in toolkit.members
        if "*" not in member and member not in names
    ]


def is_among(name: str, names: Sequence[str]) -> bool:
    """Whether the name is one of these. names: ascending."""
    at = bisect_left(names, name)
    return at < len(names) and names[at] == name


def is_meant(pattern: str, name: str) -> bool:
    """Whether a member's pattern matches this name of a tool."""
    return any(True for _ in _matching(pattern, (name,)))


def _matching(pattern: str, names: Sequence[str]) -> Iterator[int]:
    """Places of the names that match. Each `*` is any text, every other character is itself."""
    first, *rest = pattern.split("*")
    at = bisect_left(names, first)
    if not rest:
        if is_among(first, names):
            yield at
        return
    while at < len(names) and names[at].startswith(first):
        if _ends_so(names[at], len(first), rest):
            yield at
        at += 1


def _ends_so(name: str, begin: int, parts: Sequence[str]) -> bool:
    """Whether the name continues with all parts in order, and ends with the last one.

    Each part is searched at its first place, which leaves the most for the others, so nothing is tried twice.
    """
    for part in parts[:-1]:
        found = name.find(part, begin)
        if found < 0:
            return False
        begin = found + len(part)
    return name.endswith(parts[-1]) and len(name) - len(parts[-1]) >= begin


def joined_rows(*parts: Mapping[str, Rows]) -> dict[str, Rows]:
    """Toolkit → its rows in all of the parts, ascending, each once."""
    joined: dict[str, Rows] = {}
    for part in parts:
        for name, rows in part.items():
            held = joined.get(name)
            joined[name] = rows if held is None else frozen_rows(np.union1d(held, rows))
    return joined


def toolkit_numbers(
    tools: Sequence[Tool], known: Sequence[str] = ()
) -> tuple[tuple[str, ...], npt.NDArray[np.int32]]:
    """The names of the tools' toolkits after the known ones, and for each tool its toolkit's number."""
    numbers = {name: number for number, name in enumerate(known)}
    found = np.array([numbers.setdefault(tool.toolkit, len(numbers)) for tool in tools], np.int32)
    return tuple(numbers), found


def numbers_in_toolkits(names: Sequence[str], numbers: Rows) -> Rows:
    """The numbers, with -1 for tools in no toolkit. names, numbers: from `toolkit_numbers`."""
    return np.where(numbers == names.index(""), np.int32(-1), numbers) if "" in names else numbers


def moved_rows(rows: Rows, targets: Rows, added: Rows) -> Rows:
    """The rows in a catalog with changes, ascending. targets: the new row of each old one, or -1."""
    moved = targets[rows]
    moved = moved[moved >= 0]  # ascending, since kept rows stay in their order
    if len(added):
        moved = np.insert(moved, np.searchsorted(moved, added), added)
    moved.flags.writeable = False
    return moved


def frozen_rows(rows: Iterable[int]) -> Rows:
    """The rows as a read-only array."""
    array = np.fromiter(rows, np.int32)
    array.flags.writeable = False
    return array


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


def _lineage(name: str | None, toolkits: Mapping[str, Toolkit]) -> Iterator[str]:
    while name is not None:
        yield name
        name = toolkits[name].parent
