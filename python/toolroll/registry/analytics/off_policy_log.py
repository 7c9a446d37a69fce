"""Off-policy evaluation of another profile on logged events; see `off_policy`.

`redecide.Redecider` decides each event again, without outcomes that were reported later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import sqlalchemy as sa

from toolroll.model.errors import InvalidInput
from toolroll.registry.analytics.off_policy import CLIP, Judgement, Log, judge
from toolroll.registry.analytics.window import Window, events
from toolroll.registry.events.details import read_events
from toolroll.registry.store.database import Database

RAREST = 1e-6  # least propensity of a tool that was shown

# An event's row → the tools of another profile; None if it cannot decide again.
Decide = Callable[[Any], "Sequence[str] | Mapping[str, float] | None"]


@dataclass(frozen=True, slots=True)
class OffPolicyResult:
    """The estimated success of another profile.

    Attributes:
        judgement: None if no event could be used.
        events: in the window.
        skipped: reason → unusable events.
    """

    judgement: Judgement | None
    events: int
    skipped: Mapping[str, int]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        judgement = None if self.judgement is None else self.judgement.to_dict()
        return {"events": self.events, "skipped": dict(self.skipped), "judgement": judgement}


def evaluate_off_policy(
    database: Database,
    window: Window,
    decide: Decide,
    *,
    clip: float = CLIP,
    most: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> OffPolicyResult:
    """Decides the events of the window again, oldest first, and estimates the success.

    decide: called with each row that has an outcome. most: the number of latest events to use. progress:
        called with the number of events so far.
    """
    columns = LogColumns()
    seen = 0
    for row in _rows(database, window, most):
        seen += 1
        columns.add(row, decide)
        if progress is not None:
            progress(seen)
    log = columns.log()
    return OffPolicyResult(judge(log, clip) if len(log.session) else None, seen, columns.skipped)


def _rows(database: Database, window: Window, most: int | None) -> Iterator[SimpleNamespace]:
    where = list(window.of(events))
    if most is not None:
        latest = sa.select(events.c.event_id).where(*where).order_by(events.c.at.desc()).limit(most)
        where.append(events.c.event_id.in_(latest))
    order = (events.c.at, events.c.event_id)
    with database.reading() as connection:
        for rows in read_events(connection, where, order):
            yield from rows


@dataclass(slots=True)
class LogColumns:
    """Collects events that were decided again as columns. skipped: reason → unusable events."""

    event: list[int] = field(default_factory=list)
    propensity: list[float] = field(default_factory=list)
    shown: list[bool] = field(default_factory=list)
    reward: list[float] = field(default_factory=list)
    target: list[float] = field(default_factory=list)
    fit: list[float] = field(default_factory=list)
    session: list[int] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    _sessions: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, row: Any, decide: Decide) -> None:
        """Adds an event, if its data are complete."""
        if row.outcome is None:
            return self._skip("no outcome")
        if row.propensity_error is None:
            return self._skip("no propensities")
        rewards = rewards_of(row.called or {})
        if rewards is None:
            return self._skip("no known reward")
        would = decide(row)
        if would is None:
            return self._skip("cannot be decided again")
        target = dict(would) if isinstance(would, Mapping) else dict.fromkeys(would, 1.0)
        shown = set(row.selected)
        chances = propensities(row.candidates, shown)
        fits = {name: float(score) for name, score, *_ in row.candidates}
        best, worst = max(fits.values(), default=0.0), min(fits.values(), default=0.0)
        number = len(self.session)
        for name in dict.fromkeys((*row.selected, *target)):
            self.event.append(number)
            self.propensity.append(chances.get(name, 0.0))
            self.shown.append(name in shown)
            self.reward.append(rewards.get(name, 0.0) if name in shown else 0.0)
            self.target.append(target.get(name, 0.0))
            self.fit.append(fits.get(name, worst) - best)
        whose = (row.org, row.session) if row.session else ("", row.event_id)
        self.session.append(self._sessions.setdefault(whose, len(self._sessions)))

    def _skip(self, reason: str) -> None:
        self.skipped[reason] = self.skipped.get(reason, 0) + 1

    def log(self) -> Log:
        """The columns."""
        types: dict[str, Any] = {"event": np.int64, "session": np.int64, "shown": np.bool_}
        columns: dict[str, Any] = {
            name: np.array(getattr(self, name), types.get(name, np.float64)) for name in Log.__slots__
        }
        return Log(**columns)


def propensities(candidates: Sequence[Sequence[Any]], shown: set[str]) -> dict[str, float]:
    """Tool → the probability that it was shown; 1 for tools that were no candidates."""
    found = dict.fromkeys(shown, 1.0)
    for name, *_, propensity in candidates:
        if propensity is not None:
            if not 0 <= propensity <= 1:
                raise InvalidInput(f"propensity of {name!r:.80} is {propensity!r:.80}, must be in [0, 1]")
            found[name] = max(propensity, RAREST) if name in shown else propensity
    return found


def rewards_of(called: Mapping[str, str]) -> dict[str, float] | None:
    """Tool → its reward. Called tools share a success, so an event has at most 1; 0 after a correction.

    None if a result is unknown.
    """
    kinds = called.values()
    if "called" in kinds:
        return None
    ran = [name for name, kind in called.items() if kind in ("succeeded", "failed", "corrected")]
    if any(kind in ("corrected", "meant") for kind in kinds):
        return {}
    return {name: 1 / len(ran) for name in ran if called[name] == "succeeded"}
