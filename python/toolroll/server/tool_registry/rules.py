"""`/visibility-rules`: who sees which tool, and who would under a rule that is not saved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request, Response
from pydantic import ConfigDict, FailFast, Field
from pydantic.config import JsonDict

from toolroll import Context, NotFound, Registry, Toolroll
from toolroll.model.errors import InvalidInput
from toolroll.model.rules import Effect, Kind, Rule
from toolroll.registry.editing.rules import RuleRecord, kind_of
from toolroll.selection.policy.sample_contexts import sample_contexts
from toolroll.server import bodies
from toolroll.server.callers import Caller
from toolroll.server.problems import ProblemRoute
from toolroll.server.tool_registry.access import RegistryAccess, prepare
from toolroll.server.tool_registry.rows import CONDITIONAL, changed, page_of, with_etag

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
        """Converts it to a `Rule`. Without a kind, the condition determines it."""
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

        inactive: includes rules that are not in force.
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


class RulePreviewBody(bodies.Body):
    """A rule to try out, and the contexts to compare."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"rule": NEW_RULE}]})

    rule: RuleBody | None = Field(None, description="To add; null to try out the deletion of `replaces`.")
    replaces: str = Field("", description="Name or rule_id of the rule in whose place it is.")
    contexts: Annotated[tuple[bodies.ContextBody, ...], FailFast()] = Field(
        (), max_length=100, description="Whom to compare; without any, contexts that the rules tell apart."
    )


class WhyBody(bodies.Body):
    """A tool and a caller."""

    name: str = Field(examples=["crm_export"])
    context: bodies.ContextBody = bodies.ContextBody()


def what_if_router(roll: Toolroll, access: RegistryAccess) -> APIRouter:
    """`/visibility-rules/preview` and `/why`."""
    router = APIRouter(tags=["visibility rules"], route_class=ProblemRoute)

    @router.post("/visibility-rules/preview")
    def preview_rule(
        request: Request,
        body: RulePreviewBody,
        org: str | None = None,
        most: int = Query(200, ge=1, le=10_000),
    ) -> dict[str, Any]:
        """Which tools each context would gain or lose by a rule. Saves nothing.

        `gains` and `loses` have at most so many names each. Rules decide as in the service's present catalog,
        which follows the registry within a second.
        """
        caller = access.identify(request)
        registry, org = access.reader(request, org)
        tried = RuleTrial.of(registry, body.rule, body.replaces, org)
        contexts = _contexts(registry, caller, body, tried.new, org)
        prepare(roll, {context.org for context in contexts})
        changed = roll.what_if(
            tried.active, without_rules=tried.without, orgs={context.org for context in contexts}
        )
        found = []
        for context in contexts:
            before, after = roll.visible(context), changed.visible(context)
            gains, loses = (
                [*_difference(one.names, other.names)] for one, other in ((after, before), (before, after))
            )
            found.append(
                {
                    "context": _form(context),
                    "before": len(before),
                    "after": len(after),
                    "gained": len(gains),
                    "lost": len(loses),
                    "gains": gains[:most],
                    "loses": loses[:most],
                }
            )
        return {"contexts": found}

    @router.post("/why")
    def explain(request: Request, body: WhyBody) -> dict[str, Any]:
        """Says whether a context may see a tool, and the rule, status or setting that decides it.

        A caller who is bound to an organisation gets no reason of the platform: such a tool is not found.
        """
        caller = access.identify(request)
        caller.require("read")
        context = body.context.context(caller)
        absent = NotFound(f"tool {body.name!r:.80}: is not in the catalog")
        prepare(roll, (context.org,))
        try:
            verdict = roll.why(body.name, context)
        except NotFound as error:
            raise absent from error
        if caller.org is not None and not verdict.visible and verdict.level != "organisation":
            raise absent
        rule = verdict.rule
        is_shown = rule is not None and (caller.org is None or rule.org == caller.org)
        return {
            "name": body.name,
            "visible": verdict.visible,
            "level": verdict.level,
            "reason": verdict.reason if caller.org is None or is_shown or rule is None else "",
            "rule": {"name": rule.name, "org": rule.org} if rule is not None and is_shown else None,
        }

    return router


@dataclass(frozen=True, slots=True)
class RuleTrial:
    """A rule to try out, in place of one that there is.

    Attributes:
        new: the rule; empty to try a deletion.
        active: the rule if it is in force, else empty.
        without: organisation and name of the rules that do not apply in the trial.
    """

    new: tuple[Rule, ...]
    active: tuple[Rule, ...]
    without: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, registry: Registry, body: RuleBody | None, replaces: str, org: str) -> RuleTrial:
        """Checks the rule as if it were saved. replaces: name or rule_id of a rule; "" for none.

        Raises:
            InvalidDefinition: the rule makes no sense.
            NotFound: there is no rule to replace.
        """
        replaced = (rule_of_id(registry, replaces, org),) if replaces else ()
        new = () if body is None else (body.rule(org),)
        for rule in new:
            registry.rules.check(rule)
        is_active = body is not None and body.active
        names = (*(record.name for record in replaced), *(rule.name for rule in new))
        return cls(new, new if is_active else (), tuple((org, name) for name in names))


def _contexts(
    registry: Registry, caller: Caller, body: RulePreviewBody, rules: Sequence[Rule], org: str
) -> Sequence[Context]:
    if body.contexts:
        return [each.context(caller) for each in body.contexts]
    return sample_contexts([*rules, *_active(registry.rules.list(org))], registry.tiers(), org)


def _active(records: Iterable[RuleRecord]) -> Iterable[Rule]:
    return (record.rule for record in records if record.active)


def _difference(names: Sequence[str], other: Sequence[str]) -> Iterable[str]:
    known = frozenset(other)
    return (name for name in names if name not in known)


def _form(context: Context) -> dict[str, Any]:
    return {
        "org": context.org,
        "user": context.user,
        "roles": list(context.roles),
        "tier": context.tier,
        "page": context.page,
    }
