"""What a plugin that nobody vouches for may do: add tools that are found by merit, and nothing else.

Toolkits carry what people decided: tiers, rules, settings, what is in every selection. So such a plugin fills
its own toolkits only, an existing one keeps what governs it, and a tool does not leave a toolkit that does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from toolroll.catalog.toolkits import is_meant
from toolroll.registry.sync.payload import Payload, Problem
from toolroll.registry.sync.plan import Held, HeldTool, HeldToolkit, Mode
from toolroll.tools import Tool

TRUST = "`--trusted` does it"  # what people say where they want what is refused here
_GOVERNING = ("parent", "settings_keys", "base", "tier", "members")
_TEXTS = ("description", "keywords", "patterns")


class Bounds:
    """The bounds of one payload within what the registry holds.

    Attributes:
        problems: why nothing can be done.
        notes: what was asked for in vain.
    """

    def __init__(
        self, held: Held, payload: Payload, mode: Mode, problems: list[Problem], notes: list[str]
    ) -> None:
        self.problems, self.notes = problems, notes
        self._held, self._mode, self._plugin = held, mode, payload.plugin
        self._alive = {row.name: row for row in held.toolkits if not row.is_deleted}
        declared = {
            name
            for name in payload.toolkits
            if name not in held.shared_toolkits
            and (name not in self._alive or self._alive[name].plugin == self._plugin)
        }
        self._own = declared | {name for name, row in self._alive.items() if row.plugin == self._plugin}

    def new_tool(self, tool: Tool, row: HeldTool | None, last: HeldTool | None) -> None:
        """Refuses a new tool with a name, or in a toolkit, that is not for the plugin to use.

        row, last: the tools of that name that were deleted last, the plugin's own and anybody's.
        """
        if last is not None and last.plugin != self._plugin:
            self._refuse(
                f"tool {tool.name!r}: people deleted a tool of that name, which stays theirs; "
                f"choose another, or {TRUST}"
            )
        elif last is None and (rules := self._held.rules.get(("tool", tool.name))):
            self._refuse(
                f"tool {tool.name!r}: is named by {_rules(rules)}, made for another; choose another name, "
                f"or {TRUST}"
            )
        elif last is None and (toolkit := self._claims(tool.name)):
            self._refuse(
                f"tool {tool.name!r}: toolkit {toolkit!r} has tools of that name as members; "
                f"choose another name, or {TRUST}"
            )
        elif row is not None and tool.toolkit != row.toolkit and (why := self._governs(row.toolkit)):
            self._refuse(f"tool {tool.name!r}: went from toolkit {row.toolkit!r}, {why}; {TRUST}")
        self._check_place(tool)

    def known_tool(self, tool: Tool, row: HeldTool) -> Tool:
        """The tool where it may be: it stays where people put it, and where a toolkit governs it."""
        if tool.toolkit == row.toolkit:
            return tool
        if why := self._governs(row.toolkit):
            self.notes.append(f"tool {tool.name!r}: stays in toolkit {row.toolkit!r}, {why}; {TRUST}")
            return replace(tool, toolkit=row.toolkit)
        self._check_place(tool)
        return tool

    def toolkit(self, name: str, content: Mapping[str, Any], row: HeldToolkit | None) -> Mapping[str, Any]:
        """What may be made of a toolkit; `row` is its own, there or deleted, None for a new one."""
        if row is None or row.is_deleted:
            return self._new_toolkit(name, content, row)
        kept: dict[str, Any] = {}
        for field in _GOVERNING:
            if content[field] != row.content[field]:
                kept[field] = row.content[field]
                self.notes.append(
                    f"toolkit {name!r}: {field} stays {row.content[field]!r}; only people change it"
                )
        if self._mode != "auto":
            waiting = [field for field in _TEXTS if content[field] != row.content[field]]
            kept |= {field: row.content[field] for field in waiting}
            if waiting:
                self.notes.append(
                    f"toolkit {name!r}: held: {', '.join(waiting)}; toolkits change by people: {TRUST}"
                )
        return {**content, **kept}

    def _new_toolkit(
        self, name: str, content: Mapping[str, Any], row: HeldToolkit | None
    ) -> Mapping[str, Any]:
        rules = self._held.rules.get(("toolkit", name))
        if name in self._held.shared_toolkits:
            self._refuse(f"toolkit {name!r}: the platform has one of that name; choose another, or {TRUST}")
        elif name in self._held.mentioned:
            self._refuse(
                f"toolkit {name!r}: tools or page mappings of others name it already; choose another, "
                f"or {TRUST}"
            )
        elif rules and row is None:
            self._refuse(f"toolkit {name!r}: is named by {_rules(rules)}; choose another, or {TRUST}")
        parent = content["parent"]
        if row is not None and row.content["parent"] is not None and parent != row.content["parent"]:
            self._refuse(
                f"toolkit {name!r}: was below {row.content['parent']!r} when it went, not below {parent!r}; "
                f"{TRUST}"
            )
        elif row is not None and parent == row.content["parent"]:
            pass  # as it was
        elif parent is not None and parent not in self._own and parent in self._known():
            self._refuse(f"toolkit {name!r}: parent {parent!r} is held by {self._holder(parent)}; {TRUST}")
        settled = dict(content)
        if row is not None:  # as it was when it went, whoever governed it then
            settled |= {field: row.content[field] for field in _GOVERNING if field != "parent"}
            if self._mode != "auto":
                settled |= {field: row.content[field] for field in _TEXTS}
        else:
            settled |= {"base": False, "members": []}
            if self._mode == "all":
                settled |= {"keywords": [], "patterns": []}
        for field in content:
            if settled[field] != content[field]:
                self.notes.append(
                    f"toolkit {name!r}: {field} is for people to say, and ignored"
                    if field in _GOVERNING
                    else f"toolkit {name!r}: held: {field}; toolkits change by people: {TRUST}"
                )
        return settled

    def _check_place(self, tool: Tool) -> None:
        name = tool.toolkit
        if not name or name in self._own:
            return
        rules = self._held.rules.get(("toolkit", name))
        if name in self._known():
            self._refuse(f"tool {tool.name!r}: toolkit {name!r} is held by {self._holder(name)}; {TRUST}")
        elif name in self._held.mentioned:
            self._refuse(
                f"tool {tool.name!r}: toolkit {name!r} is named by tools or page mappings of others; {TRUST}"
            )
        elif rules:
            self._refuse(f"tool {tool.name!r}: toolkit {name!r} is named by {_rules(rules)}; {TRUST}")

    def _governs(self, name: str) -> str:
        """Why a tool may not leave a toolkit; "" if it may."""
        seen: set[str] = set()
        at: str | None = name or None
        while at is not None and at not in seen:
            seen.add(at)
            if rules := self._held.rules.get(("toolkit", at)):
                return f"since {_rules(rules)} {'names' if len(rules) == 1 else 'name'} {_what(at, name)}"
            row = self._alive.get(at)
            if row is None:
                return f"which is {self._holder(at)}'s" if at in self._held.shared_toolkits else ""
            if row.plugin != self._plugin:
                return f"since {_what(at, name)} is held by {self._holder(at)}"
            if row.content["tier"] is not None:
                return f"since {_what(at, name)} has a tier"
            if row.content["settings_keys"]:
                return f"since {_what(at, name)} has settings_keys"
            at = row.content["parent"]
        return ""

    def _claims(self, name: str) -> str:
        """A toolkit that others wrote, and that a tool of this name would be a member of; "" for none."""
        found = (toolkit for pattern, toolkit in self._held.members.items() if is_meant(pattern, name))
        return next(found, "")

    def _known(self) -> set[str]:
        return {*self._alive, *self._held.shared_toolkits}

    def _holder(self, name: str) -> str:
        row = self._alive.get(name)
        if row is None:
            return "the platform"
        return f"plugin {row.plugin!r}" if row.plugin else "people"

    def _refuse(self, message: str) -> None:
        self.problems.append(Problem("conflict", message))


def _what(at: str, name: str) -> str:
    return "it" if at == name else f"{at!r} above it"


def _rules(names: Sequence[str]) -> str:
    return f"rule{'' if len(names) == 1 else 's'} {', '.join(map(repr, names[:5]))}"
