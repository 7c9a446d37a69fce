"""`RecentSelections`: the last selections of a process, for finding what an event id showed.

A selection holds its catalog. A process whose catalog changes, or that gets other tools with each request,
would keep many catalogs. So only selections from the newest catalog are held. Of the others, ids and keys of
the shown tools remain.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from toolroll.catalog.catalog import Catalog
from toolroll.learning.exposure import Exposure
from toolroll.selection.selection import Selection

MOST_SELECTIONS = 128


@dataclass(slots=True, eq=False)
class _Recent:
    """A selection, or its exposure."""

    event_id: str
    held: Selection | Exposure


class RecentSelections:
    """The last selections. Safe to share between threads, without locks."""

    def __init__(self, exposure_of: Callable[[Selection], Exposure], most: int = MOST_SELECTIONS) -> None:
        """exposure_of: the exposure of a selection."""
        self._exposure_of = exposure_of
        self._recent: deque[_Recent] = deque(maxlen=most)
        self._newest: Catalog | None = None

    def append(self, selection: Selection) -> None:
        """Keeps a selection."""
        if selection.catalog is not self._newest:
            self._newest = selection.catalog
            for recent in tuple(self._recent):
                if isinstance(recent.held, Selection):
                    recent.held = self._exposure_of(recent.held)
        self._recent.append(_Recent(selection.event_id, selection))

    def find(self, event_id: str) -> Selection | Exposure | None:
        """The selection of this event, or its exposure; None if the event is not among the last."""
        for recent in reversed(tuple(self._recent)):
            if recent.event_id == event_id:
                return recent.held
        return None
