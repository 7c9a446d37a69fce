"""`/tools`: tools, their versions, and rollback."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request, Response
from pydantic import Field

from toolroll import Registry
from toolroll.model.errors import InvalidInput, NotFound
from toolroll.model.tools import Tool
from toolroll.registry.editing.content import attributes_of
from toolroll.registry.editing.records import ToolRecord
from toolroll.registry.editing.versions import ToolVersion, field_differences
from toolroll.server import bodies
from toolroll.server.bodies import JsonAnswer
from toolroll.server.problems import ProblemRoute
from toolroll.server.tool_registry.access import RegistryAccess
from toolroll.server.tool_registry.rows import CONDITIONAL, changed, unless_known, with_etag
from toolroll.server.tool_registry.shared_tools import SharedTools

LONGEST_PAGE = 500
_STATES = ("review", "approved_version", "served_version")  # of a version, and no content
# A person must read these before the first approval of a tool.
_TEXTS = ("description", "summary", "when_to_use", "limitations", "toolkit", "parameters", "examples", "tags")
NEW_TOOL = {
    "name": "get_forecast",
    "description": "Gives the weather forecast of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "toolkit": "weather",
    "examples": ["Should I bring an umbrella?"],
}


class RollbackBody(bodies.Body):
    """The version to which a tool goes back."""

    version: int = Field(ge=1, examples=[3])
    reason: str = ""


def tool_router(access: RegistryAccess, shared: SharedTools) -> APIRouter:
    """`/tools`, and for each its versions and rollback. An id is a name or tool_id.

    shared: of the platform, for organisations.
    """
    router = APIRouter(tags=["tools"], route_class=ProblemRoute, prefix="/tools")

    @router.get("", response_model=dict[str, Any])
    def list_tools(
        request: Request,
        org: str | None = None,
        plugin: str | None = None,
        category: str | None = None,
        status: str | None = None,
        review: str | None = None,
        flagged: bool | None = None,
        text: str | None = None,
        deleted: bool = False,
        platform: bool = False,
        after: str = "",
        limit: int = Query(100, ge=1, le=LONGEST_PAGE),
    ) -> Response:
        """A page of the tools that meet all conditions, by name. `next` is the `after` of the next page.

        `total` is the number of tools on all pages; null with `after`. category: the tool's toolkit. text: a
        part of the name or the description. flagged: only tools with something to review, or without.
        deleted: deleted tools instead of present ones.

        platform: lists the platform's tools that somebody in the organisation sees, as they serve now, in
        place of its own. Goes with `category`, `status` and `text` alone.
        """
        registry, org = access.own_rows(request, org)
        if platform:
            if plugin is not None or review is not None or flagged is not None or deleted:
                raise InvalidInput("platform goes with category, status, text, after and limit alone")
            return JsonAnswer(shared.page(org, text or "", category, status, after, limit))
        page = registry.tools(
            org=org,
            plugin=plugin,
            toolkit=category,
            status=status,  # type: ignore[arg-type]  # it checks them
            review=review,  # type: ignore[arg-type]
            flagged=flagged,
            text=text,
            deleted=deleted,
            after=after,
            limit=limit,
        )
        return JsonAnswer(page.to_dict())  # JSON already: FastAPI need not look at each value

    @router.get("/{id}", responses={304: {"description": "As in If-None-Match."}})
    def read_tool(request: Request, id: str, org: str | None = None, deleted: bool = False) -> Response:
        """A tool with all its fields; `org` names its owner.

        Where the organisation has no such tool, it is the platform's. A reader who is bound to the
        organisation gets it as it serves, if somebody in the organisation sees it. deleted: also the last
        deleted one of this id.
        """
        try:
            record = access.read_shared(
                request, org, lambda registry, owner: registry.tool(id, org=owner, deleted=deleted)
            )
        except NotFound as error:
            owner = access.identify(request).org
            if not owner:
                raise
            return JsonAnswer(shared.tool(id, owner, error))
        return unless_known(request, record.to_dict, record.version)

    @router.post("", status_code=201)
    def create_tool(
        request: Request,
        body: Annotated[dict[str, Any], Body(examples=[NEW_TOOL])],
        org: str | None = None,
        reason: str = "",
    ) -> Response:
        """Adds a tool. The body has its fields, by the names of the answer of `GET /tools/{id}`."""
        registry, org = access.editor(request, org)
        tool = Tool(**{"name": "", **attributes_of(body)})
        record = registry.create(tool, org=org, reason=reason)
        where = request.url_for("read_tool", id=record.tool.tool_id).path
        return with_etag(record.to_dict(), record.version, 201, Location=where)

    @router.put("/{id}", **CONDITIONAL)
    def update_tool(
        request: Request,
        id: str,
        body: Annotated[dict[str, Any], Body(examples=[{"tags": ["weather"], "pinned": True}])],
        org: str | None = None,
        reason: str = "",
        force: bool = False,
        give_back: Annotated[list[str], Query()] = [],  # noqa: B006  # FastAPI copies it
    ) -> Response:
        """Changes the fields in the body, and makes a version. Other fields stay. Needs If-Match.

        These fields are people's then: what the tool's plugin sends for them is in `source_values`, and does
        not change the tool. give_back: fields that get the plugin's value, and follow it from now on.

        force: allows a change after which rules no longer apply to the tool.
        """
        registry, org = access.editor(request, org)
        return _change_tool(
            request, registry, id, org, registry.update, body, give_back=give_back, force=force, reason=reason
        )

    @router.delete("/{id}", status_code=204, response_class=Response, **CONDITIONAL)
    def delete_tool(request: Request, id: str, org: str | None = None, reason: str = "") -> None:
        """Deletes a tool; its versions stay, and it can be restored. Needs If-Match."""
        registry, org = access.editor(request, org)
        _change_tool(request, registry, id, org, registry.delete, reason=reason)

    @router.get("/{id}/versions")
    def list_versions(
        request: Request,
        id: str,
        org: str | None = None,
        before: int | None = None,
        limit: int = Query(50, ge=1, le=LONGEST_PAGE),
    ) -> dict[str, Any]:
        """The versions of a tool, deleted or not, newest first, with the `differences` from the one before.

        before: only lower versions. `next` is the `before` of the next page; null on the last one. `total` is
        the number of all versions; null with `before`.
        """
        found = access.read_shared(
            request,
            org,
            lambda registry, owner: registry.history(id, org=owner, before=before, limit=limit + 1),
        )
        older: tuple[ToolVersion | None, ...] = (*found[1:], None)
        return {
            "versions": [
                {**version.to_dict(), "differences": _differences(other, version)}
                for version, other in zip(found[:limit], older, strict=False)
            ],
            "next": found[limit - 1].version if len(found) > limit else None,
            "total": None if before is not None or not found else found[0].version,  # numbered without gaps
        }

    @router.post("/{id}/rollback", **CONDITIONAL)
    def roll_back(
        request: Request, id: str, body: RollbackBody, org: str | None = None, force: bool = False
    ) -> Response:
        """Makes a new version with the content of an earlier one. Needs If-Match."""
        registry, org = access.editor(request, org)
        return _change_tool(
            request, registry, id, org, registry.rollback, body.version, force=force, reason=body.reason
        )

    @router.post("/{id}/approve", **CONDITIONAL)
    def approve(request: Request, id: str, org: str | None = None, reason: str = "") -> Response:
        """Approves the content that waits, and removes the tool's flags. Needs If-Match."""
        registry, org = access.editor(request, org)
        return _change_tool(request, registry, id, org, registry.approve, reason=reason)

    @router.post("/{id}/reject", **CONDITIONAL)
    def reject(request: Request, id: str, org: str | None = None, reason: str = "") -> Response:
        """Rejects the content that waits: the last approved one comes back, or a new tool is deleted.

        Needs If-Match.
        """
        registry, org = access.editor(request, org)
        return _change_tool(request, registry, id, org, registry.reject, reason=reason)

    @router.get("/{id}/change")
    def read_change(request: Request, id: str, org: str | None = None) -> dict[str, Any]:
        """The `differences` between the last approved content of a tool and its present content.

        `approved_version` is null for a tool that was never approved: then `before` is always null.
        """
        registry = access.registry
        record = access.read_shared(request, org, lambda known, owner: known.tool(id, org=owner))
        if record.approved_version is None:
            content = record.to_dict()
            differences = [
                {"field": name, "before": None, "after": content[name]} for name in _TEXTS if content[name]
            ]
        elif record.approved_version == record.version:
            differences = []
        else:
            differences = [
                each.to_dict()
                for each in registry.differences(
                    record.tool.tool_id, record.approved_version, record.version, org=record.org
                )
                if each.field not in _STATES
            ]
        return {
            "name": record.name,
            "version": record.version,
            "approved_version": record.approved_version,
            "served_version": record.served_version,
            "differences": differences,
        }

    return router


def _change_tool(
    request: Request,
    registry: Registry,
    id: str,
    org: str,
    change: Callable[..., ToolRecord],
    *values: Any,
    **options: Any,
) -> Response:
    """Calls `change` with the version that the client has read. Returns the tool as it is then."""
    record = changed(
        request,
        lambda: registry.tool(id, org=org).version,
        lambda version: change(id, *values, version=version, org=org, **options),
    )
    return with_etag(record.to_dict(), record.version)


def _differences(before: ToolVersion | None, after: ToolVersion) -> list[dict[str, Any]]:
    return [] if before is None else [each.to_dict() for each in field_differences(before, after)]
