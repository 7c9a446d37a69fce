"""Restricts an untrusted plugin: it may add tools that compete on merit, and nothing else.

Toolkits carry decisions of people: tiers, rules, settings, base tools. So an untrusted plugin may only fill
its own toolkits, an existing toolkit keeps its governance, and a tool cannot leave a toolkit that governs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from toolroll.catalog.toolkits import is_meant
from toolroll.model.errors import Conflict
from toolroll.model.tools import Tool
from toolroll.registry.sync.payload import Payload, Problem
from toolroll.registry.sync.plan import Mode
from toolroll.registry.sync.state import RegistryState, RowState, ToolState

TRUST_HINT = "`--trusted` does it"  # how to get a refused request
_GOVERNING = ("parent", "settings_keys", "base", "tier", "members")
_TEXTS = ("description", "keywords", "patterns")


class Restrictions:
    """The restrictions of an untrusted payload.

    Attributes:
        problems: reasons to refuse the sync.
        notes: requests that the sync ignores.
    """

    def __init__(
        self, state: RegistryState, payload: Payload, mode: Mode, problems: list[Problem], notes: list[str]
    ) -> None:
        self.problems, self.notes = problems, notes
        self._state, self._mode, self._plugin = state, mode, payload.plugin
        self._alive = {row.name: row for row in state.toolkits if not row.is_deleted}
        declared = {
            name
            for name in payload.toolkits
            if name not in state.shared_toolkits
            and (name not in self._alive or self._alive[name].plugin == self._plugin)
        }
        self._own = declared | {name for name, row in self._alive.items() if row.plugin == self._plugin}

    def new_tool(self, tool: Tool, former: str | None, last: ToolState | None, is_placed: bool) -> None:
        """Refuses a new tool if the plugin may not use its name or its toolkit.

        former: the toolkit of the plugin's own deleted tool with this name, or None. last: the last deleted
            tool with this name, whoever owned it. is_placed: whether people have put it into its toolkit.
        """
        if last is not None and last.plugin != self._plugin:
            self._refuse(
                f"tool {tool.name!r}: people deleted a tool of that name, which stays theirs; "
                f"choose another, or {TRUST_HINT}"
            )
        elif last is None and (rules := self._state.rules.get(("tool", tool.name))):
            self._refuse(
                f"tool {tool.name!r}: is named by {_rules(rules)}, made for another; choose another name, "
                f"or {TRUST_HINT}"
            )
        elif last is None and (toolkit := self._claims(tool.name)):
            self._refuse(
                f"tool {tool.name!r}: toolkit {toolkit!r} has tools of that name as members; "
                f"choose another name, or {TRUST_HINT}"
            )
        elif former is not None and tool.toolkit != former and (why := self._governs(former)):
            self._refuse(f"tool {tool.name!r}: was deleted in toolkit {former!r}, {why}; {TRUST_HINT}")
        if not is_placed:
            self._check_place(tool)

    def known_tool(self, tool: Tool, present: str) -> Tool:
        """The tool in its new toolkit, or in its present toolkit if that one governs it."""
        if tool.toolkit == present:
            return tool
        if why := self._governs(present):
            self.notes.append(f"tool {tool.name!r}: stays in toolkit {present!r}, {why}; {TRUST_HINT}")
            return replace(tool, toolkit=present)
        self._check_place(tool)
        return tool

    def toolkit(self, name: str, content: Mapping[str, Any], row: RowState | None) -> Mapping[str, Any]:
        """The content that a toolkit may get. row: the present or deleted toolkit; None for a new one."""
        if row is None or row.is_deleted:
            return self._new_toolkit(name, content, row)
        kept: dict[str, Any] = {}
        for field in _GOVERNING:
            if content[field] != row.values[field]:
                kept[field] = row.values[field]
                self.notes.append(
                    f"toolkit {name!r}: {field} stays {row.values[field]!r}; only people change it"
                )
        if self._mode != "auto":
            waiting = [field for field in _TEXTS if content[field] != row.values[field]]
            kept |= {field: row.values[field] for field in waiting}
            if waiting:
                self.notes.append(
                    f"toolkit {name!r}: held: {', '.join(waiting)}; only people change toolkits: {TRUST_HINT}"
                )
        return {**content, **kept}

    def _new_toolkit(self, name: str, content: Mapping[str, Any], row: RowState | None) -> Mapping[str, Any]:
        rules = self._state.rules.get(("toolkit", name))
        if name in self._state.shared_toolkits:
            self._refuse(
                f"toolkit {name!r}: the platform has one of that name; choose another, or {TRUST_HINT}"
            )
        elif name in self._state.mentioned:
            self._refuse(
                f"toolkit {name!r}: tools or page mappings of others name it already; choose another name, "
                f"or {TRUST_HINT}"
            )
        elif rules and row is None:
            self._refuse(f"toolkit {name!r}: is named by {_rules(rules)}; choose another, or {TRUST_HINT}")
        parent = content["parent"]
        if row is not None and row.values["parent"] is not None and parent != row.values["parent"]:
            self._refuse(
                f"toolkit {name!r}: was below {row.values['parent']!r} when it was deleted, "
                f"not below {parent!r}; {TRUST_HINT}"
            )
        elif row is not None and parent == row.values["parent"]:
            pass  # the former parent
        elif parent is not None and parent not in self._own and parent in self._known():
            self._refuse(
                f"toolkit {name!r}: parent {parent!r} belongs to {self._owner(parent)}; {TRUST_HINT}"
            )
        allowed = dict(content)
        if row is not None:  # keeps its former governance, whoever decided it
            allowed |= {field: row.values[field] for field in _GOVERNING if field != "parent"}
            if self._mode != "auto":
                allowed |= {field: row.values[field] for field in _TEXTS}
        else:
            allowed |= {"base": False, "members": []}
            if self._mode == "all":
                allowed |= {"keywords": [], "patterns": []}
        for field in content:
            if allowed[field] != content[field]:
                self.notes.append(
                    f"toolkit {name!r}: {field} is ignored; only people decide it"
                    if field in _GOVERNING
                    else f"toolkit {name!r}: held: {field}; only people change toolkits: {TRUST_HINT}"
                )
        return allowed

    def _check_place(self, tool: Tool) -> None:
        name = tool.toolkit
        if not name or name in self._own:
            return
        rules = self._state.rules.get(("toolkit", name))
        if name in self._known():
            self._refuse(f"tool {tool.name!r}: toolkit {name!r} belongs to {self._owner(name)}; {TRUST_HINT}")
        elif name in self._state.mentioned:
            self._refuse(
                f"tool {tool.name!r}: toolkit {name!r} is named by tools or page mappings of "
                f"others; {TRUST_HINT}"
            )
        elif rules:
            self._refuse(f"tool {tool.name!r}: toolkit {name!r} is named by {_rules(rules)}; {TRUST_HINT}")

    def _governs(self, name: str) -> str:
        """Why a tool may not leave a toolkit, or "" if it may."""
        seen: set[str] = set()
        at: str | None = name or None
        while at is not None and at not in seen:
            seen.add(at)
            if rules := self._state.rules.get(("toolkit", at)):
                return f"since {_rules(rules)} {'names' if len(rules) == 1 else 'name'} {_what(at, name)}"
            row = self._alive.get(at)
            if row is None:
                return f"which is {self._owner(at)}'s" if at in self._state.shared_toolkits else ""
            if row.plugin != self._plugin:
                return f"since {_what(at, name)} belongs to {self._owner(at)}"
            if row.values["tier"] is not None:
                return f"since {_what(at, name)} has a tier"
            if row.values["settings_keys"]:
                return f"since {_what(at, name)} has settings_keys"
            at = row.values["parent"]
        return ""

    def _claims(self, name: str) -> str:
        """A toolkit of somebody else whose `members` match this name, or ""."""
        found = (toolkit for pattern, toolkit in self._state.members.items() if is_meant(pattern, name))
        return next(found, "")

    def _known(self) -> set[str]:
        return {*self._alive, *self._state.shared_toolkits}

    def _owner(self, name: str) -> str:
        row = self._alive.get(name)
        if row is None:
            return "the platform"
        return f"plugin {row.plugin!r}" if row.plugin else "people"

    def _refuse(self, message: str) -> None:
        self.problems.append(Conflict(message))


def _what(at: str, name: str) -> str:
    return "it" if at == name else f"{at!r} above it"


def _rules(names: Sequence[str]) -> str:
    return f"rule{'' if len(names) == 1 else 's'} {', '.join(map(repr, names[:5]))}"
