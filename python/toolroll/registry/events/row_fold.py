"""Adds outcomes to an organisation's rows of `learned`; see `learned_rows`."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from toolroll._core import Learned
from toolroll.learning.exposure import Exposure, ShownTool
from toolroll.learning.outcomes import CALLED, SUCCEEDED
from toolroll.model.identity import plain_key, scopes
from toolroll.registry.events import priors
from toolroll.registry.events.breaks import Break, DetectorStep, Run
from toolroll.registry.events.fold import FoldInput, Space, space_of
from toolroll.registry.events.logged_tools import signed
from toolroll.registry.events.rows import OutcomeRow, instant
from toolroll.registry.store import tables
from toolroll.registry.store.bulk_insert import merge
from toolroll.runtime.gil import GilYielder, batches

LEVELS = EVERYWHERE, PAGE, CONTEXT, PLAIN = "everywhere", "page", "context", "plain"
STATE, VECTOR = "state", "vector"
TOOL, SUBJECT, BREAK, RUN = "tool", "subject", "break", "run"
_SOME = 48  # keys in a query: more would hold up selections
_RELIABILITY, _LIFT, _PLAIN = range(3)  # the core's kinds of cells
_OF_TOOL, _OF_SUBJECT, _OF_VECTOR = range(3)  # the core's kinds of records
_log = logging.getLogger("toolroll")

RowKey: TypeAlias = tuple[int, str, int]  # key, kind and scope of a row
Cells: TypeAlias = "list[tuple[int, int, int, float, float, float]]"
Records: TypeAlias = "list[tuple[int, int, bytes]]"
_table, _state = tables.learned, tables.learning_state
_EMPTY = {**dict.fromkeys(_table.c.keys()), "shown": 0, "called": 0, "succeeded": 0}
# The columns of a row that the core reads.
FOR_CORE = tuple(
    _table.c[name]
    for name in ("key", "kind", "scope", "level", "successes", "failures", "calls", "expected", "at", "state")
)


def for_core(rows: Iterable[Any]) -> tuple[Cells, Records]:
    """Rows of `FOR_CORE` as input of the core, except rows with neither sums nor state."""
    cells: Cells = []
    records: Records = []
    for key, kind, scope, level, successes, failures, calls, expected, at, state in rows:
        if state is not None:
            record = _OF_VECTOR if level == VECTOR else _OF_TOOL if kind == TOOL else _OF_SUBJECT
            records.append((record, key, state))
        elif at is None:
            continue
        elif kind == SUBJECT:
            cells.append((_LIFT, key, scope, calls, expected, at))
        else:
            cell = _PLAIN if level == PLAIN else _RELIABILITY
            cells.append((cell, key, scope, successes, failures, at))
    return cells, records


class RowFold:
    """An organisation's rows for the tools of some outcomes, during their fold."""

    def __init__(self, connection: sa.Connection, org: str, release: int) -> None:
        """Begins with the organisation's release of priors."""
        self._connection, self._org, self._release = connection, org, release
        self._stored: list[Any] = []  # rows that were read
        self._rows: dict[RowKey, dict[str, Any]] = {}  # changed rows, without the columns that stay
        # A state for each embedder of the outcomes' vectors: the same counts, and its own vectors.
        self._before: dict[Space, Learned] = {}
        self._learned: dict[Space, Learned] = {}
        self._runs: dict[int, Run] = {}  # tool → its run
        self._breaks: dict[int, Break] = {}  # hidden tool → its break
        self._names: dict[int, str] = {}  # key → tool
        self._levels: dict[int, tuple[str, str]] = {}  # scope → level and context
        self._count: int | None = None  # of deltas; None: as in the release

    def read(self, outcomes: Sequence[OutcomeRow], count: int) -> None:
        """Reads the rows of the outcomes' tools. count: the deltas in all rows.

        Raises:
            ValueError, TypeError, LookupError: a row is damaged.
        """
        pairs, place = sorted(places_of(outcomes)), sa.tuple_(_table.c.key, _table.c.scope)
        for some in batches(pairs, _SOME):
            # padded, so that the statement is compiled once
            some = [*some, *[some[-1]] * (_SOME - len(some))] if len(pairs) > _SOME else some
            self._stored += self._read(place.in_(some))
        for row in self._stored:
            if row.kind == RUN:
                run = self._runs[row.key] = Run.from_bytes(row.state)
                if run.broke:
                    where = (_table.c.key == row.key, _table.c.kind == BREAK, _table.c.scope == run.broke)
                    (found,) = self._read(*where)
                    self._breaks[row.key] = Break.from_bytes(found.state)
        self._count = count or None
        spaces = dict.fromkeys(space for outcome in outcomes if (space := space_of(outcome.exposure)).dim)
        self._learned = {space: self._state_of(space) for space in spaces or (Space("", 0),)}

    def _read(self, *where: sa.ColumnElement[bool]) -> list[Any]:
        query = sa.select(*FOR_CORE).where(_table.c.org == self._org, *where)
        return [*self._connection.execute(query)]

    def add(self, outcomes: Sequence[OutcomeRow]) -> None:
        """Adds the outcomes that the core accepts."""
        try:
            self._add(outcomes)
        except ValueError as error:
            if len(outcomes) == 1:
                seq = outcomes[0].seq
                _log.warning("learning: outcome %d of %r does not count: %s", seq, self._org, error)
                return
            middle = len(outcomes) // 2
            self.add(outcomes[:middle])
            self.add(outcomes[middle:])

    def _add(self, outcomes: Sequence[OutcomeRow]) -> None:
        added, spaces = FoldInput.of(outcomes), [*self._learned]
        learned, seen = dict[Space, Learned](), None
        for space in dict.fromkeys((*spaces, *added.vectors)) or (Space("", 0),):
            learned[space], seen = self._state_of(space).fold_observed(*added.to(space))
        self._learned = learned
        if seen is not None:
            self._watch(added, seen)
        yielder = GilYielder()
        for outcome in outcomes:
            yielder()
            self._count_whole(outcome)

    def _state_of(self, space: Space) -> Learned:
        if space in self._learned:
            return self._learned[space]
        begin = priors.beginning(self._connection, self._release, space.dim)
        count = begin.revision if self._count is None else self._count
        rows = [row for row in self._stored if row.kind in (TOOL, SUBJECT)]
        vectors = (row for row in rows if row.level == VECTOR and row.scope == space.scope)
        before = begin.with_rows(*for_core(vectors), count)
        if self._learned:  # the first vectors of an embedder: its counts equal the others'
            other, known = next(iter(self._learned.items()))
            cells, records = known.rows(priors.beginning(self._connection, self._release, other.dim))
            self._before[space] = before
            counts = [record for record in records if record[0] != _OF_VECTOR]
            return before.with_rows(cells, counts, known.revision)
        self._before[space] = before.with_rows(*for_core(row for row in rows if row.level != VECTOR), count)
        return self._before[space]

    def _watch(self, added: FoldInput, seen: npt.NDArray[np.void]) -> None:
        """Updates runs and breaks from the detector's verdicts."""
        columns = [added.rows[name] for name in ("arm", "verdict")]
        columns += [seen[name] for name in ("mean", "evidence", "change")]
        numbers = zip(added.outcomes, *(column.tolist() for column in columns), strict=True)
        for outcome, arm, verdict, believed, evidence, change in numbers:
            if not verdict:
                continue
            tool, at = signed(arm), outcome.exposure.at
            run = self._runs.setdefault(tool, Run())
            was_empty = run.is_empty
            found = run.see(
                DetectorStep(
                    outcome.seq, verdict > 0, outcome.exposure.reporter, at, believed, evidence, change
                )
            )
            self._names |= {signed(one.tool.key.arm): one.tool.name for one in outcome.changes}
            if not (was_empty and run.is_empty):
                self._row((tool, RUN, 0), RUN)["state"] = run.to_bytes()
            if found is None:
                continue
            number, result = found
            row = self._row((tool, BREAK, number), BREAK)
            if not isinstance(result, Break):
                result = replace(self._breaks[tool], back=result)
            self._breaks[tool] = result
            row |= {"state": result.to_bytes(), "at": result.alarm}
            row |= {"successes": float(result.successes), "failures": float(result.failures)}

    def _count_whole(self, outcome: OutcomeRow) -> None:
        """Adds an outcome to the counts in whole numbers."""
        exposure, changes = outcome.exposure, {change.tool.name: change for change in outcome.changes}
        shown = {tool.name for tool in exposure.shown} if outcome.closes else set[str]()
        contexts, at = _contexts(exposure), instant(exposure.at)
        for tool in _tools(outcome):
            change, arm, subject = changes.get(tool.name), _arm(tool), _subject(tool)
            called = succeeded = 0
            if change is not None:
                called = (change.after in CALLED) - (change.before in CALLED)
                succeeded = (change.after in SUCCEEDED) - (change.before in SUCCEEDED)
            self._names[arm] = tool.name
            self._names[subject] = "" if tool.key.group else tool.name
            for scope, level, context in contexts:
                self._levels[scope] = level, context
                row = self._row((arm, TOOL, scope))
                row["subject"] = subject
                row["shown"] += tool.name in shown
                row["called"] += called
                row["succeeded"] += succeeded
                row["updated_at"] = at if row["updated_at"] is None else max(row["updated_at"], at)

    def _row(self, place: RowKey, level: str = "") -> dict[str, Any]:
        """The changes of a row. level: for a row without context."""
        row = self._rows.get(place)
        if row is None:
            key, kind, scope = place
            level, context = (level, "") if level else self._levels[scope]
            place_of = {"org": self._org, "kind": kind, "key": key, "scope": scope}
            named = {"level": level, "tool": self._names[key], "context_key": context}
            row = self._rows[place] = {**_EMPTY, **place_of, **named}
        return row

    def _finish(self) -> None:
        """Copies the core's results into the rows."""
        for number, (space, learned) in enumerate(self._learned.items()):
            cells, records = learned.rows(self._before[space])
            for kind, key, scope, first, second, at in () if number else cells:
                row = self._row((key, SUBJECT if kind == _LIFT else TOOL, scope))
                names = ("calls", "expected") if kind == _LIFT else ("successes", "failures")
                row |= {names[0]: first, names[1]: second, "at": at}
            for kind, key, state in records:
                if kind == _OF_VECTOR:
                    row = self._row((key, SUBJECT, space.scope), VECTOR)
                    row["context_key"] = space.name
                elif number:
                    continue
                else:
                    row = self._row((key, TOOL if kind == _OF_TOOL else SUBJECT, 0), STATE)
                row["state"] = state

    def write(self, seq: int) -> None:
        """Writes the changed rows. seq: the number of the last outcome in them."""
        self._finish()
        rows = ({**self._rows[place], "revision": seq} for place in sorted(self._rows))
        merge(self._connection, _table, rows, added=("shown", "called", "succeeded"), later=("updated_at",))
        count = next((learned.revision for learned in self._learned.values()), self._count or 0)
        state = sa.update(_state).where(_state.c.org == self._org)
        self._connection.execute(state.values(seq=seq, deltas=count, priors=self._release))

    def differing(self) -> int:
        """The number of rows that differ from the database, after all outcomes were added."""
        self._finish()
        # A deleted vector leaves a row without bytes, unless it came and went within one batch.
        query = sa.select(_table).where(_table.c.org == self._org, _table.c.state.is_distinct_from(b""))
        stored = {(row.key, row.kind, row.scope): row._asdict() for row in self._connection.execute(query)}
        wrong = len(stored.keys() ^ self._rows.keys())
        for place in stored.keys() & self._rows.keys():
            ours, theirs = self._rows[place], stored[place]
            wrong += any(ours[name] != theirs[name] for name in ours if name != "revision")
        return wrong


