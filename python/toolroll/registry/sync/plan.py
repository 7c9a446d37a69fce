"""What a sync would do, as a value: for people a table, for programs a dictionary, for the store orders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

from toolroll.errors import Conflict, InvalidDefinition
from toolroll.registry.flags import Flag
from toolroll.registry.records import Review
from toolroll.registry.sync.payload import Problem
from toolroll.rules import PageMapping
from toolroll.tools import Tool

Mode = Literal["auto", "changed", "all"]
MODES: tuple[Mode, ...] = get_args(Mode)

# What a sync does with one thing. "adopt" notes that the plugin now sends what the tool is already; "leave"
# is for what people refused or deleted.
Action = Literal["create", "change", "restore", "delete", "adopt", "leave"]

_NAMED = 20  # problems in an error, and names in a line of the table


class HeldTool(NamedTuple):
    """As much of a tool's row as a plan needs."""

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


class HeldToolkit(NamedTuple):
    """A toolkit's row; `content` as `toolkit_content` has it."""

    toolkit_id: str
    name: str
    plugin: str
    version: int
    is_deleted: bool
    content: Mapping[str, Any]


class HeldPage(NamedTuple):
    """A page mapping's row."""

    page_id: str
    pattern: str
    toolkits: tuple[str, ...]
    priority: int
    plugin: str
    version: int
    is_deleted: bool


@dataclass(frozen=True, slots=True)
class Held:
    """What the registry holds of one organisation, and what it must not touch beside it.

    Attributes:
        tools, toolkits, pages: all that are not deleted, and those of the plugin that are; of tools also
            those that people deleted. In the order of their last change.
        approved: tool_id → hash of the content that was approved last, of tools whose content waits.
        rules: what rules name, each ("tool" or "toolkit", name) with the names of the rules.
        members: names and patterns of tools that toolkits of others than the plugin have as members, each
            with such a toolkit.
        mentioned: toolkits that others than the plugin speak of: their tools, and page mappings.
        shared_tools: names of the platform's, where the organisation is not the platform.
        shared_toolkits: the same of toolkits, each with its parent.
        parents: toolkits that other organisations have as a parent.
        plugin: the plugin's own row: version, payload_hash, review; None for a new one.
        tiers: the subscription tiers that are configured, lowest first.
    """

    tools: Sequence[HeldTool] = ()
    toolkits: Sequence[HeldToolkit] = ()
    pages: Sequence[HeldPage] = ()
    approved: Mapping[str, str] = field(default_factory=dict)
    rules: Mapping[tuple[str, str], Sequence[str]] = field(default_factory=dict)
    members: Mapping[str, str] = field(default_factory=dict)
    mentioned: Collection[str] = frozenset()
    shared_tools: Collection[str] = frozenset()
    shared_toolkits: Mapping[str, str | None] = field(default_factory=dict)
    parents: Collection[str] = frozenset()
    plugin: tuple[str, str, str] | None = None
    tiers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolStep:
    """What becomes of one tool.

    Attributes:
        tool: as it will be, with the governance that holds; None where it is deleted or left.
        source_hash: of what the plugin sent; None where it sends it no longer, or where there is no plugin.
        before: its row; None for a new one.
        review: its state afterwards.
        why: for people, where the action alone does not say it.
        asked: fields of governance that were asked for in vain.
        is_kept: whether it stays in its toolkit, though it was sent in another.
        fields: the fields that change, once somebody has read what the tool was.
        flags: what people should look at.
    """

    action: Action
    name: str
    tool: Tool | None = None
    source_hash: str | None = None
    before: HeldTool | None = None
    review: Review = "approved"
    why: str = ""
    asked: tuple[str, ...] = ()
    is_kept: bool = False
    fields: tuple[str, ...] = ()
    flags: tuple[Flag, ...] = ()

    @property
    def is_held(self) -> bool:
        """Whether it waits for approval afterwards, and so is not selected."""
        return self.review != "approved" and self.action in ("create", "change", "restore")

    def to_dict(self) -> dict[str, Any]:
        """For --json."""
        return {
            "name": self.name,
            "review": self.review,
            **({"fields": list(self.fields)} if self.fields else {}),
            **({"why": self.why} if self.why else {}),
            **({"flags": [flag.to_dict() for flag in self.flags]} if self.flags else {}),
        }


