"""`/test-selection`, `/events` and `/embeddings`: trial selections, logged ones, and missing vectors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from toolroll import Context, NotFound, Tool, Toolroll
from toolroll.model.embedder import Embedder
from toolroll.model.errors import ToolrollError
from toolroll.registry.analytics.event_view import list_events
from toolroll.registry.editing.vectors import StoredEmbedder, embed_missing, embedding_state, stored_texts
from toolroll.registry.events.replay import replay
from toolroll.registry.store.database import Database
from toolroll.roll import WhatIf
from toolroll.runtime.threads import CallPool
from toolroll.selection import profiles
from toolroll.selection.explanation import Account
from toolroll.selection.pipeline_builder import PipelineBuilder
from toolroll.server.bodies import FEW_MEMBERS, Body, JsonAnswer
from toolroll.server.problems import ProblemRoute
from toolroll.server.selections import SelectBody
from toolroll.server.tool_registry.access import RegistryAccess, prepare
from toolroll.server.tool_registry.rules import RuleBody, RuleTrial


class ToolTextsBody(Body):
    """Other texts of a tool. What is left out stays."""

    name: str = Field(examples=["get_forecast"])
    description: str | None = None
    summary: str | None = None
    when_to_use: str | None = None
    limitations: str | None = None
    tags: Annotated[tuple[str, ...] | None, FEW_MEMBERS] = None
    examples: Annotated[tuple[str, ...] | None, FEW_MEMBERS] = None

    def changed(self, tool: Tool) -> Tool:
        """The tool with these texts. Raises InvalidDefinition."""
        return replace(tool, **self.model_dump(exclude_none=True, exclude={"name"}))


class WhatIfBody(Body):
    """Changes to try out: a rule, the texts of a tool, or both."""

    rule: RuleBody | None = Field(None, description="In force beside the others; null without one.")
    replaces: str = Field("", description="Name or rule_id of the rule that is not in force meanwhile.")
    tool: ToolTextsBody | None = None


class TrialBody(SelectBody):
    """A message and its limits, and what shall be different from now."""

    what_if: WhatIfBody | None = None

    def arguments(self) -> dict[str, Any]:
        """Without the changes."""
        arguments = super().arguments()
        del arguments["what_if"]
        return arguments


def trial_router(roll: Toolroll, access: RegistryAccess) -> APIRouter:
    """`/test-selection`."""
    router = APIRouter(tags=["operations"], route_class=ProblemRoute)

    @router.post("/test-selection", response_model=dict[str, Any])
    def try_selection(
        request: Request,
        body: TrialBody,
        org: str | None = None,
        most: int = Query(10_000, ge=1, le=100_000),
        profile: str | None = None,
    ) -> Response:
        """Tries a selection without logging it, and says why each tool is in or out.

        `tools` has the selected tools in their order, then the others by name, then those that a rule or
        their status hides from this context; at most so many. A caller who is bound to an organisation does
        not get the hidden ones. `stages` has each step, with the number of tools in play after it, and
        `scores` of a tool its score after each of them: null where it is not in play. With `what_if`, it is
        what `/select` would select if a rule or the texts of a tool were others.

        org: whose rule is tried. profile: decides in place of the service's own.
        """
        caller = access.identify(request)
        caller.require("read")
        context = body.context.context(caller)
        prepare(roll, {context.org, *(() if org is None else (caller.org_of(org),))})
        present: Toolroll | WhatIf = roll
        if body.what_if is not None:
            present = _with_changes(roll, access, request, body, context, org)
        selection = present.preview(context=context, profile=profile, **body.arguments())
        found, hidden = selection.accounts(), tuple[Account, ...]()
        if caller.org is None:
            names = {one.name for one in found}
            hidden = tuple(one for one in selection.accounts(known=False) if one.name not in names)
        fields = selection.to_dict()
        del fields["event_id"]
        is_known = caller.org is not None
        listed = [*found, *hidden][:most]
        scores = selection.scores([one.name for one in listed], known=is_known)
        reasons = (
            one.reasons if at < len(found) else _why(present, one, context) for at, one in enumerate(listed)
        )
        answer = {
            **fields,
            "names": selection.names,
            "stages": [asdict(step) for step in selection.steps(known=is_known)],
            "tools": [tool_form(*each) for each in zip(listed, reasons, scores, strict=True)],
        }
        return JsonAnswer(answer)  # JSON already: FastAPI need not look at each value

    return router


def _with_changes(
    roll: Toolroll,
    access: RegistryAccess,
    request: Request,
    body: TrialBody,
    context: Context,
    org: str | None,
) -> WhatIf:
    """The Toolroll with the changes of the body applied.

    Raises:
        InvalidDefinition: the rule or a text makes no sense.
        NotFound: there is no such tool for this context, or no such rule.
    """
    changes = body.what_if
    assert changes is not None
    registry, owner = access.reader(request, org)
    tried = RuleTrial.of(registry, changes.rule, changes.replaces, owner)
    tools = []
    if changes.tool is not None:
        catalog = roll.preview("", context).catalog
        row = catalog.names.get(changes.tool.name)
        is_bound = access.identify(request).org is not None
        if row is None or (is_bound and not roll.may(changes.tool.name, context)):
            raise NotFound(f"tool {changes.tool.name!r:.80}: is not in the catalog")
        tools.append(changes.tool.changed(catalog.tools[row]))
    return roll.what_if(tried.active, without_rules=tried.without, tools=tools, orgs={context.org, owner})


def _why(roll: Toolroll | WhatIf, one: Account, context: Context) -> Iterable[str]:
    """The reason why the tool is hidden, with the name of the rule."""
    try:
        return (roll.why(one.name, context).reason,)
    except NotFound:  # the catalog has changed since the selection
        return one.reasons


def tool_form(one: Account, reasons: Iterable[str], scores: Sequence[float | None]) -> dict[str, Any]:
    """A tool of a selection, for JSON. scores: after each step; None where it is not in play."""
    return {
        "name": one.name,
        "toolkit": one.toolkit,
        "selected": one.selected,
        "score": round(one.score, 6),
        "reasons": list(reasons),
        "scores": [None if score is None else round(score, 4) for score in scores],
    }


def past_selection_router(access: RegistryAccess, embedder: Embedder | None) -> APIRouter:
    """`/events` and `/events/{id}/replay`. embedder: of the service."""
    router = APIRouter(tags=["operations"], route_class=ProblemRoute)
    builder_of = _builders(access, embedder)

    @router.get("/events")
    def list_selections(
        request: Request,
        org: str | None = None,
        outcome: str | None = None,
        tool: str | None = None,
        limit: int = Query(20, ge=1, le=1_000),
    ) -> dict[str, Any]:
        """Logged selections, newest first, without the users' text.

        outcome: only those with this outcome. tool: only those in which this tool was called. Without `org`,
        a caller of any organisation gets the selections of all.
        """
        window = access.window(request, org)
        found = list_events(access.reports, window, outcome=outcome, tool=tool, limit=limit)
        return {"events": found}

    @router.post("/events/{id}/replay")
    def replay_selection(
        request: Request,
        id: str,
        org: str | None = None,
        profile: str = "",
        most: int = Query(1_000, ge=1, le=100_000),
    ) -> dict[str, Any]:
        """Decides a logged selection again, with the tools, rules and statistics of its time. Writes nothing.

        `same` says whether the result equals the logged selection; else `missing` has what is no longer
        available, and `differences` what differs. `tools` has the reasons of at most so many tools, without
        those that a rule hid. It takes a message that was kept. profile: decides in place of the logged one.
        """
        owner, is_bound = access.window(request, org).org, access.identify(request).org is not None
        found = replay(access.database, id, builder_of, org=owner, profile=profile)
        selection = found.selection
        accounts = () if selection is None else selection.accounts()[:most]
        scores = () if selection is None else selection.scores([one.name for one in accounts], known=is_bound)
        return {
            **found.to_dict(),
            "stages": [] if selection is None else [asdict(step) for step in selection.steps(known=is_bound)],
            "tools": [tool_form(one, one.reasons, each) for one, each in zip(accounts, scores, strict=True)],
        }

    return router


def _builders(access: RegistryAccess, embedder: Embedder | None) -> Callable[[str], PipelineBuilder]:
    def builder(name: str) -> PipelineBuilder:
        made = embedder
        if made is not None and not made.is_instant:
            made = StoredEmbedder(made, access.database)
        return PipelineBuilder(made, profiles.profile(name or "default"))

    return builder


_log = logging.getLogger("toolroll")


@dataclass(eq=False)
class _Run:
    """Embeds missing texts, one run at a time. It stores each batch, so a run may be interrupted."""

    database: Database
    embedder: Embedder
    _pool: CallPool = field(default_factory=lambda: CallPool(1, "toolroll-embed"))
    _task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Starts it, unless it runs."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            await self._pool.arun(
                lambda: embed_missing(self.database, self.embedder, stored_texts(self.database))
            )
        except ToolrollError as error:
            _log.warning("embeddings cannot be computed: %s", error)


def embedding_router(access: RegistryAccess, embedder: Embedder | None) -> APIRouter:
    """`/embeddings/recompute`. embedder: of the service."""
    router = APIRouter(tags=["operations"], route_class=ProblemRoute, prefix="/embeddings")
    run = None
    if embedder is not None and not embedder.is_instant:
        run = _Run(access.database, embedder)
    reading = CallPool(2, "toolroll-embed-state")

    @router.post("/recompute", status_code=202)
    async def recompute(request: Request) -> dict[str, Any]:
        """Begins to embed the texts of all organisations that have no vector of the service's embedder.

        The answer has the numbers at the beginning. An embedder that works within the process stores no
        vectors: there is nothing to do (`stored` is false). Needs a key of any organisation.
        """
        caller = access.identify(request)
        caller.require("administer")
        caller.require_any_org()
        if run is None:
            return {"embedder": embedder.identity if embedder else "none", "stored": False}
        identity = run.embedder.identity
        state = await reading.arun(
            lambda: embedding_state(access.database, identity, stored_texts(access.database))
        )
        run.start()
        return {"embedder": identity, "stored": True, **state.to_dict()}

    return router
