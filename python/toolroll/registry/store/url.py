"""Parses and checks the URL of a registry, and renders it without the password."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError

from toolroll.model.argument_checks import REGISTRY_URLS as ALLOWED
from toolroll.model.errors import InvalidInput

Dialect = Literal["sqlite", "postgresql"]
_LONGEST = 300  # characters of a path in messages

_ENCODE = (
    "registry URL: has more than one '@' before its options; percent-encode the user and the password "
    "('@' is %40, '/' is %2F, ':' is %3A, '%' is %25)"
)


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a database.

    Attributes:
        dialect: "sqlite" or "postgresql".
        text: the URL for messages and logs: without password and options.
        url: for SQLAlchemy.
        path: the absolute path of the SQLite file; None for PostgreSQL.
    """

    dialect: Dialect
    text: str
    url: sa.URL = field(repr=False)
    path: Path | None = None

    @classmethod
    def of(cls, url: str) -> Address:
        """Parses a URL. Raises InvalidInput, whose message never contains the password."""
        if not isinstance(url, str) or "\0" in url:
            raise InvalidInput(f"registry URL: is {type(url).__name__}, {ALLOWED}")
        try:
            parsed = sa.make_url(url)
        except (ArgumentError, ValueError):  # the error and its cause may quote the URL
            if url.startswith("postgres") and url.count("@") > 1:
                raise InvalidInput(_ENCODE) from None
            raise InvalidInput(f"registry URL: is not a URL, {ALLOWED}") from None
        if parsed.drivername == "sqlite":
            return cls._of_file(parsed)
        if parsed.drivername in ("postgresql", "postgres"):
            _check_signs(url, parsed)
            return cls._of_server(parsed)
        raise InvalidInput(f"registry URL: begins with {parsed.drivername!r:.40}, {ALLOWED}")

    @classmethod
    def _of_file(cls, url: sa.URL) -> Address:
        if url.host or url.query or not url.database or url.database == ":memory:":
            raise InvalidInput(f"registry URL: names no file (sqlite: has three slashes, or four), {ALLOWED}")
        path = Path(url.database).expanduser().absolute()
        return cls("sqlite", f"sqlite:///{url.database[:_LONGEST]}", url, path)

    @classmethod
    def _of_server(cls, url: sa.URL) -> Address:
        url = url.set(drivername="postgresql+psycopg")
        shown = sa.URL.create("postgresql", url.username, None, url.host, url.port, url.database)
        return cls("postgresql", shown.render_as_string(), url)

    def without_password(self, message: str) -> str:
        """The message with the password masked, in case a driver quoted it."""
        for secret in (self.url.password, self.url.query.get("password")):
            if isinstance(secret, str) and secret:
                message = message.replace(secret, "***")
        return message


def _check_signs(url: str, parsed: sa.URL) -> None:
    """Refuses a URL whose password was partly parsed as host, database or options."""
    before, _, options = url.partition("://")[2].partition("?")
    names = [option.partition("=")[0] for option in options.split("&")]
    places = (parsed.host or "", parsed.database or "", *(names if "@" in before else ()))
    if before.count("@") > 1 or any("@" in place for place in places):
        raise InvalidInput(_ENCODE)
