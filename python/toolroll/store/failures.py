"""What goes wrong in a database, as toolroll's errors: what happened, and what to do about it.

Nothing of SQLAlchemy or of a driver gets out of the store: whoever calls it can tell "try again" from "you
asked for the wrong thing" without knowing which database there is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import exc

from toolroll.errors import Conflict, InvalidInput, StoreUnavailable, ToolrollError
from toolroll.store.address import Address

# (part of SQLite's message, what to say, when to try again)
_SQLITE: tuple[tuple[str, str, float | None], ...] = (
    (
        "not a database",
        "is not a SQLite database, or its beginning is damaged; restore it from a backup, or name another",
        None,
    ),
    ("malformed", "is damaged; stop what uses it and restore it from a backup", None),
    ("is full", "cannot grow: the disk is full; nothing was changed. Free some space", None),
    ("locked", "has been in use by another process for {wait_s:.0f} s; nothing was changed", 1.0),
    ("busy", "has been in use by another process for {wait_s:.0f} s; nothing was changed", 1.0),
    ("readonly", "may not be written: check the rights to the file and to its folder", None),
    (
        "unable to open",
        "cannot be opened: check that its folder exists and may be written, and that the file was not moved",
        None,
    ),
    ("disk i/o", "cannot be read or written: check the disk; the last change was undone", None),
    (
        "no such table",
        "has lost a table: something else has changed the file; restore it from a backup",
        None,
    ),
)

# (beginning of the SQLSTATE, what to say, when to try again)
_POSTGRESQL: tuple[tuple[str, str, float | None], ...] = (
    ("55P03", "has been held by another writer for {wait_s:.0f} s; nothing was changed", 1.0),
    ("57014", "took too long and was stopped; nothing was changed", 1.0),
    ("40", "was changed by another at the same moment; nothing was changed. Try again", 0.1),
    ("53100", "cannot grow: the disk of the server is full; nothing was changed. Free some space", None),
    ("53", "has no room: too many connections, or no memory", 5.0),
    ("57P", "is being shut down or started", 5.0),
    ("08", "has lost the connection; a change that was not acknowledged may be looked up", 1.0),
    ("25006", "is read-only, a standby perhaps; name the primary", None),
    ("28", "refuses this user or password", None),
    ("3D000", "is not there; make it (createdb), or name another", None),
    ("42501", "may not be used in this way by this user; grant the rights, or name another user", None),
    ("42P01", "has lost a table: something else has changed the database; restore it from a backup", None),
)


@contextmanager
def translated(address: Address, wait_s: float) -> Iterator[None]:
    """Raises what fails inside as one of toolroll's errors."""
    try:
        yield
    except exc.SQLAlchemyError as error:
        raise of(error, address, wait_s) from error
    except (OverflowError, UnicodeEncodeError) as error:  # drivers raise these as they are
        raise InvalidInput(f"{address.text}: a value cannot be kept: {error}") from error


def of(error: exc.SQLAlchemyError, address: Address, wait_s: float) -> ToolrollError:
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
    meaning, retry_after_s = _meaning(cause, said, address)
    return StoreUnavailable(
        f"{address.text}: {meaning.format(wait_s=wait_s)} ({said})", retry_after_s=retry_after_s
    )


def _meaning(cause: BaseException, said: str, address: Address) -> tuple[str, float | None]:
    if address.dialect == "sqlite":
        lower = said.lower()
        for part, meaning, retry_after_s in _SQLITE:
            if part in lower:
                return meaning, retry_after_s
        return "does not answer", None
    state = getattr(cause, "sqlstate", None)
    if state is None:  # the server was not reached, or went away
        for part, known in (
            ("does not exist", "3D000"),
            ("authentication failed", "28"),
            ("starting up", "57P"),
        ):
            if part in said:
                state = known
    for begin, meaning, retry_after_s in _POSTGRESQL:
        if state is not None and state.startswith(begin):
            return meaning, retry_after_s
    if state is None:
        return "does not answer: check host, port and that PostgreSQL runs there", 5.0
    return "does not do what was asked", None
