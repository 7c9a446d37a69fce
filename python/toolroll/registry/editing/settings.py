"""Stores which settings have a value, never the value itself.

A toolkit with `settings_keys` is on if one of these settings has a value. The caller keeps the values; `set`
only checks that there is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from toolroll.model.context import has_value
from toolroll.model.errors import NotFound
from toolroll.registry.editing import governed_rows
from toolroll.registry.store import tables
from toolroll.registry.store.database import Write, checked_text
from toolroll.registry.store.json_values import JsonRecord

_TABLE = tables.settings


@dataclass(frozen=True, slots=True)
class Setting(JsonRecord):
    """A setting of an organisation.

    Attributes:
        org: its owner; "" for the platform, whose settings count for every organisation.
        key: its name, as in the `settings_keys` of toolkits.
        is_set: whether it has a value.
    """

    org: str
    key: str
    is_set: bool
    updated_at: datetime
    updated_by: str


class Settings(governed_rows.Author):
    """The settings of a registry."""

    def set(self, key: str, value: object, *, org: str = "", reason: str = "") -> Setting:
        """Stores whether `value` is one (`toolroll.model.context.has_value`), but not the value.

        Another value for a set setting only updates `updated_at`.

        Raises InvalidInput if the key is empty, longer than 128 characters, or text that no database stores.
        """
        is_set = has_value(value)
        del value  # keeps it out of tracebacks and of logs of this frame's variables
        governed_rows.check_name(key, "setting")
        with self._database.writing(self.actor, org) as write:
            return _store(write, key, is_set, reason)

    def unset(self, key: str, *, org: str = "", reason: str = "") -> Setting:
        """Stores that the setting has no value. Writes nothing if it had none.

        Raises NotFound if the setting was never set; suggests a similar key.
        """
        checked_text(key, "setting")
        with self._database.writing(self.actor, org) as write:
            found = write.connection.execute(sa.select(_TABLE).where(_TABLE.c.org == org)).all()
            for row in found:
                if row.key == key:
                    if row.is_set:
                        return _store(write, key, False, reason)
                    write.abandon()
                    return _setting(row)
            hint = governed_rows.suggestion(key, (row.key for row in found))
            raise NotFound(f"setting {key!r:.80}: is not known {governed_rows.place_of(org)}{hint}")

    def list(self, org: str | None = None) -> tuple[Setting, ...]:
        """The settings of an organisation ("": the platform), or all, by organisation and key."""
        query = sa.select(_TABLE).order_by(_TABLE.c.org, _TABLE.c.key)
        if org is not None:
            query = query.where(_TABLE.c.org == checked_text(org, "org"))
        with self._database.reading() as connection:
            return tuple(map(_setting, connection.execute(query)))

    def present(self, org: str = "") -> frozenset[str]:
        """The keys with a value for this organisation: its own, and the platform's."""
        query = sa.select(_TABLE.c.key).where(
            _TABLE.c.org.in_({"", checked_text(org, "org")}), _TABLE.c.is_set
        )
        with self._database.reading() as connection:
            return frozenset(connection.execute(query).scalars())


def _store(write: Write, key: str, is_set: bool, reason: str) -> Setting:
    where = (_TABLE.c.org == write.org, _TABLE.c.key == key)
    before = write.connection.execute(sa.select(_TABLE.c.is_set).where(*where)).scalar()
    values = {"is_set": is_set, "updated_at": write.at, "updated_by": write.actor, "revision": write.revision}
    key_of = {"org": write.org, "key": key}
    former = None if before is None else {**key_of, "is_set": before}
    write.digests.replace(_TABLE, former, {**key_of, "is_set": is_set})
    if before is None:
        write.connection.execute(sa.insert(_TABLE), {**key_of, **values})
    else:
        write.connection.execute(sa.update(_TABLE).where(*where), values)
    details = {"before": {"is_set": bool(before)}, "after": {"is_set": is_set}}
    write.log("setting.set" if is_set else "setting.unset", key, details, reason)
    return Setting(write.org, key, is_set, write.at, write.actor)


def _setting(row: sa.Row[Any]) -> Setting:
    return Setting(row.org, row.key, row.is_set, row.updated_at, row.updated_by)
