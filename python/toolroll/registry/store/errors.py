"""Translates errors of databases into toolroll's errors: what happened, and how to react.

No exception of SQLAlchemy or of a driver leaves the store, so a caller can distinguish "try again" from
"wrong request" without knowing the database.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import exc

from toolroll.model.errors import Conflict, InvalidInput, StoreUnavailable, ToolrollError
from toolroll.registry.store import sqlite_file
from toolroll.registry.store.url import Address

_FULL = "cannot grow: the disk is full{undone}. Free some space"
_UNDONE = "; nothing was changed"  # for writes

# (part of SQLite's message, our message, seconds until a retry makes sense)
_SQLITE: tuple[tuple[str, str, float | None], ...] = (
    (
        "not a database",
        "is not a SQLite database, or its beginning is damaged; restore it from a backup, or name another",
        None,
    ),
    ("malformed", "is damaged; stop all processes that use it, and restore it from a backup", None),
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
        "has lost a table: another program has changed the file; restore it from a backup",
        None,
    ),
)

# (beginning of the SQLSTATE, our message, seconds until a retry makes sense)
_POSTGRESQL: tuple[tuple[str, str, float | None], ...] = (
    ("55P03", "has been locked by another process for {wait_s:.0f} s{undone}", 1.0),
    ("57014", "took too long and was stopped{undone}", 1.0),
    ("40", "was changed by another process at the same moment{undone}. Try again", 0.1),
    ("53100", "cannot grow: the disk of the server is full{undone}. Free some space", None),
    ("53", "has no room: too many connections, or no memory", 5.0),
    ("57P", "is being shut down or started", 5.0),
    ("08", "has lost the connection; check whether a change without an acknowledgement was made", 1.0),
    ("25006", "is read-only, a standby perhaps; name the primary", None),
    ("28P01", "refuses the password of this user", None),
    ("28", "does not let this user in from here: see pg_hba.conf on the server", None),
    ("3D000", "does not exist; create it (createdb), or name another", None),
    ("42501", "may not be used in this way by this user; grant the rights, or name another user", None),
    ("42P01", "has lost a table: another program has changed the database; restore it from a backup", None),
)

_HELD_BACK = (
    "stopped the query, which kept this standby from replaying changes. Try again; on the standby, "
    "hot_standby_feedback = on or a longer max_standby_streaming_delay prevents it"
)

# A refused connection has no SQLSTATE, only a message of the server or the driver.
# (pattern, our message, seconds until a retry makes sense)
_REFUSED: tuple[tuple[str, str, float | None], ...] = (
    (r'database ".*" does not exist', "does not exist; create it (createdb), or name another", None),
    (r'role ".*" does not exist', "knows no such user; name another, or create it (createuser)", None),
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

_WRONG_VALUE = re.compile(r"(?i)check constraint|cannot store \w+ value")
# Messages of drivers for a value of an unknown type, which never reached the database.
_WRONG_TYPE = re.compile(r"(?i)binding (parameter|value)|cannot adapt type")
_UNREADABLE = re.compile(r"Could not decode to UTF-8|malformed JSON")


class DamagedRow(StoreUnavailable):
    """The database answers, but a stored value is not valid for its column."""


@contextmanager
def translated(address: Address, wait_s: float, *, writes: bool = True) -> Iterator[None]:
    """Translates errors of the block. writes: whether messages say that nothing was changed."""
    try:
        yield
    except ToolrollError:
        raise
    except exc.SQLAlchemyError as error:
        raise of(error, address, wait_s, writes=writes) from error
    except (OverflowError, UnicodeEncodeError) as error:  # of drivers
        raise InvalidInput(f"{address.text}: a value cannot be stored: {error}") from error
    except (ValueError, RecursionError) as error:  # of the types of columns
        undone = _UNDONE if writes else ""
        raise DamagedRow(f"{address.text}: a row is damaged: {str(error)[:300]}{undone}") from error


def of(error: exc.SQLAlchemyError, address: Address, wait_s: float, *, writes: bool = True) -> ToolrollError:
    """Translates an error."""
    if isinstance(error, exc.TimeoutError):
        return StoreUnavailable(
            f"{address.text}: all connections of this process are in use", retry_after_s=1
        )
    cause = getattr(error, "orig", None) or error
    if isinstance(error, exc.OperationalError) and _UNREADABLE.search(str(cause)):
        return DamagedRow(f"{address.text}: a row is damaged: {str(cause)[:300]}")
    text = address.without_password(" ".join(str(cause).split()))[:300]
    if isinstance(error, exc.IntegrityError) and _WRONG_VALUE.search(text):
        return InvalidInput(f"{address.text}: its column does not allow a value ({text})")
    if isinstance(error, exc.IntegrityError):
        return Conflict(f"{address.text}: the change contradicts existing rows ({text}); nothing was changed")
    state: str | None = getattr(cause, "sqlstate", None)
    is_value = isinstance(error, exc.DataError) or (state or "").startswith("54")  # too long for an index
    is_value |= state is None and bool(_WRONG_TYPE.search(text))
    if is_value or not isinstance(error, exc.DBAPIError):
        return InvalidInput(f"{address.text}: cannot be stored: {text}")
    if address.dialect == "postgresql" and _WRONG_OPTION.search(text) and state is None:
        return InvalidInput(f"{address.text}: an option of its URL is unknown or has a wrong value ({text})")
    if address.path is not None:
        meaning, retry_after_s = _of_file(text.lower(), address.path, writes)
    else:
        meaning, retry_after_s = _of_server(text, state)
    meaning = meaning.format(wait_s=wait_s, undone=_UNDONE if writes else "")
    return StoreUnavailable(f"{address.text}: {meaning} ({text})", retry_after_s=retry_after_s)


def _of_server(text: str, state: str | None) -> tuple[str, float | None]:
    if state is None:  # the server was not reached, or closed the connection
        for pattern, meaning, retry_after_s in _REFUSED:
            if re.search(pattern, text):
                return meaning, retry_after_s
        return "does not answer: check host, port and that PostgreSQL runs there", 5.0
    if "conflict with recovery" in text:
        return _HELD_BACK, 1.0
    for begin, meaning, retry_after_s in _POSTGRESQL:
        if state.startswith(begin):
            return meaning, retry_after_s
    return "failed", None


def _of_file(text: str, path: Path, writes: bool) -> tuple[str, float | None]:
    if ("disk i/o" in text or "unable to open" in text) and sqlite_file.is_full(path):
        return _FULL, None
    if not writes and ("readonly" in text or "unable to open" in text) and not sqlite_file.may_write(path):
        return (
            "cannot be read without the right to write: its last changes are in the file beside it that ends "
            "in -wal; open it once as a user who may write it, or ask for the rights",
            None,
        )
    for part, meaning, retry_after_s in _SQLITE:
        if part in text:
            return meaning, retry_after_s
    return "does not answer", None
