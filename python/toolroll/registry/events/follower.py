"""Keeps a process's statistics up to date with the rows of the store.

The keeper folds outcomes into rows (`learned_rows`). A host reads the rows that changed since its last read,
in one snapshot of the database, so that every host has the same fold to the last bit. When outcomes are
voided, the organisation's epoch rises and hosts read all its rows.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass
from threading import Lock
from typing import Any
from weakref import ref

import sqlalchemy as sa

from toolroll._core import Learned
from toolroll.model.embedder import Embedder
from toolroll.model.errors import Failure, ToolrollError
from toolroll.registry.events import learned_rows, priors
from toolroll.registry.events.fold import Space
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database
from toolroll.registry.store.errors import DamagedRow
from toolroll.runtime.gil import batches
from toolroll.runtime.threads import PerProcess

_REMEMBERED = 64  # states of an organisation whose number is still known
_SOME = 1_000  # organisations in a query

_log = logging.getLogger("toolroll")
_state = tables.learning_state


@dataclass(frozen=True, slots=True, eq=False)
class OrgState:
    """An organisation's statistics: of outcomes up to `seq` in `epoch`, and a release of priors."""

    learned: Learned
    seq: int
    epoch: int
    release: int


class Follower:
    """Follows the organisations that select in this process. The shipper's thread calls `step`."""

    def __init__(
        self,
        database: Database,
        embedder: Embedder | None,
        learned: MutableMapping[str, Learned],
        *,
        poll_s: float = 0.5,
        most: int = 1_000,
    ) -> None:
        """Reads the state of an organisation without outcomes.

        embedder: of the vectors to use. learned: organisation → state, kept up to date for organisations with
            outcomes. poll_s: seconds between two reads, unless one is `due`. most: the most organisations; a
            further one replaces the one that has not selected for longest.

        Raises:
            StoreUnavailable: the store cannot be read.
        """
        self._database, self.learned = database, learned
        self._space = Space("", 0) if embedder is None else Space(embedder.identity, embedder.dim)
        self._poll_s, self._most = poll_s, most
        self.asked: dict[str, float] = {}  # organisation → time of its last selection, by the caller's clock
        self._states: dict[str, OrgState] = {}
        # Weak, since a state may be large: running turns hold the states that still matter.
        self._past: dict[str, deque[tuple[ref[Learned], int]]] = {}
        self._damage: dict[str, str] = {}  # organisation → why its rows cannot be read
        with database.reading() as connection:
            release = priors.latest_release(connection)
            self.beginning = priors.beginning(connection, release, self._space.dim)
        self._locks = PerProcess(Lock)  # held while the store is read
        self._next_at = 0.0  # monotonic; when to read it again
        self._read_at: float | None = None  # when that succeeded last
        self._failing: str | None = None
        self._is_stopped = False

    def ask(self, org: str, at: float) -> None:
        """Follows an organisation from the next step on. Returns at once."""
        if org not in self.asked:
            self.due()
        self.asked[org] = at

    def due(self) -> None:
        """Lets the next step read the store."""
        self._next_at = 0.0

    def step(self) -> float:
        """Reads changes, if it is time. Returns the seconds until the next time. `health` reports errors."""
        left_s = self._next_at - time.monotonic()
        if left_s > 0:
            return left_s
        self._next_at = time.monotonic() + self._poll_s
        try:
            self.follow()
        except Exception as error:  # the thread has other work to do
            if self._failing is None and not self._is_stopped:
                is_known = isinstance(error, ToolrollError)
                _log.warning("learning: failed, will try again: %s", error, exc_info=not is_known)
            self._failing = str(error) or type(error).__name__
        else:
            if self._failing is not None:
                _log.warning("learning: succeeded again")
            self._failing, self._read_at = None, time.monotonic()
        return self._poll_s

    def follow(self, orgs: Iterable[str] | None = None) -> None:
        """Reads changes now, also of these organisations, and follows them.

        Raises:
            StoreUnavailable: the store cannot be read; the states stay unchanged.
        """
        for org in orgs or ():
            self.asked.setdefault(org, 0.0)
        with self._locks.own:
            self._catch_up()

    def seq_of(self, org: str, learned: object) -> int:
        """The number of the last outcome in a recent state of the organisation; -1 for an older state."""
        if learned is self.beginning:  # shared by all organisations without outcomes
            return 0
        for known, seq in tuple(self._past.get(org, ())):  # another thread adds to it
            if known() is learned:
                return seq
        return -1

    def health(self) -> dict[str, Any]:
        """The numbers of organisations and outcomes, their age, and the last error."""
        read_at = self._read_at
        return {
            "organisations": len(self._states),
            "outcomes": sum(state.seq for state in list(self._states.values())),
            "age_s": None if read_at is None else round(time.monotonic() - read_at, 3),
            "failing": self._failing,
        }

    def failures(self) -> dict[str, Failure]:
        """Organisation → why its rows could not be read. Its selections report it."""
        return {org: Failure("learning", DamagedRow(why)) for org, why in dict(self._damage).items()}

    def request_stop(self) -> None:
        """Ends a running step after the present organisation."""
        self._is_stopped = True

    def _catch_up(self) -> None:
        while len(self.asked) > self._most:
            org, _ = min(list(self.asked.items()), key=lambda item: item[1])  # other threads add to it
            for known in (self.asked, self._states, self._past, self.learned, self._damage):
                known.pop(org, None)
        for org in self._changed(list(self.asked)):
            try:
                state = self._read(org)
            except DamagedRow as error:  # the other organisations go on
                self._damage[org] = str(error)
                continue
            self._damage.pop(org, None)
            past = self._past.setdefault(org, deque(maxlen=_REMEMBERED))
            past.append((ref(state.learned), state.seq))
            self.learned[org] = state.learned
            self._states[org] = state  # last: the child of a fork that comes between reads it again
            if self._is_stopped:
                return

    def _changed(self, orgs: list[str]) -> list[str]:
        """The organisations whose state in the store differs from this process's."""
        changed = []
        with self._database.reading(is_single=True) as connection:
            for some in batches(orgs, _SOME):
                query = sa.select(_state.c.org, _state.c.seq, _state.c.epoch)
                for org, *number in connection.execute(query.where(_state.c.seq > 0, _state.c.org.in_(some))):
                    known = self._states.get(org)
                    if known is None or [known.seq, known.epoch] != number:
                        changed.append(org)
        return changed

    def _read(self, org: str) -> OrgState:
        known = self._states.get(org)
        with self._database.reading() as connection:
            (row,) = connection.execute(sa.select(_state).where(_state.c.org == org))
            begins = priors.beginning(connection, row.priors, self._space.dim)
            origin = row.epoch, row.priors
            # Outcomes were voided, or a backup was restored.
            if known is None or (known.epoch, known.release) != origin or known.seq > row.seq:
                known = OrgState(begins, 0, *origin)
            learned = learned_rows.read(connection, org, known.seq, self._space, known.learned)
            learned = learned.with_rows([], [], row.deltas or begins.revision)
        return OrgState(learned, row.seq, row.epoch, row.priors)
