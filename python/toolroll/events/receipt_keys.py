"""The keys of receipts: made once, kept in the store, so that every process verifies what another signed."""

from __future__ import annotations

import os
from datetime import datetime, timezone

import sqlalchemy as sa

from toolroll.events.receipts import LIFETIME_S, SECRET_BYTES, Signer
from toolroll.store import tables
from toolroll.store.database import Database

_keys = tables.receipt_keys
_MESSAGES = "messages"  # no key of receipts: what messages are hashed by


def signer_of(database: Database, lifetime_s: float = LIFETIME_S) -> Signer:
    """The signer of a store; makes the first key where there is none.

    Raises:
        StoreUnavailable: the store cannot be read, or the first key cannot be written.
    """
    with database.reading() as connection:
        found = _signer(connection, lifetime_s)
    if found is not None:
        return found
    with database.recording() as connection:
        _lock(connection)
        found = _signer(connection, lifetime_s)  # another process may have been faster
        if found is None:
            _add(connection)
            found = _signer(connection, lifetime_s)
    assert found is not None
    return found


def rotate(database: Database, lifetime_s: float = LIFETIME_S) -> Signer:
    """Makes a new key to sign with; receipts of the old ones are good until their time is over.

    Keys that were retired for longer than a receipt lives are deleted.
    """
    now = datetime.now(timezone.utc)
    with database.recording() as connection:
        _lock(connection)
        query = sa.select(_keys.c.key_id, _keys.c.retired_at).where(_keys.c.key_id != _MESSAGES)
        for key_id, retired_at in connection.execute(query).all():
            if retired_at is None:
                connection.execute(sa.update(_keys).where(_keys.c.key_id == key_id).values(retired_at=now))
            elif (now - retired_at).total_seconds() > lifetime_s:
                connection.execute(sa.delete(_keys).where(_keys.c.key_id == key_id))
        _add(connection)
        found = _signer(connection, lifetime_s)
    assert found is not None
    return found


def _lock(connection: sa.Connection) -> None:
    if connection.dialect.name == "postgresql":  # on SQLite writers take turns anyway
        connection.exec_driver_sql("LOCK TABLE receipt_keys IN SHARE ROW EXCLUSIVE MODE")


def message_secret(database: Database) -> bytes:
    """What messages are hashed by, the same for good; made where there is none.

    Raises:
        StoreUnavailable: it cannot be read, or not be written.
    """
    query = sa.select(_keys.c.secret).where(_keys.c.key_id == _MESSAGES)
    with database.reading() as connection:
        secret = connection.execute(query).scalar()
    if secret is None:
        with database.recording() as connection:
            _lock(connection)
            secret = connection.execute(query).scalar()
            if secret is None:
                _add(connection, _MESSAGES)
                secret = connection.execute(query).scalar_one()
    return bytes(secret)


def _add(connection: sa.Connection, key_id: str | None = None) -> None:
    connection.execute(
        sa.insert(_keys),
        {
            "key_id": key_id or os.urandom(4).hex(),
            "secret": os.urandom(SECRET_BYTES),
            "created_at": datetime.now(timezone.utc),
            "retired_at": None,
        },
    )


def _signer(connection: sa.Connection, lifetime_s: float) -> Signer | None:
    query = sa.select(_keys).where(_keys.c.key_id != _MESSAGES)
    rows = connection.execute(query.order_by(_keys.c.created_at, _keys.c.key_id)).all()
    current = [row.key_id for row in rows if row.retired_at is None]
    if not current:
        return None
    return Signer({row.key_id: row.secret for row in rows}, current[-1], lifetime_s)
