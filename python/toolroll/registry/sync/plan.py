"""The plan of a sync, as a value: `str` makes a table for people, `to_dict` JSON for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

from toolroll.errors import Conflict, InvalidDefinition
from toolroll.registry.flags import HIDDEN, Flag
from toolroll.registry.records import Review
from toolroll.registry.review import WhileWaiting
from toolroll.registry.sync.payload import Problem
from toolroll.rules import PageMapping
from toolroll.tools import Tool

Mode = Literal["auto", "changed", "all"]
MODES: tuple[Mode, ...] = get_args(Mode)

# What a sync does with one definition. "adopt" records that the plugin now sends the tool's present content;
# "leave" respects that people rejected or deleted it.
Action = Literal["create", "change", "restore", "delete", "adopt", "leave"]
_RESULTS: dict[Action, str] = {
    "create": "created",
    "change": "changed",
    "restore": "restored",
    "delete": "deleted",
    "adopt": "adopted",
    "leave": "left",
}

_LISTED = 20  # problems in an error, and names in a line of the table


class ToolState(NamedTuple):
    """The columns of a tool's row that a plan needs."""

    tool_id: str
    name: str
    plugin: str
    version: int
    content_hash: str
    source_hash: str | None
    review: Review
    approved_version: int | None
    rejected_hash: str | None
    is_deleted: bool
    status: str
    public: bool
    pinned: bool
    pin_weight: int
    interchangeable: str = ""
    toolkit: str = ""
    served_version: int | None = None


class ToolkitState(NamedTuple):
    """A toolkit's row, with the columns of `toolkit_content` in `content`."""

    toolkit_id: str
    name: str
    plugin: str
    version: int
    is_deleted: bool
    content: Mapping[str, Any]


class PageState(NamedTuple):
    """A page mapping's row."""

    page_id: str
    pattern: str
    toolkits: tuple[str, ...]
    priority: int
    plugin: str
    version: int
    is_deleted: bool


@dataclass(frozen=True, slots=True)
class RegistryState:
    """The state of one organisation in the registry, and the names of others that a sync must respect.

    Attributes:
        tools, toolkits, pages: all present ones, and the plugin's deleted ones; also tools that people
            deleted. In the order of their last change.
        approved: tool_id → hash of the last approved content, for tools that await approval.
        rules: ("tool" or "toolkit", name) → names of the rules that name it.
        members: name or pattern of a tool → a toolkit of somebody else that has it as a member.
        mentioned: toolkits that tools or page mappings of somebody else name.
        shared_tools: names of the platform's tools; empty for the platform itself.
        shared_toolkits: name → parent, for the platform's toolkits; empty for the platform itself.
        parents: toolkits that other organisations use as a parent.
        plugin: the plugin's version, payload_hash, review and while_waiting; None for a new plugin.
        tiers: the configured subscription tiers, lowest first.
    """

    tools: Sequence[ToolState] = ()
    toolkits: Sequence[ToolkitState] = ()
    pages: Sequence[PageState] = ()
    approved: Mapping[str, str] = field(default_factory=dict)
    rules: Mapping[tuple[str, str], Sequence[str]] = field(default_factory=dict)
    members: Mapping[str, str] = field(default_factory=dict)
    mentioned: Collection[str] = frozenset()
    shared_tools: Collection[str] = frozenset()
    shared_toolkits: Mapping[str, str | None] = field(default_factory=dict)
    parents: Collection[str] = frozenset()
    plugin: tuple[str, str, str, str] | None = None
    tiers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolStep:
    """What a sync does with one tool.

    Attributes:
        tool: the result, with the governance that stays in force; None if the tool is deleted or left.
        source_hash: of the plugin's content; None if the plugin no longer sends it, or there is no plugin.
        before: the tool's row; None for a new tool.
        review: the state afterwards.
        why: a reason for people, if the action does not say enough.
        asked: fields of governance that the plugin asked for and does not get.
        is_kept: whether the result has other content than the plugin sends, such as its present toolkit.
        served_version: the approved version that serves while the result waits; `sync` fills it in.
        fields: the fields that change; `sync` fills them in.
        flags: things to review; `sync` fills them in.
    """

    action: Action
    name: str
    tool: Tool | None = None
    source_hash: str | None = None
    before: ToolState | None = None
    review: Review = "approved"
    why: str = ""
    asked: tuple[str, ...] = ()
    is_kept: bool = False
    served_version: int | None = None
    fields: tuple[str, ...] = ()
    flags: tuple[Flag, ...] = ()

    @property
    def is_held(self) -> bool:
        """Whether the result awaits approval; so it is not selected."""
        return self.review != "approved" and self.action in ("create", "change", "restore")

    def to_dict(self) -> dict[str, Any]:
        """For --json."""
        return {
            "name": self.name,
            "review": self.review,
            **({"fields": list(self.fields)} if self.fields else {}),
            **({"served_version": self.served_version} if self.served_version is not None else {}),
            **({"why": self.why} if self.why else {}),
            **({"flags": [flag.to_dict() for flag in self.flags]} if self.flags else {}),
        }


