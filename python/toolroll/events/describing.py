"""A selection as a row: what it takes to look at it later, to judge other rules by it, to decide it again."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from toolroll.candidates import Candidates
from toolroll.events.rows import Messages, instant, normal, shown_records, word
from toolroll.learning.exposure import Exposure
from toolroll.selection import Selection

MOST_CANDIDATES = 64
_SIGN = 1 << 63


class Standing(NamedTuple):
    """What a selection does not know of itself.

    Attributes:
        registry_revision: of the registry that its catalog was built from.
        learned_revision: the organisation's last outcome that counted for it.
        profile, experiment, variant: under which rules it was made.
    """

    registry_revision: int = 0
    learned_revision: int = 0
    profile: str = ""
    experiment: str = ""
    variant: str = ""


def event_row(
    selection: Selection, exposure: Exposure, standing: Standing, messages: Messages
) -> dict[str, Any]:
    """A row of `selection_events`, nothing said of it yet."""
    turn, exposure = selection.turn, normal(exposure)
    context, timings = turn.context, selection.timings_us
    keeps = messages.form == "kept"
    candidates, error = _candidates(selection)
    tokens = selection.tokens
    keys = selection.catalog.switches.keys
    return {
        "event_id": selection.event_id,
        "org": context.org,
        "at": instant(exposure.at),
        "reporter": exposure.reporter,
        "session": word(context.session),
        "message": messages.of(turn.text),
        "message_form": messages.form,
        "page": exposure.page,
        "tier": exposure.tier,
        "category": exposure.category,
        "context": {
            "user": word(context.user),
            "roles": [word(role) for role in context.roles],
            "settings": sorted(turn.present(keys)) if keys else [],
            "provider": word(context.provider),
            "required": [word(name) for name in context.required],
            "exclude": [word(name) for name in context.exclude],
            "within": [word(name) for name in context.within],
            "everything": context.everything,
        },
        "limits": {
            "k": turn.k,
            "max_tools": turn.max_tools,
            "budget_tokens": turn.budget_tokens,
            "sent": [word(name) for name in turn.sent],
            # read as the message was; a text that is not kept is not there either
            "earlier": [[messages.of(text), weight] for text, _, _, weight in turn.earlier] if keeps else [],
        },
        "candidates": candidates,
        "propensity_error": error,
        "selected": list(selection.names),
        "shown": shown_records(exposure),
        "profile": standing.profile,
        "experiment": standing.experiment,
        "variant": standing.variant,
        "seed": turn.seed - 2 * _SIGN if turn.seed >= _SIGN else turn.seed,
        "latency_us": timings["total"],
        "timings": {stage: round(spent, 3) for stage, spent in timings.items()},
        "tokens_selected": tokens.selected,
        "tokens_total": tokens.total,
        "confidence": selection.confidence,
        "catalog_revision": selection.catalog_revision,
        "registry_revision": standing.registry_revision,
        "learned_revision": standing.learned_revision,
        "degraded": list(selection.degraded),
        "space": exposure.space,
        "vector": None if exposure.vector is None else exposure.vector.tobytes(),
        "called": None,
        "outcome": None,
        "recorded_at": None,
    }


def seed_of(signed: int) -> int:
    """The seed of a turn, of the signed number in its row."""
    return signed + 2 * _SIGN if signed < 0 else signed


def _candidates(selection: Selection) -> tuple[list[list[Any]], float | None]:
    """[name, score, mean, sd, show, propensity] of what was ranked, best first; the propensities' error."""
    step = _ranked(selection)
    if step is None:
        return [], 0.0  # nothing was ranked, so nothing was drawn: what is there was there for certain
    tools, selected = selection.catalog.tools, set(selection.rows.tolist())
    order = np.lexsort((step.rows, -step.scores))[:MOST_CANDIDATES]
    found = [
        [
            tools[int(step.rows[at])].name,
            float(step.scores[at]),
            None,
            None,
            None,
            float(int(step.rows[at]) in selected),
        ]
        for at in order
    ]
    return found, 0.0


def _ranked(selection: Selection) -> Candidates | None:
    """The last set that was scored, and not yet cut."""
    for step in reversed(list(selection.candidates.trail())):
        if step.verb == "rescore" and step.pool is None and step.evidence is not None:
            return step
    return None
