"""Keeps track of tools that break, so that nobody waits while a month of outcomes is read.

Whether a tool broke follows from all outcomes of it in their order. A service reads them once, in a thread,
and then only those that are new. The results are those of `tools.broken`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from itertools import islice

import sqlalchemy as sa

from toolroll._core import Learned
from toolroll._threads import Worker
from toolroll.registry.analytics.tools import Break, BreakLog
from toolroll.registry.analytics.window import Window
from toolroll.registry.events.fold import outcomes_of
from toolroll.registry.events.statistics import RATES
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database
from toolroll.registry.store.row_reader import read_rows

DAYS = 31  # that it covers, and so the longest window
_WARM_UP = 10_000  # outcomes before that time, as in `broken`
_MOST = 500_000  # outcomes of an organisation that are read at first
_STEP = 2_000  # outcomes in one step of the thread
_FEW = 100  # outcomes that a request reads by itself at a time
_PATIENCE_S = 0.04  # how long a request reads new outcomes
_POLL_S = 5.0
_ATTEMPTS_S = (1.0, 30.0)  # pauses after errors

_outcomes, _state = tables.outcomes, tables.learning_state


@dataclass(slots=True, eq=False)
class _Followed:
    """One organisation's outcomes up to `seq`, in `epoch`."""

    log: BreakLog
    learned: Learned
    seq: int
    epoch: int
    last: int = 0  # the number of its last outcome, as far as known


class BreakWatch:
    """The tools of all organisations that broke in the last month. Any thread may ask."""

    def __init__(self, database: Database, now: datetime | None = None) -> None:
        """Starts no thread yet. now: the end of the month; None for the present."""
        self._database = database
        self._orgs: dict[str, _Followed] = {}
        self._since = (now or datetime.now(timezone.utc)) - timedelta(days=DAYS)
        self._worker = Worker(self._step, "toolroll-breaks", subject="tools that broke", retry_s=_ATTEMPTS_S)

    def start(self) -> None:
        """Begins to read outcomes."""
        self._worker.wake()

    def request_stop(self) -> None:
        """Has the thread end soon."""
        self._worker.request_stop()

    def stop(self, timeout_s: float = 5.0) -> None:
        """Ends the thread, and waits that long for it."""
        self._worker.stop(timeout_s)

    def covers(self, window: Window) -> bool:
        """Whether it knows all breaks of this window."""
        return window.until is None and window.since is not None and window.since >= self._since

    def broken(self, window: Window) -> tuple[tuple[Break, ...], bool]:
        """The tools that broke within the window, the latest first; and whether all outcomes have been read.

        window: one that it covers.

        Raises:
            StoreUnavailable: the store does not answer.
        """
        is_current = self._catch_up(window.org)
        found: list[Break] = []
        for org, followed in list(self._orgs.items()):
            if window.org in (None, org):
                found += followed.log.breaks
        since = self._since if window.since is None else window.since
        breaks = (each for each in found if each.alarm >= since)
        return tuple(sorted(breaks, key=lambda each: (each.alarm, each.tool), reverse=True)), is_current

    def _catch_up(self, org: str | None) -> bool:
        """Reads what is new, if that takes a moment; else the thread does. Whether nothing is left."""
        deadline = time.monotonic() + _PATIENCE_S
        if not self._worker.lock.acquire(timeout=_PATIENCE_S):
            return False
        try:
            while self._read_on(_FEW, org):
                if time.monotonic() > deadline:
                    self._worker.wake()
                    return False
        finally:
            self._worker.lock.release()
        return True

    def _step(self) -> float:
        return 0.0 if self._read_on(_STEP, None) else _POLL_S

    def _read_on(self, most: int, only: str | None) -> bool:
        """Reads at most so many outcomes; whether there are more. only: of this organisation."""
        with self._database.reading() as connection:
            behind = [
                followed for followed in self._stored(connection, only) if followed[1].seq < followed[1].last
            ]
            left = most
            for org, followed in behind:
                left -= self._read_of(connection, org, followed, left)
                if left <= 0:
                    break
        return any(followed.seq < followed.last for _, followed in behind)

    def _stored(self, connection: sa.Connection, only: str | None) -> Iterator[tuple[str, _Followed]]:
        """The organisations with outcomes, each with how far it has been read."""
        where = [_state.c.seq > 0, *([] if only is None else [_state.c.org == only])]
        for row in [*read_rows(connection, list(_state.c), *where)]:
            org, seq, epoch = row["org"], row["seq"], row["epoch"]
            followed = self._orgs.get(org)
            if followed is None or followed.epoch != epoch or followed.seq > seq:
                begin = self._begin_of(connection, org, seq)
                followed = self._orgs[org] = _Followed(BreakLog(org), Learned(0, RATES), begin, epoch)
            followed.last = seq
            yield org, followed

    def _begin_of(self, connection: sa.Connection, org: str, last: int) -> int:
        """The number of the last outcome that is not read. Times ascend with numbers, late reports aside."""
        low, high = 0, last
        while low < high:
            middle = (low + high) // 2
            at = sa.select(_outcomes.c.at).where(_outcomes.c.org == org, _outcomes.c.seq > middle)
            found = connection.execute(at.order_by(_outcomes.c.seq).limit(1)).scalar()
            if found is not None and found < self._since:
                low = middle + 1
            else:
                high = middle
        return max(0, low - _WARM_UP, last - _MOST)

    def _read_of(self, connection: sa.Connection, org: str, followed: _Followed, most: int) -> int:
        """Reads at most so many outcomes of one organisation; returns their number."""
        up_to = min(followed.last, followed.seq + most)
        outcomes = outcomes_of(connection, org, followed.seq, up_to)
        if some := list(islice(outcomes, most)):
            followed.learned = followed.log.add(followed.learned, some)
        number, followed.seq = up_to - followed.seq, up_to
        return number
