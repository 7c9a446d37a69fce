"""Sessions in the database: each is one row with a version, and is replaced by compare-and-set.

A version is a random number that changes with each write. So a new session never has the version of a deleted
one with the same id.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from toolroll.model.errors import InvalidInput, quoted
from toolroll.registry.sessions.keys import Key, org_of
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database
from toolroll.registry.store.json_values import JsonRecord

LIFETIME_S = 30 * 24 * 3_600.0  # of a session that is not written to any more
_TABLE, _C = tables.sessions, tables.sessions.c
_IS = (_C.org == sa.bindparam("of_org"), _C.session == sa.bindparam("of_session"))
# As text: it is read only if its version is not known.
_READ = sa.select(sa.cast(_C.record, sa.Text).label("record"), _C.version, _C.updated_at, _C.expires_at)
_READ = _READ.where(*_IS)  # built once: building takes as long as running it
_FORGET = sa.delete(_TABLE).where(*_IS)
_SOME = 128  # keys in a statement
_SOME_GONE = 500  # sessions that one transaction deletes
_LONGEST_S = 100 * 365 * 24 * 3_600.0
_LARGEST_TURN = 2**31 - 1


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A stored session. text: its record, as JSON. version: for `SessionStore.write`."""

    text: str
    version: int
    updated_at: datetime

    @property
    def record(self) -> Mapping[str, Any]:
        """The record."""
        record: dict[str, Any] = json.loads(self.text)  # the database takes no other value
        return record


@dataclass(frozen=True, slots=True)
class SessionSummary(JsonRecord):
    """A session in a list, without its record.

    Attributes:
        session: its id; a long one is cut and ends in a digest.
        turn: the number of its last turn.
        expires_at: when it is deleted; None for never.
    """

    org: str
    session: str
    turn: int
    version: int
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None


