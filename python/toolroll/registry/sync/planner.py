"""Plans a sync: a pure function of the registry's state and a plugin's payload.

A definition is identified by organisation and name, and owned by a plugin. A tool's `source_hash` is the hash
of its plugin's last content: the same content again is no change, even if people have edited the tool since.
The hash is None after the plugin dropped the tool and a sync deleted it, so a tool that people delete or
restore stays as they left it.

An untrusted payload only changes content. Governance (pinned, public, base, …) stays what people set; an
import does not change it either, for tools that exist. `trust` has the other restrictions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from toolroll.registry.content import GOVERNED
from toolroll.registry.flags import Lookalikes, flags_of_toolkit
from toolroll.registry.records import Review
from toolroll.registry.review import WhileWaiting
from toolroll.registry.sync.payload import Payload, Problem
from toolroll.registry.sync.plan import (
    MODES,
    Mode,
    PageState,
    PageStep,
    RegistryState,
    SyncPlan,
    ToolkitState,
    ToolkitStep,
    ToolState,
    ToolStep,
)
from toolroll.registry.sync.trust import TRUST_HINT, Restrictions
from toolroll.rules import PageMapping
from toolroll.selection.policy.rule_checks import tier_problem
from toolroll.tools import Tool


def plan(
    state: RegistryState,
    payload: Payload,
    *,
    review: Mode | None = None,
    while_waiting: WhileWaiting | None = None,
    trusted: bool = False,
    restore: bool = False,
) -> SyncPlan:
    """The steps that make the registry equal to the payload. O(state + payload), without hashing.

    review: None keeps the plugin's mode; a new plugin has "auto".
    while_waiting: None keeps the plugin's choice; a new plugin has "hidden".
    trusted: the payload may pin and publish new tools and make toolkits base, needs no approval, and restores
        what people rejected or deleted.
    restore: an import restores what people deleted.
    """
    return _Planner(state, payload, review, while_waiting, trusted, restore).plan()


_REJECTED = "people rejected this content"
_DELETED = "people deleted it"
_LISTED = 10  # names in a note
_PLAIN = Tool("plain")
_UNGOVERNED = {"public": False, "pinned": False, "pin_weight": 0, "interchangeable": ""}
_UNCHANGED = ToolStep("leave", "")


class _Planner:
    """Plans one sync, and collects problems and notes on the way."""

    def __init__(
        self,
        state: RegistryState,
        payload: Payload,
        review: Mode | None,
        while_waiting: WhileWaiting | None,
        trusted: bool,
        restore: bool,
    ) -> None:
        self._state, self._payload, self._plugin = state, payload, payload.plugin
        self._mode: Mode = review or (_mode(state.plugin[2]) if state.plugin else "auto")
        self._while_waiting: WhileWaiting = while_waiting or (
            "approved" if state.plugin and state.plugin[3] == "approved" else "hidden"
        )
        self._trusted, self._restore = trusted, restore
        # The order of tiers is the platform's and people's own: a payload may bring the first one.
        has_none = not state.tiers
        self._new_tiers = payload.tiers if trusted and not payload.org and has_none else ()
        self._problems, self._notes = list(payload.problems), list(payload.notes)
        self._restrictions = (
            None if trusted else Restrictions(state, payload, self._mode, self._problems, self._notes)
        )

    def plan(self) -> SyncPlan:
        """The whole plan."""
        state, payload = self._state, self._payload
        tools, unchanged = self._tool_steps()
        toolkits = self._toolkit_steps(tools)
        pages = _page_steps(state, payload)
        if not self._trusted and pages:
            self._notes.append(_unapplied(pages))
            pages = []
        if payload.tiers not in ((), state.tiers, self._new_tiers):
            there = f"{TRUST_HINT} on the platform"
            if state.tiers:
                there = f"the registry has {', '.join(state.tiers)}"
            self._notes.append(f"governed: tiers {', '.join(payload.tiers)} are not set: {there}")
        version = payload.version or (state.plugin[0] if state.plugin else "")
        return SyncPlan(
            payload.plugin,
            payload.org,
            version,
            self._mode,
            self._while_waiting,
            tuple(tools),
            tuple(toolkits),
            tuple(pages),
            unchanged,
            tuple(self._problems),
            tuple(self._notes),
            row=payload.plugin != ""
            and state.plugin != (version, payload.digest, self._mode, self._while_waiting),
            tiers=self._new_tiers,
        )

    def _tool_steps(self) -> tuple[list[ToolStep], int]:
        plugin, payload = self._plugin, self._payload
        alive = {row.name: row for row in self._state.tools if not row.is_deleted}
        # Of several deleted tools with one name, the last one counts.
        last_deleted = {row.name: row for row in self._state.tools if row.is_deleted}
        own_deleted = {row.name: row for row in self._state.tools if row.is_deleted and row.plugin == plugin}
        edited: list[str] = []
        governed: list[str] = []
        steps: list[ToolStep] = []
        unchanged = 0
        for name, source in payload.hashes.items():
            tool, row = payload.tools[name], alive.get(name)
            if row is None:
                before = own_deleted.get(name)
                step = self._create(tool, source, before)
                if self._restrictions is not None and step.tool is not None:
                    self._restrictions.new_tool(step.tool, before, last_deleted.get(name))
                if step.action != "leave" and payload.org and name in self._state.shared_tools:
                    self._refuse(f"tool {name!r}: the platform has one of that name; choose another")
                steps.append(step)
                continue
            if row.plugin != plugin:
                self._refuse_owner("tool", name, row.plugin)
                continue
            if not plugin and _asks_governance(tool, row):
                governed.append(name)
            same = self._same(row, source)
            if same is None:
                steps.append(self._change(row, tool, source))
                continue
            if not plugin and row.content_hash != source:
                edited.append(name)
            if same is _UNCHANGED:
                unchanged += 1
            else:
                steps.append(same)
        if edited:
            self._notes.append(f"{_listed(edited)}: people changed what was imported, and it stays so")
        if governed:
            self._notes.append(
                f"{_listed(governed)}: {', '.join(GOVERNED[:-1])} and {GOVERNED[-1]} stay what people set; "
                "`toolroll registry update` changes them"
            )
        if plugin:
            steps += (
                ToolStep("delete", name, before=row, review=row.review)
                for name, row in alive.items()
                # Without a source hash, people restored it after the plugin had dropped it.
                if row.plugin == plugin
                and name not in payload.tools
                and name not in payload.skipped
                and row.source_hash is not None
            )
        return sorted(steps, key=lambda step: step.name), unchanged

    def _same(self, row: ToolState, source: str) -> ToolStep | None:
        """The step for a tool whose content stays; None if it changes."""
        if self._trusted and row.review != "approved":
            return None
        if row.source_hash == source:
            return _UNCHANGED
        if row.rejected_hash == source and not self._trusted:
            return ToolStep("leave", row.name, before=row, review=row.review, why=_REJECTED)
        if row.content_hash == source:
            return ToolStep("adopt", row.name, source_hash=source, before=row, review=row.review)
        return None

    def _change(self, row: ToolState, tool: Tool, source: str) -> ToolStep:
        governed, asked = _governed(tool, row)
        if self._restrictions is not None:
            governed = self._restrictions.known_tool(governed, row)
        review = self._review(row, source)
        is_kept = governed.toolkit != tool.toolkit
        asked = asked if self._plugin else ()
        return ToolStep("change", row.name, governed, source, row, review, _why(review), asked, is_kept)

    def _create(self, tool: Tool, source: str, row: ToolState | None) -> ToolStep:
        """The step for a tool that does not exist; a deleted one is restored under its tool_id."""
        if row is None:
            governed, asked = (tool, ()) if self._trusted else _governed(tool, None)
            review: Review = "approved" if self._trusted or self._mode != "all" else "pending"
            return ToolStep("create", tool.name, governed, source, None, review, _why(review), asked)
        why = ""
        if not self._plugin and not self._restore:
            why = _DELETED
        elif not self._trusted and row.rejected_hash == source:
            why = _REJECTED
        elif not self._trusted and row.source_hash is not None:
            # A tool that was rejected before its first approval may return with other content.
            why = "" if row.review == "pending" and row.rejected_hash is not None else _DELETED
        if why:
            return ToolStep("leave", tool.name, before=row, review=row.review, why=why)
        governed, asked = _governed(tool, row)
        review = self._review(row, source)
        return ToolStep("restore", tool.name, governed, source, row, review, _why(review), asked)

    def _review(self, row: ToolState, source: str) -> Review:
        """Approved if the mode asks nobody, or if this is the last approved content."""
        if self._trusted or self._mode == "auto":
            return "approved"
        if row.approved_version is None:
            return "pending"
        is_approved = row.review == "approved"
        approved = row.content_hash if is_approved else self._state.approved.get(row.tool_id)
        return "approved" if source == approved else "changed"

    def _toolkit_steps(self, tools: Iterable[ToolStep]) -> list[ToolkitStep]:
        plugin, payload, state = self._plugin, self._payload, self._state
        alive = {row.name: row for row in state.toolkits if not row.is_deleted}
        own_deleted = {row.name: row for row in state.toolkits if row.is_deleted and row.plugin == plugin}
        steps: list[ToolkitStep] = []
        parents: dict[str, str | None] = dict(state.shared_toolkits)
        parents |= {name: row.content["parent"] for name, row in alive.items()}
        for name, content in payload.toolkits.items():
            row = alive.get(name)
            if row is not None and row.plugin != plugin:
                self._refuse_owner("toolkit", name, row.plugin)
                continue
            before = row or own_deleted.get(name)
            if self._restrictions is not None:
                content = self._restrictions.toolkit(name, content, before)
            elif not plugin and row is not None:
                content = self._imported(name, content, row)
            tier = content["tier"]
            if tier is not None and (problem := tier_problem(tier, state.tiers or self._new_tiers)):
                hint = "set them with `toolroll registry tiers NAME…`"
                self._problems.append(Problem("invalid", f"toolkit {name!r}: tier {problem}; {hint}"))
                continue
            parents[name] = content["parent"]
            if row is None:
                steps.append(ToolkitStep("create" if before is None else "restore", name, content, before))
            elif fields := tuple(key for key, value in content.items() if value != row.content[key]):
                steps.append(ToolkitStep("change", name, content, row, fields))
        if plugin:
            steps += self._deleted_toolkits(alive, parents, tools)
        self._problems += _lineage_problems(payload.toolkits, parents)
        names = Lookalikes(alive if steps else ())
        for step in steps:
            if step.content is not None:
                self._notes += (
                    f"toolkit {step.name!a}: {flag.code}: {flag.message}"
                    for flag in flags_of_toolkit(step.name, step.content, names)
                )
        return sorted(steps, key=lambda step: step.name)

    def _deleted_toolkits(
        self, alive: Mapping[str, ToolkitState], parents: dict[str, str | None], tools: Iterable[ToolStep]
    ) -> Iterator[ToolkitStep]:
        """Deletes toolkits that the plugin no longer sends and nobody uses; removes them from `parents`."""
        in_use: set[str | None] = {*self._state.parents}
        in_use |= {parents[name] for name, row in alive.items() if row.plugin != self._plugin}
        in_use |= {parents[name] for name in self._payload.toolkits if name in parents}
        in_use |= _toolkits_with_tools(self._state, tools)
        for at in tuple(in_use):  # their ancestors are in use too
            while at is not None and (at := parents.get(at)) not in in_use:
                in_use.add(at)
        for name, row in alive.items():
            if row.plugin != self._plugin or name in self._payload.toolkits:
                continue
            rules = self._state.rules.get(("toolkit", name), ())
            # Deleting it would break the toolkits below it, or lift what governs its tools.
            if name in in_use or rules:
                used = "others are below it, in it, or name it"
                why = used if name in in_use else f"rule {rules[0]!r} names it"
                self._notes.append(f"toolkit {name!r} is no longer sent, and stays: {why}")
                continue
            yield ToolkitStep("delete", name, None, row)
            del parents[name]

    def _imported(self, name: str, content: Mapping[str, Any], row: ToolkitState) -> Mapping[str, Any]:
        """The content that an import gives to an existing toolkit: decisions of people stay, as for tools.

        base and tier always stay; parent, settings_keys and members stay if the file leaves them empty.
        """
        kept = {
            field: row.content[field]
            for field in ("base", "tier", "parent", "settings_keys", "members")
            if content[field] != row.content[field] and (field in ("base", "tier") or not content[field])
        }
        self._notes += (
            f"toolkit {name!r}: {field} stays {value!r}; `toolroll registry toolkits` changes it"
            for field, value in kept.items()
        )
        return {**content, **kept}

    def _refuse_owner(self, noun: str, name: str, owner: str) -> None:
        names = [f"plugin {one!r}" if one else "people" for one in (owner, self._plugin)]
        self._refuse(f"{noun} {name!r}: belongs to {names[0]}, not to {names[1]}")

    def _refuse(self, message: str) -> None:
        self._problems.append(Problem("conflict", message))


def _mode(stored: str) -> Mode:
    # An unknown mode, from a newer toolroll, counts as the strictest.
    return next((mode for mode in MODES if mode == stored), "all")


def _listed(names: list[str]) -> str:
    more = len(names) - _LISTED
    shown = ", ".join(map(repr, names[:_LISTED])) + (f" and {more} more" if more > 0 else "")
    return f"tool{'' if len(names) == 1 else 's'} {shown}"


def _why(review: str) -> str:
    return "" if review == "approved" else "waits for approval"


def _asks_governance(tool: Tool, row: ToolState) -> bool:
    """Whether a definition asks for other governance than the tool has; a default asks for nothing."""
    return any(getattr(tool, name) not in (getattr(_PLAIN, name), getattr(row, name)) for name in GOVERNED)


def _governed(tool: Tool, row: ToolState | None) -> tuple[Tool, tuple[str, ...]]:
    """The tool with the governance that stays in force, and the fields that it asked for and does not get.

    A new tool may set its status; an existing one may not.
    """
    kept = {"status": tool.status, **_UNGOVERNED} if row is None else _governance(row)
    asked = tuple(
        name
        for name, default in _UNGOVERNED.items()
        if (value := getattr(tool, name)) != default and value != (getattr(row, name) if row else default)
    )
    return (tool if _governance(tool) == kept else replace(tool, **kept)), asked


def _governance(tool: Tool | ToolState) -> dict[str, Any]:
    return {name: getattr(tool, name) for name in GOVERNED}


def _toolkits_with_tools(state: RegistryState, tools: Iterable[ToolStep]) -> set[str]:
    """The toolkits that contain tools after the steps, and those that others mention."""
    changed = {step.name: step for step in tools if step.action not in ("adopt", "leave")}
    after = {row.toolkit for row in state.tools if not row.is_deleted and row.name not in changed}
    after |= {step.tool.toolkit for step in changed.values() if step.tool is not None}
    return after | set(state.mentioned)


def _unapplied(pages: list[PageStep]) -> str:
    count = "1 page mapping is" if len(pages) == 1 else f"{len(pages)} page mappings are"
    return f"governed: {count} not applied, because it would narrow a page for everybody; {TRUST_HINT}"


def _lineage_problems(names: Iterable[str], parents: Mapping[str, str | None]) -> Iterator[Problem]:
    sound: set[str] = set()  # leads to a root; so a long chain is walked only once
    for name in names:
        seen: dict[str, None] = {}
        at: str | None = name if name in parents else None
        while at is not None and at not in sound:
            if at in seen:
                circle = " → ".join([*seen, at][-10:])
                yield Problem("invalid", f"toolkit {name!r}: its parents form a cycle: {circle}")
                break
            seen[at] = None
            above = parents[at]
            if above is not None and above not in parents:
                yield Problem(
                    "invalid", f"toolkit {at!r}: parent {above!r} is no toolkit; declare it or leave it out"
                )
                break
            at = above
        sound.update(seen)


def _page_steps(state: RegistryState, payload: Payload) -> list[PageStep]:
    """The steps for page mappings. Several with one pattern are matched in order of priority and toolkits."""
    own = [row for row in state.pages if row.plugin == payload.plugin]
    alive = _numbered(row for row in own if not row.is_deleted)
    deleted = _numbered(row for row in own if row.is_deleted)
    wanted = _numbered(payload.pages)
    steps: list[PageStep] = []
    for key, page in wanted.items():
        row = alive.get(key)
        if row is None:
            before = deleted.get(key)
            steps.append(PageStep("create" if before is None else "restore", page.pattern, page, before))
        elif (row.toolkits, row.priority) != (tuple(page.toolkits), page.priority):
            steps.append(PageStep("change", page.pattern, page, row))
    if payload.plugin:
        steps += (
            PageStep("delete", row.pattern, None, row) for key, row in alive.items() if key not in wanted
        )
    return sorted(steps, key=lambda step: (step.pattern, step.action))


_Page = TypeVar("_Page", PageMapping, PageState)


def _numbered(pages: Iterable[_Page]) -> dict[tuple[str, int], _Page]:
    count: Counter[str] = Counter()
    found: dict[tuple[str, int], _Page] = {}
    for page in sorted(pages, key=lambda page: (page.pattern, -page.priority, page.toolkits)):
        found[page.pattern, count[page.pattern]] = page
        count[page.pattern] += 1
    return found
