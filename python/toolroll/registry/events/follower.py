"""Keeps what a process has learnt at what the store's outcomes say.

Outcomes of an organisation have numbers without gaps that commit in their order, so who has folded up to
some number and reads on misses none, whoever wrote them. Every process folds the same rows in the same order
and comes to the same bits. A checkpoint spares those who begin the whole of it. When outcomes are voided, the
organisation's epoch is raised, and it is folded anew.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, MutableMapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial
from itertools import islice
from typing import Any, Generic, TypeVar

import sqlalchemy as sa

from toolroll._threads import Full, Overdue, Workers, survive_forks
from toolroll.errors import StoreUnavailable, ToolrollError
from toolroll.registry.events.fold import Folds, fold, outcomes_of
from toolroll.registry.store import tables
from toolroll.registry.store.bulk_insert import add_missing
from toolroll.registry.store.database import Database

_log = logging.getLogger("toolroll")

CHECKPOINT_EVERY = 2_000  # outcomes
_KEPT_CHECKPOINTS = 2  # of each organisation
_CHUNK = 2_000  # outcomes that are folded at a time
_REMEMBERED = 64  # states of an organisation whose number is still known
_SOME = 1_000  # organisations in a query
_READ_S = 120.0

L = TypeVar("L", bound=Folds)


@dataclass(frozen=True, slots=True, eq=False)
class Held(Generic[L]):
    """What is known of one organisation.

    Attributes:
        learned: folded up to `seq`, in `epoch`.
        saved: up to which number there is a checkpoint.
    """

    learned: L
    seq: int
    epoch: int
    saved: int


@dataclass(frozen=True, slots=True, eq=False)
class LearnedFactory(Generic[L]):
    """How to begin.

    Attributes:
        empty: nothing learnt.
        read: from a checkpoint's bytes; raises ValueError for others.
        dim, space: of the vectors that count.
        rates: digest of everything that the fold depends on beside the outcomes.
    """

    empty: Callable[[], L]
    read: Callable[[bytes], L]
    dim: int
    space: str
    rates: str


class Follower(Generic[L]):
    """Of one process. It follows the organisations that it was asked for, in a thread of its own."""

    def __init__(
        self,
        database: Database,
        making: LearnedFactory[L],
        learned: MutableMapping[str, L],
        *,
        poll_s: float = 0.5,
        most: int = 1_000,
    ) -> None:
        """learned: organisation → what it has learnt, kept current; one that has no outcomes is not in it.

        poll_s: seconds between looks, should nobody call `wake`. most: organisations that are followed;
            beyond, the one that asked longest ago is let go.
        """
        self._database, self._making, self.learned = database, making, learned
        self._poll_s, self._most = poll_s, most
        self.asked: dict[str, float] = {}  # organisation → when, by whatever clock its caller has
        self._held: dict[str, Held[L]] = {}
        self._past: dict[str, deque[tuple[L, int]]] = {}
        self._failing: Exception | None = None
        self._begin()
        survive_forks(self, _at_work, _begin_anew)

    def _begin(self) -> None:
        self._following = threading.Lock()  # held for one round
        self._starting = threading.Lock()
        self._stop, self._wake = threading.Event(), threading.Event()
        self._workers = Workers(2, "toolroll-learning")
        self._thread: threading.Thread | None = None

    def ask(self, org: str, at: float) -> None:
        """Says that an organisation selects. Waits for nothing; from then on it is followed."""
        if org not in self.asked or self._thread is None:
            self.asked[org] = at
            self.start()
            self._wake.set()
        else:
            self.asked[org] = at

    def start(self) -> None:
        """Begins to follow."""
        if self._thread is None and not self._stop.is_set():
            with self._starting:
                if self._thread is None:
                    thread = threading.Thread(target=self._run, name="toolroll-learning", daemon=True)
                    thread.start()
                    self._thread = thread

    def wake(self) -> None:
        """Says that there may be something new."""
        self._wake.set()

    def follow(self, orgs: Iterable[str] | None = None) -> None:
        """Reads and folds what is new, now; of these organisations too.

        Raises:
            StoreUnavailable: the store cannot be read; what was learnt stays.
        """
        for org in orgs or ():
            self.asked.setdefault(org, 0.0)
        with self._following:
            self._round()

    def seq_of(self, org: str, learned: object) -> int:
        """The number of the last outcome in it; -1 for what is not of the last few states."""
        if learned is self._making.empty():  # shared by those who have no outcomes yet
            return 0
        for known, seq in self._past.get(org, ()):
            if known is learned:
                return seq
        return -1

    def health(self) -> dict[str, Any]:
        """Up to where organisations are followed, and what has failed."""
        failing = self._failing
        return {
            "organisations": len(self._held),
            "outcomes": sum(held.seq for held in list(self._held.values())),
            "failing": None if failing is None else str(failing),
        }

    def close(self) -> None:
        """Stops following; what was learnt stays."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout=5.0)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with self._following:
                    self._round()
                if self._failing is not None:
                    _log.warning("learning: follows its outcomes again")
                    self._failing = None
            except Exception as error:  # a thread that dies would leave what is learnt to age unseen
                if self._failing is None:
                    known = isinstance(error, ToolrollError)
                    _log.warning("learning: goes on with what it knows: %s", error, exc_info=not known)
                self._failing = error
                self._stop.wait(self._poll_s)
            self._wake.wait(self._poll_s)
            self._wake.clear()

    def _round(self) -> None:
        self._let_some_go()
        orgs = list(self.asked)
        if not orgs:
            return
        states = self._in_time(lambda: self._states(orgs))
        for org, (seq, epoch) in states.items():
            held = self._held.get(org)
            if held is not None and (held.seq, held.epoch) == (seq, epoch):
                continue
            if held is not None and (held.epoch != epoch or held.seq > seq):
                held = None  # voided, or a backup was restored
            self._hold_on(org, self._in_time(partial(self._catch_up, org, held)))
            if self._stop.is_set():
                return

    def _states(self, orgs: list[str]) -> dict[str, tuple[int, int]]:
        table = tables.learning_state
        found: dict[str, tuple[int, int]] = {}
        with self._database.reading() as connection:
            for start in range(0, len(orgs), _SOME):
                some = orgs[start : start + _SOME]
                query = sa.select(table).where(table.c.seq > 0, table.c.org.in_(some))
                found.update({row.org: (row.seq, row.epoch) for row in connection.execute(query)})
        return found

    def _catch_up(self, org: str, held: Held[L] | None) -> Held[L]:
        making = self._making
        with self._database.reading() as connection:
            table = tables.learning_state
            state = connection.execute(sa.select(table).where(table.c.org == org)).one()
            if held is None or held.epoch != state.epoch:
                held = self._begin_from(connection, org, state.seq, state.epoch)
            rows = outcomes_of(connection, org, held.seq, state.seq)
            learned = held.learned
            while some := list(islice(rows, _CHUNK)):
                learned = fold(learned, some, making.dim, making.space)
        held = replace(held, learned=learned, seq=state.seq, epoch=state.epoch)
        return self._save(org, held) if held.seq - held.saved >= CHECKPOINT_EVERY else held

    def _hold_on(self, org: str, held: Held[L]) -> None:
        self._held[org] = held
        self._past.setdefault(org, deque(maxlen=_REMEMBERED)).append((held.learned, held.seq))
        self.learned[org] = held.learned

    def _begin_from(self, connection: sa.Connection, org: str, seq: int, epoch: int) -> Held[L]:
        table = tables.learned_checkpoints
        query = (
            sa.select(table.c.seq, table.c.learned)
            .where(
                table.c.org == org,
                table.c.rates == self._making.rates,
                table.c.epoch == epoch,
                table.c.seq <= seq,
            )
            .order_by(table.c.seq.desc())
            .limit(1)
        )
        row = connection.execute(query).first()
        if row is not None:
            try:
                return Held(self._making.read(row.learned), row.seq, epoch, row.seq)
            except ValueError as error:
                _log.warning("learning: a checkpoint of %r cannot be read, all is read: %s", org, error)
        return Held(self._making.empty(), 0, epoch, 0)

    def _save(self, org: str, held: Held[L]) -> Held[L]:
        """Keeps a checkpoint, unless another process has one about as new."""
        table, rates = tables.learned_checkpoints, self._making.rates
        mine = (table.c.org == org) & (table.c.rates == rates)
        try:
            with self._database.recording() as connection:
                query = sa.select(table.c.seq, table.c.epoch).where(mine).order_by(table.c.seq.desc())
                known = connection.execute(query).all()
                newest = max((row.seq for row in known if row.epoch == held.epoch), default=0)
                if held.seq - newest >= CHECKPOINT_EVERY:
                    row = {
                        "org": org,
                        "rates": rates,
                        "seq": held.seq,
                        "epoch": held.epoch,
                        "learned": held.learned.to_bytes(),
                        "at": datetime.now(timezone.utc),
                    }
                    old = [one.seq for one in known if one.epoch != held.epoch]
                    old += [one.seq for one in known if one.epoch == held.epoch][_KEPT_CHECKPOINTS - 1 :]
                    if old:
                        connection.execute(sa.delete(table).where(mine, table.c.seq.in_(old)))
                    add_missing(connection, table, [row])
                    newest = held.seq
        except StoreUnavailable as error:  # it spares work, no more
            _log.info("learning: no checkpoint was kept: %s", error)
            return held
        return replace(held, saved=newest)

    def _let_some_go(self) -> None:
        while len(self.asked) > self._most:
            org, _ = min(list(self.asked.items()), key=lambda item: item[1])  # selections add to it meanwhile
            for known in (self.asked, self._held, self._past, self.learned):
                known.pop(org, None)

    def _in_time(self, call: Callable[[], Any]) -> Any:
        try:
            return self._workers.run(call, _READ_S)
        except (Overdue, Full) as error:
            raise StoreUnavailable(f"outcomes: {error}") from error


def _at_work(follower: Follower[Any]) -> Iterable[threading.Lock]:
    """Held while the database is at work."""
    return () if follower._thread is None else (follower._following,)


def _begin_anew(follower: Follower[Any]) -> None:
    """The thread stays behind in a fork; what was learnt is there."""
    if not follower._stop.is_set():
        follower._begin()
