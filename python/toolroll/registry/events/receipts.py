"""Receipts: signed texts with which another process can report on a selection.

A receipt contains the shown tools, the user, the time and its expiry. It fits into a URL, a header or a
model's message. It is signed, not encrypted: anybody can read the tools' names and the context.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import sqlalchemy as sa

from toolroll.learning.exposure import Exposure, pack_tools, unpack_tools
from toolroll.model.errors import Denied, InvalidInput
from toolroll.registry.options import LIFETIME_S as LIFETIME_S
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database
from toolroll.registry.store.row_reader import read_rows

LONGEST = 64 * 2**10  # characters
SECRET_BYTES = 32

_VERSION = "1"
_TAG_BYTES = 32
_AHEAD_S = 300.0  # by which the clocks of two machines may differ


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs receipts with one key, and accepts the receipts of older keys.

    Attributes:
        secrets: key id → secret, at least 32 bytes each.
        current: the id of the signing key.
        lifetime_s: how long a receipt is valid.
    """

    secrets: Mapping[str, bytes]
    current: str
    lifetime_s: float = LIFETIME_S

    def __post_init__(self) -> None:
        for key_id, secret in self.secrets.items():
            if not key_id.isalnum() or len(key_id) > 32:
                raise InvalidInput(f"receipt key {key_id!r:.80}: its id must be 1 to 32 letters and digits")
            if not isinstance(secret, bytes) or len(secret) < SECRET_BYTES:
                raise InvalidInput(f"receipt key {key_id!r}: must have at least {SECRET_BYTES} bytes")
        if self.current not in self.secrets:
            raise InvalidInput(f"receipt key {self.current!r:.80}: there is no such key")

    def sign(self, exposure: Exposure) -> str:
        """A receipt for an exposure. Raises InvalidInput if it would be too long."""
        content = {
            "e": exposure.event_id,
            "o": exposure.org,
            "a": exposure.at,
            "x": exposure.at + self.lifetime_s,
            "r": exposure.reporter,
            "p": exposure.page,
            "t": exposure.tier,
            "c": exposure.category,
            "n": [tool.name for tool in exposure.shown],
        }
        text = json.dumps(content, separators=(",", ":")).encode()
        keys = pack_tools(exposure.shown)
        body = zlib.compress(len(text).to_bytes(4, "little") + text + keys, 1)
        head = f"{_VERSION}.{self.current}."
        receipt = head + _text(body + _tag(self.secrets[self.current], head, body))
        if len(receipt) > LONGEST:
            raise InvalidInput(
                f"receipt: {len(exposure.shown):,} tools were shown, too many for one; report by the "
                "selection, or by its event id"
            )
        return receipt

    def read(self, receipt: str, now: float, org: str | None = None) -> Exposure:
        """The exposure in a receipt, without the message's vector.

        now: seconds since the epoch. org: the reporting organisation; None if unknown.

        Raises:
            InvalidInput: the text is no receipt.
            Denied: the signature is wrong, the receipt has expired, or it is another organisation's.
        """
        version, key_id, body, tag = _parts(receipt)
        secret = self.secrets.get(key_id)
        head = f"{version}.{key_id}."
        if version != _VERSION or secret is None or not hmac.compare_digest(tag, _tag(secret, head, body)):
            raise Denied("receipt: was not signed here, or was changed; nothing was recorded")
        content, keys = _content(body)  # our signature, so our content
        if org is not None and content["o"] != org:
            raise Denied(f"receipt: belongs to another organisation than {org!r:.80}; nothing was recorded")
        if not content["a"] - _AHEAD_S <= now <= content["x"]:
            raise Denied(
                f"receipt: its time is over (event {content['e']} is {now - content['a']:,.0f} s old, of "
                f"{content['x'] - content['a']:,.0f} s); nothing was recorded"
            )
        event_id, org, at, reporter, page, tier, category = (content[name] for name in "eoarptc")
        shown = unpack_tools(content["n"], keys)
        return Exposure(event_id, org, at, reporter, page, tier, category, shown)


def is_receipt(text: str) -> bool:
    """Whether the text is a receipt rather than an event's id."""
    return "." in text


def _parts(receipt: object) -> tuple[str, str, bytes, bytes]:
    if not isinstance(receipt, str) or receipt.count(".") != 2 or len(receipt) > LONGEST:
        raise InvalidInput(
            f"receipt: is {receipt!r:.80}, must be the text that roll.receipt(picked) returned"
        )
    version, key_id, text = receipt.split(".")
    try:
        signed = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), b"-_", validate=True)
    except (ValueError, binascii.Error):
        raise InvalidInput("receipt: is damaged: it must be passed on unchanged") from None
    if _text(signed) != text:  # base64 has unused bits: accept only one spelling
        raise InvalidInput("receipt: is damaged: it must be passed on unchanged")
    return version, key_id, signed[:-_TAG_BYTES], signed[-_TAG_BYTES:]


def _content(body: bytes) -> tuple[dict[str, Any], bytes]:
    data = zlib.decompress(body)
    length = int.from_bytes(data[:4], "little")
    return json.loads(data[4 : 4 + length]), data[4 + length :]


def _tag(secret: bytes, head: str, body: bytes) -> bytes:
    return hmac.new(secret, head.encode() + body, hashlib.sha256).digest()


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


_keys = tables.receipt_keys
_MESSAGES = "messages"  # the id of the key that messages are hashed with


def signer_of(database: Database) -> Signer:
    """The signer of a store; creates the first key. Raises StoreUnavailable."""
    with database.autocommit() as connection:  # a caller waits
        found = _signer(connection)
    if found is None:
        with database.recording() as connection:
            _lock(connection)
            found = _signer(connection)  # another process may have created it
            if found is None:
                _add(connection)
                found = _signer(connection)
    assert found is not None
    return found


def rotate(database: Database) -> Signer:
    """Creates a new signing key, and deletes keys whose receipts have all expired."""
    now = datetime.now(timezone.utc)
    with database.recording() as connection:
        _lock(connection)
        query = sa.select(_keys.c.key_id, _keys.c.retired_at).where(_keys.c.key_id != _MESSAGES)
        for key_id, retired_at in connection.execute(query).all():
            if retired_at is None:
                connection.execute(sa.update(_keys).where(_keys.c.key_id == key_id).values(retired_at=now))
            elif (now - retired_at).total_seconds() > LIFETIME_S:
                connection.execute(sa.delete(_keys).where(_keys.c.key_id == key_id))
        _add(connection)
        found = _signer(connection)
    assert found is not None
    return found


def _lock(connection: sa.Connection) -> None:
    if connection.dialect.name == "postgresql":  # SQLite has only one writer at a time
        connection.exec_driver_sql("LOCK TABLE receipt_keys IN SHARE ROW EXCLUSIVE MODE")


def message_secret(database: Database) -> bytes:
    """The key of message hashes, created at the first use. It never changes. Raises StoreUnavailable."""
    query = sa.select(_keys.c.secret).where(_keys.c.key_id == _MESSAGES)
    with database.autocommit() as connection:
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


def _signer(connection: sa.Connection) -> Signer | None:
    order = (_keys.c.created_at, _keys.c.key_id)
    rows = list(read_rows(connection, list(_keys.c), _keys.c.key_id != _MESSAGES, order_by=order))
    current = [row["key_id"] for row in rows if row["retired_at"] is None]
    return Signer({row["key_id"]: row["secret"] for row in rows}, current[-1]) if current else None
