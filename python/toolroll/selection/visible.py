"""The tools that one caller may have now: lists, searches and calls share this decision."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from toolroll._core import Bitset
from toolroll.catalog.catalog import Catalog
from toolroll.model.arrays import Rows
from toolroll.model.context import Context
from toolroll.model.tool_list import ToolList
from toolroll.model.tools import Tool


@dataclass(frozen=True, slots=True, eq=False)
class VisibleTools:
    """The tools that policy, status and settings leave to one caller.

    It is a collection of names, in alphabetical order: `"get_forecast" in visible`, `len(visible)`,
    `list(visible)`. It describes the moment of its creation.

    Attributes:
        catalog: the catalog of the caller's organisation.
        rows: a bitset over the catalog.
        tool_list: the request's list, if the catalog is of its tools.
        page: the rows of the toolkits that mappings name for the caller's page; None if no mapping matches.
    """

    catalog: Catalog
    rows: Bitset
    page: Bitset | None = None
    tool_list: ToolList | None = None

    @classmethod
    def of(
        cls,
        catalog: Catalog,
        allowed: Bitset,
        context: Context,
        page: Bitset | None = None,
        tool_list: ToolList | None = None,
    ) -> VisibleTools:
        """The rows that the hard stages leave; for a context with required tools, only these."""
        if context.required:
            required = [catalog.names[name] for name in context.required if name in catalog.names]
            allowed = allowed & Bitset.of(len(catalog), np.array(required, np.int32))
        return cls(catalog, allowed, page, tool_list)

    def get(self, name: object) -> Tool | None:
        """The tool of this own name; None if there is none, or the caller may not have it."""
        row = self.catalog.names.get(name) if isinstance(name, str) else None
        return self.catalog.tools[row] if row is not None and row in self.rows else None

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in alphabetical order."""
        return tuple([tool.name for tool in self.definitions])

    @property
    def definitions(self) -> tuple[Tool, ...]:
        """The tools as `Tool` values."""
        tools = self.catalog.tools
        return tuple([tools[row] for row in self.rows.rows().tolist()])

    @property
    def tools(self) -> tuple[Any, ...]:
        """The tools in the form in which the caller defined them; a `Tool` for a tool from a file.

        For a request's list, its items in their order, including hosted tools.
        """
        if self.tool_list is not None:
            return self.tool_list.of(self.rows.rows().tolist())
        return tuple([tool if tool.original is None else tool.original for tool in self.definitions])

    def has_all(self, rows: Rows) -> bool:
        """Whether all of these rows are visible."""
        return self.rows.holds_all(rows)

    @property
    def withheld(self) -> frozenset[int]:
        """The rows of hosted tools in a request's list that the caller may not have."""
        return frozenset() if self.tool_list is None else self.tool_list.withheld

    @property
    def unjudged(self) -> tuple[str, ...]:
        """Names of withheld hosted tools that may bring further tools with unknown names."""
        return () if self.tool_list is None else self.tool_list.unjudged

    @property
    def toolkits(self) -> tuple[str, ...]:
        """The active toolkits that have one of these tools, directly or below them, by name."""
        n = len(self.catalog)
        below = self.catalog.below.items()
        return tuple(sorted(name for name, rows in below if len(self.rows & Bitset.of(n, rows))))

    @property
    def core(self) -> VisibleTools:
        """The tools in every selection: pinned tools and the tools of base toolkits."""
        rows = np.union1d(self.catalog.base, self.catalog.pinned).astype(np.int32)
        return VisibleTools(self.catalog, self.rows & Bitset.of(len(self.catalog), rows))

    @property
    def on_page(self) -> VisibleTools:
        """The tools of the caller's page, and the core; all tools if the page has none."""
        if self.page is None or not len(kept := self.rows & self.page):
            return self
        return VisibleTools(self.catalog, kept | self.core.rows, self.page)

    def __contains__(self, name: object) -> bool:
        return self.get(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"<VisibleTools: {len(self)} of {len(self.catalog)}>"
