"""`POST /outcomes`: reports the calls of a model after a selection."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import Field, StrictBool, StrictFloat

from toolroll import Toolroll
from toolroll.learning.outcomes import Called
from toolroll.server.bodies import FEW_MEMBERS, Body, OutcomeAnswer
from toolroll.server.callers import Identify, caller_of
from toolroll.server.problems import ProblemRoute


class CallBody(Body):
    """A call with more than its result."""

    succeeded: StrictBool | None = Field(description="null if it is unknown, or no fault of the tool's.")
    duration_ms: StrictFloat | None = Field(
        None, description="How long the tool's call took, in milliseconds.", examples=[84.0]
    )


# Strict: toolroll would learn from a text or a number in place of a result.
CalledBody = Annotated[dict[str, StrictBool | CallBody | None] | tuple[str, ...], FEW_MEMBERS]


def called_of(body: CalledBody) -> Called:
    """Converts it for `Toolroll.record`."""
    if not isinstance(body, dict):
        return body
    return {
        name: {"succeeded": result.succeeded, "duration_ms": result.duration_ms}
        if isinstance(result, CallBody)
        else result
        for name, result in body.items()
    }


class OutcomeBody(Body):
    """A report; the fields are arguments of `Toolroll.record`."""

    selection: str = Field(description="The selection's event_id, or its receipt.")
    org: str = Field("", description="The organisation of the selection; a key's own if empty.")
    called: CalledBody = Field(
        (), examples=[{"get_forecast": {"succeeded": True, "duration_ms": 84.0}, "send_mail": True}]
    )
    wanted: CalledBody = ()
    corrected: Annotated[dict[str, str | None] | tuple[str, ...], FEW_MEMBERS] = ()
    final: bool = True
    reporter: str | None = Field(
        None,
        description="Who reports, if it is not the selection's user. It counts for callers with the role "
        '"vouch"; all others report as themselves.',
    )


def outcome_router(roll: Toolroll, identify: Identify = caller_of) -> APIRouter:
    """`/outcomes`. identify: finds the caller of a request."""
    router = APIRouter(tags=["outcomes"], route_class=ProblemRoute)

    @router.post("/outcomes")
    async def record(request: Request, body: OutcomeBody) -> OutcomeAnswer:
        """Reports the outcome of a selection. A repeated report adds nothing, so it may be sent again."""
        caller = identify(request)
        caller.require("report")
        is_any_org = caller.org is None and not body.org
        done = await roll.arecord(
            body.selection,
            called_of(body.called),
            wanted=called_of(body.wanted),
            corrected=body.corrected,
            final=body.final,
            reporter=caller.reporter_of(body.reporter),
            org=None if is_any_org else caller.org_of(body.org),
        )
        return OutcomeAnswer(event_id=done.event_id, counted=done.counted, pending=dict(done.pending))

    return router
