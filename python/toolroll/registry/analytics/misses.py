"""Misses: selections without a tool that the conversation needed, and the same message today."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from toolroll.learning.outcomes import NOT_SHOWN
from toolroll.registry.analytics.redecide import Redecider
from toolroll.registry.analytics.window import Window, events
from toolroll.registry.events.details import read_events
from toolroll.registry.store.database import Database
from toolroll.registry.store.json_values import JsonRecord

_OUTCOMES = ("wanted", "corrected")  # of events with a miss


@dataclass(frozen=True, slots=True)
class Miss(JsonRecord):
    """A tool that a conversation needed and its selection lacked.

    Attributes:
        message: as stored.
        place: the tool's place, from 1, in the same message's selection today; None if it is not there.
        shown: the number of tools in that selection; None if the event cannot be decided again.
    """

    event_id: str
    org: str
    at: datetime
    message: str
    tool: str
    place: int | None
    shown: int | None


@dataclass(frozen=True, slots=True)
class MissReport:
    """The misses of a window, the latest first. selections: its events with an outcome."""

    selections: int
    misses: Sequence[Miss]

    @property
    def found(self) -> int:
        """The number of missed tools that are selected today."""
        return sum(miss.place is not None for miss in self.misses)

    @property
    def first(self) -> int:
        """The number of missed tools that are first today."""
        return sum(miss.place == 1 for miss in self.misses)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "selections": self.selections,
            "found": self.found,
            "first": self.first,
            "misses": [miss.to_dict() for miss in self.misses],
        }


def misses(database: Database, window: Window, today: Redecider, most: int = 500) -> MissReport:
    """The misses of the window, decided again.

    today: decides with the present statistics. most: of events with misses, the latest.
    """
    missed = [*window.of(events), events.c.outcome.in_(_OUTCOMES)]
    latest = sa.select(events.c.event_id).where(*missed).order_by(events.c.at.desc()).limit(most)
    found: list[Miss] = []
    with database.reading() as connection:
        counted = sa.select(sa.func.count()).where(*window.of(events), events.c.outcome.is_not(None))
        selections = int(connection.execute(counted).scalar_one())
        order = (events.c.at.desc(), events.c.event_id)
        for rows in read_events(connection, [events.c.event_id.in_(latest)], order):
            for row in rows:
                found += _misses_of(row, today)
    return MissReport(selections, tuple(found))


def _misses_of(row: Any, today: Redecider) -> list[Miss]:
    tools = [
        name for name, kind in (row.called or {}).items() if kind in NOT_SHOWN and name not in row.selected
    ]
    if not tools:
        return []
    selection = today.selection(row, allowed=tools)  # they were called, so the caller could have them
    names = None if selection is None else selection.names
    return [
        Miss(
            row.event_id,
            row.org,
            row.at,
            row.message,
            name,
            names.index(name) + 1 if names is not None and name in names else None,
            None if names is None else len(names),
        )
        for name in tools
    ]
