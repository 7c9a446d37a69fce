"""The loops of docs/frameworks/clients.md, with the providers' clients and a provider on this machine."""

from __future__ import annotations

import asyncio

import pytest

from tests.adapters.loopback import anthropic_reply, gemini_reply, openai_reply, openai_stream, provider
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
)
from toolroll import Toolroll
from toolroll.adapters import ToolSelector

pytestmark = pytest.mark.slow

openai = pytest.importorskip("openai")
anthropic = pytest.importorskip("anthropic")
genai = pytest.importorskip("google.genai")

SCHEMA = {"type": "object", "properties": {"target": {"type": "string"}}}


class OpenAIClient(Harness):
    lines = 5
    function = "openai_answer"

    @staticmethod
    def make_tool(function):
        return function

    def described(self, function):
        said = {"name": function.__name__, "description": function.__doc__, "parameters": SCHEMA}
        return {"type": "function", "function": said}

    def build(self, tools, roll, **options):
        functions = {function.__name__: function for function in tools}
        self.page = run_page("clients", run_tool=lambda name, arguments: functions[name]("x"))
        self.page["selector"] = ToolSelector(roll, **options)
        self.tools = [self.described(function) for function in tools]
        self.histories = {}

    def client(self, url):
        return openai.OpenAI(base_url=url, api_key="x", max_retries=0)

    def asked(self, text):
        return {"role": "user", "content": text}

    def reply(self, *names, step):
        return openai_reply(*names, step=step)

    def sent(self, body):
        return [tool["function"]["name"] for tool in body["tools"]]

    def answers(self, messages):
        return [one["content"] for one in messages if one["role"] == "tool"]

    def say(self, message, *steps, conversation="c"):
        messages = self.histories.setdefault(conversation, [])
        messages.append(self.asked(message))
        before = len(messages)
        with provider() as upstream:
            upstream.then(
                *[self.reply(*names, step=before + at) for at, names in enumerate(steps)], self.reply(step=0)
            )
            client = self.client(upstream.url)
            reply = self.page[self.function](client, self.tools, messages, conversation)
            client.close()
            return Trace(
                [self.sent(body) for body in upstream.bodies], self.answers(messages[before:]), reply
            )


class AnthropicClient(OpenAIClient):
    function = "anthropic_answer"

    def described(self, function):
        return {"name": function.__name__, "description": function.__doc__, "input_schema": SCHEMA}

    def client(self, url):
        return anthropic.Anthropic(base_url=url, api_key="x", max_retries=0)

    def reply(self, *names, step):
        return anthropic_reply(*names, step=step)

    def sent(self, body):
        return [tool["name"] for tool in body["tools"]]

    def answers(self, messages):
        return [
            block["content"] for one in messages for block in one["content"] if block["type"] == "tool_result"
        ]


class GeminiClient(OpenAIClient):
    function = "gemini_answer"

    def described(self, function):
        return {"name": function.__name__, "description": function.__doc__, "parameters_json_schema": SCHEMA}

    def client(self, url):
        return genai.Client(api_key="x", http_options={"base_url": url})

    def asked(self, text):
        return {"role": "user", "parts": [{"text": text}]}

    def reply(self, *names, step):
        return gemini_reply(*names)

    def sent(self, body):
        return [one["name"] for group in body["tools"] for one in group["functionDeclarations"]]

    def answers(self, messages):
        parts = [part for one in messages if isinstance(one, dict) for part in one["parts"]]
        return [
            part["function_response"]["response"]["result"] for part in parts if "function_response" in part
        ]


HARNESS = OpenAIClient


class TestOpenAIClient(Laws):
    harness = OpenAIClient


class TestAnthropicClient(Laws):
    harness = AnthropicClient


class TestGeminiClient(Laws):
    harness = GeminiClient


