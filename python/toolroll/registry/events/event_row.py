"""A selection as an event: for statistics, off-policy evaluation and replay."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from toolroll._core import inclusion, inclusion_sampled
from toolroll.learning.experiments import Unit
from toolroll.learning.exposure import Exposure
from toolroll.model.arrays import Rows
from toolroll.model.identity import NONE, tool_key
from toolroll.registry.events.columns import CandidateColumns
from toolroll.registry.events.logged_tools import signed
from toolroll.registry.events.rows import Messages, instant, vector_bytes, word
from toolroll.selection.candidates import Draw
from toolroll.selection.selection import Selection

MOST_CANDIDATES = 64
_DRAWS = 4_000  # simulated draws, if exploration leaves no closed form

# A propensity for each row, and their error; None if they are not known.
Odds: TypeAlias = "tuple[npt.NDArray[np.float64] | None, float | None]"


class SelectionOrigin(NamedTuple):
    """The part of an event that the selection does not contain.

    Attributes:
        registry_revision: the revision from which the catalog was built.
        learned_revision: the number of the organisation's last outcome in the statistics.
        profile, experiment, variant: the rules that decided.
        unit: the experiment assigns variants by it.
    """

    registry_revision: int = 0
    learned_revision: int = 0
    profile: str = ""
    experiment: str = ""
    variant: str = ""
    unit: Unit = "user"


def event_row(
    selection: Selection,
    exposure: Exposure,
    origin: SelectionOrigin,
    messages: Messages,
    *,
    has_odds: bool = True,
    share: float = 1.0,
) -> dict[str, Any]:
    """An event without reports; `details.packed_event` converts it to a row of `selection_events`.

    has_odds: whether to compute the propensities of a random draw, in about a millisecond. share: the
        probability that the event is logged.
    """
    turn = selection.turn
    context, timings = turn.context, selection.timings_us
    keeps = messages.form == "kept"
    candidates, error = candidates_of(selection, has_odds)
    tokens = selection.tokens
    catalog = selection.catalog
    keys = catalog.switches.keys
    return {
        "event_id": selection.event_id,
        "org": context.org,
        "at": instant(exposure.at),
        "reporter": word(exposure.reporter),
        "session": word(context.session),
        "message": messages.of(turn.text),
        "message_form": messages.form,
        "page": word(exposure.page),
        "tier": word(exposure.tier),
        "category": word(exposure.category),
        "context": {
            "user": word(context.user),
            "roles": [word(role) for role in context.roles],
            "settings": sorted(turn.present(keys)) if keys else [],
            "provider": word(context.provider),
            "required": [word(name) for name in context.required],
            "exclude": [word(name) for name in context.exclude],
            "only": [word(name) for name in context.only],
            "everything": context.everything,
        },
        "limits": {
            "k": turn.k,
            "max_tools": turn.max_tools,
            "budget_tokens": turn.budget_tokens,
            "always_include": [word(name) for name in turn.always_include],
            "sent": [word(name) for name in turn.sent],
            "is_search": turn.is_search,
            "conversation": None if turn.conversation is None else turn.conversation.to_record(),
            # earlier messages are stored like the message, or not at all
            "earlier": [[messages.of(text), weight] for text, _, _, weight in turn.earlier] if keeps else [],
            **({"steps": [word(name) for name in turn.steps]} if turn.steps else {}),
        },
        "candidates": candidates,
        "propensity_error": error,
        "selected": list(selection.names),
        "shown": list(exposure.shown),
        "profile": origin.profile,
        "experiment": origin.experiment,
        "variant": origin.variant,
        "unit": unit_of(origin, exposure, context.session) if origin.experiment else "",
        "seed": signed(turn.seed),
        "latency_us": timings["total"],
        "timings": {stage: round(spent, 3) for stage, spent in timings.items()},
        "tokens_selected": tokens.selected,
        "tokens_total": tokens.total,
        "confidence": selection.confidence,
        "catalog_revision": selection.catalog_revision,
        "registry_revision": origin.registry_revision,
        "learned_revision": origin.learned_revision,
        "degraded": list(selection.degraded),
        "space": exposure.space,
        "share": share,
        "vector": vector_bytes(exposure.vector),
        "called": None,
        "outcome": None,
        "durations_ms": None,
        "recorded_at": None,
    }


def unit_of(origin: SelectionOrigin, exposure: Exposure, session: str) -> str:
    """A digest of the user, session or organisation to which the experiment assigned a variant."""
    name = {"user": exposure.reporter, "session": session, "org": exposure.org}[origin.unit]
    return blake2b(word(name).encode(), digest_size=16).hexdigest()


def candidates_of(selection: Selection, has_odds: bool = True) -> tuple[CandidateColumns, float | None]:
    """The ranked tools, best first, and the error of their propensities; None if these are unknown."""
    reranked = selection.candidates.reranked
    ranked = reranked or selection.candidates.retrieved
    if ranked is None:
        return CandidateColumns(), 0.0  # nothing was ranked, so every selected tool was certain
    draw = None if reranked is None else reranked.draw
    catalog = selection.catalog
    is_selected = np.zeros(len(catalog), np.bool_)
    is_selected[selection.rows] = True
    chosen = is_selected[ranked.rows]
    odds: Odds
    if draw is not None and not selection.turn.steps:
        odds = _odds(selection, ranked.rows, draw, chosen) if has_odds else (None, None)
    elif reranked is not None and not chosen.all():
        odds = None, None  # of Beta draws, or scores of the caller's steps: no closed form
    else:
        odds = chosen.astype(np.float64), 0.0
    propensities, error = odds
    if propensities is not None:
        propensities = propensities.astype(np.float32)  # more digits than a simulated or measured log has
    best = np.lexsort((ranked.rows, -ranked.scores))[:MOST_CANDIDATES]
    drawn = (None, None, None) if draw is None else (draw.mean, draw.spread, draw.show)
    columns = [None if column is None else column[best] for column in (ranked.scores, *drawn, propensities)]
    rows = ranked.rows[best].tolist()
    keys = b"".join(catalog.packed_keys(rows))
    return CandidateColumns(list(catalog.names_of(rows)), keys, *columns), error


def _odds(selection: Selection, ranked: Rows, draw: Draw, chosen: npt.NDArray[np.bool_]) -> Odds:
    """Each row's propensity, and the error of all; None if a later stage cut the list."""
    own = ~draw.core
    if chosen.sum() != draw.core.sum() + min(draw.places, int(own.sum())) or not chosen[draw.core].all():
        return None, None
    rows = ranked[own]
    tools = selection.catalog.tools
    own_tools = [tools[row] for row in rows.tolist()]
    groups = np.array([tool_key(one).group if one.interchangeable else NONE for one in own_tools], np.uint64)
    columns = (
        draw.mean[own].astype(np.float64),
        draw.spread[own].astype(np.float64),
        draw.show[own].astype(np.float64),
        np.isin(rows, draw.guarded),
        groups,
        draw.places,
    )
    propensities, error = np.ones(len(ranked)), 0.0
    if draw.explore:
        propensities[own], errors = inclusion_sampled(*columns, draw.explore, selection.turn.seed, _DRAWS)
        error = float(errors.max(initial=0.0))
    else:
        propensities[own] = inclusion(*columns)
    return propensities, error
