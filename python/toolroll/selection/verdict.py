"""Why a tool is visible or not. This code is independent of the sets that decide it."""

from __future__ import annotations

from dataclasses import replace

from toolroll.catalog.catalog import Catalog
from toolroll.model.context import Context, Turn
from toolroll.model.errors import Failure, NotFound, quoted
from toolroll.model.tools import Tool
from toolroll.selection.listed_visibility import ListedVisibility
from toolroll.selection.pipeline import Pipeline
from toolroll.selection.policy.policy import NOT_NAMED
from toolroll.selection.policy.policy import Verdict as Verdict
from toolroll.selection.stages.visibility import Visibility


def judge(
    pipeline: Pipeline, name: str, context: Context, stored: frozenset[str], expired: Failure | None = None
) -> Verdict:
    """The decision of the hard stages about one tool; the first reason counts.

    expired: the failure of a policy that is too old; see `Snapshot`.

    Raises:
        NotFound: no tool of that name in the catalog.
    """
    catalog = pipeline.catalog
    if name not in catalog.names:
        raise NotFound(
            f"tool {quoted(name)}: is not in the catalog; in a registry it may be deleted or wait for review "
            "(`toolroll registry show NAME --catalog URL`)"
        )
    row = catalog.names[name]
    tool = catalog.tools[row]
    verdict = Verdict(True, None, "", NOT_NAMED)
    for stage in pipeline.hard:
        if isinstance(stage, ListedVisibility):
            verdict, is_settled = _judge_listed(stage, row, name, context, stored, expired)
            if is_settled or not verdict.visible:
                return verdict
        elif isinstance(stage, Visibility):
            if stage.policy is not None:
                verdict = stage.policy.why(name, context)
            if verdict.visible and (closed := stage.closes(row, context.org)) is not None:
                reason = f"it is not public, and its organisation's policy is not whole: {closed}"
                return Verdict(False, None, "", reason)
    if not verdict.visible:
        return verdict
    if expired is not None and row in catalog.not_public:
        return Verdict(False, None, "", f"it is not public, and {expired.error}")
    if tool.status != "active":
        return Verdict(False, None, "", f"its status is {tool.status!r}, must be 'active'")
    if name in context.exclude:
        return Verdict(False, None, "", "the caller excludes it")
    if context.only and name not in context.only:
        return Verdict(False, None, "", "the caller asks for others only (only)")
    if not context.everything:
        turn = Turn("", context, stored=stored)
        off = catalog.switches.off(turn)
        if off is not None and row in off:
            return Verdict(False, None, "", _lacking(catalog, tool, turn))
    return verdict


def _judge_listed(
    stage: ListedVisibility,
    row: int,
    name: str,
    context: Context,
    stored: frozenset[str],
    expired: Failure | None,
) -> tuple[Verdict, bool]:
    """The registry's verdict on a tool that came with a request, and whether it is final."""
    org = context.org
    pipeline, registered, is_settled = stage.registered(row, org)
    if stage.is_held(row, org):
        reason = "the registry has it in no catalog: it waits for review, or cannot be read"
        return Verdict(False, None, "", reason), True
    for other in registered:
        verdict = judge(pipeline, other, context, stored, expired)
        if is_settled:
            return verdict, True
        if not verdict.visible:
            reason = f"it may be taken for {quoted(other)} of the registry: {verdict.reason}"
            return replace(verdict, reason=reason), False
    if stage.registry.is_coming(org):
        return Verdict(False, None, "", "the tools of its organisation are not read yet"), False
    if expired is not None:
        return Verdict(False, None, "", f"it is not public, and {expired.error}"), False
    assert stage.rules.policy is not None
    verdict = stage.rules.policy.why(name, context)
    if verdict.visible and (closed := stage.rules.closes(row, org)) is not None:
        reason = f"it is not public, and its organisation's policy is not whole: {closed}"
        return Verdict(False, None, "", reason), False
    return verdict, False


def _lacking(catalog: Catalog, tool: Tool, turn: Turn) -> str:
    """A sentence that names the toolkit, the tool's own or the nearest above, and its missing settings."""
    present = turn.present(catalog.switches.keys)
    name: str | None = tool.toolkit
    while name:
        toolkit = catalog.toolkits[name]
        if toolkit.settings_keys and not present.intersection(toolkit.settings_keys):
            keys = " or ".join(map(repr, toolkit.settings_keys))
            return f"toolkit {name!r} lacks its settings: there is no value for {keys}"
        name = toolkit.parent
    raise AssertionError("a tool that is off is below a toolkit without its settings")
