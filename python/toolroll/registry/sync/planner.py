"""Plans a sync: a pure function of what the registry holds and of what a plugin sends.

Identity is (organisation, name), ownership the plugin. A tool's `source_hash` is the hash of what its plugin
sent last: the same again is no change, whatever people made of the tool since. It is None where the plugin
sends it no longer (a sync deleted it): what people deleted or brought back stays as they left it.

Of a payload that is not trusted only content counts. Governance (pinned, public, base, …) is what people set,
as it is for whatever an import finds there already; see `bounds` for what else is not for a plugin to do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from toolroll.registry.content import GOVERNED
from toolroll.registry.flags import Lookalikes, flags_of_toolkit
from toolroll.registry.records import Review
from toolroll.registry.sync.payload import Payload, Problem
from toolroll.registry.sync.plan import (
    MODES,
    Held,
    HeldPage,
    HeldTool,
    HeldToolkit,
    Mode,
    PageStep,
    SyncPlan,
    ToolkitStep,
    ToolStep,
)
from toolroll.registry.sync.trust import TRUST, Bounds
from toolroll.rules import PageMapping
from toolroll.selection.policy.rule_checks import tier_problem
from toolroll.tools import Tool


def plan(
    held: Held,
    payload: Payload,
    *,
    review: Mode | None = None,
    trusted: bool = False,
    restore: bool = False,
) -> SyncPlan:
    """What it takes to make the registry hold what the payload says. O(held + payload), no hashing.

    review: None keeps the plugin's mode; "auto" for a new one.
    trusted: the payload may pin and publish what it creates and make toolkits base, needs no approval, and
        brings back what people refused or deleted.
    restore: an import brings back what people deleted.
    """
    mode: Mode = review or (_mode(held.plugin[2]) if held.plugin else "auto")
    problems = list(payload.problems)
    notes = list(payload.notes)
    bounds = None if trusted else Bounds(held, payload, mode, problems, notes)
    steps, unchanged = _tool_steps(held, payload, mode, bounds, restore, problems, notes)
    toolkits = _toolkit_steps(held, payload, bounds, steps, problems, notes)
    pages = _page_steps(held, payload)
    if not trusted and pages:
        notes.append(_unapplied(pages))
        pages = []
    version = payload.version or (held.plugin[0] if held.plugin else "")
    row = payload.plugin != "" and held.plugin != (version, payload.digest, mode)
    return SyncPlan(
        payload.plugin,
        payload.org,
        version,
        mode,
        tuple(steps),
        tuple(toolkits),
        tuple(pages),
        unchanged,
        tuple(problems),
        tuple(notes),
        row,
    )


def _mode(stored: str) -> Mode:
    # A word that a newer version wrote is read as the strictest.
    return next((mode for mode in MODES if mode == stored), "all")


def _tool_steps(
    held: Held,
    payload: Payload,
    mode: Mode,
    bounds: Bounds | None,
    restore: bool,
    problems: list[Problem],
    notes: list[str],
) -> tuple[list[ToolStep], int]:
    plugin, org, trusted = payload.plugin, payload.org, bounds is None
    alive: dict[str, HeldTool] = {}
    gone: dict[str, HeldTool] = {}
    last: dict[str, HeldTool] = {}
    edited: list[str] = []
    governed: list[str] = []
    for held_tool in held.tools:
        if not held_tool.is_deleted:
            alive[held_tool.name] = held_tool
        else:
            last[held_tool.name] = held_tool
            if held_tool.plugin == plugin:
                gone[held_tool.name] = held_tool  # of several the last: in the order of their deletion
    steps: list[ToolStep] = []
    unchanged = 0
    for name, source in payload.hashes.items():
        row = alive.get(name)
        if row is None:
            step = _create(payload.tools[name], source, gone.get(name), held, payload, mode, trusted, restore)
            if bounds is not None and step.tool is not None:
                bounds.new_tool(step.tool, gone.get(name), last.get(name))
            if step.action != "leave" and org and name in held.shared_tools:
                problems.append(
                    Problem("conflict", f"tool {name!r}: the platform has one of that name; choose another")
                )
        elif row.plugin != plugin:
            problems.append(
                Problem(
                    "conflict", f"tool {name!r}: is held by {_owner(row.plugin)}, not by {_owner(plugin)}"
                )
            )
            continue
        elif (same := _same(row, source, trusted)) is not None:
            if not plugin and row.content_hash != source:
                edited.append(name)
            if same is _UNCHANGED:
                unchanged += 1
            else:
                steps.append(same)
            if not plugin and _differing(payload.tools[name], row):
                governed.append(name)
            continue
        else:
            step = _change(row, payload.tools[name], source, held, plugin, mode, bounds)
            if not plugin and _differing(payload.tools[name], row):
                governed.append(name)
        steps.append(step)
    if edited:
        notes.append(f"{_some(edited)}: people changed what was imported, and it stays so")
    if governed:
        notes.append(
            f"{_some(governed)}: {', '.join(GOVERNED[:-1])} and {GOVERNED[-1]} stay what people set; "
            "`toolroll registry update` changes them"
        )
    if plugin:
        steps += (
            ToolStep("delete", name, before=row, review=row.review)
            for name, row in alive.items()
            # Without a source hash people brought it back after the plugin had dropped it.
            if row.plugin == plugin and name not in payload.tools and row.source_hash is not None
        )
    steps.sort(key=lambda step: step.name)
    return steps, unchanged


_UNCHANGED = ToolStep("leave", "")


def _some(names: list[str]) -> str:
    more = len(names) - _NAMED
    shown = ", ".join(map(repr, names[:_NAMED])) + (f" and {more} more" if more > 0 else "")
    return f"tool{'' if len(names) == 1 else 's'} {shown}"


def _differing(tool: Tool, row: HeldTool) -> bool:
    """Whether a definition asks for another governance than there is; what it leaves out asks for nothing."""
    return any(getattr(tool, name) not in (getattr(_PLAIN, name), getattr(row, name)) for name in GOVERNED)


_NAMED = 10  # names in a note
_PLAIN = Tool("plain")


def _same(row: HeldTool, source: str, trusted: bool) -> ToolStep | None:
    """The step for a tool that stays as it is; None where it changes."""
    if trusted and row.review != "approved":
        return None
    if row.source_hash == source:
        return _UNCHANGED
    if row.rejected_hash == source and not trusted:
        return ToolStep("leave", row.name, before=row, review=row.review, why=_REJECTED)
    if row.content_hash == source:
        return ToolStep("adopt", row.name, source_hash=source, before=row, review=row.review)
    return None


_REJECTED = "people rejected this content"
_DELETED = "people deleted it"


def _change(
    row: HeldTool, tool: Tool, source: str, held: Held, plugin: str, mode: Mode, bounds: Bounds | None
) -> ToolStep:
    settled, asked = _governed(tool, row)
    if bounds is not None:
        settled = bounds.known_tool(settled, row)
    review = _review(row, source, held, mode, bounds is None)
    is_kept = settled.toolkit != tool.toolkit
    why = _waits(review)
    return ToolStep("change", row.name, settled, source, row, review, why, asked if plugin else (), is_kept)


def _create(
    tool: Tool,
    source: str,
    row: HeldTool | None,
    held: Held,
    payload: Payload,
    mode: Mode,
    trusted: bool,
    restore: bool,
) -> ToolStep:
    """A new tool, or one that was there before: then it comes back as the tool that it was."""
    if row is None:
        settled, asked = (tool, ()) if trusted else _governed(tool, None)
        review: Review = "approved" if trusted or mode != "all" else "pending"
        return ToolStep("create", tool.name, settled, source, None, review, _waits(review), asked)
    if not payload.plugin and not restore:
        return ToolStep("leave", tool.name, before=row, review=row.review, why=_DELETED)
    if not trusted:
        if row.rejected_hash == source:
            return ToolStep("leave", tool.name, before=row, review=row.review, why=_REJECTED)
        # A tool that was refused before anybody had approved it may come back with other content.
        if row.source_hash is not None and not (row.review == "pending" and row.rejected_hash is not None):
            return ToolStep("leave", tool.name, before=row, review=row.review, why=_DELETED)
    settled, asked = _governed(tool, row)
    review = _review(row, source, held, mode, trusted)
    return ToolStep("restore", tool.name, settled, source, row, review, _waits(review), asked)


def _review(row: HeldTool, source: str, held: Held, mode: Mode, trusted: bool) -> Review:
    """Approved where nobody asks, or where this is the content that was approved last."""
    if trusted or mode == "auto":
        return "approved"
    if row.approved_version is None:
        return "pending"
    approved = row.content_hash if row.review == "approved" else held.approved.get(row.tool_id)
    return "approved" if source == approved else "changed"


def _waits(review: str) -> str:
    return "" if review == "approved" else "waits for approval"


def _policy_source(tool: Tool | HeldTool) -> dict[str, Any]:
    return {name: getattr(tool, name) for name in GOVERNED}


def _governed(tool: Tool, row: HeldTool | None) -> tuple[Tool, tuple[str, ...]]:
    """The tool with the governance that holds, and the fields it asked for in vain.

    A new one may say its status, a known one not even that.
    """
    holds = {"status": tool.status, **_UNGOVERNED} if row is None else _policy_source(row)
    asked = tuple(
        name
        for name, default in _UNGOVERNED.items()
        if (value := getattr(tool, name)) != default and value != (getattr(row, name) if row else default)
    )
    return (tool if _policy_source(tool) == holds else replace(tool, **holds)), asked


_UNGOVERNED = {"public": False, "pinned": False, "pin_weight": 0, "interchangeable": ""}


def _owner(plugin: str) -> str:
    return f"plugin {plugin!r}" if plugin else "people"


def _toolkit_steps(
    held: Held,
    payload: Payload,
    bounds: Bounds | None,
    tools: Iterable[ToolStep],
    problems: list[Problem],
    notes: list[str],
) -> list[ToolkitStep]:
    plugin = payload.plugin
    alive = {toolkit.name: toolkit for toolkit in held.toolkits if not toolkit.is_deleted}
    gone = {row.name: row for row in held.toolkits if row.is_deleted and row.plugin == plugin}
    steps: list[ToolkitStep] = []
    parents: dict[str, str | None] = dict(held.shared_toolkits)
    parents |= {name: row.content["parent"] for name, row in alive.items()}
    for name, content in payload.toolkits.items():
        row = alive.get(name)
        if row is not None and row.plugin != plugin:
            problems.append(
                Problem(
                    "conflict", f"toolkit {name!r}: is held by {_owner(row.plugin)}, not by {_owner(plugin)}"
                )
            )
            continue
        before = row or gone.get(name)
        if bounds is not None:
            content = bounds.toolkit(name, content, before)
        elif not plugin and row is not None:
            content = _imported(name, content, row, notes)
        tier = content["tier"]
        if tier is not None and (problem := tier_problem(tier, held.tiers)):  # no catalog could be made of it
            hint = "set them with `toolroll registry tiers NAME…`"
            problems.append(Problem("invalid", f"toolkit {name!r}: tier {problem}; {hint}"))
            continue
        parents[name] = content["parent"]
        if row is None:
            steps.append(ToolkitStep("create" if before is None else "restore", name, content, before))
        elif fields := tuple(key for key, value in content.items() if value != row.content[key]):
            steps.append(ToolkitStep("change", name, content, row, fields))
    if plugin:
        in_use = {*held.parents, *(parents[name] for name, row in alive.items() if row.plugin != plugin)}
        in_use |= {parents[name] for name in payload.toolkits if name in parents}
        in_use |= _filled(held, tools)
        for below in tuple(in_use):  # and what is above those
            at = below
            while at is not None and (at := parents.get(at)) not in in_use:
                in_use.add(at)
        for name, row in alive.items():
            if row.plugin != plugin or name in payload.toolkits:
                continue
            rules = held.rules.get(("toolkit", name), ())
            # Without it those below would have no catalog, and what governs what is in it would be gone.
            if name in in_use or rules:
                why = (
                    "others are below it, in it, or name it"
                    if name in in_use
                    else f"rule {rules[0]!r} names it"
                )
                notes.append(f"toolkit {name!r} is no longer sent, and stays: {why}")
                continue
            steps.append(ToolkitStep("delete", name, None, row))
            del parents[name]
    problems += _lineage_problems(payload.toolkits, parents)
    names = Lookalikes(alive if steps else ())
    for step in steps:
        if step.content is not None:
            notes += (
                f"toolkit {step.name!a}: {flag.code}: {flag.message}"
                for flag in flags_of_toolkit(step.name, step.content, names)
            )
    return sorted(steps, key=lambda step: step.name)


def _filled(held: Held, tools: Iterable[ToolStep]) -> set[str]:
    """The toolkits that tools are in once the steps are done, those that others mention included."""
    changed = {step.name: step for step in tools if step.action not in ("adopt", "leave")}
    after = {row.toolkit for row in held.tools if not row.is_deleted and row.name not in changed}
    after |= {step.tool.toolkit for step in changed.values() if step.tool is not None}
    return after | set(held.mentioned)


def _imported(name: str, content: Mapping[str, Any], row: HeldToolkit, notes: list[str]) -> Mapping[str, Any]:
    """What an import makes of a toolkit that is there: people's decisions stay, as for tools.

    base and tier are what they are; parent, settings_keys and members too, where the file does not say them.
    """
    kept = {
        field: row.content[field]
        for field in ("base", "tier", "parent", "settings_keys", "members")
        if content[field] != row.content[field] and (field in ("base", "tier") or not content[field])
    }
    notes += (
        f"toolkit {name!r}: {field} stays {value!r}; `toolroll registry toolkits` changes it"
        for field, value in kept.items()
    )
    return {**content, **kept}


def _unapplied(pages: list[PageStep]) -> str:
    count = "1 page mapping is" if len(pages) == 1 else f"{len(pages)} page mappings are"
    return f"governed: {count} not applied, for it would narrow a page for everybody; {TRUST}"


def _lineage_problems(names: Iterable[str], parents: Mapping[str, str | None]) -> Iterator[Problem]:
    sound: set[str] = set()  # leads up to a root; so a long chain is walked once, not once a toolkit
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


def _page_steps(held: Held, payload: Payload) -> list[PageStep]:
    """Mappings are matched by pattern, several of one pattern in order of priority and toolkits."""
    mine = [row for row in held.pages if row.plugin == payload.plugin]
    alive = _numbered(row for row in mine if not row.is_deleted)
    gone = _numbered(row for row in mine if row.is_deleted)
    wanted = _numbered(payload.pages)
    steps: list[PageStep] = []
    for key, page in wanted.items():
        row = alive.get(key)
        if row is None:
            before = gone.get(key)
            steps.append(PageStep("create" if before is None else "restore", page.pattern, page, before))
        elif (row.toolkits, row.priority) != (tuple(page.toolkits), page.priority):
            steps.append(PageStep("change", page.pattern, page, row))
    if payload.plugin:
        steps += (
            PageStep("delete", row.pattern, None, row) for key, row in alive.items() if key not in wanted
        )
    return sorted(steps, key=lambda step: (step.pattern, step.action))


_Page = TypeVar("_Page", PageMapping, HeldPage)


def _numbered(pages: Iterable[_Page]) -> dict[tuple[str, int], _Page]:
    count: Counter[str] = Counter()
    found: dict[tuple[str, int], _Page] = {}
    for page in sorted(pages, key=lambda page: (page.pattern, -page.priority, page.toolkits)):
        found[page.pattern, count[page.pattern]] = page
        count[page.pattern] += 1
    return found
