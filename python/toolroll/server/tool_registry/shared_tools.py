"""The platform's tools that reach an organisation: its people may know these, and no others.

A tool reaches an organisation if it serves now, and some role, tier or page of the organisation sees it.
Readers see the content that serves: no content that waits, no history, and nobody's name. So a reader of one
organisation learns no more than from selections under each role and tier.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from toolroll import Context, NotFound, Registry, Tool, Toolroll
from toolroll.catalog.catalog import Catalog
from toolroll.registry.editing.content import COLUMNS, content_of
from toolroll.registry.editing.governed_rows import Reach
from toolroll.registry.editing.rules import RuleRecord
from toolroll.roll import WhatIf
from toolroll.selection.policy.sample_contexts import sample_contexts
from toolroll.selection.visible import VisibleTools

# Not how a tool is executed, which may name hosts of the platform, and not examples, which users of other
# organisations may have written.
_SHOWN = (
    "name",
    "display_name",
    "description",
    "parameters",
    "returns",
    "annotations",
    "icons",
    "toolkit",
    "summary",
    "when_to_use",
    "limitations",
    "tags",
    "version",
    "status",
    "pinned",
)
_OTHER = "(anybody else)"  # a user, role and page that no rule names


@dataclass(frozen=True, slots=True)
class SharedTools:
    """The platform's tools, as organisations see them. roll: selects from the registry."""

    roll: Toolroll
    registry: Registry

    def reaching(self, org: str) -> Mapping[str, Tool]:
        """Name → tool, sorted by name: the tools that somebody in the organisation sees.

        Tries sample callers that the rules of the platform and of the organisation tell apart, 24 at most,
        and for each tier a caller that no rule names. It tries no named users, who may belong to another
        organisation, so a tool that only named users see is missing.
        """
        return self._seen(self.roll, org, [*self.registry.rules.list(""), *self.registry.rules.list(org)])

    def reach(self, org: str) -> Reach:
        """The tools and toolkits that reach the organisation, and tools that only its own rules hide."""
        own = [record for record in self.registry.rules.list(org) if record.active]
        roll: Toolroll | WhatIf = self.roll
        if own:
            roll = self.roll.what_if(without_rules=[(org, record.name) for record in own], orgs={org})
        found = self._seen(roll, org, self.registry.rules.list(""))
        catalog = self.roll.catalog
        known = np.zeros(len(catalog), bool)
        known[[catalog.names[name] for name in found if name in catalog.names]] = True
        toolkits = {name for name, rows in catalog.routes.rows.items() if known[rows].any()}
        return Reach({name: tool.tool_id for name, tool in found.items()}, frozenset(toolkits))

    def _seen(self, roll: Toolroll | WhatIf, org: str, records: Iterable[RuleRecord]) -> dict[str, Tool]:
        rules = (record.rule for record in records if record.active)
        tiers = self.registry.tiers()
        seen: dict[Catalog, VisibleTools] = {}  # one, unless the catalog changes meanwhile
        others = (Context(org, _OTHER, (_OTHER,), tier, page=_OTHER) for tier in ("", *tiers))
        samples = (context for context in sample_contexts(rules, tiers, org) if not context.user)
        for context in (*samples, *others):
            tools = roll.visible(context)
            before = seen.get(tools.catalog)
            rows = tools.rows if before is None else tools.rows | before.rows
            seen[tools.catalog] = VisibleTools(tools.catalog, rows)
        shared = self.roll.catalog
        found = {}
        for tools in seen.values():
            for tool in tools.definitions:
                row = shared.names.get(tool.name)
                if row is not None and shared.tools[row].tool_id == tool.tool_id:  # and not one of its own
                    found[tool.name] = tool
        return dict(sorted(found.items()))

    def page(
        self, org: str, text: str, toolkit: str | None, status: str | None, after: str, limit: int
    ) -> dict[str, Any]:
        """The first tools after the name `after` that meet all conditions, in the form of `ToolPage`.

        text: a part of the name or the description, in capitals or not.
        """
        part = text.lower()
        found = [
            tool
            for tool in self.reaching(org).values()
            if toolkit in (None, tool.toolkit)
            and status in (None, tool.status)
            and (part in tool.name.lower() or part in tool.description.lower())
        ]
        rest = [tool for tool in found if tool.name > after]
        return {
            "tools": [_form(tool) for tool in rest[:limit]],
            "next": rest[limit - 1].name if len(rest) > limit else "",
            "total": None if after else len(found),
        }

    def tool(self, id: str, org: str, absent: NotFound) -> dict[str, Any]:
        """The tool of the platform with this name or tool_id.

        absent: says that the organisation has none.

        Raises:
            NotFound: `absent`: nobody in the organisation sees it. The error does not tell whether it exists.
        """
        reaching = self.reaching(org)
        tool = reaching.get(id) or next((one for one in reaching.values() if one.tool_id == id), None)
        if tool is None:
            raise absent
        return _form(tool)


def _form(tool: Tool) -> dict[str, Any]:
    """A tool for JSON, by the names of the columns; without its state in the registry."""
    content = content_of(tool)
    return {"tool_id": tool.tool_id, "org": "", **{COLUMNS[name]: content[name] for name in _SHOWN}}
