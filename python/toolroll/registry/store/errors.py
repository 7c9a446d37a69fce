"""What goes wrong in a database, as toolroll's errors: what happened, and what to do about it.

Nothing of SQLAlchemy or of a driver gets out of the store: whoever calls it can tell "try again" from "you
asked for the wrong thing" without knowing which database there is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import exc

from toolroll.errors import Conflict, InvalidInput, StoreUnavailable, ToolrollError
from toolroll.registry.store import sqlite_file
from toolroll.registry.store.url import Address

_FULL = "cannot grow: the disk is full{undone}. Free some space"
_UNDONE = "; nothing was changed"  # said of what was to change something

# (part of SQLite's message, what to say, when to try again)
_SQLITE: tuple[tuple[str, str, float | None], ...] = (
    (
        "not a database",
        "is not a SQLite database, or its beginning is damaged; restore it from a backup, or name another",
        None,
    ),
    ("malformed", "is damaged; stop what uses it and restore it from a backup", None),
    ("is full", _FULL, None),
    ("locked", "has been in use by another process for {wait_s:.0f} s{undone}", 1.0),
    ("busy", "has been in use by another process for {wait_s:.0f} s{undone}", 1.0),
    ("readonly", "may not be written: check the rights to the file and to its folder", None),
    (
        "unable to open",
        "cannot be opened: check that its folder exists and may be written, and that the file was not moved",
        None,
    ),
    ("disk i/o", "cannot be read or written: check the disk{undone}", None),
    (
        "no such table",
        "has lost a table: something else has changed the file; restore it from a backup",
        None,
    ),
)

# (beginning of the SQLSTATE, what to say, when to try again)
_POSTGRESQL: tuple[tuple[str, str, float | None], ...] = (
    ("55P03", "has been held by another for {wait_s:.0f} s{undone}", 1.0),
    ("57014", "took too long and was stopped{undone}", 1.0),
    ("40", "was changed by another at the same moment{undone}. Try again", 0.1),
    ("53100", "cannot grow: the disk of the server is full{undone}. Free some space", None),
    ("53", "has no room: too many connections, or no memory", 5.0),
    ("57P", "is being shut down or started", 5.0),
    ("08", "has lost the connection; a change that was not acknowledged may be looked up", 1.0),
    ("25006", "is read-only, a standby perhaps; name the primary", None),
    ("28P01", "refuses the password of this user", None),
    ("28", "does not let this user in from here: see pg_hba.conf on the server", None),
    ("3D000", "is not there; make it (createdb), or name another", None),
    ("42501", "may not be used in this way by this user; grant the rights, or name another user", None),
    ("42P01", "has lost a table: something else has changed the database; restore it from a backup", None),
)

# A connection that was refused has no SQLSTATE: what the server, or the driver, says then.
# (pattern, what to say, when to try again)
_REFUSED: tuple[tuple[str, str, float | None], ...] = (
    (r'database ".*" does not exist', "is not there; make it (createdb), or name another", None),
    (r'role ".*" does not exist', "knows no such user; name another, or make it (createuser)", None),
    (
        r"no password supplied",
        "asks for a password: put one into the URL (postgresql://USER:PASSWORD@HOST/DATABASE), "
        "or into PGPASSWORD or ~/.pgpass",
        None,
    ),
    (r"password authentication failed", "refuses the password of this user, or the user", None),
    (
        r"authentication failed|pg_hba\.conf|not permitted to log in",
        "does not let this user in from here: see pg_hba.conf on the server",
        None,
    ),
    (r"too many (connections|clients)|remaining connection slots", "has no room: too many connections", 5.0),
    (r"starting up|shutting down|recovery mode", "is being shut down or started", 5.0),
)
_WRONG_OPTION = re.compile(
    r"invalid (connection option|URI query parameter)|invalid \S+ value|bad value for|for connection option"
)


@contextmanager
def translated(address: Address, wait_s: float, *, writes: bool = True) -> Iterator[None]:
    """Raises what fails inside as one of toolroll's errors; `writes` if it is to change something."""
    try:
        yield
    except exc.SQLAlchemyError as error:
        raise of(error, address, wait_s, writes=writes) from error
    except (OverflowError, UnicodeEncodeError) as error:  # drivers raise these as they are
        raise InvalidInput(f"{address.text}: a value cannot be kept: {error}") from error


def of(error: exc.SQLAlchemyError, address: Address, wait_s: float, *, writes: bool = True) -> ToolrollError:
    """The error of ours that says what this one means."""
    if isinstance(error, exc.TimeoutError):
        return StoreUnavailable(
            f"{address.text}: all connections of this process are in use", retry_after_s=1
        )
    cause = getattr(error, "orig", None) or error
    said = address.without_password(" ".join(str(cause).split()))[:300]
    if isinstance(error, exc.IntegrityError):
        return Conflict(f"{address.text}: the change contradicts what is there ({said}); nothing was changed")
    if isinstance(error, exc.DataError) or not isinstance(error, exc.DBAPIError):
        return InvalidInput(f"{address.text}: cannot be kept: {said}")
    if address.dialect == "postgresql" and _WRONG_OPTION.search(said) and _state(cause) is None:
        return InvalidInput(f"{address.text}: an option of its URL is unknown or has a wrong value ({said})")
    meaning, retry_after_s = _meaning(cause, said, address, writes)
    meaning = meaning.format(wait_s=wait_s, undone=_UNDONE if writes else "")
    return StoreUnavailable(f"{address.text}: {meaning} ({said})", retry_after_s=retry_after_s)


def _meaning(cause: BaseException, said: str, address: Address, writes: bool) -> tuple[str, float | None]:
    if address.path is not None:
        return _of_file(said.lower(), address.path, writes)
    state = _state(cause)
    if state is None:  # the server was not reached, or went away
        for pattern, meaning, retry_after_s in _REFUSED:
            if re.search(pattern, said):
                return meaning, retry_after_s
        return "does not answer: check host, port and that PostgreSQL runs there", 5.0
    for begin, meaning, retry_after_s in _POSTGRESQL:
        if state.startswith(begin):
            return meaning, retry_after_s
    return "does not do what was asked", None


def _state(cause: BaseException) -> str | None:
    state: str | None = getattr(cause, "sqlstate", None)
    return state


def _of_file(said: str, path: Path, writes: bool) -> tuple[str, float | None]:
    if ("disk i/o" in said or "unable to open" in said) and sqlite_file.is_full(path):
        return _FULL, None
    if not writes and ("readonly" in said or "unable to open" in said) and not sqlite_file.may_write(path):
        return (
            "cannot be read by who may not write it: its last changes stand in the file beside it that ends "
            "in -wal; open it once as who may write it, or ask for the rights",
            None,
        )
    for part, meaning, retry_after_s in _SQLITE:
        if part in said:
            return meaning, retry_after_s
    return "does not answer", None
