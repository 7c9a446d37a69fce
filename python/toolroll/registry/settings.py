"""Which settings have a value: that, and never the value.

A toolkit with `settings_keys` is on where one of them has a value. Where the values themselves are kept is
the caller's business: one that is handed over here is looked at and let go.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from toolroll.context import has_value
from toolroll.errors import NotFound
from toolroll.registry import governed_rows
from toolroll.registry.governed_rows import Editor
from toolroll.registry.store import tables
from toolroll.registry.store.database import Write, words

_TABLE = tables.settings


@dataclass(frozen=True, slots=True)
class Setting:
    """Whether one setting of an organisation has a value.

    Attributes:
        org: whose; "" for the platform, whose settings count for everybody.
        key: its name, as toolkits have it in `settings_keys`.
        is_set: whether it has a value.
        updated_at: when this was said last, in UTC.
        updated_by: by whom.
    """

    org: str
    key: str
    is_set: bool
    updated_at: datetime
    updated_by: str

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "org": self.org,
            "key": self.key,
            "is_set": self.is_set,
            "updated_at": self.updated_at.isoformat(),
            "updated_by": self.updated_by,
        }


class Settings(Editor):
    """The settings that a registry knows of."""

    def set(self, key: str, value: object, *, org: str = "", reason: str = "") -> Setting:
        """Notes whether the value is one (`toolroll.context.has_value`), and forgets it.

        A value that replaces another is noted too: `updated_at` says when it was.

        Raises:
            InvalidInput: the key is empty, longer than 128 characters, or no text that a database keeps.
        """
        is_set = has_value(value)
        del value  # neither a traceback nor a log of this frame's variables is to have it
        governed_rows.check_name(key, "setting")
        with self._database.writing(self.actor, org) as write:
            return _note(write, key, is_set, reason)

    def unset(self, key: str, *, org: str = "", reason: str = "") -> Setting:
        """Notes that the setting has no value any more. Where it had none, nothing is written.

        Raises:
            NotFound: nothing was ever said of it; says which key is near.
        """
        words(key, "setting")
        with self._database.writing(self.actor, org) as write:
            found = write.connection.execute(sa.select(_TABLE).where(_TABLE.c.org == org)).all()
            for row in found:
                if row.key == key:
                    if row.is_set:
                        return _note(write, key, False, reason)
                    write.abandon()
                    return _setting(row)
            hint = governed_rows.near(key, (row.key for row in found))
            raise NotFound(f"setting {key!r:.80}: is not known {governed_rows.whose(org)}{hint}")

    def list(self, org: str | None = None) -> tuple[Setting, ...]:
        """An organisation's own ("": the platform's), or everybody's, by organisation and key."""
        query = sa.select(_TABLE).order_by(_TABLE.c.org, _TABLE.c.key)
        if org is not None:
            query = query.where(_TABLE.c.org == words(org, "org"))
        with self._database.reading() as connection:
            return tuple(map(_setting, connection.execute(query)))

    def present(self, org: str = "") -> frozenset[str]:
        """Keys that have a value for this organisation, its own or the platform's. One query."""
        query = sa.select(_TABLE.c.key).where(_TABLE.c.org.in_({"", words(org, "org")}), _TABLE.c.is_set)
        with self._database.reading() as connection:
            return frozenset(connection.execute(query).scalars())


def _note(write: Write, key: str, is_set: bool, reason: str) -> Setting:
    where = (_TABLE.c.org == write.org, _TABLE.c.key == key)
    before = write.connection.execute(sa.select(_TABLE.c.is_set).where(*where)).scalar()
    values = {
        "is_set": is_set,
        "updated_at": write.at,
        "updated_by": write.actor,
        "revision": write.revision,
    }
    if before is None:
        write.connection.execute(sa.insert(_TABLE), {"org": write.org, "key": key, **values})
    else:
        write.connection.execute(sa.update(_TABLE).where(*where), values)
    details = {"before": {"is_set": bool(before)}, "after": {"is_set": is_set}}
    write.log("setting.set" if is_set else "setting.unset", key, details, reason)
    return Setting(write.org, key, is_set, write.at, write.actor)


def _setting(row: sa.Row[Any]) -> Setting:
    return Setting(row.org, row.key, row.is_set, row.updated_at, row.updated_by)
