"""Decides by name which tools of a request's list a caller may have.

If the registry has the tool, its rules, toolkits, tier, settings, status and annotations decide. Rules treat
any other name as a tool in no toolkit. A name that differs from a hidden name only in its spelling is hidden,
too. So is an item that may bring tools with unknown names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from toolroll._core import Bitset
from toolroll.catalog.catalog import Catalog
from toolroll.formats.sources.labels import Labels, alike, folded
from toolroll.model.arrays import Rows
from toolroll.model.context import Turn
from toolroll.model.errors import Failure
from toolroll.selection.candidates import Candidates
from toolroll.selection.pipeline import Pipeline
from toolroll.selection.policy.policy import ListedNames
from toolroll.selection.snapshot import Snapshot
from toolroll.selection.stages.visibility import Visibility

_MOST_KNOWN = 64  # organisations whose part of a list is kept
_PLAIN = re.compile(r"[a-z0-9]+(?:_[a-z0-9]+)*\Z")  # a name that is its own folded form


class KnownRows(NamedTuple):
    """The rows of a list whose names one catalog of the registry has.

    Attributes:
        rows, registered: pairs of a row of the list and the row of the catalog with one of its names.
        settled: functions whose only name is in the catalog. Only the catalog's rules apply to them.
        held: rows with a name that the registry has in no catalog, because it waits for review or is damaged.
    """

    rows: Rows
    registered: Rows
    settled: Bitset
    held: Bitset


class ListedRows:
    """The names of a list's rows: first its functions, then the items that are passed on unchanged.

    Attributes:
        size: the number of functions, which are also the rows of the list's catalog.
        labels: each text that may be a name → its rows.
        singles: functions that have one name only.
        unseen: rows that may bring tools whose names are not in the list.
        own: the names of the items after the functions.
        listed: the names in the form that rules read.
    """

    __slots__ = ("_known", "labels", "listed", "own", "singles", "size", "unseen")

    def __init__(self, catalog: Catalog, functions: Mapping[int, Iterable[str]], others: Sequence[Labels]):
        """functions: row → the function's other names. others: the items after the functions."""
        self.size, self.own = len(catalog), tuple([one.own for one in others])
        self.unseen = np.array([self.size + at for at, one in enumerate(others) if one.is_unseen], np.int32)
        own: dict[str, list[int]] = {}
        self.labels: dict[str, list[int]] = {}
        self.singles: set[int] = set()
        for row, tool in enumerate(catalog.tools):
            names = {tool.name, *functions.get(row, ())}
            own[tool.name] = [row]
            for name in names:
                self.labels.setdefault(name, []).append(row)
            if len(names) == 1:
                self.singles.add(row)
        for row, one in enumerate(others, self.size):
            own.setdefault(one.own, []).append(row)
            for name in {one.own, *one.others}:
                self.labels.setdefault(name, []).append(row)
        written_alike: dict[str, list[int]] = {}
        for name, rows in self.labels.items():
            for key in alike(name):
                written_alike.setdefault(key, []).extend(rows)
        self.listed = ListedNames(own, written_alike, catalog.below)
        self._known: dict[str, tuple[Bitset, frozenset[str], KnownRows]] = {}

    def __len__(self) -> int:
        return self.size + len(self.own)

    def unjudged(self, rows: Iterable[int]) -> tuple[str, ...]:
        """The names of those rows that may bring tools whose names are not in the list."""
        unseen = set(self.unseen.tolist())
        return tuple([self.own[row - self.size] for row in sorted(rows) if row in unseen])

    def known(self, registry: Snapshot, org: str) -> KnownRows:
        """The rows of the list that the organisation's catalog has. Looked up once for each catalog."""
        org = org if org in registry.own or org in registry.held or org in registry.coming else ""
        catalog, held = registry.pipeline(org).catalog, registry.held_by(org)
        found = self._known.get(org)
        # Catalogs with this very set have the same rows. It is small, so no catalog is kept alive.
        if found is None or found[0] is not catalog.not_public or found[1] != held:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            found = self._known[org] = catalog.not_public, held, self._find(catalog, held)
        return found[2]

    def _find(self, catalog: Catalog, held: frozenset[str]) -> KnownRows:
        size, names = len(self), catalog.names
        held_alike = {folded(name) for name in held}
        rows: list[int] = []
        registered: list[int] = []
        settled: list[int] = []
        of_held: list[int] = []
        for name, having in self.labels.items():
            if name in names:
                found = [names[name]]
                settled += self.singles.intersection(having)
            else:
                found = [names[other] for other in _alike_in(catalog, name)]
                if held_alike and not held_alike.isdisjoint(alike(name)):
                    of_held += having
            for at in found:
                rows += having
                registered += [at] * len(having)

        def of(found: list[int]) -> Bitset:
            return Bitset.of(size, np.array(sorted(set(found)), np.int32))

        return KnownRows(np.array(rows, np.int32), np.array(registered, np.int32), of(settled), of(of_held))


