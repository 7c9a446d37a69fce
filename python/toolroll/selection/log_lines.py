"""A selection as lines for a log: what came from where, and what was cut, as `key=value`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from toolroll.selection.candidates import Candidates, is_retrieved
from toolroll.selection.stages.conversation_list import LISTED

if TYPE_CHECKING:
    from toolroll.selection.selection import Selection

_LISTED = 50  # names in a line
_LONGEST = 256  # characters of a name
_CUTS = ("cap.max_tools", "cap.budget")  # for space, whatever fits

# The origin of tools by the step that brought them in; of others it is the step's reason.
_ORIGINS: Mapping[str, str] = {
    "retrieval.score": "retrieved",
    "route.hit": "routes",
    "route.fill": "routes",
    "route.default": "routes",
    "route.ignore": "routes",
    "base": "core",
    "pinned": "core",
    "pass_through": "whole",
}
_METHODS: Mapping[str, str] = {"retrieved": "retrieval", "routes": "routes", "whole": "whole"}


def log_lines(selection: Selection) -> tuple[str, ...]:
    """See `Selection.log_lines`."""
    if selection.turn.context.required:
        return (_line("tool selection", _required(selection), selection),)
    steps = list(selection.candidates.trail())
    cuts = [at for at, step in enumerate(steps) if step.reason in _CUTS]
    listings = [at for at, step in enumerate(steps) if step.reason == LISTED]
    first = min([*cuts, *listings], default=len(steps))
    lines = [_line("tool selection", _selected(selection, steps[:first]), selection)]
    if cuts:
        before, after = steps[cuts[0] - 1], steps[cuts[-1]]
        kept = f"kept={len(after)}/{len(before)}"
        lines.append(f"tool cap: {kept}, dropped={_names(selection, before, after)}")
    if listings and (held_back := _names(selection, steps[listings[0] - 1], steps[listings[-1]])) != "0: ":
        lines.append(f"tool list: held_back={held_back}")
    return tuple(lines)


def _line(what: str, facts: Iterable[str], selection: Selection) -> str:
    degraded = [f"degraded={'+'.join(selection.degraded)}"] if selection.degraded else []
    return f"{what}: {', '.join([*facts, *degraded])}"


def _required(selection: Selection) -> list[str]:
    wanted = len(dict.fromkeys(selection.turn.context.required))
    facts = ["method=required", f"resolved={wanted - len(selection.missing_required)}/{wanted}"]
    missing_required = " ".join(map(_printable, selection.missing_required[:_LISTED]))
    return [*facts, f"unresolved={missing_required}"] if missing_required else facts


def _selected(selection: Selection, steps: Sequence[Candidates]) -> list[str]:
    """How many there are from where, before anything is cut for space, and what the conversation adds."""
    merged = _in_play(steps[-1])
    origins = _origins(selection, steps)
    counts: Counter[str] = Counter(core=0, retrieved=0, routes=0)
    counts.update(origins.get(row, "whole") for row in merged)
    counts.update(_of_conversation(selection, row) for row in selection.rows.tolist() if row not in merged)
    methods = [method for origin, method in _METHODS.items() if counts[origin]]
    found = next((step for step in reversed(steps) if is_retrieved(step) and len(step.scores)), None)
    return [
        f"method={'+'.join(methods) or 'none'}",
        *(f"{origin}={n}" for origin, n in counts.items() if n),
        f"total={sum(counts.values())}/{selection.total}",
        *([] if found is None else [f"top_score={found.scores.max():.3f}"]),
    ]


def _origins(selection: Selection, steps: Sequence[Candidates]) -> dict[int, str]:
    """Row → what brought it in last; a core tool is core, whatever found it."""
    origins: dict[int, str] = {}
    for step in steps:
        narrowed = step.reason in _ORIGINS and (step.verb == "narrow" or is_retrieved(step))
        if narrowed or step.verb == "admit":
            before = set() if step.before is None or step.verb != "admit" else _in_play(step.before)
            origins |= dict.fromkeys(_in_play(step) - before, _ORIGINS.get(step.reason, step.reason))
    core = (*selection.catalog.base.tolist(), *selection.catalog.pinned.tolist())
    return origins | dict.fromkeys(core, "core")


def _of_conversation(selection: Selection, row: int) -> str:
    """Why a conversation has a tool that this turn did not select."""
    conversation, name = selection.turn.conversation, selection.catalog.tools[row].name
    if conversation is None:
        return "whole"
    if any(one.name == name for one in conversation.loaded):
        return "loaded"
    if any(name in names for _, names in conversation.called):
        return "sticky"
    return "sent_before" if name in conversation.listed else "whole"


def _names(selection: Selection, before: Candidates, after: Candidates) -> str:
    """Number and names of what is gone, in its order."""
    kept = _in_play(after)
    gone = [selection.catalog.tools[row].name for row in before.rows.tolist() if row not in kept]
    listed = ", ".join(map(_printable, gone[:_LISTED]))
    return f"{len(gone)}: {listed}{', …' if len(gone) > _LISTED else ''}"


def _printable(name: str) -> str:
    """The name, on one line whatever is in it: a log is read line by line."""
    return name[:_LONGEST] if name.isprintable() else ascii(name[:_LONGEST])


def _in_play(candidates: Candidates) -> set[int]:
    return set((candidates.rows if candidates.pool is None else candidates.pool.rows()).tolist())
