"""The plan of a sync, as a value: `str` makes a table for people, `to_dict` JSON for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from toolroll.model.errors import Conflict, InvalidDefinition
from toolroll.model.tools import Tool
from toolroll.registry.editing.flags import HIDDEN, Flag
from toolroll.registry.editing.records import Review, ToolRecord
from toolroll.registry.editing.review import WhileWaiting
from toolroll.registry.sync.payload import Problem
from toolroll.registry.sync.registry_state import RowState

ReviewMode = Literal["auto", "changed", "all"]
MODES: tuple[ReviewMode, ...] = get_args(ReviewMode)

# "adopt" stores the plugin's new definition without changing the tool; "leave" respects that people rejected
# or deleted the tool.
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


@dataclass(frozen=True, slots=True)
class ToolStep:
    """The step of a sync for one tool.

    Attributes:
        tool: the result, merged from the plugin's and people's fields; None if the tool is deleted or left
            alone.
        before: the tool before the sync; None for a new tool.
        source_hash: the hash of the plugin's definition; None if the plugin no longer sends the tool.
        source_values: fields that people own afterwards, with the plugin's values; see `field_owners`.
        kept: fields that people own and for which the sync ignores a new value.
        review: the state afterwards.
        why: a reason for people, if the action needs one.
        served_version: the approved version that serves while the result waits.
        fields: the fields that change.
        flags: things to review.
    """

    action: Action
    name: str
    tool: Tool | None = None
    before: ToolRecord | None = None
    source_hash: str | None = None
    source_values: Mapping[str, Any] = field(default_factory=dict)
    kept: tuple[str, ...] = ()
    review: Review = "approved"
    why: str = ""
    served_version: int | None = None
    fields: tuple[str, ...] = ()
    flags: tuple[Flag, ...] = ()

    @property
    def is_held(self) -> bool:
        """Whether the result awaits approval."""
        return self.review != "approved" and self.action in ("create", "change", "restore")

    def to_dict(self) -> dict[str, Any]:
        """For --json."""
        return {
            "name": self.name,
            "review": self.review,
            **({"fields": list(self.fields)} if self.fields else {}),
            **({"kept": {name: self.source_values[name] for name in self.kept}} if self.kept else {}),
            **({"served_version": self.served_version} if self.served_version is not None else {}),
            **({"why": self.why} if self.why else {}),
            **({"flags": [flag.to_dict() for flag in self.flags]} if self.flags else {}),
        }

    def __str__(self) -> str:
        codes = ["hidden characters" if flag.code == HIDDEN else flag.code for flag in self.flags]
        kept = (
            f"people's {', '.join(self.kept)} stay{'s' if len(self.kept) == 1 else ''}" if self.kept else ""
        )
        parts = (", ".join(self.fields), kept, self.why, f"flagged: {', '.join(codes)}" if codes else "")
        described = "; ".join(filter(None, parts))
        return f"{self.name} ({described})" if described else self.name


@dataclass(frozen=True, slots=True)
class RowStep:
    """The step of a sync for one toolkit or page mapping, by its name or pattern.

    Attributes:
        values: the columns afterwards; None if the row is deleted.
        before: the row before the sync; None for a new row.
        fields: the columns that change.
    """

    action: Action
    name: str
    values: Mapping[str, Any] | None = None
    before: RowState | None = None
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """The steps of a sync.

    Attributes:
        plugin: the plugin; "" for an import, which has no plugin and deletes nothing.
        review, while_waiting: the plugin's modes from now on.
        tools, toolkits, pages: the steps, sorted by name. Unchanged definitions have no step.
        problems: reasons to refuse the whole sync.
        notes: parts of the payload that the sync ignores.
        row: whether the plugin's own row changes (version, modes or payload).
        tiers: the subscription tiers that the registry gets, lowest first; () for no change.
    """

    plugin: str
    org: str
    version: str
    review: ReviewMode
    while_waiting: WhileWaiting = "hidden"
    tools: tuple[ToolStep, ...] = ()
    toolkits: tuple[RowStep, ...] = ()
    pages: tuple[RowStep, ...] = ()
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
        """Names of the tools that wait for approval after this sync."""
        return tuple(step.name for step in self.tools if step.is_held)

    @property
    def served(self) -> tuple[str, ...]:
        """Names of the `held` tools whose approved content stays in use meanwhile."""
        return tuple(step.name for step in self.tools if step.is_held and step.served_version is not None)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write."""
        return not (self.toolkits or self.pages or self.row or self.tiers) and all(
            step.action == "leave" for step in self.tools
        )

    @property
    def counts(self) -> dict[str, int]:
        """The number of tools with each result. A "held" tool also counts under its action."""
        count = Counter(step.action for step in self.tools)
        counts = {result: count[action] for action, result in _RESULTS.items()}
        left = counts.pop("left")
        return counts | {"unchanged": self.unchanged, "held": len(self.held), "left": left}

    def check(self) -> None:
        """Raises one error with all problems.

        Raises InvalidDefinition if a definition is wrong, and Conflict if a name belongs to another owner.
        """
        if not self.problems:
            return
        count = f"{len(self.problems)} problems" if len(self.problems) > 1 else "a problem"
        listed = "\n".join(self._listed_problems("  "))
        is_invalid = any(isinstance(problem, InvalidDefinition) for problem in self.problems)
        raised = InvalidDefinition if is_invalid else Conflict
        raise raised(f"{self._title()}: {count}, nothing was done:\n{listed}")

    def to_dict(self) -> dict[str, Any]:
        """For --json: the number of unchanged tools, and all other tools by name."""
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
            "pages": [{"pattern": step.name, "action": step.action} for step in self.pages],
            "tiers": list(self.tiers),
            "conflicts": list(map(str, self.problems)),
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
                yield _line("left alone" if action == "leave" else word, len(steps), map(str, steps))
        yield _line("unchanged", self.unchanged, ())
        for word, names in (
            ("held", self.held),
            ("served", self.served),
            ("tiers", self.tiers),
            ("toolkits", [f"{step.name} ({step.action})" for step in self.toolkits]),
            ("pages", [f"{step.name} ({step.action})" for step in self.pages]),
        ):
            if names:
                yield _line(word, len(names), names)
        yield from (f"  note: {note}" for note in self.notes)
        if self.problems:
            yield _line("conflicts", len(self.problems), ())
            yield from self._listed_problems("    ")

    def _listed_problems(self, indent: str) -> Iterator[str]:
        yield from (f"{indent}{problem}" for problem in self.problems[:_LISTED])
        if len(self.problems) > _LISTED:
            yield f"{indent}and {len(self.problems) - _LISTED} more"


def _line(word: str, count: int, names: Iterable[str]) -> str:
    listed = list(names)
    shown = ", ".join(listed[:_LISTED]) + (" …" if len(listed) > _LISTED else "")
    return f"  {word:<10} {count:>7,}  {shown}".rstrip()
