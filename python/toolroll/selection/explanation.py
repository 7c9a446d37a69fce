"""Puts a selection's trail into words, for the tools somebody asks about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from toolroll.selection.candidates import Candidates

if TYPE_CHECKING:
    from toolroll.selection.selection import Selection

_SHOWN = 0.005  # terms of a score that round to more than nothing
_NEAR_MISSES = 10  # tools in an explanation that were found and cut

# What a step's reason says of a tool that it kept or brought in. Others say nothing.
KEPT = {
    "required": "required by the caller",
    "pass_through": "small catalog, handed on whole",
    "failed.open": "nothing could be cut, handed on",
    "cap.unranked": "nothing could be ranked, handed on",
    "route.default": "default toolkit",
    "route.ignore": "default toolkit",
    "base": "base toolkit",
    "pinned": "pinned",
    "listing": "kept by the conversation",
}

# What it says of a tool that it took out.
REMOVED = {
    "status.inactive": "not active",
    "withdrawn": "deleted, or waiting for review",
    "policy.deny": "denied by a rule (why() says which)",
    "page.match": "not on this page",
    "settings.missing": "toolkit has no settings",
    "caller.excluded": "excluded by the caller",
    "caller.outside": "not among the tools that the caller allows",
    "failed.closed": "a hard stage failed: only public tools stay",
    "required": "not among the required",
    "route.hit": "its toolkit was not hit",
    "route.default": "not in a default toolkit",
    "route.ignore": "not asked for",
    "retrieval.nearest": "not among the nearest",
    "retrieval.threshold": "below the threshold",
    "retrieval.no_tool": "no tool seems to serve this message",
    "cap.k": "cut: beyond k",
    "listing": "cut: new, and not among the first of this turn",
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
    found: dict[str, float] = {}  # what speaks for it → how much of its score that is
    kept: list[str] = []
    removed: list[str] = []
    score = 0.0
    for step in selection.candidates.trail():
        if step.before is None or not step.before.in_play(row):
            if step.in_play(row) and step.before is not None:
                removed = []  # what took it out before does not matter
                words = _evidence(step, row, tool.toolkit, selection)
                found |= words
                if step.reason in KEPT or not words:
                    kept.append(KEPT.get(step.reason, step.reason))
        elif step.in_play(row):
            score = step.score(row) or score
            found |= _evidence(step, row, tool.toolkit, selection)
            if step.verb == "narrow" and step.reason in KEPT:  # what is admitted says so of newcomers only
                kept.append(KEPT[step.reason])
        else:
            removed = [REMOVED.get(step.reason, step.reason)]
    kept += _standing(row, selection, kept)
    strongest = sorted(found, key=lambda reason: -found[reason])
    return Account(
        tool.name, tool.toolkit, tool.name in selection, score, (*strongest, *dict.fromkeys(kept), *removed)
    )


def _standing(row: int, selection: Selection, said: Sequence[str]) -> list[str]:
    """Why the tool would be there even if no stage had found it."""
    if selection.turn.context.required or not selection.candidates.in_play(row):
        return []
    catalog, conversation = selection.catalog, selection.turn.conversation
    lasting_failures = [("base", catalog.base), ("pinned", catalog.pinned)]
    reasons = [KEPT[reason] for reason, rows in lasting_failures if row in rows and KEPT[reason] not in said]
    if conversation is not None:
        name = catalog.tools[row].name
        if any(one.name == name for one in conversation.loaded):
            reasons.append("loaded")
        if any(name in names for _, names in conversation.called):
            reasons.append("called before")
        if name in conversation.listed:
            reasons.append("sent before")
        if conversation.is_whole and not reasons and not said:
            reasons.append("everything is loaded for this turn")
    return reasons


def _evidence(step: Candidates, row: int, toolkit: str, selection: Selection) -> dict[str, float]:
    """What this step found for the row, with its part of the score."""
    evidence = step.evidence
    if evidence is None:
        return {}
    found: dict[str, float] = {}
    if evidence.words:
        words = dict(evidence.words)
        reached = selection.catalog.below if step.reason == "page.match" else selection.catalog.routes.rows
        has_it = (name for name in words if row in reached.get(name, ()))  # as a member, perhaps
        for name in dict.fromkeys((*_lineage(toolkit, selection), *has_it)):
            if name in words:
                found[words[name]] = step.score(row) or 1.0
    at = np.flatnonzero(evidence.rows == row)
    for term, weight, scores in evidence.terms:
        if len(at) and abs(scores[at[0]]) >= _SHOWN:
            found[f"{term} {scores[at[0]]:.2f}"] = weight * float(scores[at[0]])
    return found


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
    """18/35 tools | activated: weather(keyword 'rain'), calendar(dense 0.52) | 0.21 ms.

    Toolkits that are there whatever the message says are left out.
    """
    parts = [f"{len(selection)}/{selection.total} tools"]
    if selection.turn.context.required:
        wanted = len(dict.fromkeys(selection.turn.context.required))
        parts.append(f"required: resolved={wanted - len(selection.missing_required)}/{wanted}")
    elif listed := [
        f"{toolkit}({reason})"
        for toolkit, reason in selection.activated.items()
        if reason not in (KEPT["base"], KEPT["pinned"])
    ]:
        parts.append(f"activated: {', '.join(listed)}")
    if not selection.has_match:
        parts.append(f"no tool seems to apply ({selection.confidence:.2f})")
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
    read = [f"read {written!r} as {word!r}" for written, word in selection.spelling_corrections]
    return "\n".join([table, *_removed(selection), *read, *map(str, selection.failures)])


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
            yield f"{len(gone):>7} removed: {REMOVED.get(step.reason, step.reason)}"


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
        "confidence": None if selection.confidence is None else round(selection.confidence, 6),
        "has_match": selection.has_match,
        "spelling_corrections": [list(pair) for pair in selection.spelling_corrections],
        "degraded": [str(failure) for failure in selection.failures],
        "missing_required": list(selection.missing_required),
        "event_id": selection.event_id,
        "catalog_revision": selection.catalog_revision,
    }