@dataclass(frozen=True, slots=True, eq=False)
class ListedVisibility:
    """Hard. Forbids the list's functions that the caller may not have, and names the withheld other items.

    Attributes:
        rows: the list.
        rules: the rules over the list, for names that the registry does not have.
        registry: the pipelines that decide about its own tools.
    """

    rows: ListedRows
    rules: Visibility
    registry: Snapshot

    def __call__(self, candidates: Candidates, turn: Turn) -> Candidates:
        """Applies the stage."""
        hidden = self.hidden(turn)
        if hidden is None:
            return candidates
        return candidates.forbid(hidden.slice(0, self.rows.size), "policy.deny")

    def could_forbid(self, turn: Turn) -> Bitset | None:
        """All rows."""
        return Bitset.full(self.rows.size)

    def withheld(self, turn: Turn) -> frozenset[int]:
        """The rows of items to withhold from this caller; all items if the rules fail."""
        try:
            hidden = self.hidden(turn)
        except Exception:  # the stage itself fails in the same turn, which is reported
            return frozenset(range(self.rows.size, len(self.rows)))
        found = () if hidden is None else hidden.rows().tolist()
        return frozenset([row for row in found if row >= self.rows.size])

    def hidden(self, turn: Turn) -> Bitset | None:
        """The rows of the list that the caller may not have; None if nothing can be hidden.

        Raises any error of a hard stage of the registry.
        """
        registry, org = self.registry, turn.context.org
        if not registry.may_hide(org):
            return None
        size = len(self.rows)
        pipeline, known = registry.pipeline(org), self.rows.known(registry, org)
        denied = self.rules.hidden(turn.context)
        hidden = known.held if denied is None else (denied - known.settled) | known.held
        if len(known.rows):
            failures: list[Failure] = []
            allowed = pipeline.allowed(turn, failures)
            for failure in failures:
                raise failure.error
            if not allowed.holds_all(known.registered):
                refused = known.rows[~allowed.holds(known.registered)]
                hidden = hidden | Bitset.of(size, np.unique(refused))
        if len(self.rows.unseen) and registry.has_rules(org):
            hidden = hidden | Bitset.of(size, self.rows.unseen)
        if turn.public_only or registry.is_coming(org):
            hidden = hidden | (Bitset.full(size) - known.settled)
        return hidden

    def registered(self, row: int, org: str) -> tuple[Pipeline, tuple[str, ...], bool]:
        """The registry's pipeline and names for a function, and whether they alone decide."""
        pipeline, known = self.registry.pipeline(org), self.rows.known(self.registry, org)
        tools = pipeline.catalog.tools
        names = [tools[at].name for at in known.registered[known.rows == row].tolist()]
        return pipeline, tuple(names), row in known.settled

    def is_held(self, row: int, org: str) -> bool:
        """Whether the registry knows the name but has it in no catalog."""
        return row in self.rows.known(self.registry, org).held


def _alike_in(catalog: Catalog, name: str) -> Iterable[str]:
    """The catalog's names that differ from this one only in spelling."""
    parts = (catalog,) if catalog.parts is None else catalog.parts
    for key in alike(name):
        if key in catalog.names:
            yield key
        for part in parts:
            yield from part.remembered("alike", partial(_odd_names, part)).get(key, ())


def _odd_names(catalog: Catalog) -> Mapping[str, Sequence[str]]:
    """Folded name → the names with another spelling."""
    found: dict[str, list[str]] = {}
    for name in catalog.names:
        if _PLAIN.match(name) is None and (key := folded(name)) != name:
            found.setdefault(key, []).append(name)
    return found
