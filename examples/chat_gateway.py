"""A chat gateway: a FastAPI application that selects tools, runs them and learns, in one or more workers.

    TOOLS_URL=sqlite:///tools.db MODEL_URL=https://api.openai.com/v1 MODEL_KEY=sk-… \
        uvicorn chat_gateway:app --workers 2

    curl localhost:8000/chat -H 'content-type: application/json' \
        -d '{"user": "ann", "conversation": "c-42", "messages": [{"role": "user", "content": "…"}]}'

The client keeps the messages and sends them all; the conversation's list of tools and the outcomes are in the
registry, which the workers share. So any worker can answer any message. `run_tool` is where your tools run.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import urllib3
from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel

from toolroll import Context, Denied, InvalidInput, Toolroll
from toolroll.formats import repair
from toolroll.sessions.session import Session

MOST_STEPS = 8  # replies of the model in one turn


class Chat(BaseModel):
    """A message of the user, behind those before it, in the form of OpenAI's chat completions."""

    user: str
    conversation: str
    messages: list[dict[str, Any]]


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """One `Toolroll` for each worker: it follows the registry and writes what is learnt."""
    with Toolroll.open(os.environ["TOOLS_URL"]) as roll:
        app.state.roll, app.state.http = roll, urllib3.PoolManager(maxsize=40)
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/chat")
def chat(chat: Chat, request: Request) -> dict[str, Any]:
    """One turn. FastAPI calls a function without `async` in a thread, so waiting stops nobody else."""
    state = request.app.state
    if not chat.messages or chat.messages[-1].get("role") != "user":
        raise HTTPException(422, "messages: the last one must be the user's")
    # The name of a conversation belongs to its user: nobody else can go on with it.
    session = state.roll.session(f"{chat.user}/{chat.conversation}", Context(user=chat.user))
    picked = session.select(str(chat.messages[-1]["content"]), max_tools=12, history=chat.messages[:-1])
    messages, new = list(chat.messages), len(chat.messages)
    for _ in range(MOST_STEPS):
        delivery = session.deliver("openai", "replace")
        reply = ask(state.http, {"messages": messages, **delivery.request})
        messages.append(reply)
        calls = reply.get("tool_calls") or ()
        if not calls:
            break
        messages += [answered(session, call) for call in calls]
    session.end_turn()
    return {"messages": messages[new:], "event": picked.event_id, "worker": os.getpid()}


def answered(session: Session, call: dict[str, Any]) -> dict[str, Any]:
    """The message that answers a call: its result, or why it was not run."""
    name, given = call["function"]["name"], call["function"]["arguments"]
    try:
        tool = session.check(name)
        arguments = repair.repair(given, tool.parameters).arguments
    except (Denied, InvalidInput) as error:  # not offered, or not readable: the model is told
        return {"role": "tool", "tool_call_id": call["id"], "content": str(error)}
    try:
        text, worked = run_tool(tool.name, arguments), True
    except Exception as error:
        text, worked = f"The tool failed: {error}", False
    session.used([(tool.name, worked)])
    return {"role": "tool", "tool_call_id": call["id"], "content": text}


def run_tool(name: str, arguments: Any) -> str:
    """Runs a tool; an exception is a failure. This one only says what it would do."""
    return f"{name}({json.dumps(arguments)}) is done"


def ask(http: urllib3.PoolManager, body: dict[str, Any]) -> dict[str, Any]:
    """The model's reply."""
    reply = http.request(
        "POST",
        f"{os.environ['MODEL_URL']}/chat/completions",
        json={"model": os.environ.get("MODEL", "gpt-5.4"), **body},
        headers={"authorization": f"Bearer {os.environ.get('MODEL_KEY', '')}"},
        timeout=60.0,
    )
    if reply.status != 200:
        raise HTTPException(502, f"the model answered with status {reply.status}")
    message: dict[str, Any] = reply.json()["choices"][0]["message"]
    return message
