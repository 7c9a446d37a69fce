"""A selection as an event: for statistics, off-policy evaluation and replay."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from toolroll._core import inclusion, inclusion_sampled
from toolroll.arrays import Rows
from toolroll.catalog.catalog import Catalog
from toolroll.identity import NONE, tool_key
from toolroll.learning.exposure import Exposure
from toolroll.registry.events.logged_tools import LoggedTool
from toolroll.registry.events.rows import Messages, instant, normal, word
from toolroll.selection.candidates import Draw
from toolroll.selection.selection import Selection

MOST_CANDIDATES = 64
_DRAWS = 4_000  # simulated draws, if exploration leaves no closed form
_SIGN = 1 << 63

# A propensity for each row, and their error; None if they are not known.
Odds: TypeAlias = "tuple[npt.NDArray[np.float64] | None, float | None]"


class SelectionOrigin(NamedTuple):
    """Where a selection comes from, as far as the selection itself does not know.

    Attributes:
        registry_revision: of the registry that its catalog was built from.
        learned_revision: the number of the organisation's last outcome that counted for it.
        profile, experiment, variant: the rules that made it.
    """

    registry_revision: int = 0
    learned_revision: int = 0
    profile: str = ""
    experiment: str = ""
    variant: str = ""


def event_row(
    selection: Selection,
    exposure: Exposure,
    origin: SelectionOrigin,
    messages: Messages,
    *,
    has_odds: bool = True,
    share: float = 1.0,
) -> dict[str, Any]:
    """An event before any report: a row of `selection_events` once `details.packed_event` has packed it.

    has_odds: whether to compute the propensities of a draw, which takes about a millisecond. share: the
        probability with which such an event is logged.
    """
    turn, exposure = selection.turn, normal(exposure)
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
        },
        "candidates": candidates,
        "tools": [
            *_logged_tools(catalog, (name for name, *_ in candidates)),
            *map(LoggedTool.of, exposure.shown),
        ],
        "propensity_error": error,
        "selected": list(selection.names),
        "shown": list(exposure.shown),
        "profile": origin.profile,
        "experiment": origin.experiment,
        "variant": origin.variant,
        "seed": turn.seed - 2 * _SIGN if turn.seed >= _SIGN else turn.seed,
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
        "vector": None if exposure.vector is None else exposure.vector.tobytes(),
        "called": None,
        "outcome": None,
        "durations_ms": None,
        "recorded_at": None,
    }


def _logged_tools(catalog: Catalog, names: Iterable[str]) -> list[LoggedTool]:
    known: dict[str, LoggedTool] = catalog.remembered("logged tools", dict)
    found = []
    for name in names:
        tool = known.get(name)
        if tool is None:
            tool = known[name] = LoggedTool(name, *catalog.tool_key(catalog.names[name]))
        found.append(tool)
    return found


def seed_of(signed: int) -> int:
    """The seed of a turn from the signed number in its row."""
    return signed + 2 * _SIGN if signed < 0 else signed


def candidates_of(selection: Selection, has_odds: bool = True) -> tuple[list[tuple[Any, ...]], float | None]:
    """(name, score, mean, sd, show, propensity) of what was ranked, best first; the propensities' error."""
    reranked = selection.candidates.reranked
    ranked = reranked or selection.candidates.retrieved
    if ranked is None:
        return [], 0.0  # nothing was ranked, so nothing was drawn: what is there was there for certain
    draw = None if reranked is None else reranked.draw
    is_selected = np.zeros(len(selection.catalog), np.bool_)
    is_selected[selection.rows] = True
    chosen = is_selected[ranked.rows]
    odds: Odds
    if draw is not None:
        odds = _odds(selection, ranked.rows, draw, chosen) if has_odds else (None, None)
    elif reranked is not None and not chosen.all():
        odds = None, None  # of Beta draws: no closed form, and nobody judges by them
    else:
        odds = chosen.astype(np.float64), 0.0
    propensities, error = odds
    if propensities is not None:
        propensities = propensities.astype(np.float32)  # more digits than a simulated or measured log has
    best = np.lexsort((ranked.rows, -ranked.scores))[:MOST_CANDIDATES]
    drawn = (None, None, None) if draw is None else (draw.mean, draw.spread, draw.show)
    columns = [
        [None] * len(best) if column is None else column[best].tolist()
        for column in (ranked.scores, *drawn, propensities)
    ]
    tools = selection.catalog.tools
    names = [tools[row].name for row in ranked.rows[best].tolist()]
    return list(zip(names, *columns, strict=True)), error


def _odds(selection: Selection, ranked: Rows, draw: Draw, chosen: npt.NDArray[np.bool_]) -> Odds:
    """Each row's propensity, and their error; None if a later stage cut the list."""
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
