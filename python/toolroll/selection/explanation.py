"""Puts into words how a selection came about: why each tool is in or out, and where tools came from.

Only this module reads the reason of a step. Stages read the evidence of earlier stages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from toolroll._core import Bitset
from toolroll.catalog.catalog import Catalog
from toolroll.formats.foreign_text import line_text, name_text, title_text
from toolroll.model.context import Turn
from toolroll.model.conversation import Conversation
from toolroll.selection.candidates import Candidates, RerankingResult

_SHOWN = 0.005  # terms of a score that round to more than nothing
_NEAR_MISSES = 10  # tools in an explanation that were found and cut
_OWN_STEP = "step "  # before the name of a caller's step
_MOST_NAMES = 50  # names in a line of a log
_LONGEST_NAME = 256  # characters of a name in a log

# The words for a tool that a step of this reason kept or brought in. Other reasons have none.
KEPT = {
    "required": "required by the caller",
    "pass_through": "small catalog, handed on whole",
    "everything": "the caller asks for everything",
    "retrieval.words": "found by its words alone",
    "no_match": "fallback: nothing matched",
    "failed.open": "nothing could be cut, handed on",
    "failed.pick": "the core could not rank: a core tool, asked for by the call, or by name",
    "route.default": "default toolkit",
    "route.ignore": "default toolkit",
    "base": "base toolkit",
    "pinned": "pinned",
    "always_include": "asked for by the call",
    "listing": "kept by the conversation",
    "shown": "shown or loaded in this turn",
}
_ALWAYS = (KEPT["base"], KEPT["pinned"])

_BROKEN = "broken: seldom shown until it works again"  # its breaker is open

# The words for a tool that a step of this reason removed.
REMOVED = {
    "status.inactive": "not active",
    "withdrawn": "deleted, or waiting for review",
    "policy.tier": "its toolkit is for another tier (why() says which)",
    "policy.deny": "denied by a rule (why() says which)",
    "page.match": "not on this page",
    "settings.missing": "toolkit has no settings",
    "caller.excluded": "excluded by the caller",
    "caller.outside": "not among the tools that the caller allows",
    "policy.expired": "closed: it is not public, and the rules were read too long ago",
    "failed.closed": "closed: it is not public, and policy rows are damaged or a hard stage failed",
    "required": "not among the required",
    "failed.pick": "the core could not rank, which is a bug",
    "route.hit": "its toolkit was not hit",
    "route.default": "not in a default toolkit",
    "route.ignore": "not asked for",
    "retrieval.nearest": "not among the nearest",
    "retrieval.threshold": "below the threshold",
    "retrieval.no_tool": "no tool seems to serve this message",
    "cap.k": "cut: beyond k",
    "listing": "cut: new, and not among the first of this turn",
    "shown": "not shown in this turn",
    "cap.max_tools": "cut: beyond max_tools",
    "cap.budget": "cut: beyond the token budget",
}

# Reasons that hide a tool: the caller must not learn that it exists.
_HIDING = frozenset({"policy.deny", "policy.expired", "failed.closed", "status.inactive", "withdrawn"})

# In a log, the origin of tools by the step that brought them in; for other steps, the reason.
_ORIGINS: Mapping[str, str] = {
    "retrieval.nearest": "retrieved",
    "retrieval.words": "retrieved",
    "no_match": "fallback",
    "route.hit": "routes",
    "route.fill": "routes",
    "route.default": "routes",
    "route.ignore": "routes",
    "base": "core",
    "pinned": "core",
    "pass_through": "whole",
    "everything": "whole",
}
_METHODS: Mapping[str, str] = {
    "retrieved": "retrieval",
    "routes": "routes",
    "fallback": "fallback",
    "whole": "whole",
}
_HELD: Mapping[str, str] = {"loaded": "loaded", "called before": "sticky", "sent before": "sent_before"}


@dataclass(frozen=True, slots=True, eq=False)
class Trail:
    """How one selection came about.

    Attributes:
        candidates: the final set; its steps lead back to the whole catalog.
    """

    candidates: Candidates
    catalog: Catalog
    turn: Turn

    def name(self, row: int) -> str:
        """The name of the tool in this row."""
        return self.catalog.tools[row].name


@dataclass(frozen=True, slots=True)
class ToolAccount:
    """Why one tool is in or out.

    Attributes:
        name, toolkit: the tool's.
        selected: whether it is in the selection.
        score: its last score while it was in play.
        reasons: why it was found or kept, then what took it out.
    """

    name: str
    toolkit: str
    selected: bool
    score: float
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TrailStep:
    """One step of a selection.

    Attributes:
        verb: "forbid", "narrow", "admit", "arrange", "rescore" or "reorder".
        reason: the stage's.
        in_play: the number of tools in play after it.
    """

    verb: str
    reason: str
    in_play: int


def steps(trail: Trail, *, known: bool) -> tuple[TrailStep, ...]:
    """The steps in order. known: leaves out the steps that say how many tools the caller may not see."""
    return tuple(TrailStep(one.verb, one.reason, len(one)) for one in _listed_steps(trail, known))


def _listed_steps(trail: Trail, known: bool) -> list[Candidates]:
    """The sets after the steps that `steps` returns; known: see `steps`."""
    sets = (*trail.candidates.trail(),)
    if known:
        sets = sets[max((at for at, one in enumerate(sets) if one.verb == "forbid"), default=0) :]
    return [one for one in sets if one.verb]


def scores(trail: Trail, rows: Sequence[int], *, known: bool) -> list[tuple[float | None, ...]]:
    """The scores of each row after each of `steps`: None if it is not in play, 0 without evidence."""
    columns = []
    for one in _listed_steps(trail, known):
        score = dict(zip(one.rows.tolist(), one.scores.tolist(), strict=True))
        if one.pool is None:
            columns.append([score.get(row) for row in rows])
        else:
            stays = one.pool.holds(np.array(rows, np.int32)).tolist()
            columns.append(
                [score.get(row, 0.0) if is_in else None for row, is_in in zip(rows, stays, strict=True)]
            )
    return [*zip(*columns, strict=True)] if columns else [()] * len(rows)


def account(trail: Trail, row: int) -> ToolAccount:
    """Follows one row through the steps."""
    tool = trail.catalog.tools[row]
    found: dict[str, float] = {}  # reason for it → its part of the score
    kept: list[str] = []
    removed: list[str] = []
    score = 0.0
    for step in trail.candidates.trail():
        if step.before is None or not step.before.in_play(row):
            if step.in_play(row) and step.before is not None:
                removed = []  # earlier removals do not count
                words = _evidence(step, row, tool.toolkit, trail)
                found |= words
                if step.reason in KEPT or not words:
                    kept.append(KEPT.get(step.reason, step.reason))
        elif step.in_play(row):
            score = step.score(row) or (0.0 if step.reason.startswith(_OWN_STEP) else score)
            found |= _evidence(step, row, tool.toolkit, trail)
            if step.verb == "narrow" and step.reason in KEPT:  # an admit gives its reason to newcomers only
                kept.append(KEPT[step.reason])
        else:
            removed = [_removal(step.reason)]
        if _is_broken(step, row):
            kept.append(_BROKEN)
    kept += _without_stages(row, trail, kept)
    strongest = sorted(found, key=lambda reason: -found[reason])
    reasons = (*strongest, *dict.fromkeys(kept), *removed)
    return ToolAccount(tool.name, tool.toolkit, trail.candidates.in_play(row), score, reasons)


def _removal(reason: str) -> str:
    """The reason for the removal of a tool, in words."""
    return REMOVED.get(reason, f"left out by {reason}" if reason.startswith(_OWN_STEP) else reason)


def known_rows(candidates: Candidates) -> Bitset:
    """The rows that neither rules nor a status hide from this caller; settings and limits do not count."""
    first, *steps = candidates.trail()
    hiding = (step.allowed for step in reversed(steps) if step.reason in _HIDING)
    return next(hiding, first.allowed)


def activated(trail: Trail) -> dict[str, str]:
    """Toolkit → the strongest reason for it, in order of each toolkit's best selected tool.

    Toolkits that were hit, but have selected tools only as members, come last.
    """
    best: dict[str, str] = {}
    for row in trail.candidates.rows.tolist():
        toolkit = trail.catalog.tools[row].toolkit
        if toolkit and toolkit not in best and (reasons := account(trail, row).reasons):
            best[toolkit] = reasons[0]
    for toolkit, reason in _hits(trail).items():
        own = trail.catalog.below.get(toolkit)
        if own is None or not np.isin(own, trail.candidates.rows).any():
            best.setdefault(toolkit, reason)
    return best


def by_message(activated: Mapping[str, str]) -> list[str]:
    """toolkit(reason) for each toolkit that the message activated."""
    return [
        f"{name_text(toolkit)}({line_text(reason)})"
        for toolkit, reason in activated.items()
        if reason not in _ALWAYS
    ]


def explain(trail: Trail, name: str | None) -> str:
    """The selected tools, then the tools that were found and cut, then the number each reason removed.

    name: explains only this tool.
    """
    if name is not None:
        return _table([account(trail, trail.catalog.names[name])])
    chosen = trail.candidates.rows.tolist()
    cut = [row for row in _found(trail) if row not in set(chosen)][:_NEAR_MISSES]
    return "\n".join([_table([account(trail, row) for row in [*chosen, *cut]]), *_removed(trail)])


def log_lines(trail: Trail, degraded: Sequence[str]) -> tuple[str, ...]:
    """The origin of the tools, and the cuts, as `key=value`; `Selection.log_lines` has examples."""
    failed = [f"degraded={'+'.join(degraded)}"] if degraded else []
    if trail.turn.context.required:
        return (f"tool selection: {', '.join([*_required(trail), *failed])}",)
    steps = list(trail.candidates.trail())
    cuts = [at for at, step in enumerate(steps) if step.reason in ("cap.max_tools", "cap.budget")]
    lists = [at for at, step in enumerate(steps) if step.reason == "listing"]
    selected = steps[: min([*cuts, *lists], default=len(steps))]
    lines = [f"tool selection: {', '.join([*_selected(trail, selected), *failed])}"]
    if cuts:
        before, after = steps[cuts[0] - 1], steps[cuts[-1]]
        count, names = _cut(trail, before, after)
        lines.append(f"tool cap: kept={len(after)}/{len(before)}, dropped={count}: {names}")
    if hits := _hits(trail):
        named = by_message(hits)
        more = ", …" if len(named) > _MOST_NAMES else ""
        lines.append(f"tool routes: hit={len(named)}: {', '.join(named[:_MOST_NAMES])}{more}")
    if lists:
        count, names = _cut(trail, steps[lists[0] - 1], steps[lists[-1]])
        if count:
            lines.append(f"tool list: held_back={count}: {names}")
    return tuple(lines)


def _without_stages(row: int, trail: Trail, said: Sequence[str]) -> list[str]:
    """The reasons to select the tool that do not depend on any stage."""
    if trail.turn.context.required or not trail.candidates.in_play(row):
        return []
    core = zip(_ALWAYS, (trail.catalog.base, trail.catalog.pinned), strict=True)
    reasons = [reason for reason, rows in core if row in rows and reason not in said]
    conversation = trail.turn.conversation
    if conversation is not None:
        reasons += _holds(conversation, trail.name(row))
        if conversation.is_whole and not reasons and not said:
            reasons.append("everything is loaded for this turn")
    return reasons


def _holds(conversation: Conversation, name: str) -> Iterator[str]:
    """The reasons why a conversation keeps the tool, whatever this turn selects."""
    if any(one.name == name for one in conversation.loaded):
        yield "loaded"
    if any(name in names for _, names in conversation.called):
        yield "called before"
    if name in conversation.listed:
        yield "sent before"


def _evidence(step: Candidates, row: int, toolkit: str, trail: Trail) -> dict[str, float]:
    """The evidence of this step for the row, with its part of the score."""
    evidence = step.evidence
    if evidence is None:
        return {}
    found: dict[str, float] = {}
    if evidence.words:
        words = dict(evidence.words)
        reached = trail.catalog.below if step.reason == "page.match" else trail.catalog.routes.rows
        has_it = (name for name in words if row in reached.get(name, ()))  # as a member, perhaps
        for name in dict.fromkeys((*_lineage(toolkit, trail.catalog), *has_it)):
            if name in words:
                found[words[name]] = step.score(row) or 1.0
    at = np.flatnonzero(evidence.rows == row)
    for term, weight, scores in evidence.terms:
        if len(at) and abs(scores[at[0]]) >= _SHOWN:
            sign = "+" if step.reason.startswith(_OWN_STEP) else "-"
            found[f"{term} {scores[at[0]]:{sign}.2f}"] = weight * float(scores[at[0]])
    return found


def _hits(trail: Trail) -> dict[str, str]:
    """Toolkit that was hit and has a selected tool → the keyword, pattern or cosine that hit it."""
    found: dict[str, str] = {}
    for step in trail.candidates.trail():
        if step.evidence is not None and step.reason.startswith("route."):
            for toolkit, reason in step.evidence.words:
                rows = trail.catalog.routes.rows.get(toolkit)
                if rows is not None and np.isin(rows, trail.candidates.rows).any():
                    found.setdefault(toolkit, reason)
    return found


def _is_broken(step: Candidates, row: int) -> bool:
    """Whether the outcomes of this step show that the tool is broken."""
    evidence = step.evidence
    if not isinstance(evidence, RerankingResult) or evidence.draw is None:
        return False
    return bool((evidence.draw.show[evidence.rows == row] < 1).any())


def _lineage(toolkit: str, catalog: Catalog) -> Iterator[str]:
    at = catalog.toolkits.get(toolkit)
    while at is not None:
        yield at.name
        at = catalog.toolkits.get(at.parent) if at.parent is not None else None


def _found(trail: Trail) -> list[int]:
    """Rows with evidence from some stage, best score first."""
    score: dict[int, float] = {}
    for step in trail.candidates.trail():
        if step.evidence is not None and step.pool is None:
            score |= dict(zip(step.rows.tolist(), step.scores.tolist(), strict=True))
    return sorted(score, key=lambda row: (-score[row], row))


def _removed(trail: Trail) -> Iterator[str]:
    chosen = frozenset(trail.candidates.rows.tolist())
    for step in trail.candidates.trail():
        if step.before is None or len(step.before) <= len(step):
            continue
        removed = _in_play(step.before) - _in_play(step) - chosen  # tools that came back were not removed
        if removed:
            yield f"{len(removed):>7} removed: {_removal(step.reason)}"


def _table(accounts: Iterable[ToolAccount]) -> str:
    place = 0
    rows = [("", "tool", "toolkit", "score", "why")]
    for one in accounts:
        place += one.selected
        at, score = str(place) if one.selected else "-", f"{one.score:.2f}" if one.score else ""
        toolkit = title_text(one.toolkit) if one.toolkit else ""
        rows.append((at, title_text(one.name), toolkit, score, line_text(", ".join(one.reasons))))
    first, second, third, fourth = (max(len(row[column]) for row in rows) for column in range(4))
    return "\n".join(
        f"{at:>{first}}  {name:<{second}}  {toolkit:<{third}}  {score:>{fourth}}  {why}".rstrip()
        for at, name, toolkit, score, why in rows
    )


def _required(trail: Trail) -> list[str]:
    wanted = dict.fromkeys(trail.turn.context.required)
    missing = wanted.keys() - {trail.name(row) for row in trail.candidates.rows.tolist()}
    facts = ["method=required", f"resolved={len(wanted) - len(missing)}/{len(wanted)}"]
    names = [name_text(name[:_LONGEST_NAME]) for name in wanted if name in missing][:_MOST_NAMES]
    return [*facts, f"unresolved={' '.join(names)}"] if missing else facts


def _selected(trail: Trail, steps: Sequence[Candidates]) -> list[str]:
    """The number of tools from each origin, before any is cut for space, and what the conversation adds."""
    merged = _in_play(steps[-1])
    origins = _origins(trail, steps)
    counts: Counter[str] = Counter(core=0, retrieved=0, routes=0)
    counts.update(origins.get(row, "whole") for row in merged)
    conversation = trail.turn.conversation
    for row in trail.candidates.rows.tolist():
        if row not in merged:
            held = () if conversation is None else _holds(conversation, trail.name(row))
            counts[next((_HELD[reason] for reason in held), "whole")] += 1
    methods = [method for origin, method in _METHODS.items() if counts[origin]]
    retrieved = trail.candidates.retrieved
    has_score = retrieved is not None and len(retrieved.scores)
    return [
        f"method={'+'.join(methods) or 'none'}",
        *(f"{origin}={n}" for origin, n in counts.items() if n),
        f"total={sum(counts.values())}/{len(known_rows(trail.candidates))}",
        *([f"top_score={retrieved.scores.max():.3f}"] if retrieved is not None and has_score else []),
    ]


def _origins(trail: Trail, steps: Sequence[Candidates]) -> dict[int, str]:
    """Row → the origin that last brought it in. A core tool's origin is always core."""
    origins: dict[int, str] = {}
    for step in steps:
        if step.verb == "admit" or (step.verb == "narrow" and step.reason in _ORIGINS):
            before = set() if step.before is None or step.verb != "admit" else _in_play(step.before)
            origins |= dict.fromkeys(_in_play(step) - before, _ORIGINS.get(step.reason, step.reason))
    core = (*trail.catalog.base.tolist(), *trail.catalog.pinned.tolist())
    return origins | dict.fromkeys(core, "core")


def _cut(trail: Trail, before: Candidates, after: Candidates) -> tuple[int, str]:
    """Number and names of the tools that are in play before a step and not after it, in order."""
    kept = _in_play(after)
    removed = [trail.name(row) for row in before.rows.tolist() if row not in kept]
    names = ", ".join(map(name_text, removed[:_MOST_NAMES]))
    return len(removed), f"{names}, …" if len(removed) > _MOST_NAMES else names


def _in_play(candidates: Candidates) -> frozenset[int]:
    return frozenset((candidates.rows if candidates.pool is None else candidates.pool.rows()).tolist())
