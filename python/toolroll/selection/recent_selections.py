"""`RecentSelections`: the last selections of a process, so that an event id finds what it showed.

A selection holds its catalog. A process that changes its catalog, or gets other tools with each request,
would keep a catalog for each of them. So only the newest catalogs are held, up to a number of bytes; of
selections from older or larger ones, what they showed remains.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from toolroll.catalog.catalog import Catalog
from toolroll.learning.exposure import Exposure
from toolroll.selection.selection import Selection

MOST_SELECTIONS = 128
MOST_BYTES = 128 << 20  # of catalogs, by estimate, beside the newest one of tools that came with no request
_BYTES_PER_TOOL = 8_000  # of a catalog whose tools did not come with a request


@dataclass(slots=True, eq=False)
class _Recent:
    """A selection, or what it showed."""

    event_id: str
    held: Selection | Exposure


class RecentSelections:
    """The last selections. Safe to share between threads, and nobody waits for a lock."""

    def __init__(
        self,
        exposure_of: Callable[[Selection], Exposure],
        most: int = MOST_SELECTIONS,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        """Has none yet.

        exposure_of: what a selection showed. most_bytes: of catalogs, beside the newest one of tools that
        came with no request: its process has it anyway.
        """
        self._exposure_of, self._most_bytes = exposure_of, most_bytes
        self._recent: deque[_Recent] = deque(maxlen=most)
        self._newest: Catalog | None = None
        self._unweighed = 0  # bytes of catalogs that came since they were weighed

    def append(self, selection: Selection) -> None:
        """Keeps a selection."""
        self._recent.append(_Recent(selection.event_id, selection))
        if selection.catalog is not self._newest:
            self._newest = selection.catalog
            self._unweighed += _bytes_of(selection)
            if self._unweighed * 4 > self._most_bytes:
                self._let_go()

    def find(self, event_id: str) -> Selection | Exposure | None:
        """The selection of this event, or what it showed; None if it is not among the last."""
        for recent in reversed(tuple(self._recent)):
            if recent.event_id == event_id:
                return recent.held
        return None

    def _let_go(self) -> None:
        """Leaves of selections from the oldest catalogs what they showed."""
        self._unweighed = 0
        kept: set[int] = set()
        total = 0
        for recent in reversed(tuple(self._recent)):
            held = recent.held
            if not isinstance(held, Selection) or id(held.catalog) in kept:
                continue
            if held.catalog is not self._newest or held.turn.tool_list is not None:
                total += _bytes_of(held)
            if total <= self._most_bytes:
                kept.add(id(held.catalog))
            else:
                recent.held = self._exposure_of(held)


def _bytes_of(selection: Selection) -> int:
    tool_list = selection.turn.tool_list
    return _BYTES_PER_TOOL * len(selection.catalog) if tool_list is None else tool_list.memory_bytes
