"""Tools of different plugins that seem to do the same: proposed by their texts, accepted by people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from toolroll.model.embedder import EmbedsTexts, as_embedder
from toolroll.model.errors import Conflict, InvalidInput
from toolroll.registry.editing.governed_rows import Author
from toolroll.registry.editing.near_duplicates import LEAST, Duplicate, near_duplicates
from toolroll.registry.editing.queries import find_tool
from toolroll.registry.editing.records import ToolRecord, read_records
from toolroll.registry.editing.tool_edits import tool_edits
from toolroll.registry.editing.vectors import StoredEmbedder
from toolroll.registry.store import tables
from toolroll.registry.store.database import checked_text


class Duplicates(Author):
    """The near-duplicates of a registry."""

    def list(self, embedder: EmbedsTexts, *, org: str = "", least: float = LEAST) -> tuple[Duplicate, ...]:
        """Pairs of active tools of different plugins that seem to do the same, the best first.

        For tools without a plugin, the toolkit takes its place. It only stores vectors of a slow embedder: a
        person reads the pairs, and `accept` declares one.

        org: its own tools are compared, too. least: the lowest score; see `near_duplicates`.

        Raises EmbedderUnavailable if the embedder fails.
        """
        table = tables.tools.c
        where = (
            table.org.in_({"", checked_text(org, "org")}),
            table.deleted_at.is_(None),
            table.review == "approved",
            table.status == "active",
        )
        with self._database.reading() as connection:
            records = list(read_records(connection, *where, order_by=(table.org, table.name)))
        whole = as_embedder(embedder)
        if not whole.is_instant:
            whole = StoredEmbedder(whole, self._database)
        owners = [f"{record.org}/{record.plugin or record.tool.toolkit}" for record in records]
        return near_duplicates([record.tool for record in records], owners, whole, least=least)

    def accept(
        self, names: Sequence[str], *, group: str = "", org: str = "", reason: str = ""
    ) -> tuple[ToolRecord, ...]:
        """Declares by `Tool.interchangeable` that tools do the same. Only the most reliable one is shown.

        group: its name; "" for the group of one of the tools, else the first name.

        Raises:
            NotFound: there is no such tool.
            InvalidInput: fewer than two tools are named.
            Conflict: without `group`: the tools are in different groups.
        """
        if isinstance(names, str) or len(set(names)) < 2:
            raise InvalidInput(f"names: is {names!r:.80}, must be the names of two tools or more")
        with tool_edits(self._database, self.actor, org) as edits:
            connection = edits.write.connection
            records = [find_tool(connection, name, org) for name in dict.fromkeys(names)]
            known = sorted({record.tool.interchangeable for record in records} - {""})
            if len(known) > 1 and not group:
                raise Conflict(f"tools: are in the groups {', '.join(known)[:200]}; name one for all")
            group = group or next(iter(known), min(record.name for record in records))
            done = tuple(
                record
                if record.tool.interchangeable == group
                else edits.change(
                    "tool.update", record, replace(record.tool, interchangeable=group), reason=reason
                )
                for record in records
            )
            if done == tuple(records):
                edits.write.abandon()
            return done