@dataclass(frozen=True, slots=True)
class ToolkitStep:
    """What a sync does with one toolkit; `content` is None if it is deleted."""

    action: Action
    name: str
    content: Mapping[str, Any] | None = None
    before: ToolkitState | None = None
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PageStep:
    """What a sync does with one page mapping; `page` is None if it is deleted."""

    action: Action
    pattern: str
    page: PageMapping | None = None
    before: PageState | None = None


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """The steps of a sync.

    Attributes:
        plugin: the plugin; "" for an import, which has no plugin and deletes nothing.
        review: the mode in force.
        while_waiting: what serves of an approved tool whose change waits.
        tools, toolkits, pages: the steps, sorted by name; unchanged definitions have none.
        problems: reasons to refuse the whole sync.
        notes: requests in the payload that the sync ignores.
        row: whether the plugin's own row changes: its version, its mode of review or its payload.
        tiers: the subscription tiers that the registry gets, lowest first; () for no change.
    """

    plugin: str
    org: str
    version: str
    review: Mode
    while_waiting: WhileWaiting = "hidden"
    tools: tuple[ToolStep, ...] = ()
    toolkits: tuple[ToolkitStep, ...] = ()
    pages: tuple[PageStep, ...] = ()
    unchanged: int = 0
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    row: bool = False
    tiers: tuple[str, ...] = ()

    def names(self, action: Action) -> tuple[str, ...]:
        """Names of the tools with this action."""
        return tuple(step.name for step in self.tools if step.action == action)

    @property
    def held(self) -> tuple[str, ...]:
        """Names of the tools that this sync leaves awaiting approval."""
        return tuple(step.name for step in self.tools if step.is_held)

    @property
    def served(self) -> tuple[str, ...]:
        """Names of those whose approved content serves meanwhile."""
        return tuple(step.name for step in self.tools if step.is_held and step.served_version is not None)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write."""
        return not (self.toolkits or self.pages or self.row or self.tiers) and all(
            step.action == "leave" for step in self.tools
        )

    @property
    def counts(self) -> dict[str, int]:
        """The number of tools with each result; "held" ones also count under their action."""
        count = Counter(step.action for step in self.tools)
        counts = {result: count[action] for action, result in _RESULTS.items()}
        left = counts.pop("left")
        return counts | {"unchanged": self.unchanged, "held": len(self.held), "left": left}

    def check(self) -> None:
        """Raises all problems as one error.

        Raises:
            InvalidDefinition: a definition is wrong.
            Conflict: a name belongs to somebody else.
        """
        if not self.problems:
            return
        first = "\n".join(f"  {problem.message}" for problem in self.problems[:_LISTED])
        more = len(self.problems) - _LISTED
        count = f"{len(self.problems)} problems" if len(self.problems) > 1 else "a problem"
        message = f"{self._title()}: {count}, nothing was done:\n{first}" + (
            f"\n  and {more} more" if more > 0 else ""
        )
        if any(problem.kind == "invalid" for problem in self.problems):
            raise InvalidDefinition(message)
        raise Conflict(message)

    def to_dict(self) -> dict[str, Any]:
        """For --json: unchanged tools as a number, all others by name."""
        found: dict[str, Any] = {
            "plugin": self.plugin,
            "org": self.org,
            "plugin_version": self.version,
            "review": self.review,
            "while_waiting": self.while_waiting,
            "counts": self.counts,
        }
        for action, key in _RESULTS.items():
            found[key] = [step.to_dict() for step in self.tools if step.action == action]
        return found | {
            "held": list(self.held),
            "served": list(self.served),
            "toolkits": [
                {"name": step.name, "action": step.action, "fields": list(step.fields)}
                for step in self.toolkits
            ],
            "pages": [{"pattern": step.pattern, "action": step.action} for step in self.pages],
            "tiers": list(self.tiers),
            "conflicts": [problem.message for problem in self.problems],
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        serves = ", approved content serves meanwhile" if self.while_waiting == "approved" else ""
        return "\n".join([f"{self._title()}, review {self.review}{serves}", *self._lines()])

    def _title(self) -> str:
        what = f"sync of plugin {self.plugin!r}" if self.plugin else "import"
        version = f" {self.version}" if self.version else ""
        return f"{what}{version} to {f'organisation {self.org!r}' if self.org else 'the platform'}"

    def _lines(self) -> Iterator[str]:
        for action, word in _RESULTS.items():
            steps = [step for step in self.tools if step.action == action]
            if steps:
                yield _line("left alone" if action == "leave" else word, len(steps), map(_described, steps))
        yield _line("unchanged", self.unchanged, ())
        if self.held:
            yield _line("held", len(self.held), self.held)
        if self.served:
            yield _line("served", len(self.served), self.served)
        if self.tiers:
            yield _line("tiers", len(self.tiers), self.tiers)
        for what, steps_of in (
            ("toolkits", [f"{step.name} ({step.action})" for step in self.toolkits]),
            ("pages", [f"{step.pattern} ({step.action})" for step in self.pages]),
        ):
            if steps_of:
                yield _line(what, len(steps_of), steps_of)
        for note in self.notes:
            yield f"  note: {note}"
        if self.problems:
            yield _line("conflicts", len(self.problems), ())
            yield from (f"    {problem.message}" for problem in self.problems[:_LISTED])
            if len(self.problems) > _LISTED:
                yield f"    and {len(self.problems) - _LISTED} more"


def _described(step: ToolStep) -> str:
    codes = ["hidden characters" if flag.code == HIDDEN else flag.code for flag in step.flags]
    parts = [", ".join(step.fields), step.why, f"flagged: {', '.join(codes)}" if codes else ""]
    parts = [part for part in parts if part]
    return f"{step.name} ({'; '.join(parts)})" if parts else step.name


def _line(word: str, count: int, names: Iterable[str]) -> str:
    listed = list(names)
    shown = ", ".join(listed[:_LISTED]) + (" …" if len(listed) > _LISTED else "")
    return f"  {word:<10} {count:>7,}  {shown}".rstrip()
