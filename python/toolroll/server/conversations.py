"""`/sessions/{session}/…`: conversations, which keep their tools from turn to turn (`docs/sessions.md`)."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from pydantic import Field

from toolroll import Toolroll
from toolroll.model.errors import Denied
from toolroll.model.tools import Tool
from toolroll.server.bodies import (
    Body,
    CheckAnswer,
    ContextBody,
    ConversationAnswer,
    FoundAnswer,
    FoundTool,
    IdleAnswer,
    LoadingAnswer,
    MessageBody,
    Provider,
    SelectionAnswer,
    Texts,
    UsedAnswer,
)
from toolroll.server.callers import Caller, Identify, caller_of
from toolroll.server.outcomes import CalledBody, called_of
from toolroll.server.problems import ProblemRoute
from toolroll.server.selections import selection_json
from toolroll.sessions.replies import Answer
from toolroll.sessions.session import Session


class TurnBody(MessageBody):
    """A message of the conversation; the fields are arguments of `Session.select`."""

    turn: int | None = None


class TurnContextBody(Body):
    """The caller of a conversation."""

    context: ContextBody = ContextBody()


class CheckBody(TurnContextBody):
    """A tool that the model calls."""

    name: str = Field(examples=["get_forecast"])


class UsedBody(TurnContextBody):
    """The tools that the model called, and whether they worked."""

    called: CalledBody = Field(examples=[{"get_forecast": {"succeeded": True, "duration_ms": 84.0}}])


class SearchBody(TurnContextBody):
    """The queries of a search for tools."""

    queries: Texts = Field(examples=[["send a mail"]])
    k: int = 5


class NamesBody(TurnContextBody):
    """Names of tools or toolkits."""

    names: Texts = Field(examples=[["send_mail"]])


def session_router(roll: Toolroll, identify: Identify = caller_of) -> APIRouter:
    """`/sessions/{session}/…`. identify: finds the caller of a request."""
    router = APIRouter(tags=["sessions"], route_class=ProblemRoute, prefix="/sessions/{session}")

    async def opened(request: Request, session: str, context: ContextBody, role: str = "select") -> Session:
        caller: Caller = identify(request)
        caller.require(role)
        return await roll.asession(session, context.context(caller), reporter=caller.reporter_of(None))

    @router.post("/select", responses={200: {"model": SelectionAnswer}})
    async def select(
        request: Request, session: str, body: TurnBody, schemas: Provider | None = None, receipt: bool = False
    ) -> Response:
        """Begins a turn and selects its tools, or goes on with the turn if the message is the same.

        schemas, receipt: as for `/select`.
        """
        talk = await opened(request, session, body.context)
        selection = await talk.aselect(**body.arguments())
        signed = await roll.areceipt(selection) if receipt else None
        return Response(selection_json(selection, schemas, signed), media_type="application/json")

    @router.post("/check")
    async def check(request: Request, session: str, body: CheckBody) -> CheckAnswer:
        """Says whether the model may call the tool: it was offered, and the newest policy allows it.

        `name` is the tool's own name, where the model was sent another one.
        """
        talk = await opened(request, session, body.context)
        try:
            tool = await talk.acheck(body.name)
        except Denied as error:
            return CheckAnswer(allowed=False, name=body.name, reason=str(error))
        return CheckAnswer(allowed=True, name=tool.name, reason="")

    @router.post("/used")
    async def used(request: Request, session: str, body: UsedBody) -> UsedAnswer:
        """Reports the tools that the model called in this turn. `refused` were not offered to it."""
        talk = await opened(request, session, body.context, "report")
        return UsedAnswer(refused=list(await talk.aused(called_of(body.called))))

    @router.post("/end-turn")
    async def end_turn(request: Request, session: str, body: TurnContextBody) -> IdleAnswer:
        """Closes the turn. `idle` are loaded tools that lose their place with the next one."""
        talk = await opened(request, session, body.context, "report")
        return IdleAnswer(idle=list(await talk.aend_turn()))

    @router.post("/search")
    async def search(request: Request, session: str, body: SearchBody) -> FoundAnswer:
        """Searches all tools of the caller. The model may call the tools that it finds."""
        talk = await opened(request, session, body.context)
        found = await talk.asearch(*body.queries, k=body.k)
        return FoundAnswer(tools=list(map(_found_tool, found)))

    @router.post("/load")
    async def load(request: Request, session: str, body: NamesBody) -> LoadingAnswer:
        """Loads tools by name; a toolkit's name loads its tools. `text` is for the model."""
        talk = await opened(request, session, body.context)
        return _loading_answer(await talk.aload(body.names))

    @router.post("/unload")
    async def unload(request: Request, session: str, body: NamesBody) -> LoadingAnswer:
        """Takes tools out of the conversation. `text` is for the model."""
        talk = await opened(request, session, body.context)
        return _loading_answer(await talk.aunload(body.names))

    @router.get("")
    async def read(request: Request, session: str, org: str = "") -> ConversationAnswer:
        """The conversation's turn, and the tools that it has loaded."""
        talk = await opened(request, session, ContextBody(org=org))
        return ConversationAnswer(turn=talk.turn, is_open=talk.is_open, loaded=list(talk.loaded))

    @router.delete("", status_code=204, response_class=Response)
    async def delete(request: Request, session: str, org: str = "") -> None:
        """Deletes the state of the conversation."""
        await (await opened(request, session, ContextBody(org=org))).adelete()

    return router


def _found_tool(tool: Tool) -> FoundTool:
    parameters = None if tool.parameters is None else dict(tool.parameters)
    return FoundTool(name=tool.name, description=tool.description, parameters=parameters)


def _loading_answer(answer: Answer) -> LoadingAnswer:
    return LoadingAnswer(
        text=answer.text,
        tools=[tool.name for tool in answer.tools],
        unknown=list(answer.unknown),
        is_error=answer.is_error,
    )
