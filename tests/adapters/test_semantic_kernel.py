"""Semantic Kernel, with a scripted service."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import pytest

from tests.adapters.scenario import (
    CALLED,
    Harness,
    Laws,
    Reports,
    Trace,
    dialog,
    functions,
    message_for,
    run_page,
    tools_of,
)
from toolroll import Context, Toolroll

pytest.importorskip("semantic_kernel")
from pydantic import Field
from semantic_kernel import Kernel
from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai.chat_completion_client_base import ChatCompletionClientBase
from semantic_kernel.connectors.ai.function_calling_utils import (
    update_settings_from_function_call_configuration,
)
from semantic_kernel.connectors.ai.prompt_execution_settings import PromptExecutionSettings
from semantic_kernel.contents import (
    ChatHistory,
    ChatMessageContent,
    FunctionCallContent,
    FunctionResultContent,
    StreamingChatMessageContent,
)
from semantic_kernel.functions import kernel_function

from toolroll.adapters.semantic_kernel import ToolSelection


class Settings(PromptExecutionSettings):
    tools: list[dict[str, Any]] | None = None
    tool_choice: Any = None


class Script(ChatCompletionClientBase):
    SUPPORTS_FUNCTION_CALLING: ClassVar[bool] = True
    queue: list[Any] = Field(default_factory=list)
    sent: list[Any] = Field(default_factory=list)

    def get_prompt_execution_settings_class(self):
        return Settings

    def _update_function_choice_settings_callback(self):
        return update_settings_from_function_call_configuration

    def _reset_function_choice_settings(self, settings):
        settings.tools = settings.tool_choice = None

    def _items(self, settings):
        self.sent.append([tool["function"]["name"] for tool in settings.tools or []])
        return [
            FunctionCallContent(
                id=f"{len(self.sent)}-{at}", index=at, name=f"erp-{name}", arguments='{"target": "x"}'
            )
            for at, name in enumerate(self.queue.pop(0))
        ]

    async def _inner_get_chat_message_contents(self, chat_history, settings):
        items = self._items(settings)
        return [ChatMessageContent(role="assistant", **({"items": items} if items else {"content": "done"}))]

    async def _inner_get_streaming_chat_message_contents(self, chat_history, settings, *_):
        items = self._items(settings)
        said = {"items": items} if items else {"content": "done"}
        yield [StreamingChatMessageContent(role="assistant", choice_index=0, **said)]


def kernel_of(tools):
    kernel = Kernel()
    for tool in tools:
        kernel.add_function("erp", kernel_function(tool, name=tool.__name__, description=tool.__doc__))
    return kernel


def bare(sent):
    return [[name.removeprefix("erp-") for name in names] for names in sent]


class SemanticKernel(Harness):
    hooks = ((ToolSelection, ("choice",)),)
    lines = 3
    prefix = "erp-"

    def build(self, tools, roll, **options):
        self.kernel, self.service, self.settings = kernel_of(tools), Script(ai_model_id="m"), Settings()
        self.histories = {}
        # ---- what the user writes
        self.selection = ToolSelection(self.kernel, roll, **options)

    async def reply(self, history, conversation):
        # ---- what the user writes
        self.settings.function_choice_behavior = await self.selection.choice(
            history, conversation=conversation
        )
        return await self.service.get_chat_message_content(history, self.settings, kernel=self.kernel)

    def say(self, message, *steps, conversation="c"):
        self.service.queue[:] = [*steps, ()]
        self.service.sent = []
        history = self.histories.setdefault(conversation, ChatHistory())
        history.add_user_message(message)
        before = len(history.messages)
        reply = asyncio.run(self.reply(history, conversation))
        answers = [
            str(item.result)
            for one in history.messages[before:]
            for item in one.items
            if isinstance(item, FunctionResultContent)
        ]
        return Trace(bare(self.service.sent), answers, str(reply))


class SemanticKernelStateless(SemanticKernel):
    async def reply(self, history, conversation):
        return await super().reply(history, None)


class SemanticKernelStream(SemanticKernel):
    async def reply(self, history, conversation):
        self.settings.function_choice_behavior = await self.selection.choice(
            history, conversation=conversation
        )
        streamed = self.service.get_streaming_chat_message_content(history, self.settings, kernel=self.kernel)
        return [one async for one in streamed][-1]


HARNESS = SemanticKernel


class TestSemanticKernel(Laws):
    harness = SemanticKernel


class TestSemanticKernelStateless(Laws):
    harness = SemanticKernelStateless


class TestSemanticKernelStream(Laws):
    harness = SemanticKernelStream


def test_if_policy_allows_no_function_none_is_sent():
    roll = Toolroll.from_tools([])
    harness = SemanticKernel(tools_of(SemanticKernel), roll, max_tools=0)
    assert harness.say(message_for(dialog(1)[0])).sent == [[]]


@pytest.mark.parametrize("is_approved", [True, False])
def test_calls_that_the_program_runs_after_an_approval_are_checked_and_reported(is_approved):
    reports = Reports("erp-")
    harness = SemanticKernel(
        tools_of(SemanticKernel), Toolroll.from_tools([], observers=[reports]), max_tools=2
    )
    name = dialog(1)[0]

    async def run():
        choice = await harness.selection.choice(message_for(name), conversation="c", auto_invoke=False)
        harness.settings.function_choice_behavior = choice
        harness.service.queue[:] = [(name,)]
        history = ChatHistory()
        history.add_user_message(message_for(name))
        reply = await harness.service.get_chat_message_content(
            history, harness.settings, kernel=harness.kernel
        )
        (call,) = [item for item in reply.items if isinstance(item, FunctionCallContent)]
        turn = harness.selection.selector.find(**choice.key)
        assert turn.refusal(call.name) is None and reports.outcomes == []
        sent = harness.service.sent[0]
        hidden = next(f"erp-{one.__name__}" for one in functions() if f"erp-{one.__name__}" not in sent)
        assert "was not offered" in turn.refusal(hidden)
        if is_approved:
            with turn.call(call.name):
                await harness.kernel.invoke(plugin_name="erp", function_name=name, target="x")
        await harness.selection.end(choice)

    asyncio.run(run())
    assert reports.outcomes == [(name, "succeeded")][:is_approved] and reports.final == is_approved


def test_an_agent_that_is_a_function_of_another_has_a_kernel_and_turns_of_its_own():
    reports = Reports("erp-")
    roll = Toolroll.from_tools([], observers=[reports])
    tools = tools_of(SemanticKernel)
    inner, name = SemanticKernel(tools[50:], roll, max_tools=3), tools[60].__name__

    def specialist(target: str) -> str:
        """Gives a task to the specialist."""

    async def ask(target: str) -> str:
        inner.service.queue[:] = [(name,), ()]
        history = ChatHistory()
        history.add_user_message(message_for(name))
        return str(await inner.reply(history, "inner"))

    outer = SemanticKernel(tools[:50], roll, max_tools=3, always_include=["erp-specialist"])
    outer.kernel.add_function("erp", kernel_function(ask, name="specialist", description=specialist.__doc__))
    trace = outer.say("Ask the specialist.", ["specialist"])
    assert "specialist" in trace.sent[0] and len(trace.sent[0]) <= 4 and len(inner.service.sent[0]) <= 3
    assert reports.outcomes == [(name, "succeeded"), ("specialist", "succeeded")]


def test_an_ended_choice_closes_its_turn_and_no_other():
    reports = Reports()
    harness = SemanticKernel(
        tools_of(SemanticKernel), Toolroll.from_tools([], observers=[reports]), max_tools=12
    )
    name = dialog(1)[0]
    harness.say(message_for(name), [name])
    first = harness.settings.function_choice_behavior
    asyncio.run(harness.selection.end(first))
    assert reports.final == 1
    asyncio.run(harness.selection.end(first))
    assert reports.final == 1


def test_who_asks_may_differ_from_turn_to_turn():
    CALLED.clear()
    harness = SemanticKernel(tools_of(SemanticKernel), Toolroll.from_tools([]), max_tools=12)
    choice = asyncio.run(harness.selection.choice("copy the message", context=Context(user="ann")))
    assert harness.selection.selector.find(run=choice.run).context.user == "ann"


def test_the_page_runs():
    service, kernel = Script(ai_model_id="m"), kernel_of(tools_of(SemanticKernel))
    service.queue, service.sent = [(), ()], []
    page = run_page("semantic-kernel", kernel=kernel, service=service, settings=Settings())
    assert str(asyncio.run(page["answer"]("Could you copy the message in Gcp for me?", "c"))) == "done"
    agent = ChatCompletionAgent(service=service, kernel=kernel, name="clerk")
    assert str(asyncio.run(page["ask"](agent, "Could you copy the message in Gcp for me?"))) == "done"
    assert all(0 < len(names) <= 12 for names in service.sent) and len(service.sent) == 2
