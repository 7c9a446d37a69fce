"""`POST /select`: the tools for a message, by name or as a provider takes them."""

from __future__ import annotations

import json
from typing import Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field

from toolroll import Context, Toolroll
from toolroll.selection.selection import Selection
from toolroll.server.problems import ProblemRoute

Provider = Literal["openai", "openai_responses", "anthropic", "gemini", "mcp"]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ContextBody(_Body):
    """Who asks, from where: the fields of `Context`, with the names of settings only."""

    org: str = ""
    user: str = ""
    roles: tuple[str, ...] = ()
    tier: str = ""
    page: str = ""
    settings: tuple[str, ...] = ()
    provider: str = ""
    required: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    everything: bool = False

    def context(self) -> Context:
        """The same as a value of toolroll."""
        return Context(**{name: getattr(self, name) for name in ContextBody.model_fields})


class SelectBody(_Body):
    """A message and its limits; the fields are arguments of `Toolroll.select`."""

    message: str = Field(examples=["Should I bring an umbrella?"])
    context: ContextBody = ContextBody()
    k: int | None = None
    max_tools: int | None = None
    budget_tokens: int | None = None
    always_include: tuple[str, ...] = ()
    sent: tuple[str, ...] = ()
    history: tuple[dict[str, object] | str, ...] = ()


def selection_router(roll: Toolroll) -> APIRouter:
    """`/select`."""
    router = APIRouter(tags=["selections"], route_class=ProblemRoute)

    @router.post("/select")
    async def select(body: SelectBody, schemas: Provider | None = None, receipt: bool = False) -> Response:
        """Selects the tools for a message.

        schemas: adds the tools in the form of this provider. receipt: adds text with which any process over
        the same registry reports the outcome.
        """
        selection = await roll.aselect(
            body.message,
            body.context.context(),
            body.k,
            max_tools=body.max_tools,
            budget_tokens=body.budget_tokens,
            always_include=body.always_include,
            sent=body.sent,
            history=body.history,
        )
        signed = await roll.areceipt(selection) if receipt else None
        return Response(_json_of(selection, schemas, signed), media_type="application/json")

    return router


def _json_of(selection: Selection, provider: str | None, receipt: str | None) -> bytes:
    """The answer; the catalog's prepared bytes of the schemas are put into it as they are."""
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
    text = json.dumps(fields, separators=(",", ":")).encode()
    if provider is None:
        return text
    return b'%b,"schemas":%b}' % (text[:-1], selection.schemas_json(provider))
