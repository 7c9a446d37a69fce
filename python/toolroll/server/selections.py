"""`POST /select` and `/select/batch`: the tools for messages, by name or as a provider takes them."""

from __future__ import annotations

import asyncio
import json

from fastapi import APIRouter, Request, Response
from pydantic import Field

from toolroll import Toolroll
from toolroll.model.errors import ToolrollError
from toolroll.selection.selection import Selection
from toolroll.server.bodies import BatchAnswer, Body, MessageBody, Provider, SelectionAnswer, Texts
from toolroll.server.callers import Caller, Identify, caller_of
from toolroll.server.metering import in_task
from toolroll.server.problems import ProblemRoute, problem_of

LARGEST_BATCH = 100


class SelectBody(MessageBody):
    """A message and its limits; the fields are arguments of `Toolroll.select`."""

    sent: Texts = ()


class BatchBody(Body):
    """Several messages."""

    requests: tuple[SelectBody, ...] = Field(min_length=1, max_length=LARGEST_BATCH)


def selection_router(roll: Toolroll, identify: Identify = caller_of) -> APIRouter:
    """`/select` and `/select/batch`. identify: finds the caller of a request."""
    router = APIRouter(tags=["selections"], route_class=ProblemRoute)

    @router.post("/select", responses={200: {"model": SelectionAnswer}})
    async def select(
        request: Request, body: SelectBody, schemas: Provider | None = None, receipt: bool = False
    ) -> Response:
        """Selects the tools for a message.

        schemas: adds the tools in the form of this provider. receipt: adds text with which any process over
        the same registry reports the outcome.
        """
        caller = identify(request)
        caller.require("select")
        return selection_answer(await selected(roll, caller, body, schemas, receipt))

    @router.post("/select/batch", responses={200: {"model": BatchAnswer}})
    async def select_batch(
        request: Request, body: BatchBody, schemas: Provider | None = None, receipt: bool = False
    ) -> Response:
        """Selects the tools for each of several messages.

        `results` has for each request, in their order, what `/select` would answer: a selection, or the
        problem of this request.
        """
        caller = identify(request)
        caller.require("select")

        async def one(each: SelectBody) -> bytes:
            try:
                return await selected(roll, caller, each, schemas, receipt)
            except ToolrollError as error:
                return bytes(problem_of(error).body)

        results = await asyncio.gather(*[in_task(one(each)) for each in body.requests])
        return selection_answer(b'{"results":[%b]}' % b",".join(results))

    return router


async def selected(
    roll: Toolroll, caller: Caller, body: SelectBody, provider: Provider | None, receipt: bool
) -> bytes:
    """The answer to a request for a selection, as JSON.

    Raises:
        ToolrollError: the context or a limit is wrong, or of another organisation.
    """
    selection = await roll.aselect(context=body.context.context(caller), **body.arguments())
    signed = await roll.areceipt(selection) if receipt else None
    return selection_json(selection, provider, signed)


def selection_answer(content: bytes) -> Response:
    """The answer with this JSON."""
    return Response(content, media_type="application/json")


_encode = json.JSONEncoder(separators=(",", ":")).encode  # json.dumps would make an encoder for each call


def selection_json(selection: Selection, provider: str | None, receipt: str | None) -> bytes:
    """The answer to a request for a selection.

    provider: adds the tools in the form of this provider. receipt: None adds none.
    """
    fields = {
        "names": selection.names,
        "event_id": selection.event_id,
        "catalog_revision": selection.catalog_revision,
        "confidence": selection.confidence,
        "has_match": selection.has_match,
        "degraded": selection.degraded,
        "missing_required": selection.missing_required,
        **({} if receipt is None else {"receipt": receipt}),
    }
    text = _encode(fields).encode()
    if provider is None:
        return text
    return b'%b,"schemas":%b}' % (text[:-1], selection.schemas_json(provider))
