"""Page mappings in the registry: which toolkits belong to which pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from toolroll.model.errors import Conflict, InvalidDefinition, NotFound
from toolroll.model.rules import PageMapping
from toolroll.registry.editing import governed_rows
from toolroll.registry.editing.governed_rows import Editor, GovernedRow, Reach, Row, knows_toolkit
from toolroll.registry.editing.toolkits import is_toolkit, no_toolkit
from toolroll.registry.store import tables
from toolroll.registry.store.database import Write, checked_text
from toolroll.registry.store.json_values import as_json
from toolroll.selection.policy.pages import check, matches

_TABLE = tables.page_mappings
_FIELDS = ("pattern", "toolkits", "priority")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRecord(GovernedRow):
    """A stored page mapping. plugin: the plugin that declared it; "" for people."""

    mapping: PageMapping
    plugin: str

    @property
    def page_id(self) -> str:
        """The mapping's identifier in storage."""
        return self.mapping.page_id

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        mapping = self.mapping
        owner = {"page_id": mapping.page_id, "org": mapping.org, "plugin": self.plugin}
        return {**owner, **_content_of(mapping), **self.shared_fields()}


class Pages(Editor[PageRecord]):
    """The page mappings of a registry. A mapping belongs to its own `org`."""

    _table, _noun, _kind, _key, _fields = _TABLE, "page mapping", "page", "page_id", _FIELDS

    def add(self, mapping: PageMapping, *, reason: str = "") -> PageRecord:
        """Adds a mapping.

        Raises:
            InvalidDefinition: see `toolroll.selection.policy.pages.check`; or a toolkit does not exist.
            Conflict: the pattern is already mapped to the same toolkits.
        """
        content = _checked(mapping)
        with self._database.writing(self.actor, mapping.org) as write:
            _check_toolkits(write, mapping, self.reach)
            _check_is_new(write, content)
            return self._record(self._insert(write, mapping.pattern, content, reason, plugin=""))

    def update(
        self,
        page_id: str,
        changes: Mapping[str, Any],
        *,
        org: str | None = None,
        version: int | None = None,
        reason: str = "",
    ) -> PageRecord:
        """Changes pattern, toolkits or priority. Writes nothing if no field differs.

        org: the organisation that must own it; None for any.
        version: the version that the caller read; None for any.

        Raises:
            NotFound: there is no such mapping.
            Conflict: the mapping has another version, or would be the same as another mapping.
            InvalidInput: a field is unknown; InvalidDefinition: as in `add`.
        """
        changes = governed_rows.checked_changes(changes, _FIELDS, f"page mapping {page_id!r:.80}")
        with self._editing(page_id, org, version) as (write, row):
            mapping = replace(mapping_in(row), **changes)
            content = _checked(mapping)
            changed = governed_rows.differences(row, content).keys()
            if "toolkits" in changed:
                _check_toolkits(write, mapping, self.reach)
            if changed & {"pattern", "toolkits"}:
                _check_is_new(write, content, page_id)
            return self._record(self._update(write, row, content, row["pattern"], reason))

    def delete(
        self, page_id: str, *, org: str | None = None, version: int | None = None, reason: str = ""
    ) -> PageRecord:
        """Deletes a mapping; `org` must own it, None for any. Raises NotFound and Conflict."""
        with self._editing(page_id, org, version) as (write, row):
            return self._record(self._delete(write, row, row["pattern"], reason))

    def get(self, page_id: str) -> PageRecord:
        """The mapping with this id. Raises NotFound."""
        with self._database.reading() as connection:
            return self._record(self._row(connection, page_id, None))

    def _row(self, connection: sa.Connection, key: str, org: str | None) -> Row:
        rows = governed_rows.rows_of(connection, _TABLE, _TABLE.c.page_id == checked_text(key, "page_id"))
        if not rows or org not in (None, rows[0]["org"]):
            raise NotFound(f"page mapping {key!r:.80}: does not exist; `list` shows the ids of all mappings")
        return rows[0]

    def list(self, org: str | None = None, deleted: bool = False) -> tuple[PageRecord, ...]:
        """The mappings of an organisation ("": the platform), or all, highest priority first."""
        p = _TABLE.c
        return self._list(org, deleted, p.org, p.priority.desc(), p.pattern, p.page_id)

    def for_page(self, page: str, org: str = "") -> tuple[PageMapping, ...]:
        """The platform's and the organisation's mappings that match a page, highest priority first."""
        orgs = {"", checked_text(org, "org")}
        with self._database.reading() as connection:
            rows = governed_rows.rows_of(connection, _TABLE, _TABLE.c.org.in_(orgs))
        found = [
            known
            for row in rows
            if matches(row["pattern"], page) and (known := _known(mapping_in(row), self.reach)) is not None
        ]
        return tuple(
            sorted(found, key=lambda it: (-it.priority, it.pattern, it.org, it.toolkits, it.page_id))
        )

    @staticmethod
    def _record(row: Mapping[str, Any]) -> PageRecord:
        return PageRecord(mapping=mapping_in(row), plugin=row["plugin"], **governed_rows.shared_fields(row))


def _known(mapping: PageMapping, reach: Reach | None) -> PageMapping | None:
    """The mapping without toolkits that its reader may not know; None if no toolkit is left."""
    if mapping.org or reach is None:
        return mapping
    toolkits = tuple(name for name in mapping.toolkits if knows_toolkit(reach, name))
    return replace(mapping, toolkits=toolkits) if toolkits else None


def _checked(mapping: PageMapping) -> Row:
    """The content of a mapping. Raises InvalidDefinition."""
    check(mapping)
    governed_rows.check_name(mapping.pattern, "page pattern", governed_rows.LONGEST_PATTERN)
    content = _content_of(mapping)
    governed_rows.check_content(content, f"page mapping {mapping.pattern!r:.80}")
    return content


def _check_toolkits(write: Write, mapping: PageMapping, reach: Reach | None) -> None:
    for name in mapping.toolkits:
        if not is_toolkit(write.connection, name, write.org, reach):
            why = no_toolkit(write.connection, name, write.org, reach)
            raise InvalidDefinition(f"page mapping {mapping.pattern!r:.80}: {why}", field="toolkits")


def _check_is_new(write: Write, content: Row, page_id: str = "") -> None:
    same = (_TABLE.c.org == write.org, _TABLE.c.pattern == content["pattern"])
    for row in governed_rows.rows_of(write.connection, _TABLE, *same):
        if row["page_id"] != page_id and set(row["toolkits"]) == set(content["toolkits"]):
            raise Conflict(
                f"page mapping {content['pattern']!r:.80}: {row['page_id']} already maps it to the same "
                "toolkits; change that one"
            )


def _content_of(mapping: PageMapping) -> Row:
    return {field: as_json(getattr(mapping, field)) for field in _FIELDS}


def mapping_in(row: Mapping[str, Any]) -> PageMapping:
    """The mapping in a row of `page_mappings`."""
    return PageMapping(row["pattern"], tuple(row["toolkits"]), row["priority"], row["org"], row["page_id"])
