"""The audit log: who changed what, when and why. It only grows; the database itself refuses to edit it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from toolroll.errors import InvalidInput
from toolroll.registry.governed_rows import printable
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database, words

MOST = 1_000  # changes in one answer
_SHOWN = 300  # characters of the details in a line

_TABLE = tables.changes


@dataclass(frozen=True, slots=True)
class Change:
    """One line of the audit log.

    Attributes:
        seq: its number; later ones are higher.
        revision: the registry's after the transaction that it was part of.
        org: whose things changed; "" for the platform's.
        at: in UTC.
        actor: who did it.
        action: what, such as "rule.create".
        subject: to what: a tool, a toolkit, a rule, a page pattern, a setting.
        reason: why, in their words.
        details: of changed fields what was before and after.
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

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "seq": self.seq,
            "revision": self.revision,
            "org": self.org,
            "at": self.at.isoformat(),
            "actor": self.actor,
            "action": self.action,
            "subject": self.subject,
            "reason": self.reason,
            "details": dict(self.details),
        }

    def __str__(self) -> str:
        """One line; what a terminal would obey is written out."""
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
    ) -> tuple[Change, ...]:
        """Changes, newest first; with `after`, those behind that number, oldest first.

        Args:
            org: an organisation's own ("": the platform's); None for everybody's.
            subject: of what, letter by letter.
            action: what was done, such as "rule.create"; "rule" for all that is done to rules.
            after: the last number that is known already; 0 from the beginning.
            before: only those with a lower number, to go further back.
            limit: how many at most, up to 1,000.
        """
        if type(limit) is not int or not 1 <= limit <= MOST:
            raise InvalidInput(f"limit is {limit!r:.30}, must be a whole number from 1 to {MOST:,}")
        query = sa.select(_TABLE).limit(limit)
        if org is not None:
            query = query.where(_TABLE.c.org == words(org, "org"))
        if subject is not None:
            query = query.where(_TABLE.c.subject == words(subject, "subject"))
        if action is not None:
            words(action, "action")
            column = _TABLE.c.action  # LIKE would not mind upper case on one of the databases
            below = sa.and_(column > f"{action}.", column < f"{action}/")  # "/" is next to "."
            query = query.where(sa.or_(column == action, below))
        if after is not None:
            query = query.where(_TABLE.c.seq > _number(after, "after"))
        if before is not None:
            query = query.where(_TABLE.c.seq < _number(before, "before"))
        order = _TABLE.c.seq.desc() if after is None else _TABLE.c.seq
        with self._database.reading() as connection:
            return tuple(Change(**row) for row in connection.execute(query.order_by(order)).mappings())


def _number(value: int, what: str) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise InvalidInput(f"{what} is {value!r:.30}, must be the number of a change")
    return value
