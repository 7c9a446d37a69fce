"""Restricts an untrusted plugin: it may only add tools that compete on merit.

Toolkits carry people's decisions: tiers, rules, settings, base tools. So an untrusted plugin may only fill
its own toolkits, an existing toolkit keeps its governance, and a tool stays in a toolkit that governs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from toolroll.catalog.toolkits import is_meant
from toolroll.model.errors import Conflict
from toolroll.model.tools import Tool
from toolroll.registry.sync.payload import Payload, Problem
from toolroll.registry.sync.plan import ReviewMode
from toolroll.registry.sync.registry_state import RegistryState, RowState, ToolState

TRUST_HINT = "`--trusted` does it"
_OTHER_NAME = f"choose another name, or {TRUST_HINT}"
_GOVERNING = ("parent", "settings_keys", "base", "tier", "members")
_TEXTS = ("description", "keywords", "patterns")


class Restrictions:
    """The restrictions of an untrusted payload.

    Attributes:
        problems: reasons to refuse the sync.
        notes: parts of the payload that the sync ignores.
    """

    def __init__(
        self,
        state: RegistryState,
        payload: Payload,
        mode: ReviewMode,
        problems: list[Problem],
        notes: list[str],
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
        what = f"tool {tool.name!r}"
        if last is not None and last.plugin != self._plugin:
            self._refuse(f"{what}: people deleted a tool of that name, which stays theirs", _OTHER_NAME)
        elif last is None and (rules := self._state.rules.get(("tool", tool.name))):
            self._refuse(f"{what}: is named by {_rules(rules)}, made for another", _OTHER_NAME)
        elif last is None and (toolkit := self._claims(tool.name)):
            self._refuse(f"{what}: toolkit {toolkit!r} has tools of that name as members", _OTHER_NAME)
        elif former is not None and tool.toolkit != former and (why := self._governs(former)):
            self._refuse(f"{what}: was deleted in toolkit {former!r}, {why}")
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
        old = row.values
        kept = {field: old[field] for field in _GOVERNING if content[field] != old[field]}
        for field, value in kept.items():
            self.notes.append(f"toolkit {name!r}: {field} stays {value!r}; only people change it")
        if self._mode != "auto":
            waiting = [field for field in _TEXTS if content[field] != old[field]]
            kept |= {field: old[field] for field in waiting}
            if waiting:
                self._hold(name, waiting)
        return {**content, **kept}

    def _hold(self, toolkit: str, fields: Iterable[str]) -> None:
        held = ", ".join(fields)
        self.notes.append(f"toolkit {toolkit!r}: held: {held}; only people change toolkits: {TRUST_HINT}")

    def _new_toolkit(self, name: str, content: Mapping[str, Any], row: RowState | None) -> Mapping[str, Any]:
        rules, what = self._state.rules.get(("toolkit", name)), f"toolkit {name!r}"
        if name in self._state.shared_toolkits:
            self._refuse(f"{what}: the platform has one of that name", _OTHER_NAME)
        elif name in self._state.mentioned:
            self._refuse(f"{what}: tools or page mappings of others name it already", _OTHER_NAME)
        elif rules and row is None:
            self._refuse(f"{what}: is named by {_rules(rules)}", _OTHER_NAME)
        parent, former = content["parent"], None if row is None else row.values["parent"]
        if former is not None and parent != former:
            self._refuse(f"{what}: was below {former!r} when it was deleted, not below {parent!r}")
        elif parent not in (None, former) and parent not in self._own and parent in self._known():
            self._refuse(f"{what}: parent {parent!r} belongs to {self._owner(parent)}")
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
            if allowed[field] == content[field]:
                continue
            if field in _GOVERNING:
                self.notes.append(f"{what}: {field} is ignored; only people decide it")
            else:
                self._hold(name, (field,))
        return allowed

    def _check_place(self, tool: Tool) -> None:
        name = tool.toolkit
        if not name or name in self._own:
            return
        what = f"tool {tool.name!r}: toolkit {name!r}"
        if name in self._known():
            self._refuse(f"{what} belongs to {self._owner(name)}")
        elif name in self._state.mentioned:
            self._refuse(f"{what} is named by tools or page mappings of others")
        elif rules := self._state.rules.get(("toolkit", name)):
            self._refuse(f"{what} is named by {_rules(rules)}")

    def _governs(self, name: str) -> str:
        """The reason why a tool may not leave a toolkit; "" if it may."""
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
        """A toolkit of another owner whose `members` match this name, or ""."""
        found = (toolkit for pattern, toolkit in self._state.members.items() if is_meant(pattern, name))
        return next(found, "")

    def _known(self) -> set[str]:
        return {*self._alive, *self._state.shared_toolkits}

    def _owner(self, name: str) -> str:
        row = self._alive.get(name)
        if row is None:
            return "the platform"
        return f"plugin {row.plugin!r}" if row.plugin else "people"

    def _refuse(self, message: str, hint: str = TRUST_HINT) -> None:
        self.problems.append(Conflict(f"{message}; {hint}"))


def _what(at: str, name: str) -> str:
    return "it" if at == name else f"{at!r} above it"


def _rules(names: Sequence[str]) -> str:
    return f"rule{'' if len(names) == 1 else 's'} {', '.join(map(repr, names[:5]))}"
