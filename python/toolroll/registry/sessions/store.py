"""Sessions in the database: compare-and-set, one session or many in one transaction.

A writer first locks its rows, in the same order in every process: what it compares under the lock is still
true when it writes, and there is no deadlock. If two writers create the same session, the first one wins, and
the second is told.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, TypeAlias

import sqlalchemy as sa

from toolroll._gil import GilYielder, batches
from toolroll.errors import Conflict, InvalidInput
from toolroll.registry.sessions.records import (
    LIFETIME_S,
    Key,
    Record,
    SessionSummary,
    StoredSession,
    first_version,
    key_of,
    mark_of,
    next_version,
    org_of,
    turn_in,
)
from toolroll.registry.store import tables
from toolroll.registry.store.bulk_insert import add_missing, upsert
from toolroll.registry.store.database import Database
from toolroll.registry.store.row_reader import read_rows

Merge: TypeAlias = Callable[
    [Record, Record], Record
]  # (stored record, record of this process) → both, merged

_TABLE, _C = tables.sessions, tables.sessions.c
# Decoded here, not by the driver, so that a damaged record does not fail the whole query.
_TEXT = sa.cast(_C.record, sa.Text).label("record")
# Built once: building takes as long as running it.
_ONE = sa.select(_TEXT, _C.version, _C.updated_at, _C.expires_at).where(
    _C.org == sa.bindparam("of_org"), _C.session == sa.bindparam("of_session")
)
_REPLACE = sa.update(_TABLE).where(
    _C.org == sa.bindparam("of_org"),
    _C.session == sa.bindparam("of_session"),
    _C.version == sa.bindparam("of_version"),
)
_INSERT = sa.insert(_TABLE)
_SOME = 128  # keys in a query
_SOME_GONE = 500  # sessions that one transaction deletes
_LONGEST_S = 100 * 365 * 24 * 3_600.0


@dataclass(frozen=True, slots=True)
class Draft:
    """A session to be written.

    Attributes:
        key: from `key_of`.
        record: its new record.
        version: of the stored record that this one was made from; 0 for none; None if it is not known.
        at: when it changed.
    """

    key: Key
    record: Record
    version: int | None
    at: datetime


@dataclass(frozen=True, slots=True)
class WriteResult:
    """A session that was written.

    Attributes:
        version: its new version.
        is_merged: whether the record was merged with that of another process.
    """

    version: int
    is_merged: bool = False


class SessionStore:
    """The sessions of a database. Safe to share between threads; every call waits for the database."""

    def __init__(self, database: Database, lifetime_s: float | None = LIFETIME_S) -> None:
        """lifetime_s: how long a session is kept after its last write; None for ever."""
        is_number = isinstance(lifetime_s, (int, float)) and not isinstance(lifetime_s, bool)
        if lifetime_s is not None and not (is_number and 0 < lifetime_s <= _LONGEST_S):
            raise InvalidInput(
                f"sessions: lifetime_s is {lifetime_s!r:.80}, must be > 0 and at most {_LONGEST_S:,.0f}, or "
                "None for ever"
            )
        self._database, self._lifetime_s = database, lifetime_s

    def read(self, org: str, session: str) -> StoredSession | None:
        """The session; None if there is none, or it has expired.

        Raises:
            InvalidInput: no session can have this id.
            StoreUnavailable: the store cannot be read.
        """
        key = key_of(org, session)
        with self._database.autocommit() as connection:
            row = connection.execute(_ONE, {"of_org": key[0], "of_session": key[1]}).first()
        if row is None or _has_expired(row, _now()):
            return None
        record = _read(row.record)
        # A damaged record counts as empty; with its version it can be replaced.
        problem = "its record is no JSON object" if record is None else ""
        return StoredSession(record or {}, _version_of(row), row.updated_at, problem)

    def write(self, org: str, session: str, record: Record, version: int) -> int:
        """Writes the session if it still has this version, and returns the new one.

        version: from `read` or `write`; 0 if there was no session.

        Raises:
            Conflict: the session was written, deleted or created since; read it again.
            InvalidInput: the record is no JSON or too large, or no session can have this id.
            StoreUnavailable: nothing was written, or nobody knows: read it again.
        """
        draft = Draft(key_of(org, session), record, version, _now())
        done = self.write_all([draft]).get(draft.key)
        if isinstance(done, WriteResult):
            return done.version
        if done is not None:
            raise done
        raise Conflict(
            f"session {session!r:.80} of organisation {org!r:.80}: is not at version {version} any more: "
            "another process wrote or deleted it; read it again"
        )

    def replace(self, draft: Draft, mark: int) -> int | None:
        """Writes one session quickly, if it still has the draft's version; returns the new version.

        None if it has another version, or the draft's is not known: then `write_all` decides.

        Raises:
            InvalidInput: the record cannot be stored.
            StoreUnavailable: nothing was written, or nobody knows.
        """
        if draft.version is None:
            return None
        turn = turn_in(draft.record, draft.key)
        version = next_version(draft.version, mark) if draft.version else first_version(mark)
        values = {
            "turn": turn,
            "record": dict(draft.record),
            "version": version,
            "updated_at": draft.at,
            "expires_at": _expiry(draft.at, self._lifetime_s),
        }
        try:
            with self._database.autocommit() as connection:
                if draft.version:
                    of = {"of_org": draft.key[0], "of_session": draft.key[1], "of_version": draft.version}
                    is_written = connection.execute(_REPLACE, {**of, **values}).rowcount > 0
                else:
                    row = {"org": draft.key[0], "session": draft.key[1], "created_at": draft.at, **values}
                    connection.execute(_INSERT, row)
                    is_written = True
        except Conflict:  # another process has begun the session
            return None
        return version if is_written else None

    def write_all(
        self, drafts: Iterable[Draft], merge: Merge | None = None, mark: int = 0
    ) -> dict[Key, WriteResult | InvalidInput]:
        """Writes sessions in one transaction, except those that changed since their draft was made.

        A session whose stored version has this mark has not changed: the writer itself wrote it.

        Args:
            drafts: each session once.
            merge: makes one record of the stored one and the draft's, for sessions that changed. It runs
                within the transaction, may get the same record twice, and must change neither.
            mark: the writing process, see `records`; 0 for none.

        Returns:
            The result for each session, or the reason why it cannot be stored. A missing session has changed
            without a `merge`, or two writers created it at the same time.

        Raises:
            InvalidInput: a session is drafted twice; nothing was written.
            StoreUnavailable: nothing was written, or nobody knows; writing them again with `merge` is safe.
        """
        batch = _Batch(merge, mark, self._lifetime_s)
        batch.check(drafts)
        if batch.drafts:
            with self._database.recording() as connection:
                batch.write(connection)
        return batch.done

    def forget(self, org: str, session: str) -> bool:
        """Deletes the session; whether there was one.

        Raises:
            InvalidInput: no session can have this id.
            StoreUnavailable: nothing was deleted, or nobody knows.
        """
        key = key_of(org, session)
        with self._database.recording() as connection:
            return connection.execute(sa.delete(_TABLE).where(*_is(key))).rowcount > 0

    def prune(
        self, older_than_s: float | None = None, *, org: str | None = None, most: int | None = None
    ) -> int:
        """Deletes sessions that have expired or are older than this. Returns how many.

        Args:
            older_than_s: seconds since the last write; 0 for all sessions; None for only expired ones.
            org: only this organisation's sessions; None for all.
            most: the greatest number to delete; None for all.

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
                for part in batches(keys, _SOME):
                    connection.execute(sa.delete(_TABLE).where(_among(part)))
            gone += len(keys)
            if len(keys) < some:
                break
        return gone

    def list(
        self,
        org: str | None = None,
        *,
        limit: int = 50,
        before: SessionSummary | datetime | None = None,
    ) -> tuple[SessionSummary, ...]:
        """Sessions, the latest first, with expired ones that are not deleted yet.

        Args:
            org: only this organisation's sessions; None for all.
            limit: the greatest number to return.
            before: the last session of the previous page; or a time, for sessions last written before it.

        Raises:
            InvalidInput: `limit` is below 1, or `before` is neither.
            StoreUnavailable: the store cannot be read.
        """
        if not isinstance(limit, int) or limit < 1:
            raise InvalidInput(f"sessions: limit is {limit!r:.80}, must be a whole number of at least 1")
        order, where = (_C.updated_at, _C.org, _C.session), []
        if org is not None:
            where.append(_C.org == org_of(org))
        if isinstance(before, SessionSummary):
            last = (before.updated_at, before.org, before.session)
            literals = map(sa.literal, last, (column.type for column in order))
            where.append(sa.tuple_(*order) < sa.tuple_(*literals))
        elif isinstance(before, datetime) and before.tzinfo is not None:
            where.append(_C.updated_at < before)
        elif before is not None:
            raise InvalidInput(
                f"sessions: before is {before!r:.80}, must be from the list, or a datetime with its zone"
            )
        columns = [_C[name] for name in SessionSummary.__slots__]
        latest = [column.desc() for column in order]
        with self._database.reading() as connection:
            rows = read_rows(connection, columns, *where, order_by=latest, limit=limit)
            return tuple(SessionSummary(**row) for row in rows)


