"""Service keys of callers, each with an organisation and roles.

A key's secret is 256 random bits, so a slow hash would add nothing. The registry stores a SHA-256 of the
secret and of the key's rights: if another program changes them in the database, the key is no longer valid.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import sqlalchemy as sa

from toolroll.model.errors import Conflict, InvalidInput, NotFound
from toolroll.model.identity import canonical_json
from toolroll.registry.editing import governed_rows
from toolroll.registry.store import tables
from toolroll.registry.store.database import Write, checked_text
from toolroll.registry.store.json_values import JsonRecord
from toolroll.registry.store.row_reader import Row, read_rows

VOUCH = "vouch"
ROLES: Mapping[str, str] = {
    "select": "select tools, and hold conversations",
    "report": "report outcomes",
    VOUCH: "name the users whose outcomes it reports",
    "sync": "register the tools of one plugin",
    "read": "read the registry and its analytics",
    "administer": "change the registry",
}
PREFIX = "trk"  # by which scanners recognise a key that somebody has published
LONGEST_LIFE = timedelta(days=3_650)

_SECRET_BYTES = 32
_LONGEST_ID = 64  # characters of an id that is worth a look
_TABLE = tables.service_keys
_BOUND = ("key_id", "org", "roles", "plugin")  # the digest covers them and the secret


def roles_among(known: Collection[str], roles: Collection[str]) -> tuple[str, ...]:
    """The roles in their usual order. Raises InvalidInput for an empty list and for an unknown role."""
    if isinstance(roles, str) or not roles or not set(roles) <= set(known):
        raise InvalidInput(f"roles is {roles!r:.200}, must be some of {', '.join(known)}")
    return tuple(role for role in known if role in roles)


@dataclass(frozen=True, slots=True)
class ServiceKey(JsonRecord):
    """A key without its secret.

    Attributes:
        key_id: its public part.
        name: for people and the audit log.
        org: its callers' organisation; "" for the platform, None for any organisation.
        roles: names in `ROLES`.
        plugin: the plugin that the role "sync" registers.
        expires_at: the end of its validity; None for no end.
    """

    key_id: str
    name: str
    org: str | None
    roles: tuple[str, ...]
    plugin: str
    created_at: datetime
    created_by: str
    expires_at: datetime | None

    def is_valid(self, at: datetime) -> bool:
        """Whether the key has not expired."""
        return self.expires_at is None or at < self.expires_at


_FIELDS = tuple(ServiceKey.__slots__)


@dataclass(frozen=True, slots=True)
class KeyRing:
    """A snapshot of all keys. Lookups need no database."""

    _keys: Mapping[str, tuple[ServiceKey, bytes]]

    @classmethod
    def read(cls, connection: sa.Connection, *where: sa.ColumnElement[bool]) -> KeyRing:
        """The keys in these rows."""
        return cls({key.key_id: (key, digest) for key, digest in _read(connection, *where)})

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, text: str, at: datetime) -> ServiceKey | None:
        """The key with this text, if it is valid at this time. Digests are compared in constant time."""
        prefix, _, rest = text.partition("_")
        key_id, _, secret = rest.partition("_")
        found = self._keys.get(key_id)
        if prefix != PREFIX or found is None:
            return None
        key, digest = found
        if not hmac.compare_digest(digest, _digest(secret, {name: getattr(key, name) for name in _BOUND})):
            return None
        return key if key.is_valid(at) else None

    def of_id(self, key_id: str, at: datetime) -> ServiceKey | None:
        """The key with this public part, if it is valid at this time."""
        found = self._keys.get(key_id)
        return found[0] if found is not None and found[0].is_valid(at) else None


class ServiceKeys(governed_rows.Author):
    """The service keys of a registry. Running services follow a change within seconds."""

    def add(
        self,
        name: str,
        *,
        roles: Collection[str],
        org: str | None = "",
        plugin: str = "",
        lifetime: timedelta | None = None,
        reason: str = "",
    ) -> tuple[ServiceKey, str]:
        """Adds a key. Returns it and its text, which nobody can read again.

        org: None for any organisation. plugin: for the role "sync". lifetime: None for no end.

        Raises InvalidInput if the name is blank, a role is unknown, or only one of the plugin and the role
        "sync" is given.
        """
        governed_rows.check_name(name, "key name")
        roles = roles_among(ROLES, roles)
        if bool(checked_text(plugin, "plugin")) is not ("sync" in roles):
            raise InvalidInput("plugin: a key with the role 'sync' needs one, and no other key has one")
        values: dict[str, Any] = {"name": name, "org": org, "roles": roles, "plugin": plugin}
        _check_time(lifetime, "lifetime")
        with self._database.writing(self.actor, org or "") as write:
            return _insert(write, values, lifetime, "key.add", reason)

    def rotate(
        self, key_id: str, *, overlap: timedelta = timedelta(days=1), reason: str = ""
    ) -> tuple[ServiceKey, str]:
        """Adds a key with the same rights and lifetime. The old key stays valid for the overlap only.

        Raises NotFound, and Conflict if it has expired.
        """
        _check_time(overlap, "overlap")
        with self._database.writing(self.actor) as write:
            old = _key(write.connection, key_id)
            if not old.is_valid(write.at):
                raise Conflict(f"service key {key_id!r:.80}: has expired; add another one")
            write.org = old.org or ""
            ends = write.at + overlap
            _expire(write, old, ends if old.expires_at is None else min(ends, old.expires_at))
            values = {name: getattr(old, name) for name in ("name", "org", "roles", "plugin")}
            lifetime = None if old.expires_at is None else old.expires_at - old.created_at
            return _insert(write, values, lifetime, "key.rotate", reason, replaces=key_id)

    def revoke(self, key_id: str, *, reason: str = "") -> ServiceKey:
        """Ends a key's validity now. Raises NotFound, and Conflict if it has expired."""
        with self._database.writing(self.actor) as write:
            old = _key(write.connection, key_id)
            if not old.is_valid(write.at):
                raise Conflict(f"service key {key_id!r:.80}: has expired already")
            write.org = old.org or ""
            write.log("key.revoke", key_id, {"name": old.name}, reason)
            return _expire(write, old, write.at)

    def list(self, org: str | None = None) -> tuple[ServiceKey, ...]:
        """The keys of an organisation ("": the platform); None for all keys. Also expired ones."""
        where = [] if org is None else [_TABLE.c.org == checked_text(org, "org")]
        with self._database.reading() as connection:
            return tuple(key for key, _ in _read(connection, *where))

    def find(self, text: str, at: datetime) -> ServiceKey | None:
        """The key with this text, if it is valid at this time. Reads the database."""
        prefix, _, rest = text.partition("_")
        key_id = rest.partition("_")[0]
        if prefix != PREFIX or not text.isascii() or not key_id.isalnum() or len(key_id) > _LONGEST_ID:
            return None
        with self._database.reading() as connection:
            return KeyRing.read(connection, _TABLE.c.key_id == key_id).find(text, at)

    def ring(self) -> KeyRing:
        """All keys, for looking them up."""
        with self._database.reading() as connection:
            return KeyRing.read(connection)


