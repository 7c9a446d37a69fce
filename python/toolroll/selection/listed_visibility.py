"""The one decision about names, for tools that came with a request.

The registry decides about a tool that it has, with its toolkits, tier, settings, status and annotations. Any
other name is under the rules, as a tool in no toolkit. A name that only its writing tells apart from a hidden
one is hidden, too, and so is what may bring tools that nobody can name.
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
    """The rows of a list that have names in one catalog of the registry.

    Attributes:
        rows, registered: a row of the list and one of the catalog that has a name of it, side by side.
        settled: functions whose only name the catalog has: rules are applied to them there.
        held: rows with a name that the registry has in no catalog, because it waits for review or is damaged.
    """

    rows: Rows
    registered: Rows
    settled: Bitset
    held: Bitset


class ListedRows:
    """The names that the rows of a list may have: first its functions, then the items that are handed on.

    Attributes:
        size: rows of functions, which are the rows of the list's catalog.
        labels: every text that may be a name → the rows that have it.
        singles: functions that have one name only.
        unseen: rows that may bring tools whose names do not stand in the list.
        own: the name of each row of what is handed on.
        listed: the same for rules.
    """

    __slots__ = ("_known", "labels", "listed", "own", "singles", "size", "unseen")

    def __init__(self, catalog: Catalog, functions: Mapping[int, Iterable[str]], others: Sequence[Labels]):
        """functions: names beside its own, of a function's row. others: what is handed on, in order."""
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
        """The names of the rows that may bring tools whose names do not stand in the list."""
        unseen = set(self.unseen.tolist())
        return tuple([self.own[row - self.size] for row in sorted(rows) if row in unseen])

    def known(self, registry: Snapshot, org: str) -> KnownRows:
        """What the organisation's catalog in the registry has of the list: looked up once for a catalog."""
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
    """Hard. Forbids functions of a list that the caller may not have; tells which other items are withheld.

    Attributes:
        rows: the list.
        rules: over all rows of the list, for names that the registry does not have.
        registry: the pipelines whose decision counts.
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
        """The rows of what is handed on to others and not to this caller; all of them if rules fail."""
        try:
            hidden = self.hidden(turn)
        except Exception:  # the stage itself fails in the same turn, which is reported
            return frozenset(range(self.rows.size, len(self.rows)))
        found = () if hidden is None else hidden.rows().tolist()
        return frozenset([row for row in found if row >= self.rows.size])

    def hidden(self, turn: Turn) -> Bitset | None:
        """The rows of the list that the caller may not have; None where nothing can be hidden.

        Raises what a hard stage of the registry raises.
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
        """The names in the registry by which a function is decided, and whether these alone decide it."""
        pipeline, known = self.registry.pipeline(org), self.rows.known(self.registry, org)
        tools = pipeline.catalog.tools
        names = [tools[at].name for at in known.registered[known.rows == row].tolist()]
        return pipeline, tuple(names), row in known.settled

    def is_held(self, row: int, org: str) -> bool:
        """Whether the registry has the name in no catalog."""
        return row in self.rows.known(self.registry, org).held


def _alike_in(catalog: Catalog, name: str) -> Iterable[str]:
    """The catalog's names from which only its writing tells this one apart."""
    parts = (catalog,) if catalog.parts is None else catalog.parts
    for key in alike(name):
        if key in catalog.names:
            yield key
        for part in parts:
            yield from part.remembered("alike", partial(_odd_names, part)).get(key, ())


def _odd_names(catalog: Catalog) -> Mapping[str, Sequence[str]]:
    """Folded name → the names that are written otherwise."""
    found: dict[str, list[str]] = {}
    for name in catalog.names:
        if _PLAIN.match(name) is None and (key := folded(name)) != name:
            found.setdefault(key, []).append(name)
    return found