class _Batch:
    """One transaction."""

    def __init__(self, merge: Merge | None, mark: int, lifetime_s: float | None) -> None:
        self._merge, self._mark, self._lifetime_s = merge, mark, lifetime_s
        self.drafts: dict[Key, tuple[Draft, int]] = {}  # with the turn; in the order of their keys
        self.done: dict[Key, WriteResult | InvalidInput] = {}
        self._yield_gil = GilYielder()

    def check(self, drafts: Iterable[Draft]) -> None:
        """Sets aside what cannot be stored, before a transaction begins that it would undo."""
        for draft in sorted(drafts, key=lambda draft: draft.key):
            if draft.key in self.drafts:
                raise InvalidInput(f"session {draft.key[1]!r:.80}: is drafted twice, must be once")
            try:
                self.drafts[draft.key] = draft, turn_in(draft.record, draft.key)
            except InvalidInput as error:
                self.done[draft.key] = error
            self._yield_gil()

    def write(self, connection: sa.Connection) -> None:
        there = self._locked(connection)
        self._add(connection, [key for key in self.drafts if key not in there])
        changed, rows = list[sa.Row[Any]](), list[dict[str, Any]]()
        for key, row in there.items():
            draft, turn = self.drafts[key]
            if _has_expired(row, draft.at) or self._is_known(row, draft):
                rows.append(self._row(draft, turn, draft.record, row, self._mark))
                self.done[key] = WriteResult(rows[-1]["version"])
            elif self._merge is not None:
                changed.append(row)
        if changed:
            rows += self._merged(connection, changed)
        upsert(connection, _TABLE, rows)

    def _locked(self, connection: sa.Connection) -> dict[Key, sa.Row[Any]]:
        columns = (_C.org, _C.session, _C.version, _C.created_at, _C.updated_at, _C.expires_at)
        found: dict[Key, Any] = {}
        for some in batches(list(self.drafts), _SOME):
            query = sa.select(*columns).where(_among(some)).order_by(_C.org, _C.session).with_for_update()
            for row in connection.execute(query):
                found[row.org, row.session] = row
                self._yield_gil()
        return found

    def _add(self, connection: sa.Connection, keys: Sequence[Key]) -> None:
        """Inserts new sessions, unless they were deleted since or another writer is faster."""
        rows: dict[Key, dict[str, Any]] = {}
        for key in keys:
            draft, turn = self.drafts[key]
            if self._merge is not None or not draft.version:
                rows[key] = self._row(draft, turn, draft.record, None, self._mark)
        add_missing(connection, _TABLE, rows.values())
        for some in batches(list(rows), _SOME):
            query = sa.select(_C.org, _C.session, _C.version).where(_among(some))
            for org, session, version in connection.execute(query):
                if version == rows[org, session]["version"]:
                    self.done[org, session] = WriteResult(version)

    def _is_known(self, row: sa.Row[Any], draft: Draft) -> bool:
        version = _version_of(row)
        return version == draft.version or (self._mark != 0 and mark_of(version) == self._mark)

    def _merged(self, connection: sa.Connection, changed: Sequence[sa.Row[Any]]) -> list[dict[str, Any]]:
        assert self._merge is not None
        theirs: dict[Key, Record | None] = {}
        for some in batches([(row.org, row.session) for row in changed], _SOME):
            theirs |= self._records(connection, some)
        rows = []
        for row in changed:
            key = (row.org, row.session)
            draft, record = self.drafts[key][0], theirs[key]
            try:
                both = merged(self._merge, record or {}, draft.record, key)
                rows.append(self._row(draft, turn_in(both, key), both, row, 0))
                self.done[key] = WriteResult(rows[-1]["version"], is_merged=True)
            except InvalidInput as error:  # the other sessions get through
                self.done[key] = error
            self._yield_gil()
        return rows

    def _records(self, connection: sa.Connection, keys: Sequence[Key]) -> dict[Key, Record | None]:
        """The stored records; None for damaged ones."""
        query = sa.select(_C.org, _C.session, _TEXT).where(_among(keys))
        return {(org, session): _read(text) for org, session, text in connection.execute(query)}

    def _row(
        self, draft: Draft, turn: int, record: Record, before: sa.Row[Any] | None, mark: int
    ) -> dict[str, Any]:
        begins = before is None or _has_expired(before, draft.at)
        at = draft.at if before is None else max(draft.at, before.updated_at)
        return {
            "org": draft.key[0],
            "session": draft.key[1],
            "turn": turn,
            "record": dict(record),
            "version": first_version(mark) if before is None else next_version(_version_of(before), mark),
            "created_at": at if begins or before is None else before.created_at,
            "updated_at": at,
            "expires_at": _expiry(at, self._lifetime_s),
        }