def places_of(outcomes: Iterable[OutcomeRow]) -> set[tuple[int, int]]:
    """(key, scope) of the rows that the outcomes change."""
    places = set[tuple[int, int]]()
    for outcome in outcomes:
        scopes_of = [scope for scope, _, _ in _contexts(outcome.exposure)]
        for tool in _tools(outcome):
            places.update((_subject(tool), scope) for scope in (0, *scopes_of[:-1]))
        for change in outcome.changes:
            places.update((_arm(change.tool), scope) for scope in (0, *scopes_of))
        if (space := space_of(outcome.exposure)).dim:
            places.update((_subject(change.tool), space.scope) for change in outcome.changes)
    return places


def _tools(outcome: OutcomeRow) -> Iterator[ShownTool]:
    """The tools of an outcome, each once."""
    by_name = {tool.name: tool for tool in outcome.exposure.shown}
    by_name |= {change.tool.name: change.tool for change in outcome.changes}
    yield from by_name.values()


def _arm(tool: ShownTool) -> int:
    return signed(tool.key.arm)


def _subject(tool: ShownTool) -> int:
    return signed(tool.key.group or tool.key.intent)


def _contexts(exposure: Exposure) -> tuple[tuple[int, str, str], ...]:
    """(scope, level, name) of each of the exposure's contexts, the widest first."""
    page, tier, category = exposure.page, exposure.tier, exposure.category
    keys = map(signed, scopes(page, tier, category))
    names = ("", page, f"{tier}:{page}:{category}", plain_key(tier, page))
    return tuple(zip(keys, LEVELS, names, strict=True))
