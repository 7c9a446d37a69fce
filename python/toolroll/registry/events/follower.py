"""Keeps what a process has learnt up to date with the outcomes in the store.

The outcomes of an organisation have consecutive numbers that commit in order. So a process that has folded
all up to some number and reads on misses none, whichever process wrote them. Every process folds the same
rows in the same order and gets the same bits. A checkpoint saves a new process from folding all of them. When
outcomes are voided, the organisation's epoch rises, and every process folds its outcomes from the start.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, MutableMapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial
from typing import Any, Generic, TypeVar
from weakref import ref

import sqlalchemy as sa

from toolroll._gil import batches
from toolroll._threads import CallPool, Full, Overdue, Worker
from toolroll.errors import Failure, StoreUnavailable
from toolroll.registry.events.fold import LearnedState, fold_all, outcomes_of
from toolroll.registry.store import tables
from toolroll.registry.store.bulk_insert import add_missing
from toolroll.registry.store.database import Database
from toolroll.registry.store.errors import DamagedRow
from toolroll.registry.store.row_reader import read_rows

_log = logging.getLogger("toolroll")

CHECKPOINT_EVERY = 2_000  # outcomes
_KEPT_CHECKPOINTS = 2  # of each organisation
_REMEMBERED = 64  # states of an organisation whose number is still known
_SOME = 1_000  # organisations in a query
_READ_S = 120.0
TOGETHER_S = 0.2  # outcomes of so long a time are read together, where they come all the time

L = TypeVar("L", bound=LearnedState)


@dataclass(frozen=True, slots=True, eq=False)
class OrgState(Generic[L]):
    """How far one organisation has been followed.

    Attributes:
        learned: the fold of its outcomes up to `seq`, in `epoch`.
        saved: the number of the last outcome in a checkpoint.
    """

    learned: L
    seq: int
    epoch: int
    saved: int


@dataclass(frozen=True, slots=True, eq=False)
class LearnedFactory(Generic[L]):
    """Makes the state that a fold starts from.

    Attributes:
        empty: returns the state before any outcome.
        read: returns the state in a checkpoint's bytes; raises ValueError for other bytes.
        dim, space: the width of the vectors that count, and their embedder.
        rates: digest of everything beside the outcomes that the fold depends on.
    """

    empty: Callable[[], L]
    read: Callable[[bytes], L]
    dim: int
    space: str
    rates: str


class Follower(Generic[L]):
    """Follows the organisations that select in this process, in a thread of its own."""

    def __init__(
        self,
        database: Database,
        factory: LearnedFactory[L],
        learned: MutableMapping[str, L],
        *,
        poll_s: float = 0.5,
        most: int = 1_000,
    ) -> None:
        """learned: organisation → its state, kept up to date; organisations without outcomes are not in it.

        poll_s: seconds between two looks at the store if nobody calls `wake`. most: how many organisations
            are followed; beyond, the one whose last selection is the oldest is dropped.
        """
        self._database, self._factory, self.learned = database, factory, learned
        self._poll_s, self._most = poll_s, most
        self.asked: dict[str, float] = {}  # organisation → time of its last selection, by the caller's clock
        self._states: dict[str, OrgState[L]] = {}
        # Weak, since a state may be large: turns that are under way hold those that still matter.
        self._past: dict[str, deque[tuple[ref[L], int]]] = {}
        self._failures: dict[str, Failure] = {}  # organisation → why its outcomes cannot be read
        self._pool = CallPool(2, "toolroll-learning")
        self._worker = Worker(
            self._poll,
            "toolroll-learning",
            subject="learning",
            batch_s=min(poll_s, TOGETHER_S),
            retry_s=(poll_s, poll_s),
        )

    def ask(self, org: str, at: float) -> None:
        """Notes that an organisation selects, and follows it from then on. Returns at once."""
        is_new = org not in self.asked
        self.asked[org] = at
        if is_new or not self._worker.is_started:
            self._worker.hurry()

    def wake(self) -> None:
        """Has the store read soon, if any organisation is followed."""
        if self._worker.is_started:
            self._worker.wake()

    def follow(self, orgs: Iterable[str] | None = None) -> None:
        """Reads and folds new outcomes now; from then on also those of these organisations.

        Raises:
            StoreUnavailable: the store cannot be read; what was learnt stays.
        """
        for org in orgs or ():
            self.asked.setdefault(org, 0.0)
        with self._worker.lock:
            self._catch_up()

    def seq_of(self, org: str, learned: object) -> int:
        """The number of the last outcome in a state; -1 if it is none of the organisation's recent ones."""
        if learned is self._factory.empty():  # shared by all organisations without outcomes
            return 0
        for known, seq in tuple(self._past.get(org, ())):  # another thread adds to it
            if known() is learned:
                return seq
        return -1

    def health(self) -> dict[str, Any]:
        """How many organisations and outcomes are followed, how old that is, and the last error."""
        age_s = self._worker.age_s
        return {
            "organisations": len(self._states),
            "outcomes": sum(state.seq for state in list(self._states.values())),
            "age_s": None if age_s is None else round(age_s, 3),
            "failing": self._worker.error,
        }

    def failures(self) -> dict[str, Failure]:
        """Organisation → the failure that its selections name: outcomes of it cannot be read."""
        return dict(self._failures)

    def request_stop(self) -> None:
        """Stops following soon."""
        self._worker.request_stop()

    def close(self, timeout_s: float = 5.0) -> None:
        """Stops following and waits that long for the threads; what was learnt stays."""
        deadline = time.monotonic() + timeout_s
        self._worker.stop(timeout_s)
        self._pool.stop(deadline - time.monotonic())

    def _poll(self) -> float:
        self._catch_up()
        return self._poll_s

    def _catch_up(self) -> None:
        self._drop_oldest()
        orgs = list(self.asked)
        if not orgs:
            return
        stored = self._in_time(lambda: self._stored_states(orgs))
        for org, (seq, epoch) in stored.items():
            state = self._states.get(org)
            if state is not None and (state.seq, state.epoch) == (seq, epoch):
                continue
            if state is not None and (state.epoch != epoch or state.seq > seq):
                state = None  # outcomes were voided, or a backup was restored
            try:
                self._set(org, self._in_time(partial(self._read_on, org, state)))
                self._failures.pop(org, None)
            except (DamagedRow, ValueError) as error:  # the others go on
                self._failures[org] = Failure("learning", error)
            if self._worker.is_stopped:
                return

    def _stored_states(self, orgs: list[str]) -> dict[str, tuple[int, int]]:
        """Organisation → (seq, epoch)."""
        table = tables.learning_state
        found: dict[str, tuple[int, int]] = {}
        with self._database.reading(is_single=True) as connection:  # each organisation by itself
            for some in batches(orgs, _SOME):
                for row in read_rows(connection, list(table.c), table.c.seq > 0, table.c.org.in_(some)):
                    found[row["org"]] = row["seq"], row["epoch"]
        return found

    def _read_on(self, org: str, state: OrgState[L] | None) -> OrgState[L]:
        """The state as of now."""
        factory, table = self._factory, tables.learning_state
        with self._database.reading() as connection:
            (row,) = read_rows(connection, list(table.c), table.c.org == org)
            seq, epoch = row["seq"], row["epoch"]
            if state is None or state.epoch != epoch:
                state = self._begin_from(connection, org, seq, epoch)
            rows = outcomes_of(connection, org, state.seq, seq)
            learned = fold_all(state.learned, rows, factory.dim, factory.space)
        state = replace(state, learned=learned, seq=seq, epoch=epoch)
        if state.seq - state.saved >= CHECKPOINT_EVERY:
            state = self._save(org, state)
        return state

    def _set(self, org: str, state: OrgState[L]) -> None:
        self._states[org] = state
        self._past.setdefault(org, deque(maxlen=_REMEMBERED)).append((ref(state.learned), state.seq))
        self.learned[org] = state.learned

    def _begin_from(self, connection: sa.Connection, org: str, seq: int, epoch: int) -> OrgState[L]:
        table = tables.learned_checkpoints
        query = (
            sa.select(table.c.seq, table.c.learned)
            .where(
                table.c.org == org,
                table.c.rates == self._factory.rates,
                table.c.epoch == epoch,
                table.c.seq <= seq,
            )
            .order_by(table.c.seq.desc())
            .limit(1)
        )
        row = connection.execute(query).first()
        if row is not None:
            try:
                return OrgState(self._factory.read(row.learned), row.seq, epoch, row.seq)
            except (TypeError, ValueError) as error:
                _log.warning(
                    "learning: a checkpoint of %r cannot be read, so all outcomes are: %s", org, error
                )
        return OrgState(self._factory.empty(), 0, epoch, 0)

    def _save(self, org: str, state: OrgState[L]) -> OrgState[L]:
        """Writes a checkpoint, unless another process wrote one that is about as new."""
        table, rates = tables.learned_checkpoints, self._factory.rates
        mine = (table.c.org == org) & (table.c.rates == rates)
        try:
            with self._database.recording() as connection:
                query = sa.select(table.c.seq, table.c.epoch).where(mine).order_by(table.c.seq.desc())
                known = connection.execute(query).all()
                newest = max((row.seq for row in known if row.epoch == state.epoch), default=0)
                if state.seq - newest >= CHECKPOINT_EVERY:
                    row = {
                        "org": org,
                        "rates": rates,
                        "seq": state.seq,
                        "epoch": state.epoch,
                        "learned": state.learned.to_bytes(),
                        "at": datetime.now(timezone.utc),
                    }
                    old = [one.seq for one in known if one.epoch != state.epoch]
                    old += [one.seq for one in known if one.epoch == state.epoch][_KEPT_CHECKPOINTS - 1 :]
                    if old:
                        connection.execute(sa.delete(table).where(mine, table.c.seq.in_(old)))
                    add_missing(connection, table, [row])
                    newest = state.seq
        except StoreUnavailable as error:  # a checkpoint only saves work
            _log.info("learning: no checkpoint was written: %s", error)
            return state
        return replace(state, saved=newest)

    def _drop_oldest(self) -> None:
        while len(self.asked) > self._most:
            org, _ = min(list(self.asked.items()), key=lambda item: item[1])  # other threads add to it
            for known in (self.asked, self._states, self._past, self.learned, self._failures):
                known.pop(org, None)

    def _in_time(self, call: Callable[[], Any]) -> Any:
        try:
            return self._pool.run(call, _READ_S)
        except (Overdue, Full) as error:
            raise StoreUnavailable(f"outcomes: {error}") from error