def merged(merge: Merge, theirs: Record, mine: Record, key: Key) -> Record:
    """Both records merged; mine if theirs is empty.

    Raises:
        InvalidInput: `merge` fails on them.
    """
    if not theirs:
        return mine
    try:
        return merge(theirs, mine)
    except Exception as error:  # a caller's function; only these two records fail
        raise InvalidInput(f"session {key[1]!r:.80}: cannot be merged: {error!r:.200}") from error


def _among(keys: Iterable[Any]) -> sa.ColumnElement[bool]:
    return sa.tuple_(_C.org, _C.session).in_(list(keys))


def _is(key: Key) -> tuple[sa.ColumnElement[bool], ...]:
    return _C.org == key[0], _C.session == key[1]


def _version_of(row: sa.Row[Any]) -> int:
    """The session's version; 0, as if it was never written, if the row holds something else."""
    return row.version if isinstance(row.version, int) else 0


def _read(text: str | None) -> Record | None:
    """The record; None if it is damaged."""
    try:
        record = json.loads(text or "")
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _expiry(at: datetime, lifetime_s: float | None) -> datetime | None:
    return None if lifetime_s is None else at + timedelta(seconds=lifetime_s)


def _has_expired(row: sa.Row[Any], now: datetime) -> bool:
    return row.expires_at is not None and row.expires_at <= now


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _before(now: datetime, seconds: float) -> datetime:
    try:
        if seconds >= 0:
            return now - timedelta(seconds=seconds)
    except (TypeError, OverflowError):
        pass
    raise InvalidInput(f"sessions: older_than_s is {seconds!r:.80}, must be seconds of at least 0")