@dataclass(frozen=True, slots=True)
class ToolkitStep:
    """What becomes of one toolkit; `content` is None where it is deleted."""

    action: Action
    name: str
    content: Mapping[str, Any] | None = None
    before: HeldToolkit | None = None
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PageStep:
    """What becomes of one page mapping; `page` is None where it is deleted."""

    action: Action
    pattern: str
    page: PageMapping | None = None
    before: HeldPage | None = None


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """What a sync would do. `str()` is a table for people, `to_dict()` is for programs.

    Attributes:
        plugin: whose; "" for an import, which belongs to nobody's plugin and deletes nothing.
        review: the mode in force.
        tools, toolkits, pages: what is to be done, tools by name. What is unchanged is counted only.
        problems: with any of these nothing is done.
        notes: what the payload asked for in vain.
        row: whether the plugin's own row has to be written: its version, its mode of review, its payload.
    """

    plugin: str
    org: str
    version: str
    review: Mode
    tools: tuple[ToolStep, ...] = ()
    toolkits: tuple[ToolkitStep, ...] = ()
    pages: tuple[PageStep, ...] = ()
    unchanged: int = 0
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    row: bool = False

    def names(self, action: Action) -> tuple[str, ...]:
        """The tools that this happens to."""
        return tuple(step.name for step in self.tools if step.action == action)

    @property
    def held(self) -> tuple[str, ...]:
        """The tools that wait for approval because of this sync."""
        return tuple(step.name for step in self.tools if step.is_held)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write."""
        return not (self.toolkits or self.pages or self.row) and all(
            step.action == "leave" for step in self.tools
        )

    @property
    def counts(self) -> dict[str, int]:
        """How many tools each thing happens to; "held" ones are counted under their action too."""
        count = Counter(step.action for step in self.tools)
        return {
            "created": count["create"],
            "changed": count["change"],
            "restored": count["restore"],
            "deleted": count["delete"],
            "adopted": count["adopt"],
            "unchanged": self.unchanged,
            "held": len(self.held),
            "left": count["leave"],
        }

    def check(self) -> None:
        """Raises all problems as one error.

        Raises:
            InvalidDefinition: a definition is wrong.
            Conflict: a name is another's.
        """
        if not self.problems:
            return
        first = "\n".join(f"  {problem.message}" for problem in self.problems[:_NAMED])
        more = len(self.problems) - _NAMED
        count = f"{len(self.problems)} problems" if len(self.problems) > 1 else "a problem"
        message = f"{self._title()}: {count}, nothing was done:\n{first}" + (
            f"\n  and {more} more" if more > 0 else ""
        )
        if any(problem.kind == "invalid" for problem in self.problems):
            raise InvalidDefinition(message)
        raise Conflict(message)

    def to_dict(self) -> dict[str, Any]:
        """For --json: what is unchanged as a number, all else by name."""
        named: dict[Action, str] = {
            "create": "created",
            "change": "changed",
            "restore": "restored",
            "delete": "deleted",
            "adopt": "adopted",
            "leave": "left",
        }
        found: dict[str, Any] = {
            "plugin": self.plugin,
            "org": self.org,
            "version": self.version,
            "review": self.review,
            "counts": self.counts,
        }
        for action, key in named.items():
            found[key] = [step.to_dict() for step in self.tools if step.action == action]
        return found | {
            "held": list(self.held),
            "toolkits": [
                {"name": step.name, "action": step.action, "fields": list(step.fields)}
                for step in self.toolkits
            ],
            "pages": [{"pattern": step.pattern, "action": step.action} for step in self.pages],
            "conflicts": [problem.message for problem in self.problems],
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        return "\n".join([f"{self._title()}, review {self.review}", *self._lines()])

    def _title(self) -> str:
        what = f"sync of plugin {self.plugin!r}" if self.plugin else "import"
        version = f" {self.version}" if self.version else ""
        return f"{what}{version} to {f'organisation {self.org!r}' if self.org else 'the platform'}"

    def _lines(self) -> Iterator[str]:
        actions = {
            "create": "created",
            "change": "changed",
            "restore": "restored",
            "delete": "deleted",
            "adopt": "adopted",
            "leave": "left alone",
        }
        for action, word in actions.items():
            steps = [step for step in self.tools if step.action == action]
            if steps:
                yield _line(word, len(steps), map(_said, steps))
        yield _line("unchanged", self.unchanged, ())
        if self.held:
            yield _line("held", len(self.held), self.held)
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
            yield from (f"    {problem.message}" for problem in self.problems[:_NAMED])
            if len(self.problems) > _NAMED:
                yield f"    and {len(self.problems) - _NAMED} more"


def _said(step: ToolStep) -> str:
    said = [", ".join(step.fields), step.why, ", ".join(flag.code for flag in step.flags)]
    said = [part for part in said if part]
    return f"{step.name} ({'; '.join(said)})" if said else step.name


def _line(word: str, count: int, names: Iterable[str]) -> str:
    listed = list(names)
    shown = ", ".join(listed[:_NAMED]) + (" …" if len(listed) > _NAMED else "")
    return f"  {word:<10} {count:>7,}  {shown}".rstrip()
