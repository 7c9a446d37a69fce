"""Puts a selection's trail into words, for the tools somebody asks about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from toolroll.candidates import Candidates

if TYPE_CHECKING:
    from toolroll.selection import Selection

_NEAR_MISSES = 10  # tools in an explanation that were found and cut

# What each step's reason says to a reader. A reason that is not here is shown as it is.
REASONS = {
    "status.inactive": "not active",
    "settings.missing": "toolkit has no settings",
    "caller.excluded": "excluded by the caller",
    "failed.closed": "a hard stage failed: only public tools stay",
    "failed.open": "handed on whole: cutting failed",
    "required": "required by the caller",
    "route.hit": "route",
    "route.default": "default toolkit",
    "retrieval.nearest": "not near enough",
    "base": "base toolkit",
    "pinned": "pinned",
    "cap.tiers": "in play",
    "cap.core_first": "in play",
    "cap.k": "cut: beyond k",
    "cap.max_tools": "cut: beyond max_tools",
    "cap.budget": "cut: beyond the token budget",
}


@dataclass(frozen=True, slots=True)
class Account:
    """Why one tool is in or out.

    Attributes:
        name, toolkit: of the tool.
        selected: whether it is in the selection.
        score: its last score while it was in play.
        reasons: what spoke for it, then what took it out.
    """

    name: str
    toolkit: str
    selected: bool
    score: float
    reasons: tuple[str, ...]


def account(selection: Selection, row: int) -> Account:
    """Follows one row through the trail."""
    tool = selection.catalog.tools[row]
    reasons: list[str] = []
    score = 0.0
    for step in selection.candidates.trail():
        before = step.before
        if before is None:
            continue
        was, stays = before.in_play(row), step.in_play(row)
        score = step.score(row) or score
        if stays:
            reasons += _for(step, row, tool.toolkit, selection)
            if not was:
                reasons = [REASONS.get(step.reason, step.reason)]  # what took it out before does not matter
            elif step.reason == "required":
                reasons.append(REASONS["required"])
        elif was:
            reasons.append(REASONS.get(step.reason, step.reason))
    if not reasons and selection.candidates.in_play(row):
        reasons.append("small catalog, handed on whole")
    selected = tool.name in selection
    return Account(tool.name, tool.toolkit, selected, score, tuple(reasons))


def _for(step: Candidates, row: int, toolkit: str, selection: Selection) -> list[str]:
    """What this step's evidence says for the row."""
    evidence = step.evidence
    if evidence is None:
        return []
    said = []
    if evidence.words:
        words = dict(evidence.words)
        for name in _lineage(toolkit, selection):
            if name in words:
                said.append(words[name])
    at = np.flatnonzero(evidence.rows == row)
    for term, scores in evidence.terms:
        if len(at) and scores[at[0]] > 0:
            said.append(f"{term} {scores[at[0]]:.2f}")
    return said


def _lineage(toolkit: str, selection: Selection) -> Iterable[str]:
    at = selection.catalog.toolkits.get(toolkit)
    while at is not None:
        yield at.name
        at = selection.catalog.toolkits.get(at.parent) if at.parent is not None else None


def activated(selection: Selection) -> dict[str, str]:
    """Toolkit → what speaks for it most, for toolkits with a selected tool, in order of their best tool."""
    best: dict[str, str] = {}
    for row in selection.rows.tolist():
        toolkit = selection.catalog.tools[row].toolkit
        if not toolkit or toolkit in best:
            continue
        reasons = account(selection, row).reasons
        if reasons:
            best[toolkit] = reasons[0]
    return best


def summary(selection: Selection) -> str:
    """18/35 tools | activated: weather(keyword 'rain'), calendar(dense 0.52) | 0.21 ms."""
    parts = [f"{len(selection)}/{selection.total} tools"]
    if selection.turn.context.required:
        wanted = len(dict.fromkeys(selection.turn.context.required))
        parts.append(f"required: resolved={wanted - len(selection.unresolved)}/{wanted}")
    elif selection.activated:
        listed = ", ".join(f"{toolkit}({reason})" for toolkit, reason in selection.activated.items())
        parts.append(f"activated: {listed}")
    if selection.degraded:
        parts.append(f"degraded: {', '.join(selection.degraded)}")
    parts.append(f"{selection.timings_us['total'] / 1e3:.2f} ms")
    return " | ".join(parts)


def explain(selection: Selection, name: str | None) -> str:
    """The selected tools, then those that were found and cut, then how many each reason removed."""
    if name is not None:
        return _table([account(selection, selection.catalog.names[name])])
    chosen = selection.rows.tolist()
    cut = [row for row in _found(selection) if row not in set(chosen)][:_NEAR_MISSES]
    table = _table([account(selection, row) for row in [*chosen, *cut]])
    return "\n".join([table, *_removed(selection), *map(str, selection.failures)])


def _found(selection: Selection) -> list[int]:
    """Rows for which some stage found evidence, best score first."""
    score: dict[int, float] = {}
    for step in selection.candidates.trail():
        if step.evidence is not None and step.pool is None:
            score |= dict(zip(step.rows.tolist(), step.scores.tolist(), strict=True))
    return sorted(score, key=lambda row: (-score[row], row))


def _removed(selection: Selection) -> Iterable[str]:
    chosen = frozenset(selection.rows.tolist())
    for step in selection.candidates.trail():
        if step.before is None or len(step.before) <= len(step):
            continue
        gone = _in_play(step.before) - _in_play(step) - chosen  # what came back later was not removed
        if gone:
            yield f"{len(gone):>7} removed: {REASONS.get(step.reason, step.reason)}"


def _in_play(candidates: Candidates) -> frozenset[int]:
    return frozenset((candidates.rows if candidates.pool is None else candidates.pool.rows()).tolist())


def _table(accounts: Sequence[Account]) -> str:
    header = ("", "tool", "toolkit", "score", "why")
    place = 0
    rows = [header]
    for one in accounts:
        place += one.selected
        score = f"{one.score:.2f}" if one.score else ""
        rows.append(
            (str(place) if one.selected else "-", one.name, one.toolkit, score, ", ".join(one.reasons))
        )
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join(
        "  ".join(
            [
                row[0].rjust(widths[0]),
                row[1].ljust(widths[1]),
                row[2].ljust(widths[2]),
                row[3].rjust(widths[3]),
                row[4],
            ]
        ).rstrip()
        for row in rows
    )


def to_dict(selection: Selection) -> dict[str, Any]:
    """The selection as plain values, as `toolroll select --json` prints it."""
    accounts = [account(selection, row) for row in selection.rows.tolist()]
    tokens = selection.tokens
    return {
        "tools": [
            {
                "name": one.name,
                "toolkit": one.toolkit,
                "score": round(one.score, 6),
                "reasons": list(one.reasons),
            }
            for one in accounts
        ],
        "selected": len(selection),
        "total": selection.total,
        "tokens": {"selected": tokens.selected, "total": tokens.total, "saved": tokens.saved},
        "timings_us": {stage: round(spent, 3) for stage, spent in selection.timings_us.items()},
        "activated": selection.activated,
        "degraded": [str(failure) for failure in selection.failures],
        "unresolved": list(selection.unresolved),
        "event_id": selection.event_id,
        "catalog_revision": selection.catalog_revision,
    }
