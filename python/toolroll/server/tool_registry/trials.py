"""`/test-selection`: a selection that nobody learns of, with the reasons of every tool."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Query, Request

from toolroll import Context, NotFound, Toolroll
from toolroll.selection.explanation import Account
from toolroll.server.problems import ProblemRoute
from toolroll.server.selections import SelectBody
from toolroll.server.tool_registry.access import RegistryAccess


def trial_router(roll: Toolroll, access: RegistryAccess) -> APIRouter:
    """`/test-selection`."""
    router = APIRouter(tags=["operations"], route_class=ProblemRoute)

    @router.post("/test-selection")
    def try_selection(
        request: Request,
        body: SelectBody,
        most: int = Query(10_000, ge=1, le=100_000),
        profile: str | None = None,
    ) -> dict[str, Any]:
        """What `/select` would select now, and why each tool is in or out. Logs and changes nothing.

        `tools` has the selected tools in their order, then the others by name, then those that a rule or
        their status hides from this context; at most so many. A caller who is bound to an organisation does
        not get the hidden ones. `stages` has each step, with the number of tools in play after it.

        profile: decides in place of the service's own.
        """
        caller = access.identify(request)
        caller.require("read")
        context = body.context.context(caller)
        selection = roll.preview(context=context, profile=profile, **body.arguments())
        found, hidden = selection.accounts(), tuple[Account, ...]()
        if caller.org is None:
            names = {one.name for one in found}
            hidden = tuple(one for one in selection.accounts(known=False) if one.name not in names)
        fields = selection.to_dict()
        del fields["event_id"]
        return {
            **fields,
            "names": selection.names,
            "stages": [asdict(step) for step in selection.steps(known=caller.org is not None)],
            "tools": [
                *(tool_form(one, one.reasons) for one in found[:most]),
                *(tool_form(one, _why(roll, one, context)) for one in hidden[: most - len(found[:most])]),
            ],
        }

    return router


def _why(roll: Toolroll, one: Account, context: Context) -> Iterable[str]:
    """What hides the tool, with the name of the rule."""
    try:
        return (roll.why(one.name, context).reason,)
    except NotFound:  # the catalog has changed since the selection
        return one.reasons


def tool_form(one: Account, reasons: Iterable[str]) -> dict[str, Any]:
    """A tool of a selection, for JSON."""
    return {
        "name": one.name,
        "toolkit": one.toolkit,
        "selected": one.selected,
        "score": round(one.score, 6),
        "reasons": list(reasons),
    }
