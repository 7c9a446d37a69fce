"""Google ADK, with a scripted model."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.adapters.scenario import Harness, Laws, Trace, run_page, tools_of

pytest.importorskip("google.adk")
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools import FunctionTool
from google.genai import types

from toolroll.adapters.google_adk import ToolSelectionPlugin

pytestmark = pytest.mark.filterwarnings("ignore")  # ADK warns of its own experimental parts


class Script(BaseLlm):
    queue: list[Any]
    sent: list[Any]

    async def generate_content_async(self, llm_request, stream=False):
        found = llm_request.config.tools or []
        self.sent.append([one.name for group in found for one in group.function_declarations or []])
        names = self.queue.pop(0)
        parts = [types.Part.from_function_call(name=name, args={"target": "x"}) for name in names]
        yield LlmResponse(content=types.Content(role="model", parts=parts or [types.Part(text="done")]))


class GoogleADK(Harness):
    hooks = (
        (
            ToolSelectionPlugin,
            ("before_model_callback", "before_tool_callback", "after_tool_callback", "after_agent_callback"),
        ),
    )
    make_tool = staticmethod(FunctionTool)
    stops_on_failure = True

    def build(self, tools, roll, **options):
        self.model, self.sessions = Script(model="m", queue=[], sent=[]), {}
        agent = LlmAgent(name="a", model=self.model, tools=tools)
        # ---- what the user writes
        self.runner = InMemoryRunner(agent=agent, plugins=[ToolSelectionPlugin(roll, **options)])

    def say(self, message, *steps, conversation="c"):
        return asyncio.run(self._say(message, steps, conversation))

    async def _say(self, message, steps, conversation):
        self.model.queue[:] = [*steps, ()]
        self.model.sent = []
        service, name = self.runner.session_service, self.runner.app_name
        if conversation not in self.sessions:
            self.sessions[conversation] = await service.create_session(app_name=name, user_id="u")
        said = types.Content(role="user", parts=[types.Part(text=message)])
        answers, reply = [], ""
        session = self.sessions[conversation]
        async for event in self.runner.run_async(user_id="u", session_id=session.id, new_message=said):
            for part in (event.content.parts if event.content else None) or ():
                if part.function_response:
                    answers.append(
                        str(part.function_response.response.get("result", part.function_response.response))
                    )
                reply = part.text or reply
        return Trace(self.model.sent, answers, reply)


HARNESS = GoogleADK


class TestGoogleADK(Laws):
    harness = GoogleADK


def test_the_page_runs():
    harness = GoogleADK([], None)
    agent = LlmAgent(name="a", model=harness.model, tools=list(tools_of(GoogleADK)))
    harness.runner = run_page("google-adk", agent=agent)["runner"]
    assert len(harness.say("Could you copy the message in Gcp for me?").sent[0]) <= 12
