"""A selection as lines for a log: what came from where, and what was cut, as `key=value`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from toolroll.candidates import Candidates, is_retrieved

if TYPE_CHECKING:
    from toolroll.selection import Selection

_LISTED = 50  # names of dropped tools in a line
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
    "session.loaded": "loaded",
    "session.called": "sticky",
    "session.fallback": "whole",
    "listing.sent": "sent_before",
}
_METHODS: Mapping[str, str] = {"retrieved": "retrieval", "routes": "routes", "whole": "whole"}


def log_lines(selection: Selection) -> tuple[str, ...]:
    """See `Selection.log_lines`."""
    cut = next((step for step in selection.candidates.trail() if step.reason in _CUTS), None)
    merged = selection.candidates if cut is None or cut.before is None else cut.before
    lines = [_selected(selection, merged)]
    if cut is not None:
        lines.append(_dropped(selection, merged))
    return tuple(lines)


def _selected(selection: Selection, merged: Candidates) -> str:
    facts: list[str] = []
    if selection.turn.context.required:
        wanted = len(dict.fromkeys(selection.turn.context.required))
        facts += ["method=required", f"resolved={wanted - len(selection.unresolved)}/{wanted}"]
        if selection.unresolved:
            facts.append(f"unresolved={' '.join(selection.unresolved)}")
    else:
        counts = _counts(selection, merged)
        methods = [method for origin, method in _METHODS.items() if counts[origin]]
        facts.append(f"method={'+'.join(methods) or 'none'}")
        facts += [f"{origin}={n}" for origin, n in counts.items() if n]
        facts.append(f"total={sum(counts.values())}/{selection.total}")
        found = merged.last(is_retrieved)
        if found is not None and len(found.scores):
            facts.append(f"top_score={found.scores.max():.3f}")
    if selection.degraded:
        facts.append(f"degraded={'+'.join(selection.degraded)}")
    return f"tool selection: {', '.join(facts)}"


def _counts(selection: Selection, merged: Candidates) -> Counter[str]:
    """Tools by what brought them in, in the order of the stages; core ones are core, whatever found them."""
    counts: Counter[str] = Counter({"core": 0})
    core = {*selection.catalog.base.tolist(), *selection.catalog.pinned.tolist()}
    origins: dict[int, str] = {}
    for step in merged.trail():
        narrowed = step.reason in _ORIGINS and (step.verb == "narrow" or is_retrieved(step))
        if narrowed or step.verb == "admit":
            origin = _ORIGINS.get(step.reason, step.reason)
            before = set() if step.before is None or step.verb != "admit" else _in_play(step.before)
            origins |= dict.fromkeys(_in_play(step) - before, origin)
            counts.setdefault(origin, 0)
    for row in _in_play(merged):
        counts["core" if row in core else origins.get(row, "whole")] += 1
    return counts


def _dropped(selection: Selection, merged: Candidates) -> str:
    kept = set(selection.rows.tolist())
    names = [selection.catalog.tools[row].name for row in merged.rows.tolist() if row not in kept]
    listed = ", ".join(names[:_LISTED]) + (", …" if len(names) > _LISTED else "")
    return f"tool cap: kept={len(selection)}/{len(merged)}, dropped={len(names)}: {listed}"


def _in_play(candidates: Candidates) -> set[int]:
    return set((candidates.rows if candidates.pool is None else candidates.pool.rows()).tolist())