class SessionStore:
    """The sessions of a database. Safe to share between threads; every call waits for the database.

    `read`, `write` and `forget` wait for two seconds at most.
    """

    def __init__(self, database: Database, lifetime_s: float | None = LIFETIME_S) -> None:
        """lifetime_s: how long a session is kept after its last write; None for ever."""
        is_number = isinstance(lifetime_s, (int, float)) and not isinstance(lifetime_s, bool)
        if lifetime_s is not None and not (is_number and 0 < lifetime_s <= _LONGEST_S):
            raise InvalidInput(
                f"sessions: lifetime_s is {lifetime_s!r:.80}, must be > 0 and at most {_LONGEST_S:,.0f}, or "
                "None for ever"
            )
        self._database, self._lifetime_s = database, lifetime_s

    def read(self, key: Key) -> StoredSession | None:
        """The session; None if there is none or it has expired. Raises StoreUnavailable."""
        row, _ = self._database.at_once(_READ, {"of_org": key[0], "of_session": key[1]})
        if row is None or (row.expires_at is not None and row.expires_at <= _now()):
            return None
        return StoredSession(row.record, row.version, row.updated_at)

    def write(self, key: Key, turn: int, record: str, version: int) -> int | None:
        """Writes the session if it still has this version, and returns the new version.

        Returns None if the session was written, deleted or created meanwhile: read it again. record: a JSON
        object, as text. version: from `read` or `write`; 0 for a new session.

        Raises:
            StoreUnavailable: perhaps nothing was written: read it again.
        """
        now, new = _now(), (int.from_bytes(os.urandom(8), "big") >> 2) or 1
        values = {
            "of_org": key[0],
            "of_session": key[1],
            "of_version": version,
            "turn": min(turn, _LARGEST_TURN),
            "packed": record,
            "version": new,
            "updated_at": now,
            "expires_at": None if self._lifetime_s is None else now + timedelta(seconds=self._lifetime_s),
        }
        _, written = self._database.at_once(self._replace if version else self._begin, values)
        return new if written > 0 else None

    def forget(self, key: Key) -> bool:
        """Deletes the session. Returns whether there was one.

        Raises:
            StoreUnavailable: perhaps nothing was deleted.
        """
        _, gone = self._database.at_once(_FORGET, {"of_org": key[0], "of_session": key[1]})
        return gone > 0

    def prune(
        self, older_than_s: float | None = None, *, org: str | None = None, most: int | None = None
    ) -> int:
        """Deletes expired and old sessions. Returns how many.

        older_than_s: seconds since the last write; 0 for all sessions, None for expired ones only. org:
            deletes only this organisation's. most: the greatest number to delete.

        Raises:
            StoreUnavailable: some of them may be deleted.
        """
        now = _now()
        is_old = sa.and_(_C.expires_at.is_not(None), _C.expires_at <= now)
        if older_than_s is not None:
            is_old = sa.or_(is_old, _C.updated_at <= _before(now, older_than_s))
        old = sa.select(_C.org, _C.session).where(is_old)
        if org is not None:
            old = old.where(_C.org == org_of(org))
        gone = 0
        while most is None or gone < most:
            some = _SOME_GONE if most is None else min(_SOME_GONE, most - gone)
            with self._database.recording() as connection:
                # a locked session is being written, so it is not old
                found = connection.execute(old.limit(some).with_for_update(skip_locked=True)).all()
                keys = [tuple(row) for row in found]
                for at in range(0, len(keys), _SOME):
                    among = sa.tuple_(_C.org, _C.session).in_(keys[at : at + _SOME])
                    connection.execute(sa.delete(_TABLE).where(among))
            gone += len(keys)
            if len(keys) < some:
                break
        return gone

    def list(
        self,
        org: str | None = None,
        *,
        limit: int = 50,
        before: datetime | None = None,
    ) -> tuple[SessionSummary, ...]:
        """Sessions, the latest first, including expired ones that are not deleted yet.

        org: lists only this organisation's. limit: the greatest number. before: only sessions last written
            before this time.

        Raises:
            InvalidInput: `limit` is below 1, or `before` has no time zone.
            StoreUnavailable: the store cannot be read.
        """
        if not isinstance(limit, int) or limit < 1:
            raise InvalidInput(f"sessions: limit is {quoted(limit)}, must be a whole number of at least 1")
        order, where = (_C.updated_at, _C.org, _C.session), []
        if org is not None:
            where.append(_C.org == org_of(org))
        if before is not None:
            if not isinstance(before, datetime) or before.tzinfo is None:
                raise InvalidInput(f"sessions: before is {quoted(before)}, must be a datetime with its zone")
            where.append(_C.updated_at < before)
        columns = [_C[name] for name in SessionSummary.__slots__]
        latest = [column.desc() for column in order]
        with self._database.reading() as connection:
            rows = connection.execute(sa.select(*columns).where(*where).order_by(*latest).limit(limit))
            return tuple(SessionSummary(*row) for row in rows)

    # Built once: building takes as long as running them.

    @cached_property
    def _packed(self) -> sa.ColumnElement[Any]:
        """The record, unchanged: it is JSON already, so no type of the column encodes it again."""
        packed = sa.bindparam("packed", type_=sa.Text)
        return packed if self._database.dialect == "sqlite" else sa.cast(packed, _C.record.type)

    @cached_property
    def _replace(self) -> sa.Update:
        values: dict[Any, Any] = {
            _C[name]: sa.bindparam(name) for name in ("turn", "version", "updated_at", "expires_at")
        }
        old = sa.update(_TABLE).where(*_IS, _C.version == sa.bindparam("of_version"))
        return old.values({**values, _C.record: self._packed})

    @cached_property
    def _begin(self) -> Any:
        """Inserts the session, or replaces one that has expired."""
        row = {
            **{name: sa.bindparam(name) for name in ("turn", "version", "updated_at", "expires_at")},
            "org": sa.bindparam("of_org"),
            "session": sa.bindparam("of_session"),
            "record": self._packed,
            "created_at": sa.bindparam("updated_at"),
        }
        insert = (sqlite if self._database.dialect == "sqlite" else postgresql).insert(_TABLE).values(row)
        return insert.on_conflict_do_update(
            index_elements=["org", "session"],
            set_={name: insert.excluded[name] for name in row if name not in ("org", "session")},
            where=_C.expires_at <= sa.bindparam("updated_at", type_=tables.Instant),
        ).execution_options(preserve_rowcount=True)


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _before(now: datetime, seconds: float) -> datetime:
    try:
        if seconds >= 0:
            return now - timedelta(seconds=seconds)
    except (TypeError, OverflowError):
        pass
    raise InvalidInput(f"sessions: older_than_s is {seconds!r:.80}, must be seconds of at least 0")
