"""Finds tools without vectors of an embedder, and tools with old vectors.

A tool drifts if one of its texts has no vector. Until it has one, every process that reads the registry
embeds the text itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import sqlalchemy as sa

from toolroll.catalog.tool_text import embedded_texts
from toolroll.registry.analytics.window import Window
from toolroll.registry.editing.records import read_records
from toolroll.registry.editing.vectors import text_hash
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database
from toolroll.registry.store.json_values import JsonRecord

State = Literal["missing", "stale", "other", "old"]
STATES: dict[State, str] = {
    "missing": "no text of it has a vector",
    "stale": "a text of it changed and has no vector yet",
    "other": "it has vectors of another embedder only",
    "old": "its vectors are older than asked",
}


@dataclass(frozen=True, slots=True)
class Drift(JsonRecord):
    """A tool with missing or old vectors.

    Attributes:
        state: see `STATES`.
        texts, embedded: the numbers of its texts, and of texts with a vector.
        oldest: when the oldest vector was made.
    """

    org: str
    name: str
    state: State
    texts: int
    embedded: int
    oldest: datetime | None


def drift(
    database: Database, window: Window, identity: str, older_than: datetime | None = None
) -> tuple[int, tuple[Drift, ...]]:
    """The number of checked tools, and the tools that drift, by organisation and name.

    window: selects tools by organisation (with the platform's) and last change. identity: of the embedder.
    """
    tools, embeddings = tables.tools, tables.embeddings
    where = [tools.c.deleted_at.is_(None), *Window(None, window.since, window.until).of(tools, "updated_at")]
    if window.org is not None:
        where.append(tools.c.org.in_({"", window.org}))
    made: dict[str, datetime] = {}
    others: set[str] = set()
    checked, found = 0, []
    with database.reading() as connection:
        for space, key, at in connection.execute(
            sa.select(embeddings.c.identity, embeddings.c.content_hash, embeddings.c.created_at)
        ):
            if space == identity:
                made[key] = at
            else:
                others.add(key)
        for record in read_records(connection, *where, order_by=(tools.c.org, tools.c.name)):
            keys = {text_hash(text) for text in embedded_texts(record.tool)}
            dates = [made[key] for key in keys if key in made]
            checked += 1
            state: State | None = None
            if len(dates) < len(keys):
                state = "stale" if dates else "other" if keys & others else "missing"
            elif older_than is not None and min(dates) < older_than:
                state = "old"
            if state is not None:
                found.append(
                    Drift(record.org, record.name, state, len(keys), len(dates), min(dates, default=None))
                )
    return checked, tuple(found)
