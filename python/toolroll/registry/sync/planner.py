"""Plans a sync: a pure function of the registry's state and a plugin's payload.

Organisation and name identify a definition, and a plugin owns it. A tool's `source_hash` is the hash of the
plugin's last definition, so the same payload again changes nothing. If the plugin sends another definition,
`field_owners` merges it with the fields that people set. If the plugin dropped a tool, the sync deletes it
and sets its hash to None. So the planner can tell whether a sync or a person deleted a tool, and leaves
people's decisions alone.

An untrusted payload only changes content. People decide governance (pinned, public, base, …). An import does
not change the governance of existing tools either. `trust` has the other restrictions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from toolroll.model.errors import Conflict, InvalidDefinition
from toolroll.model.identity import canonical_json
from toolroll.model.tools import Tool
from toolroll.registry.editing.content import GOVERNED, changed_fields, content_hash
from toolroll.registry.editing.field_owners import KEPT, merged
from toolroll.registry.editing.flags import GOVERNED as GOVERNED_FLAG
from toolroll.registry.editing.flags import Flag, Lookalikes, flags_of, flags_of_toolkit
from toolroll.registry.editing.records import Review, ToolRecord
from toolroll.registry.editing.review import HINTS_FLAG, WhileWaiting, hint_flags, may_serve, warns_of_more
from toolroll.registry.editing.tool_edits import checked_hash, major_version_flag
from toolroll.registry.sync.payload import Payload, Problem
from toolroll.registry.sync.plan import MODES, Action, ReviewMode, RowStep, SyncPlan, ToolStep
from toolroll.registry.sync.registry_state import RegistryState, RowState, ToolState
from toolroll.registry.sync.trust import TRUST_HINT, Restrictions
from toolroll.selection.policy.rule_checks import tier_problem

MOVED = "moved"  # another toolkit: rules that name the old one no longer apply
_LASTING = ("major", MOVED, HINTS_FLAG, KEPT)  # flags that stay until somebody approves the tool

_REJECTED = "people rejected this content"
_DELETED = "people deleted it"
_WAITS = "waits for approval"
_LISTED = 10  # names in a note
_SHOWN = 80  # characters of a value in a flag
_PLAIN = Tool("plain")
_UNGOVERNED: dict[str, Any] = {"public": False, "pinned": False, "pin_weight": 0, "interchangeable": ""}
_IMPORT_KEEPS = ("base", "tier", "parent", "settings_keys", "members")
_NEVER = object()


class Planner:
    """Plans one sync, and collects problems and notes on the way."""

    def __init__(
        self,
        state: RegistryState,
        payload: Payload,
        *,
        review: ReviewMode | None = None,
        while_waiting: WhileWaiting | None = None,
        trusted: bool = False,
        restore: bool = False,
    ) -> None:
        """Takes the state and the payload.

        review: None keeps the plugin's mode; a new plugin has "auto".
        while_waiting: None keeps the plugin's choice; a new plugin has "hidden".
        trusted: whether the payload may pin and publish new tools and make toolkits base, needs no approval,
            and restores tools that people rejected or deleted.
        restore: whether an import restores tools that people deleted.
        """
        self._state, self._payload, self._plugin = state, payload, payload.plugin
        known = state.plugin
        # An unknown mode, from a newer toolroll, counts as the strictest.
        stored: ReviewMode = (
            "auto" if known is None else next((it for it in MODES if it == known.review), "all")
        )
        self._mode: ReviewMode = review or stored
        self._while_waiting: WhileWaiting = while_waiting or (
            "approved" if known and known.while_waiting == "approved" else "hidden"
        )
        self._trusted, self._restore = trusted, restore
        # The order of tiers is the platform's and people's own: a payload may bring the first one.
        self._new_tiers = payload.tiers if trusted and not payload.org and not state.tiers else ()
        self._problems, self._notes = list(payload.problems), list(payload.notes)
        self._restrictions = (
            None if trusted else Restrictions(state, payload, self._mode, self._problems, self._notes)
        )

    def plan(self) -> SyncPlan:
        """The steps that make the registry equal to the payload, except where people decide."""
        state, payload = self._state, self._payload
        tools, unchanged = self._tool_steps()
        toolkits = self._toolkit_steps(tools)
        pages = _page_steps(state, payload)
        if not self._trusted and pages:
            count = "1 page mapping is" if len(pages) == 1 else f"{len(pages)} page mappings are"
            self._notes.append(
                f"governed: {count} not applied, because it would narrow a page for everybody; {TRUST_HINT}"
            )
            pages = []
        if payload.tiers not in ((), state.tiers, self._new_tiers):
            there = (
                f"the registry has {', '.join(state.tiers)}"
                if state.tiers
                else f"{TRUST_HINT} on the platform"
            )
            self._notes.append(f"governed: tiers {', '.join(payload.tiers)} are not set: {there}")
        version = payload.version or (state.plugin.version if state.plugin else "")
        about = (version, payload.digest, self._mode, self._while_waiting)
        return SyncPlan(
            *(payload.plugin, payload.org, version, self._mode, self._while_waiting),
            *(tuple(tools), tuple(toolkits), tuple(pages), unchanged),
            problems=tuple(self._problems),
            notes=tuple(self._notes),
            row=payload.plugin != "" and state.plugin != about,
            tiers=self._new_tiers,
        )

    # Tools

    def _tool_steps(self) -> tuple[list[ToolStep], int]:
        """A step for each tool that differs from the payload, and the number of unchanged tools."""
        state, payload, plugin = self._state, self._payload, self._plugin
        alive = {row.name: row for row in state.tools if not row.is_deleted}
        # Several deleted tools may have had the same name: the last one counts.
        deleted = {row.name: row for row in state.tools if row.is_deleted}
        own_deleted = {row.name: row for row in state.tools if row.is_deleted and row.plugin == plugin}
        new = payload.hashes.keys() - alive.keys()
        names = Lookalikes([*alive, *state.shared_tools, *new]) if new else None
        steps: list[ToolStep] = []
        unchanged = 0
        governed: list[str] = []
        for name, source in payload.hashes.items():
            sent, row = payload.tools[name], alive.get(name)
            if row is None:
                steps.append(self._new(sent, source, own_deleted.get(name), deleted.get(name), names))
            elif row.plugin != plugin:
                self._refuse_owner("tool", name, row.plugin)
            elif (record := state.records.get(row.tool_id)) is None:
                unchanged += 1
            else:
                if not plugin and _asked(sent, record.tool):
                    governed.append(name)
                step = self._known(sent, source, record)
                unchanged += step is None
                steps += [step] if step else []
        if governed:
            self._notes.append(
                f"{_listed(governed)}: {', '.join(GOVERNED[:-1])} and {GOVERNED[-1]} stay what people set; "
                "`toolroll registry update` changes them"
            )
        if plugin:
            steps += (
                ToolStep("delete", name, before=state.records[row.tool_id], review=row.review)
                for name, row in alive.items()
                # If it has no source hash, people restored it after the plugin had dropped it.
                if row.plugin == plugin
                and name not in payload.tools
                and name not in payload.skipped
                and row.source_hash is not None
            )
        return sorted(steps, key=lambda step: step.name), unchanged

    def _new(
        self, sent: Tool, source: str, own: ToolState | None, last: ToolState | None, names: Lookalikes | None
    ) -> ToolStep:
        """The step for a tool that does not exist.

        own: the plugin's deleted tool with this name, which the step restores. last: the last deleted tool
            with this name, whoever owned it.
        """
        record = None if own is None else self._state.records[own.tool_id]
        step = (
            self._created(sent, source, names)
            if record is None
            else self._restored(sent, source, record, names)
        )
        if self._restrictions is not None and step.tool is not None:
            present = None if record is None else record.tool.toolkit
            self._restrictions.new_tool(step.tool, present, last, "toolkit" in step.source_values)
        if step.action != "leave" and self._payload.org and sent.name in self._state.shared_tools:
            self._refuse(f"tool {sent.name!r}: the platform has one of that name; choose another")
        return step

    def _created(self, sent: Tool, source: str, names: Lookalikes | None) -> ToolStep:
        tool, asked = (sent, ()) if self._trusted else (replace(sent, **_UNGOVERNED), _asked(sent, _PLAIN))
        review: Review = "approved" if self._trusted or self._mode != "all" else "pending"
        flags = (*flags_of(tool, names), *_governed_flags(asked))
        why = "" if review == "approved" else _WAITS
        return ToolStep("create", sent.name, tool, None, source, review=review, why=why, flags=flags)

    def _restored(self, sent: Tool, source: str, record: ToolRecord, names: Lookalikes | None) -> ToolStep:
        step = self._changed("restore", sent, source, record, names)
        why = ""
        if not self._plugin and not self._restore:
            why = _DELETED
        elif not self._trusted and _is_rejected(step, record):
            why = _REJECTED
        elif not self._trusted and record.source_hash is not None:
            # A tool that was rejected before its first approval may return with other content.
            why = "" if record.review == "pending" and record.rejected_hash is not None else _DELETED
        return _left(record, why) if why else step

    def _known(self, sent: Tool, source: str, record: ToolRecord) -> ToolStep | None:
        """The step for a tool that exists; None if neither the tool nor the plugin's definition changes."""
        is_approving = self._trusted and record.review != "approved"
        if record.source_hash == source and not is_approving:
            return self._serving(record, source, record.source_values)
        step = self._changed("change", sent, source, record, None)
        if _is_rejected(step, record) and not self._trusted:
            return _left(record, _REJECTED)
        if step.fields or step.kept or is_approving:
            return step
        served = self._serving(record, source, step.source_values)
        return served or replace(step, action="adopt", tool=None, review=record.review, why="", flags=())

    def _changed(
        self, action: Action, sent: Tool, source: str, record: ToolRecord, names: Lookalikes | None
    ) -> ToolStep:
        """The step that merges the plugin's definition with the fields that people set."""
        tool, values, kept = merged(sent, record.tool, record.source_values)
        if action == "change" and self._restrictions is not None:
            tool = self._restrictions.known_tool(tool, record.tool.toolkit)
        try:
            digest = checked_hash(tool)
        except InvalidDefinition as error:
            self._problems.append(error)
            return _left(record, str(error))
        fields = changed_fields(record.tool, tool)
        is_same_content = action == "change" and not fields and not self._trusted
        review = record.review if is_same_content else self._review(record, digest)
        is_reviewed = self._mode != "auto" and not self._trusted
        if is_reviewed and review == "approved" and "annotations" in kept and _warns(tool, values):
            review = "changed"  # the hints that people set say less than the plugin's new ones
        asked = _asked(sent, record.tool) if self._plugin else ()
        return ToolStep(
            action,
            record.name,
            tool,
            record,
            source,
            values,
            kept,
            review,
            "" if review == "approved" else _WAITS,
            None if review == "approved" else self._served(record, tool, values),
            fields or (("source_values",) if kept else ()),
            (
                *flags_of(tool, names),
                *_governed_flags(asked),
                *_change_flags(record, tool, values, kept, action),
            ),
        )

    def _review(self, record: ToolRecord, digest: str) -> Review:
        """The state afterwards: approved if no approval is needed, or this is the last approved content."""
        if self._trusted or self._mode == "auto":
            return "approved"
        if record.approved_version is None:
            return "pending"
        if record.review == "approved":
            return "approved" if digest == record.content_hash else "changed"
        approved = self._state.approved.get(record.tool.tool_id)
        return "approved" if approved is not None and digest == approved.content_hash else "changed"

    def _serving(self, record: ToolRecord, source: str, values: Mapping[str, Any]) -> ToolStep | None:
        """The step for a tool that still waits, if the served version changes."""
        if not self._plugin or record.review != "changed":
            return None
        served = self._served(record, record.tool, values)
        if served == record.served_version:
            return None
        return ToolStep(
            *("change", record.name, record.tool, record, source, values, (), record.review, _WAITS, served),
            fields=("served_version",),
            flags=tuple(map(Flag.from_dict, record.flags)),
        )

    def _served(self, record: ToolRecord, tool: Tool, values: Mapping[str, Any]) -> int | None:
        """The approved version that serves while this content waits, or None."""
        if self._while_waiting == "hidden" or record.approved_version is None:
            return None
        if record.review == "approved":
            approved, sent = record.tool, record.source_values
        elif (version := self._state.approved.get(record.tool.tool_id)) is not None:
            approved, sent = version.tool, version.source_values
        else:
            return None
        is_news = sent.get("annotations", _NEVER) != values.get("annotations", _NEVER)
        if is_news and _warns(tool, values):
            return None
        return record.approved_version if may_serve(approved, tool) else None

    # Toolkits

    def _toolkit_steps(self, tools: Iterable[ToolStep]) -> list[RowStep]:
        plugin, payload, state = self._plugin, self._payload, self._state
        alive = {row.name: row for row in state.toolkits if not row.is_deleted}
        own_deleted = {row.name: row for row in state.toolkits if row.is_deleted and row.plugin == plugin}
        steps: list[RowStep] = []
        parents: dict[str, str | None] = dict(state.shared_toolkits)
        parents |= {name: row.values["parent"] for name, row in alive.items()}
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
                self._problems.append(InvalidDefinition(f"toolkit {name!r}: tier {problem}; {hint}"))
                continue
            parents[name] = content["parent"]
            if row is None:
                steps.append(RowStep("create" if before is None else "restore", name, content, before))
            elif fields := tuple(key for key, value in content.items() if value != row.values[key]):
                steps.append(RowStep("change", name, content, row, fields))
        if plugin:
            steps += self._deleted_toolkits(alive, parents, tools)
        self._problems += _lineage_problems(payload.toolkits, parents)
        names = Lookalikes(alive if steps else ())
        self._notes += (
            f"toolkit {step.name!a}: {flag.code}: {flag.message}"
            for step in steps
            if step.values is not None
            for flag in flags_of_toolkit(step.name, step.values, names)
        )
        return sorted(steps, key=lambda step: step.name)

    def _deleted_toolkits(
        self, alive: Mapping[str, RowState], parents: dict[str, str | None], tools: Iterable[ToolStep]
    ) -> Iterator[RowStep]:
        """Deletes unused toolkits that the plugin no longer sends, and removes them from `parents`."""
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
            # Deleting it would break the toolkits below it, or remove the governance of its tools.
            if name in in_use or rules:
                used = "others are below it, in it, or name it"
                why = used if name in in_use else f"rule {rules[0]!r} names it"
                self._notes.append(f"toolkit {name!r} is no longer sent, and stays: {why}")
                continue
            yield RowStep("delete", name, None, row)
            del parents[name]

    def _imported(self, name: str, content: Mapping[str, Any], row: RowState) -> Mapping[str, Any]:
        """The content of an existing toolkit after an import; people's decisions stay.

        base and tier always stay. parent, settings_keys and members stay if the file leaves them empty.
        """
        kept = {
            field: row.values[field]
            for field in _IMPORT_KEEPS
            if content[field] != row.values[field] and (field in ("base", "tier") or not content[field])
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
        self._problems.append(Conflict(message))


def _listed(names: list[str]) -> str:
    more = len(names) - _LISTED
    shown = ", ".join(map(repr, names[:_LISTED])) + (f" and {more} more" if more > 0 else "")
    return f"tool{'' if len(names) == 1 else 's'} {shown}"


def _left(record: ToolRecord, why: str) -> ToolStep:
    return ToolStep("leave", record.name, before=record, review=record.review, why=why)


def _warns(tool: Tool, source_values: Mapping[str, Any]) -> bool:
    """Whether the plugin's annotations warn of more than people's annotations."""
    sent = source_values.get("annotations")
    return "annotations" in source_values and warns_of_more(tool, replace(tool, annotations=sent))


def _is_rejected(step: ToolStep, record: ToolRecord) -> bool:
    return step.tool is not None and record.rejected_hash == content_hash(step.tool)


def _asked(sent: Tool, present: Tool) -> tuple[str, ...]:
    """The governed fields in which a definition differs from the tool, except for defaults."""
    known = ((name, (getattr(_PLAIN, name), getattr(present, name))) for name in GOVERNED)
    return tuple(name for name, values in known if getattr(sent, name) not in values)


def _governed_flags(asked: tuple[str, ...]) -> Iterator[Flag]:
    if asked := tuple(name for name in asked if name != "status"):
        yield Flag(GOVERNED_FLAG, f"its plugin asks for {', '.join(asked)}, which only people decide")


def _change_flags(
    record: ToolRecord, after: Tool, values: Mapping[str, Any], kept: tuple[str, ...], action: Action
) -> Iterator[Flag]:
    """The flags of a change, and unapproved flags of earlier changes."""
    before = record.tool
    found = [*map(Flag.from_dict, major_version_flag(before, after)), *hint_flags(before, after)]
    if before.toolkit != after.toolkit:
        moved = f"toolkit was {before.toolkit!r}, is {after.toolkit!r}"
        found.append(Flag(MOVED, f"{moved}: rules that name a toolkit may no longer reach it"))
    if kept:
        sent = "; ".join(f"{name}: {ascii(canonical_json(values[name]))[1:-1]:.{_SHOWN}}" for name in kept)
        found.append(Flag(KEPT, f"its plugin sends other values for fields that people set: {sent}"))
    yield from found
    # If the name has not changed, it still looks like the other name.
    lasting = {*_LASTING, *(("confusable",) if action == "change" else ())} - {flag.code for flag in found}
    yield from (Flag.from_dict(flag) for flag in record.flags if flag["code"] in lasting)


def _toolkits_with_tools(state: RegistryState, tools: Iterable[ToolStep]) -> set[str]:
    """The toolkits that contain tools after the steps, and toolkits that others mention."""
    changed = {step.name: step for step in tools if step.action not in ("adopt", "leave")}
    after = {row.toolkit for row in state.tools if not row.is_deleted and row.name not in changed}
    after |= {step.tool.toolkit for step in changed.values() if step.tool is not None}
    return after | set(state.mentioned)


def _lineage_problems(names: Iterable[str], parents: Mapping[str, str | None]) -> Iterator[Problem]:
    sound: set[str] = set()  # names that lead to a root; so a long chain is walked only once
    for name in names:
        seen: dict[str, None] = {}
        at: str | None = name if name in parents else None
        while at is not None and at not in sound:
            if at in seen:
                circle = " → ".join([*seen, at][-10:])
                yield InvalidDefinition(f"toolkit {name!r}: its parents form a cycle: {circle}")
                break
            seen[at] = None
            above = parents[at]
            if above is not None and above not in parents:
                yield InvalidDefinition(
                    f"toolkit {at!r}: parent {above!r} is no toolkit; declare it or leave it out"
                )
                break
            at = above
        sound.update(seen)


def _page_steps(state: RegistryState, payload: Payload) -> list[RowStep]:
    """The steps for page mappings. Mappings with the same pattern are paired by priority and toolkits."""
    alive = _numbered(row for row in state.pages if not row.is_deleted)
    deleted = _numbered(row for row in state.pages if row.is_deleted)
    sent = _numbered(
        RowState("", page.pattern, "", False, {"toolkits": list(page.toolkits), "priority": page.priority})
        for page in payload.pages
    )
    steps: list[RowStep] = []
    for key, page in sent.items():
        if (row := alive.get(key)) is None:
            before = deleted.get(key)
            steps.append(RowStep("create" if before is None else "restore", key[0], page.values, before))
        elif row.values != page.values:
            steps.append(RowStep("change", key[0], page.values, row))
    if payload.plugin:
        steps += (RowStep("delete", key[0], None, row) for key, row in alive.items() if key not in sent)
    return sorted(steps, key=lambda step: (step.name, step.action))


def _numbered(pages: Iterable[RowState]) -> dict[tuple[str, int], RowState]:
    """(pattern, number among the mappings with this pattern) → mapping."""
    count: Counter[str] = Counter()
    found: dict[tuple[str, int], RowState] = {}
    for page in sorted(pages, key=lambda it: (it.name, -it.values["priority"], it.values["toolkits"])):
        found[page.name, count[page.name]] = page
        count[page.name] += 1
    return found
