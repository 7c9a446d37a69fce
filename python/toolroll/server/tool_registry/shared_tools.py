"""The platform's tools that reach an organisation: what its people may know of tools that are not theirs.

A tool reaches an organisation if it serves now, and some role, tier or page of the organisation sees it.
Shown is what serves: no content that waits, no history, and nobody's name. A reader of one organisation
learns no more than by selecting under each role and tier.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolroll import NotFound, Registry, Tool, Toolroll
from toolroll.catalog.catalog import Catalog
from toolroll.registry.content import COLUMNS, content_of
from toolroll.selection.policy.sample_contexts import sample_contexts
from toolroll.selection.visible import VisibleTools

# Neither how a tool is executed, which may name hosts of the platform, nor examples, which may be what users
# of other organisations have written.
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


@dataclass(frozen=True, slots=True)
class SharedTools:
    """The platform's tools, as organisations see them.

    Attributes:
        roll: selects from the registry.
        registry: has the rules and tiers that tell callers apart.
    """

    roll: Toolroll
    registry: Registry

    def reaching(self, org: str) -> Mapping[str, Tool]:
        """Name → tool, by name, of those that somebody in the organisation sees.

        Asked are the callers that the rules of the platform and of the organisation tell apart, 24 at most,
        and no users by their names: those may be of another organisation. A tool that only others see is
        missing.
        """
        records = [*self.registry.rules.list(""), *self.registry.rules.list(org)]
        rules = (record.rule for record in records if record.active and not record.damage)
        seen: dict[Catalog, VisibleTools] = {}  # one, unless the catalog changes meanwhile
        for context in sample_contexts(rules, self.registry.tiers(), org):
            if not context.user:
                tools = self.roll.visible(context)
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
        """The first tools behind the name `after` that meet all conditions, in the form of `ToolPage`.

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
            NotFound: nobody there sees such a tool. Whether the platform has it is not told.
        """
        reaching = self.reaching(org)
        tool = reaching.get(id) or next((one for one in reaching.values() if one.tool_id == id), None)
        if tool is not None:
            return _form(tool)
        try:
            self.registry.tool(id, org="")
        except NotFound:
            raise absent from None
        raise NotFound(f"tool {id!r:.160}: is not in the registry of {org!r}")


def _form(tool: Tool) -> dict[str, Any]:
    """A tool for JSON, by the names of the columns; without its state in the registry."""
    content = content_of(tool)
    return {"tool_id": tool.tool_id, "org": "", **{COLUMNS[name]: content[name] for name in _SHOWN}}
