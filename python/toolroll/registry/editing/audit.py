"""The audit log: author, content, time and reason of every change. The database keeps its lines unchanged."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from toolroll.model.errors import InvalidInput
from toolroll.registry.editing.governed_rows import printable
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database, checked_text
from toolroll.registry.store.json_values import JsonRecord
from toolroll.registry.store.row_reader import read_rows

MOST = 1_000  # changes in one list
_SHOWN = 300  # characters of the details in `str`

_TABLE = tables.changes


@dataclass(frozen=True, slots=True)
class AuditLine(JsonRecord):
    """One line of the audit log.

    Attributes:
        seq: its number; later lines have higher numbers.
        revision: the registry's revision after the transaction.
        org: the owner of the changed thing; "" for the platform.
        action: such as "rule.create".
        subject: a tool, a toolkit, a rule, a page pattern or a setting.
        details: the changed fields before and after.
    """

    seq: int
    revision: int
    org: str
    at: datetime
    actor: str
    action: str
    subject: str
    reason: str
    details: Mapping[str, Any] = field(hash=False)

    def __str__(self) -> str:
        """One line, with control characters escaped."""
        details = json.dumps(self.details, ensure_ascii=False) if self.details else ""
        if len(details) > _SHOWN:
            details = details[: _SHOWN - 1] + "…"
        parts = (
            f"{self.seq}",
            f"{self.at:%Y-%m-%d %H:%M:%S}",
            self.actor or "somebody",
            self.action,
            repr(self.subject),
            f"of {self.org!r}" if self.org else "",
            f"because {self.reason!r}" if self.reason else "",
            details,
        )
        return printable("  ".join(part for part in parts if part))


class Audit:
    """The audit log of a registry."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(
        self,
        *,
        org: str | None = None,
        subject: str | None = None,
        action: str | None = None,
        after: int | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> tuple[AuditLine, ...]:
        """Changes, newest first; with `after`, only later ones, oldest first.

        Args:
            org: the owner ("": the platform); None for all.
            subject: compared exactly.
            action: such as "rule.create"; "rule" means all actions on rules.
            after: the last number that the caller knows; 0 starts at the beginning.
            before: returns only lower numbers, for paging back.
            limit: up to 1,000.
        """
        if type(limit) is not int or not 1 <= limit <= MOST:
            raise InvalidInput(f"limit is {limit!r:.30}, must be a whole number from 1 to {MOST:,}")
        where = list[sa.ColumnElement[bool]]()
        if org is not None:
            where.append(_TABLE.c.org == checked_text(org, "org"))
        if subject is not None:
            where.append(_TABLE.c.subject == checked_text(subject, "subject"))
        if action is not None:
            checked_text(action, "action")
            column = _TABLE.c.action  # LIKE would ignore case on SQLite
            below = sa.and_(column > f"{action}.", column < f"{action}/")  # "/" is next to "."
            where.append(sa.or_(column == action, below))
        if after is not None:
            where.append(_TABLE.c.seq > _number(after, "after"))
        if before is not None:
            where.append(_TABLE.c.seq < _number(before, "before"))
        order = _TABLE.c.seq.desc() if after is None else _TABLE.c.seq
        with self._database.reading() as connection:
            rows = read_rows(connection, list(_TABLE.c), *where, order_by=(order,), limit=limit)
            return tuple(AuditLine(**row) for row in rows)


def _number(value: int, what: str) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise InvalidInput(f"{what} is {value!r:.30}, must be the number of a change")
    return value
