"""Accounts with passwords for the service's page, and its ended sessions.

The registry stores an Argon2id hash (RFC 9106) of the password and of the account's rights: if another
program changes them in the database, nobody can sign in.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import sqlalchemy as sa
from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from toolroll.model.errors import Conflict, InvalidInput, NotFound
from toolroll.model.identity import canonical_json
from toolroll.registry.access.service_keys import ROLES, VOUCH, roles_among
from toolroll.registry.editing import governed_rows
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database, checked_text, is_storable
from toolroll.registry.store.json_values import JsonRecord
from toolroll.registry.store.row_reader import Row, read_rows

# A plugin has a key: the role "sync" belongs to one plugin, and no person is a plugin.
ACCOUNT_ROLES = tuple(role for role in ROLES if role not in ("sync", VOUCH))
SHORTEST_PASSWORD, LONGEST_PASSWORD = 12, 1_000  # Source: NIST SP 800-63B: length, and no rules of characters

_TABLE = tables.accounts
_LOG, _SIGN_OUT = tables.changes.c, "page session"  # the subject of lines about ended sessions, for an index
_CLOCKS = timedelta(hours=1)  # the greatest difference of clocks of services
_HASHER = PasswordHasher()  # 64 MiB, 3 passes: the second profile of RFC 9106
# A wrong name must take as long as a wrong password, so a hash is always compared.
_OF_NOBODY = _HASHER.hash("nobody")


@dataclass(frozen=True, slots=True)
class Account(JsonRecord):
    """An account without its password.

    Attributes:
        name: for sign-in and the audit log.
        org: the person's organisation; "" for the platform, None for any organisation.
        roles: names in `ACCOUNT_ROLES`.
        changed_at: the time of the last change of the password.
    """

    name: str
    org: str | None
    roles: tuple[str, ...]
    created_at: datetime
    created_by: str
    changed_at: datetime


_FIELDS = tuple(Account.__slots__)


@dataclass(frozen=True, slots=True)
class AccountBook:
    """A snapshot of all accounts. Lookups need no database."""

    _accounts: Mapping[str, tuple[Account, str]]

    def __len__(self) -> int:
        return len(self._accounts)

    def check(self, name: str, password: str) -> Account | None:
        """The account with this name and password. Takes about 0.1 s and 64 MiB, also for a wrong name."""
        account, hashed = self._accounts.get(name, (None, _OF_NOBODY))
        try:
            _HASHER.verify(hashed, _hashed_text(password, account))
        except (VerificationError, InvalidHashError):
            return None
        return account

    def version_of(self, name: str) -> str:
        """A text that changes with the account's password, roles and organisation; "" without the account."""
        found = self._accounts.get(name)
        if found is None:
            return ""
        account, hashed = found
        return hashlib.sha256(canonical_json([_allowed(account), hashed]).encode()).hexdigest()[:32]

    def of_version(self, name: str, version: str) -> Account | None:
        """The account with this name, if it has not changed since this version."""
        return self._accounts[name][0] if version and self.version_of(name) == version else None


class Accounts(governed_rows.Author):
    """The accounts of a registry. Running services follow a change within seconds."""

    def add(
        self, name: str, password: str, *, roles: Collection[str], org: str | None = "", reason: str = ""
    ) -> Account:
        """Adds an account. org: None for any organisation.

        Raises:
            InvalidInput: the name is blank, the password too short or too long, or a role is unknown.
            Conflict: there is an account with this name.
        """
        governed_rows.check_name(name, "account name")
        _check_password(password)
        allowed = roles_among(ACCOUNT_ROLES, roles)
        with self._database.writing(self.actor, org or "") as write:
            if _found(write.connection, name):
                raise Conflict(f"account {name!r:.80}: exists already")
            account = Account(name, org, allowed, write.at, write.actor, write.at)
            row = {each: getattr(account, each) for each in _FIELDS} | {"roles": list(allowed)}
            row["password"] = _HASHER.hash(_hashed_text(password, account))
            write.connection.execute(sa.insert(_TABLE), row)
            write.log("account.add", name, {"after": _allowed(account)}, reason)
        return account

    def set_password(self, name: str, password: str, *, reason: str = "") -> Account:
        """Replaces the password, which ends the person's sessions. Raises NotFound and InvalidInput."""
        _check_password(password)
        with self._database.writing(self.actor) as write:
            account = self._account(write.connection, name)
            write.org = account.org or ""
            values = {"password": _HASHER.hash(_hashed_text(password, account)), "changed_at": write.at}
            write.connection.execute(sa.update(_TABLE).where(_TABLE.c.name == name).values(**values))
            write.log("account.password", name, {}, reason)
            return self._account(write.connection, name)

    def remove(self, name: str, *, reason: str = "") -> Account:
        """Removes an account, which ends the person's sessions. Raises NotFound."""
        with self._database.writing(self.actor) as write:
            account = self._account(write.connection, name)
            write.org = account.org or ""
            write.connection.execute(sa.delete(_TABLE).where(_TABLE.c.name == name))
            write.log("account.remove", name, {"before": _allowed(account)}, reason)
        return account

    def list(self, org: str | None = None) -> tuple[Account, ...]:
        """The accounts of an organisation ("": the platform), by name; None for all accounts."""
        where = [] if org is None else [_TABLE.c.org == checked_text(org, "org")]
        with self._database.reading() as connection:
            return tuple(account for account, _ in _read(connection, *where))

    def book(self) -> AccountBook:
        """All accounts, for looking them up."""
        with self._database.reading() as connection:
            return AccountBook({account.name: (account, hashed) for account, hashed in _read(connection)})

    @staticmethod
    def _account(connection: sa.Connection, name: str) -> Account:
        found = _found(connection, name)
        if not found:
            raise NotFound(f"account {name!r:.80}: does not exist; `list` shows all accounts")
        return found[0][0]