class OpenAIAsyncClient(OpenAIClient):
    """The loop of the page in an event loop, with streamed answers."""

    def say(self, message, *steps, conversation="c"):
        messages = self.histories.setdefault(conversation, [])
        messages.append(self.asked(message))
        before = len(messages)
        with provider() as upstream:
            upstream.then(
                *[openai_stream(*names, step=before + at) for at, names in enumerate(steps)], openai_stream()
            )
            reply = asyncio.run(self.answer(upstream.url, messages, conversation))
            return Trace(
                [self.sent(body) for body in upstream.bodies], self.answers(messages[before:]), reply
            )

    async def answer(self, url, messages, conversation):
        selector = self.page["selector"]
        async with openai.AsyncOpenAI(base_url=url, api_key="x", max_retries=0) as client:
            while True:
                turn = await selector.aturn(self.tools, messages, conversation=conversation)
                async with client.chat.completions.stream(
                    model="m", messages=messages, tools=list(turn.tools)
                ) as stream:
                    reply = (await stream.get_final_completion()).choices[0].message
                messages.append(reply.to_dict())
                if not reply.tool_calls:
                    await turn.aend()
                    return reply.content
                texts = await asyncio.gather(
                    *[self.called(turn, call.function.name) for call in reply.tool_calls]
                )
                messages += [
                    {"role": "tool", "tool_call_id": call.id, "content": text}
                    for call, text in zip(reply.tool_calls, texts, strict=True)
                ]

    async def called(self, turn, name):
        if (refusal := await turn.arefusal(name)) is not None:
            return refusal
        try:
            async with turn.acall(name):
                return self.page["run_tool"](name, {})
        except RuntimeError as error:
            return f"Error: {error}"


class TestOpenAIAsyncClient(Laws):
    harness = OpenAIAsyncClient


def test_a_call_that_waited_for_a_person_is_run_and_reported_elsewhere():
    CALLED.clear()
    first, reports = dialog(1)[0], Reports()
    roll = Toolroll.from_tools([], observers=[reports])
    harness = OpenAIClient(functions(), roll, max_tools=5)
    messages = [harness.asked(message_for(first))]
    turn = harness.page["selector"].turn(harness.tools, messages, conversation="c")
    assert any(tool["function"]["name"] == first for tool in turn.tools)
    hidden = next(one.__name__ for one in functions() if one.__name__ not in turn.names)
    elsewhere = ToolSelector(roll, max_tools=5).resume(harness.tools, "c")  # which has seen nothing
    assert elsewhere.refusal(first) is None and "was not offered" in elsewhere.refusal(hidden)
    with elsewhere.call(first):
        harness.page["run_tool"](first, {})
    elsewhere.end()
    assert reports.outcomes == [(first, "succeeded")] and reports.final == 1


def test_the_page_defines_a_loop_for_each_client():
    CALLED.clear()
    page = run_page("clients", run_tool=None)
    assert {"openai_answer", "anthropic_answer", "gemini_answer"} <= set(page)


def test_the_loops_answer_an_invented_name_and_do_not_run_it():
    ran = []
    for make in (OpenAIClient, AnthropicClient, GeminiClient):
        harness = make(functions(), Toolroll.from_tools([]), max_tools=5)
        harness.page["run_tool"] = lambda name, arguments: ran.append(name)
        trace = harness.say(message_for(dialog(1)[0]), ("no_such_tool",))
        assert "was not offered" in trace.answers[0] and ran == []


@pytest.mark.parametrize(
    "content, text",
    [
        (
            [{"type": "thinking", "thinking": "Hm.", "signature": "x"}, {"type": "text", "text": "done"}],
            "done",
        ),
        ([], ""),
    ],
)
def test_the_answer_of_anthropic_is_its_text_wherever_it_is(content, text):
    harness = AnthropicClient(functions(), Toolroll.from_tools([]), max_tools=5)
    harness.reply = lambda *names, step: anthropic_reply(step=step) | {"content": content}
    assert harness.say("Hello.").reply == text
