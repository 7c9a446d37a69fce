"""The lease: only one keeper at a time may write outcomes and their sums.

The lease is one row of the database. A keeper takes it for some seconds and renews it. The transaction of
each batch also renews it, and thereby locks the row. So a keeper that lost the lease cannot commit, however
long it was stopped. Only the database's clock is used.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, NamedTuple

import sqlalchemy as sa

from toolroll.model.errors import StoreUnavailable
from toolroll.registry.store import tables
from toolroll.registry.store.bulk_insert import add_missing
from toolroll.registry.store.database import Database

LEASE_S = 5.0  # after which another keeper takes over from one that was killed
RENEW_S = 1.0

# What a keeper has done since it took over; the last refusal; the size of events and outcomes.
NO_FIGURES: Mapping[str, Any] = {
    "since": None,
    **dict.fromkeys(("events", "counted", "repeated", "refused", "pruned"), 0),
    "last_refusal": None,
    "stored_bytes": None,
}

_table = tables.keeper
_NOW: Mapping[str, sa.ColumnElement[float]] = {
    "sqlite": sa.literal_column("((julianday('now') - 2440587.5) * 86400.0)", sa.Double()),
    "postgresql": sa.literal_column("extract(epoch from clock_timestamp())::float8", sa.Double()),
}


class LeaseLost(StoreUnavailable):
    """Another keeper has taken over; nothing was written."""


class KeeperState(NamedTuple):
    """The state of the lease.

    Attributes:
        holder: host, process id and a random word; "" if no keeper ever held it.
        until: its end. is_held: whether the end is in the future.
        figures: the keeper's work since it took over.
    """

    holder: str
    until: datetime | None
    is_held: bool
    figures: Mapping[str, Any]


def new_holder() -> str:
    """A new name for a keeper in this process."""
    return f"{socket.gethostname()[:80]}:{os.getpid()}:{os.urandom(4).hex()}"


def take(database: Database, holder: str, figures: Mapping[str, Any]) -> bool:
    """Takes or renews the lease for `LEASE_S`. Returns whether this holder now has it.

    Raises:
        StoreUnavailable: it is unknown whether this holder has it.
    """
    now = _NOW[database.dialect]
    is_free = sa.or_(
        _table.c.holder == holder,
        _table.c.until < now,
        _table.c.until > now + 2 * LEASE_S,  # the clock was set back
    )
    with database.autocommit() as connection:
        free = connection.execute(sa.select(is_free)).scalar()
        if free is None:
            _add(connection)
        elif not free:  # most often: an attempt would delay writers of a SQLite file
            return False
        return bool(connection.execute(_renewal(connection, holder, figures).where(is_free)).rowcount)


def renew_in(connection: sa.Connection, holder: str, figures: Mapping[str, Any]) -> None:
    """Renews and locks the lease until the transaction ends. Raises LeaseLost."""
    if not connection.execute(
        _renewal(connection, holder, figures).where(_table.c.holder == holder)
    ).rowcount:
        raise LeaseLost("another process keeps this registry now; nothing was written")


def release(database: Database, holder: str) -> None:
    """Ends the lease, so that another keeper need not wait."""
    with database.autocommit() as connection:
        mine = sa.update(_table).where(_table.c.holder == holder)
        connection.execute(mine.values(until=_NOW[database.dialect] - 0.001))


def lock(connection: sa.Connection) -> None:
    """Prevents commits of all keepers until this transaction ends."""
    _add(connection)
    connection.execute(sa.select(_table.c.id).with_for_update())


def state_of(database: Database) -> KeeperState:
    """Reads the state of the lease. Raises StoreUnavailable."""
    query = sa.select(
        _table.c.holder, _table.c.until, _table.c.figures, _table.c.until > _NOW[database.dialect]
    )
    with database.reading(is_single=True) as connection:
        row = connection.execute(query).first()
    if row is None or not row[0]:
        return KeeperState("", None, False, {})
    return KeeperState(row[0], datetime.fromtimestamp(row[1], timezone.utc), bool(row[3]), row[2])


def _renewal(connection: sa.Connection, holder: str, figures: Mapping[str, Any]) -> sa.Update:
    until = _NOW[connection.dialect.name] + LEASE_S
    return sa.update(_table).values(holder=holder, until=until, figures=dict(figures))


def _add(connection: sa.Connection) -> None:
    add_missing(connection, _table, [{"id": 1, "holder": "", "until": 0.0, "figures": {}}])