def _found(connection: sa.Connection, name: str) -> tuple[tuple[Account, str], ...]:
    return _read(connection, _TABLE.c.name == checked_text(name, "account name"))


def _read(connection: sa.Connection, *where: sa.ColumnElement[bool]) -> tuple[tuple[Account, str], ...]:
    """Accounts with their hashes, by name."""
    rows = read_rows(connection, list(_TABLE.c), *where, order_by=(_TABLE.c.name,))
    return tuple((_account_in(row), row["password"]) for row in rows)


def _account_in(row: Row) -> Account:
    return Account(**{name: row[name] for name in _FIELDS} | {"roles": tuple(row["roles"])})


def _allowed(account: Account) -> dict[str, Any]:
    return {"name": account.name, "org": account.org, "roles": list(account.roles)}


def _hashed_text(password: str, account: Account | None) -> str:
    """The text whose hash is stored. NFKC: keyboards write the same character in several ways."""
    normalized = unicodedata.normalize("NFKC", password)
    return canonical_json([normalized, None if account is None else _allowed(account)])


def _check_password(password: str) -> None:
    """Raises InvalidInput for a bad password, with a message that does not contain it."""
    if not is_storable(password):
        raise InvalidInput("the password has NUL or half of a surrogate pair")
    if not SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
        raise InvalidInput(
            f"the password has {len(password):,} characters, "
            f"must have {SHORTEST_PASSWORD} to {LONGEST_PASSWORD:,}"
        )


class EndedSessions:
    """Sessions that people ended by signing out, until their usual expiry. For one thread.

    Sessions are signed and not stored (decision 55). Only the end of a session is stored, as a line of the
    audit log with the person's name. Services read new lines together with keys and accounts.

    Attributes:
        found: session → the time of its end.
    """

    def __init__(self, database: Database, lifetime: timedelta) -> None:
        """Reads nothing yet. lifetime: of a session."""
        self._database, self._lifetime = database, lifetime
        self._seq = 0  # of the last line that was read
        self.found: dict[str, datetime] = {}

    def end(self, session: str, actor: str) -> None:
        """Ends a session for all services over the registry. Raises StoreUnavailable."""
        with self._database.writing(actor) as write:
            write.log("session.end", _SIGN_OUT, {"session": session})

    def read(self) -> frozenset[str]:
        """The ended sessions. Reads the new lines of the audit log. Raises StoreUnavailable."""
        oldest = datetime.now(timezone.utc) - self._lifetime - _CLOCKS
        of_sessions = (_LOG.org == "", _LOG.subject == _SIGN_OUT)
        new = _LOG.seq > self._seq if self._seq else _LOG.at > oldest
        columns = (_LOG.seq, _LOG.at, _LOG.details)
        with self._database.reading() as connection:
            for row in read_rows(connection, columns, *of_sessions, new, order_by=(_LOG.seq,)):
                self._seq = max(self._seq, row["seq"])
                self.found[str(row["details"].get("session"))] = row["at"]
        self.found = {session: at for session, at in self.found.items() if at > oldest}
        return frozenset(self.found)
