"""`/organisations`, `/pins`, `/settings` and `/tiers`."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from toolroll.registry.editing.status import MOST_ORGANISATIONS, organisations
from toolroll.server.bodies import Body, Texts
from toolroll.server.problems import ProblemRoute
from toolroll.server.tool_registry.access import RegistryAccess


class PinBody(Body):
    """An organisation's pin of a tool of the platform."""

    pinned: bool = Field(True, description="False: no longer always selected there.", examples=[True])
    weight: int = 0


class SettingBody(Body):
    """Whether a setting has a value. The value itself is never sent."""

    is_set: bool = Field(examples=[True])


class TiersBody(Body):
    """The tiers, lowest first."""

    tiers: Texts = Field(examples=[["free", "pro"]])


def organisation_router(access: RegistryAccess) -> APIRouter:
    """`/organisations`, `/pins`, `/settings` and `/tiers`."""
    router = APIRouter(tags=["organisations"], route_class=ProblemRoute)

    @router.get("/organisations")
    def list_organisations(
        request: Request, text: str = "", limit: int = Query(100, ge=1, le=MOST_ORGANISATIONS)
    ) -> dict[str, Any]:
        """Names of organisations with rows of their own, ascending.

        text: a part of the name. A caller of one organisation gets its name.
        """
        caller = access.identify(request)
        caller.require("read")
        if caller.org is not None:
            return {"organisations": [caller.org] if caller.org else []}
        return {"organisations": organisations(access.database, text, limit)}

    @router.get("/pins")
    def list_pins(request: Request, org: str | None = None) -> dict[str, Any]:
        """The organisation's pins of tools of the platform, the heaviest first."""
        registry, org = access.reader(request, org)
        return {"pins": [record.to_dict() for record in registry.pins.list(org)]}

    @router.put("/pins/{tool}")
    def set_pin(
        request: Request, tool: str, body: PinBody, org: str | None = None, reason: str = ""
    ) -> dict[str, Any]:
        """Makes the organisation always select the tool, or not always. The last request counts."""
        registry, org = access.editor(request, org)
        return registry.pins.set(
            tool, org=org, pinned=body.pinned, weight=body.weight, reason=reason
        ).to_dict()

    @router.delete("/pins/{tool}", status_code=204, response_class=Response)
    def delete_pin(request: Request, tool: str, org: str | None = None, reason: str = "") -> None:
        """Deletes the organisation's pin: the platform's `pinned` counts again."""
        registry, org = access.editor(request, org)
        registry.pins.delete(tool, org=org, reason=reason)

    @router.get("/settings")
    def list_settings(request: Request, org: str | None = None) -> dict[str, Any]:
        """The settings, and whether each has a value."""
        registry, org = access.own_rows(request, org)
        return {"settings": [setting.to_dict() for setting in registry.settings.list(org)]}

    @router.put("/settings/{key}")
    def put_setting(
        request: Request, key: str, body: SettingBody, org: str | None = None, reason: str = ""
    ) -> dict[str, Any]:
        """Says whether a setting has a value: toolkits with this key in `settings_keys` need one."""
        registry, org = access.editor(request, org)
        return registry.settings.set(key, body.is_set, org=org, reason=reason).to_dict()

    @router.get("/tiers")
    def read_tiers(request: Request) -> dict[str, Any]:
        """The tiers, lowest first. They are the same for all organisations."""
        registry, _ = access.own_rows(request, None)
        return {"tiers": list(registry.tiers())}

    @router.put("/tiers")
    def replace_tiers(request: Request, body: TiersBody, reason: str = "") -> dict[str, Any]:
        """Replaces the tiers. Refused while a rule or toolkit names a tier that would be removed.

        Needs a key of any organisation.
        """
        access.identify(request).require_any_org()
        registry, _ = access.editor(request, "")
        return {"tiers": list(registry.set_tiers(body.tiers, reason=reason))}

    return router