def _read(connection: sa.Connection, *where: sa.ColumnElement[bool]) -> tuple[tuple[ServiceKey, bytes], ...]:
    """Keys with their digests, by name."""
    order = (_TABLE.c.name, _TABLE.c.created_at, _TABLE.c.key_id)
    rows = read_rows(connection, list(_TABLE.c), *where, order_by=order)
    return tuple((_key_in(row), bytes(row["digest"])) for row in rows)


def _key_in(row: Row) -> ServiceKey:
    return ServiceKey(**{name: row[name] for name in _FIELDS} | {"roles": tuple(row["roles"])})


def _key(connection: sa.Connection, key_id: str) -> ServiceKey:
    found = _read(connection, _TABLE.c.key_id == checked_text(key_id, "key_id"))
    if not found:
        raise NotFound(f"service key {key_id!r:.80}: does not exist; `list` shows the ids of all keys")
    return found[0][0]


def _insert(
    write: Write,
    values: Mapping[str, Any],
    lifetime: timedelta | None,
    action: str,
    reason: str,
    **details: str,
) -> tuple[ServiceKey, str]:
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    row = {**values, "key_id": secrets.token_hex(4), "roles": list(values["roles"])}
    row |= {"created_at": write.at, "created_by": write.actor}
    row["expires_at"] = None if lifetime is None else write.at + lifetime
    digest = _digest(secret, {name: row[name] for name in _BOUND})
    write.connection.execute(sa.insert(_TABLE), {**row, "digest": digest})
    key = _key_in(row)
    allowed = {name: key.to_dict()[name] for name in ("name", "org", "roles", "plugin", "expires_at")}
    write.log(action, key.key_id, {**details, "after": allowed}, reason)
    return key, f"{PREFIX}_{key.key_id}_{secret}"


def _expire(write: Write, key: ServiceKey, at: datetime) -> ServiceKey:
    write.connection.execute(
        sa.update(_TABLE).where(_TABLE.c.key_id == key.key_id).values(expires_at=at.astimezone(timezone.utc))
    )
    return _key(write.connection, key.key_id)


def _digest(secret: str, bound: Mapping[str, Any]) -> bytes:
    return hashlib.sha256(
        canonical_json([secret, {**bound, "roles": list(bound["roles"])}]).encode()
    ).digest()


def _check_time(time: timedelta | None, what: str) -> None:
    if time is not None and not timedelta(0) <= time <= LONGEST_LIFE:
        raise InvalidInput(f"{what} is {time}, must be from 0 to {LONGEST_LIFE.days:,} days")
