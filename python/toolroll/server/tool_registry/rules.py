"""`/visibility-rules`: who sees which tool."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request, Response
from pydantic import ConfigDict
from pydantic.config import JsonDict

from toolroll import Registry
from toolroll.model.errors import InvalidInput
from toolroll.model.rules import Effect, Kind, Rule
from toolroll.registry.editing.rules import RuleRecord, kind_of
from toolroll.server import bodies
from toolroll.server.problems import ProblemRoute
from toolroll.server.tool_registry.access import RegistryAccess
from toolroll.server.tool_registry.paging import page_of
from toolroll.server.tool_registry.preconditions import CONDITIONAL, changed, with_etag

NEW_RULE: JsonDict = {
    "name": "interns do not export",
    "effect": "deny",
    "condition": {"role": "intern"},
    "tool": "crm_export",
    "priority": 10,
}


class RuleBody(bodies.Body):
    """A rule; the fields are those of `Rule`."""

    model_config = ConfigDict(json_schema_extra={"examples": [NEW_RULE]})

    name: str
    effect: Effect
    condition: dict[str, Any]
    kind: Kind | None = None
    tool: str = ""
    toolkit: str = ""
    priority: int = 0
    active: bool = True

    def rule(self, org: str) -> Rule:
        """The same as a value of toolroll. The kind is that of the condition, if it is not given."""
        kind = kind_of(self.condition) if self.kind is None else self.kind
        return Rule(self.name, self.effect, kind, self.condition, self.tool, self.toolkit, self.priority, org)


def rule_router(access: RegistryAccess) -> APIRouter:
    """`/visibility-rules` and `/visibility-rules/{id}`. An id is a name or rule_id."""
    router = APIRouter(tags=["visibility rules"], route_class=ProblemRoute, prefix="/visibility-rules")

    @router.get("")
    def list_rules(
        request: Request,
        org: str | None = None,
        inactive: bool = False,
        effect: Effect | None = None,
        tool: str | None = None,
        toolkit: str | None = None,
        after: str = "",
        limit: int = Query(100, ge=1, le=1_000),
    ) -> dict[str, Any]:
        """A page of the rules in force that meet all conditions, in the order in which they decide.

        inactive: rules that are not in force, too.
        """
        registry, org = access.own_rows(request, org)
        found = [
            record
            for record in registry.rules.list(org)
            if (record.active or inactive)
            and effect in (None, record.rule.effect)
            and tool in (None, record.rule.tool)
            and toolkit in (None, record.rule.toolkit)
        ]
        return page_of("visibility_rules", found, _id, RuleRecord.to_dict, after, limit)

    @router.post("", status_code=201)
    def create_rule(request: Request, body: RuleBody, org: str | None = None, reason: str = "") -> Response:
        """Adds a rule."""
        registry, org = access.editor(request, org)
        record = registry.rules.add(body.rule(org), active=body.active, reason=reason)
        return with_etag(record.to_dict(), record.version, 201)

    @router.put("/{id}", **CONDITIONAL)
    def update_rule(
        request: Request,
        id: str,
        body: Annotated[dict[str, Any], Body(examples=[{"priority": 20}])],
        org: str | None = None,
        reason: str = "",
    ) -> Response:
        """Changes the fields in the body; others stay. Needs If-Match.

        `active` goes in a request of its own.
        """
        registry, org = access.editor(request, org)
        name = rule_of_id(registry, id, org).name

        def update(version: int) -> RuleRecord:
            if "active" not in body:
                return registry.rules.update(name, body, org=org, version=version, reason=reason)
            if set(body) != {"active"} or type(body["active"]) is not bool:
                raise InvalidInput("active must be true or false, and go in a request of its own")
            switch = registry.rules.enable if body["active"] else registry.rules.disable
            return switch(name, org=org, version=version, reason=reason)

        record = changed(request, lambda: rule_of_id(registry, id, org).version, update)
        return with_etag(record.to_dict(), record.version)

    @router.delete("/{id}", status_code=204, response_class=Response, **CONDITIONAL)
    def delete_rule(request: Request, id: str, org: str | None = None, reason: str = "") -> None:
        """Deletes a rule. Needs If-Match."""
        registry, org = access.editor(request, org)
        name = rule_of_id(registry, id, org).name
        changed(
            request,
            lambda: rule_of_id(registry, id, org).version,
            lambda version: registry.rules.delete(name, org=org, version=version, reason=reason),
        )

    return router


def rule_of_id(registry: Registry, id: str, org: str) -> RuleRecord:
    """The rule with this rule_id, else with this name. Raises NotFound."""
    try:
        return next(record for record in registry.rules.list(org) if _id(record) == id)
    except StopIteration:
        return registry.rules.get(id, org)


def _id(record: RuleRecord) -> str:
    return record.rule.rule_id
