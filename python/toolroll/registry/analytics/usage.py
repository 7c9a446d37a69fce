"""Usage: tools by page, and how often selection showed the called tool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import sqlalchemy as sa

from toolroll.model.errors import InvalidInput
from toolroll.registry.analytics.window import Window, day
from toolroll.registry.analytics.window_sums import WindowSums, total
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database
from toolroll.registry.store.json_values import JsonRecord

Of = Literal["selected", "called", "succeeded"]
OF: tuple[Of, ...] = ("called", "selected", "succeeded")


@dataclass(frozen=True, slots=True)
class Heatmap(JsonRecord):
    """Counts of tools by page.

    Attributes:
        of: the number of counted events.
        tools, pages: the most frequent first; "" for events without a page.
        counts: a row for each tool, a column for each page.
        left_out: the sum over all other tools and pages.
    """

    of: Of
    tools: tuple[str, ...]
    pages: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    left_out: int


def heatmap(
    database: Database, window: Window, of: Of = "called", most_tools: int = 40, most_pages: int = 20
) -> Heatmap:
    """The heatmap of the window, in whole hours."""
    if of not in OF:
        raise InvalidInput(f"of: is {of!r:.80}, must be one of {', '.join(OF)}")
    with database.reading() as connection:
        columns = WindowSums(connection, window).of(tables.tool_sums).c
        cell = (columns.tool, columns.page)
        query = sa.select(*cell, total(columns[of]).label("events")).where(columns[of] > 0).group_by(*cell)
        cells = {(row.tool, row.page): round(row.events) for row in connection.execute(query)}
    tools, pages = _most(cells, 0)[:most_tools], _most(cells, 1)[:most_pages]
    counts = tuple(tuple(cells.get((tool, page), 0) for page in pages) for tool in tools)
    return Heatmap(of, tools, pages, counts, sum(cells.values()) - sum(map(sum, counts)))


def _most(cells: dict[tuple[str, str], int], axis: int) -> tuple[str, ...]:
    sums: dict[str, int] = {}
    for names, number in cells.items():
        sums[names[axis]] = sums.get(names[axis], 0) + number
    return tuple(sorted(sums, key=lambda name: (-sums[name], name)))


@dataclass(frozen=True, slots=True)
class Hits:
    """The calls of one day, in UTC.

    Attributes:
        calls: of tools that a message needed.
        hits: of these, calls of shown tools. Other tools were found by a search or named by the user.
    """

    day: str
    calls: int
    hits: int

    @property
    def rate(self) -> float:
        """The share of calls whose tool selection had shown."""
        return self.hits / self.calls

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"day": self.day, "calls": self.calls, "hits": self.hits, "rate": self.rate}


def hits(database: Database, window: Window) -> tuple[Hits, ...]:
    """The days with calls, oldest first, in whole hours. A call by mistake (corrected) does not count."""
    with database.reading() as connection:
        columns = WindowSums(connection, window).of(tables.tool_sums).c
        on = day(database.dialect, columns.at).label("day")
        query = (
            sa.select(on, total(columns.needed).label("calls"), total(columns.hits).label("hits"))
            .where(columns.needed > 0)
            .group_by(on)
            .order_by(on)
        )
        return tuple(Hits(row.day, round(row.calls), round(row.hits)) for row in connection.execute(query))
