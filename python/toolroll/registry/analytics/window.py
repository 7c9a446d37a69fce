"""The range of events of a query, and SQL for JSON columns in both databases."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

import sqlalchemy as sa

from toolroll.model.errors import InvalidInput
from toolroll.registry.store import tables
from toolroll.registry.store.database import checked_text
from toolroll.registry.store.json_values import JsonRecord

T = TypeVar("T")

events = tables.selection_events


@dataclass(frozen=True, slots=True)
class Window(JsonRecord):
    """An organisation and a time.

    Attributes:
        org: its events only; "" for events without an organisation, None for all.
        since, until: from this time on, and before that one; None for no limit.
    """

    org: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        if self.org is not None:
            checked_text(self.org, "org")
        for name in ("since", "until"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, datetime) or value.tzinfo is None):
                raise InvalidInput(f"{name}: is {value!r:.80}, must be a datetime with its zone")
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise InvalidInput(f"since {self.since:%Y-%m-%d %H:%M}: must be before until")

    def of(self, table: sa.FromClause, instant: str = "at") -> list[sa.ColumnElement[bool]]:
        """The conditions on a table with a column `org` and this column of times."""
        found: list[sa.ColumnElement[bool]] = []
        if self.org is not None:
            found.append(table.c.org == self.org)
        if self.since is not None:
            found.append(table.c[instant] >= self.since)
        if self.until is not None:
            found.append(table.c[instant] < self.until)
        return found


def day(dialect: str, column: sa.ColumnElement[datetime]) -> sa.ColumnElement[str]:
    """The day of a time in UTC, such as "2026-03-01"."""
    if dialect == "postgresql":
        return sa.func.to_char(sa.func.timezone("UTC", column), "YYYY-MM-DD")
    return sa.func.strftime("%Y-%m-%d", column)


def hour(dialect: str, column: sa.ColumnElement[datetime]) -> sa.ColumnElement[str]:
    """The hour of a time in UTC, such as "2026-03-01T17:00Z"."""
    if dialect == "postgresql":
        return sa.func.to_char(sa.func.timezone("UTC", column), 'YYYY-MM-DD"T"HH24:00"Z"')
    return sa.func.strftime("%Y-%m-%dT%H:00Z", column)
