"""`/categories` and `/page-mappings`: toolkits, and the pages to which they belong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi import Body as FromBody
from pydantic import Field

from toolroll.model.errors import NotFound
from toolroll.model.rules import PageMapping
from toolroll.registry.editing.page_mappings import PageRecord
from toolroll.registry.editing.toolkits import ToolkitRecord
from toolroll.registry.registry import Registry
from toolroll.selection.policy.pages import matches
from toolroll.server.bodies import Body, Texts, without, without_read_only
from toolroll.server.problems import ProblemRoute
from toolroll.server.tool_registry.access import RegistryAccess
from toolroll.server.tool_registry.rows import CONDITIONAL, changed, page_of, with_etag


class PageMappingBody(Body):
    """A page mapping; it may be an answer of `GET /page-mappings`."""

    pattern: str = Field(examples=["deals*"])
    categories: Texts = Field(examples=[["crm"]])
    priority: int = 0

    _without_read_only = without_read_only("page_id")

    def mapping(self, org: str) -> PageMapping:
        """The same as a value of toolroll."""
        return PageMapping(self.pattern, self.categories, self.priority, org)


def category_router(access: RegistryAccess) -> APIRouter:
    """`/categories` and `/page-mappings`. A category is a toolkit."""
    router = APIRouter(tags=["categories"], route_class=ProblemRoute)

    @router.get("/categories")
    def list_categories(request: Request, org: str | None = None) -> dict[str, Any]:
        """The toolkits, each with those below it as `children`.

        A toolkit of an organisation may have a parent of the platform: then it stands at the top, and
        `parent` names it.
        """
        registry, org = access.own_rows(request, org)
        return {"categories": _forest(registry.toolkits.list(org))}

    @router.get("/categories/for-page/{page:path}")
    def list_for_page(request: Request, page: str, org: str | None = None) -> dict[str, Any]:
        """The toolkits of a page, and the platform's and the organisation's mappings that say so."""
        registry, org = access.reader(request, org)
        mappings = registry.pages.for_page(page, org)
        names = dict.fromkeys(name for mapping in mappings for name in mapping.toolkits)
        return {
            "page": page,
            "categories": list(names),
            "mappings": [
                {
                    "pattern": mapping.pattern,
                    "categories": mapping.toolkits,
                    "priority": mapping.priority,
                    "org": mapping.org,
                }
                for mapping in mappings
            ],
        }

    @router.get("/page-mappings")
    def list_mappings(
        request: Request,
        org: str | None = None,
        page: str | None = None,
        category: str | None = None,
        plugin: str | None = None,
        after: str = "",
        limit: int = Query(100, ge=1, le=1_000),
    ) -> dict[str, Any]:
        """A page of the mappings that meet all conditions, highest priority first.

        page: only those that match it. category: only those that name it.
        """
        registry, org = access.own_rows(request, org)
        found = [
            record
            for record in registry.pages.list(org)
            if (page is None or matches(record.mapping.pattern, page))
            and (category is None or category in record.mapping.toolkits)
            and plugin in (None, record.plugin)
        ]
        return page_of("page_mappings", found, lambda record: record.page_id, _form, after, limit)

    @router.post("/page-mappings", status_code=201)
    def create_mapping(
        request: Request, body: PageMappingBody, org: str | None = None, reason: str = ""
    ) -> Response:
        """Adds a mapping."""
        registry, org = access.editor(request, org)
        record = registry.pages.add(body.mapping(org), reason=reason)
        return with_etag(_form(record), record.version, 201)

    @router.put("/page-mappings/{id}", **CONDITIONAL)
    def update_mapping(
        request: Request,
        id: str,
        body: Annotated[dict[str, Any], FromBody(examples=[{"categories": ["crm", "mail"]}])],
        org: str | None = None,
        reason: str = "",
    ) -> Response:
        """Changes `pattern`, `categories` or `priority` of a mapping. Needs If-Match."""
        registry, org = access.editor(request, org)
        changes = {
            "toolkits" if name == "categories" else name: value
            for name, value in without("page_id", body).items()
        }
        record = changed(
            request,
            lambda: _of_org(registry, id, org).version,
            lambda version: registry.pages.update(id, changes, org=org, version=version, reason=reason),
        )
        return with_etag(_form(record), record.version)

    @router.delete("/page-mappings/{id}", status_code=204, response_class=Response, **CONDITIONAL)
    def delete_mapping(request: Request, id: str, org: str | None = None, reason: str = "") -> None:
        """Deletes a mapping. Needs If-Match."""
        registry, org = access.editor(request, org)
        changed(
            request,
            lambda: _of_org(registry, id, org).version,
            lambda version: registry.pages.delete(id, org=org, version=version, reason=reason),
        )

    return router


def _of_org(registry: Registry, page_id: str, org: str) -> PageRecord:
    """The mapping. Raises NotFound if it is of another organisation."""
    record = registry.pages.get(page_id)
    if record.mapping.org != org:
        raise NotFound(f"page mapping {page_id!r:.80}: is not known")
    return record


def _form(record: PageRecord) -> dict[str, Any]:
    fields = record.to_dict()
    toolkits = fields.pop("toolkits")
    return {**fields, "categories": toolkits}


def _forest(records: Sequence[ToolkitRecord]) -> list[dict[str, Any]]:
    """The toolkits as a forest. A toolkit without a known parent is a root."""
    forms = {record.name: {**record.to_dict(), "children": []} for record in records}
    roots = []
    for record in records:
        form, parent = forms[record.name], record.toolkit.parent
        if parent is None or parent not in forms:
            roots.append(form)
        else:
            forms[parent]["children"].append(form)
    return roots
