"""Page mappings in the registry: which toolkits belong to which pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from toolroll.errors import Conflict, InvalidDefinition, NotFound
from toolroll.registry import governed_rows
from toolroll.registry.governed_rows import Editor, Governed, Row
from toolroll.registry.store import tables
from toolroll.registry.store.database import Write, words
from toolroll.registry.toolkits import is_toolkit, no_toolkit
from toolroll.rules import PageMapping
from toolroll.selection.policy.pages import check, matches

_TABLE = tables.page_mappings
_FIELDS = ("pattern", "toolkits", "priority")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRecord(Governed):
    """A page mapping as the registry keeps it.

    Attributes:
        mapping: what catalogs see.
        plugin: which plugin declared it; "" for people.
    """

    mapping: PageMapping
    plugin: str

    @property
    def page_id(self) -> str:
        """What storage knows it by."""
        return self.mapping.page_id

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        mapping = self.mapping
        owner = {"page_id": mapping.page_id, "org": mapping.org, "plugin": self.plugin}
        return {**owner, **_content(mapping), **self.stamps()}


class Pages(Editor):
    """The page mappings of a registry. A mapping's organisation is its own `org`."""

    def add(self, mapping: PageMapping, *, reason: str = "") -> PageRecord:
        """Adds a mapping.

        Raises:
            InvalidDefinition: see `toolroll.selection.policy.pages.check`; a toolkit is not there.
            Conflict: the same pattern is mapped to the same toolkits already.
        """
        _check_shape(mapping)
        words(mapping.org, "org")
        with self._database.writing(self.actor, mapping.org) as write:
            _check_toolkits(write, mapping)
            content = _content(mapping)
            _check_is_new(write, content)
            row = governed_rows.insert(write, _TABLE, {"plugin": "", **content})
            details = {"page_id": row["page_id"], "after": content}
            write.log("page.create", mapping.pattern, details, reason)
            return _record(row)

    def update(
        self,
        page_id: str,
        changes: Mapping[str, Any],
        *,
        org: str | None = None,
        version: int | None = None,
        reason: str = "",
    ) -> PageRecord:
        """Changes pattern, toolkits or priority. Without a difference nothing is written.

        org: whose it must be; None for whosever it is. version: what was read before, or None.

        Raises:
            NotFound: there is no such mapping.
            Conflict: the version has moved on, or it would be the same as another.
            InvalidInput: a field is unknown; InvalidDefinition: what `add` refuses.
        """
        changes = governed_rows.fields_of(changes, _FIELDS, f"page mapping {page_id!r:.80}")
        with self._database.writing(self.actor, org or "") as write:
            row = _by_id(write, page_id, org, version)
            mapping = replace(mapping_in(row), **changes)
            _check_shape(mapping)
            changed = governed_rows.differing(row, _content(mapping))
            if not changed:
                write.abandon()
                return _record(row)
            if "toolkits" in changed:
                _check_toolkits(write, mapping)
            if changed.keys() & {"pattern", "toolkits"}:
                _check_is_new(write, _content(mapping), page_id)
            details = {"page_id": page_id, **governed_rows.before_and_after(row, changed)}
            write.log("page.update", row["pattern"], details, reason)
            return _record(governed_rows.change(write, _TABLE, row, changed))

    def delete(
        self, page_id: str, *, org: str | None = None, version: int | None = None, reason: str = ""
    ) -> PageRecord:
        """Deletes a mapping. org: whose it must be; None for whosever it is. Raises NotFound and Conflict."""
        with self._database.writing(self.actor, org or "") as write:
            row = _by_id(write, page_id, org, version)
            details = {"page_id": page_id, "before": _content(mapping_in(row))}
            write.log("page.delete", row["pattern"], details, reason)
            return _record(governed_rows.delete(write, _TABLE, row))

    def get(self, page_id: str) -> PageRecord:
        """The mapping of this id. Raises NotFound."""
        with self._database.reading() as connection:
            return _record(_row(connection, page_id, None))

    def list(self, org: str | None = None, deleted: bool = False) -> tuple[PageRecord, ...]:
        """An organisation's own ("": the platform's), or everybody's, highest priority first."""
        query = sa.select(_TABLE)
        if org is not None:
            query = query.where(_TABLE.c.org == words(org, "org"))
        if not deleted:
            query = query.where(_TABLE.c.deleted_at.is_(None))
        order = (_TABLE.c.org, _TABLE.c.priority.desc(), _TABLE.c.pattern, _TABLE.c.page_id)
        with self._database.reading() as connection:
            return tuple(_record(dict(row)) for row in connection.execute(query.order_by(*order)).mappings())

    def for_page(self, page: str, org: str = "") -> tuple[PageMapping, ...]:
        """The mappings that match a page, the platform's and the organisation's, highest priority first."""
        orgs = {"", words(org, "org")}
        with self._database.reading() as connection:
            rows = governed_rows.rows_of(connection, _TABLE, _TABLE.c.org.in_(orgs))
        found = [mapping_in(row) for row in rows if matches(row["pattern"], page)]
        return tuple(
            sorted(found, key=lambda it: (-it.priority, it.pattern, it.org, it.toolkits, it.page_id))
        )


def _check_shape(mapping: PageMapping) -> None:
    check(mapping)
    what = f"page mapping {mapping.pattern!r:.80}"
    governed_rows.check_name(mapping.pattern, "page pattern", governed_rows.LONGEST_PATTERN)
    governed_rows.check_priority(mapping.priority, what)
    governed_rows.check_kept(_content(mapping), what)


def _check_toolkits(write: Write, mapping: PageMapping) -> None:
    for name in mapping.toolkits:
        if not is_toolkit(write.connection, name, write.org):
            raise InvalidDefinition(
                f"page mapping {mapping.pattern!r:.80}: {no_toolkit(write.connection, name, write.org)}",
                field="toolkits",
            )


def _check_is_new(write: Write, content: Row, page_id: str = "") -> None:
    same = (_TABLE.c.org == write.org, _TABLE.c.pattern == content["pattern"])
    for row in governed_rows.rows_of(write.connection, _TABLE, *same):
        if row["page_id"] != page_id and set(row["toolkits"]) == set(content["toolkits"]):
            raise Conflict(
                f"page mapping {content['pattern']!r:.80}: is mapped to the same toolkits already, by "
                f"{row['page_id']}; change that one"
            )


def _by_id(write: Write, page_id: str, org: str | None, version: int | None) -> Row:
    row = _row(write.connection, page_id, org)
    governed_rows.check_version(row, version, f"page mapping {page_id} ({row['pattern']!r:.80})")
    write.org = row["org"]  # it is theirs, whoever changes it
    return row


def _row(connection: sa.Connection, page_id: str, org: str | None) -> Row:
    rows = governed_rows.rows_of(connection, _TABLE, _TABLE.c.page_id == words(page_id, "page_id"))
    if not rows or org not in (None, rows[0]["org"]):
        raise NotFound(f"page mapping {page_id!r:.80}: is not there; `list` has the ids of those that are")
    return rows[0]


def _content(mapping: PageMapping) -> Row:
    return {field: governed_rows.plain(getattr(mapping, field)) for field in _FIELDS}


def mapping_in(row: Mapping[str, Any]) -> PageMapping:
    """The mapping that a row of `page_mappings` holds."""
    return PageMapping(row["pattern"], tuple(row["toolkits"]), row["priority"], row["org"], row["page_id"])


def _record(row: Mapping[str, Any]) -> PageRecord:
    return PageRecord(mapping=mapping_in(row), plugin=row["plugin"], **governed_rows.stamps_of(row))
