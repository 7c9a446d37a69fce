"""`/visibility-rules/preview` and `/why`: who sees what, and who would under a rule that nobody has saved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import ConfigDict, FailFast, Field

from toolroll import Context, NotFound, Toolroll
from toolroll.model.rules import Rule
from toolroll.registry.editing.rules import RuleRecord
from toolroll.registry.registry import Registry
from toolroll.selection.policy.sample_contexts import sample_contexts
from toolroll.server.bodies import Body, ContextBody
from toolroll.server.callers import Caller
from toolroll.server.problems import ProblemRoute
from toolroll.server.tool_registry.access import RegistryAccess, prepare
from toolroll.server.tool_registry.rules import NEW_RULE, RuleBody, rule_of_id


class RulePreviewBody(Body):
    """A rule to try out, and for whom."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"rule": NEW_RULE}]})

    rule: RuleBody | None = Field(None, description="To add; null to try out the deletion of `replaces`.")
    replaces: str = Field("", description="Name or rule_id of the rule in whose place it is.")
    contexts: Annotated[tuple[ContextBody, ...], FailFast()] = Field(
        (), max_length=100, description="Whom to compare; without any, contexts that the rules tell apart."
    )


class WhyBody(Body):
    """A tool and a caller."""

    name: str = Field(examples=["crm_export"])
    context: ContextBody = ContextBody()


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
        tried = TriedRules.of(registry, body.rule, body.replaces, org)
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
        """Whether a context may see a tool, and the rule, status or setting that decides it.

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
class TriedRules:
    """A rule to try out, in place of one that there is.

    Attributes:
        new: the rule; none where one is tried without.
        active: it, if it is in force.
        without: organisation and name of the rules that are not in force meanwhile.
    """

    new: tuple[Rule, ...]
    active: tuple[Rule, ...]
    without: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, registry: Registry, body: RuleBody | None, replaces: str, org: str) -> TriedRules:
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
