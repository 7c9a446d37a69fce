"""LiteLLM's SDK and a real proxy, in front of a provider on this machine."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.adapters import scenario
from tests.adapters.loopback import anthropic_reply, openai_reply, openai_stream, provider
from tests.adapters.scenario import (
    CALLED,
    FAILING,
    FEW,
    Harness,
    Laws,
    Reports,
    Trace,
    message_for,
    run_page,
    tools_of,
)
from tests.ports import free_port
from toolroll import InvalidInput, Rule, Toolroll

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
litellm = pytest.importorskip("litellm")
from toolroll.adapters.litellm import HEADER, ToolSelectionCallback, ToolSelectionHook  # noqa: E402

# litellm logs by a queue that it drains at exit, and leaves its clients' sockets to the collector.
pytestmark = pytest.mark.filterwarnings("ignore")


class LiteLLM(Harness):
    """A program's own loop over `litellm.acompletion`. It runs every tool that the model calls."""

    hooks = ((ToolSelectionCallback, ("select", "async_should_run_agentic_loop")),)
    keeps = False

    @staticmethod
    def make_tool(function):
        parameters = {"type": "object", "properties": {"target": {"type": "string"}}}
        described = {"name": function.__name__, "description": function.__doc__, "parameters": parameters}
        return {"type": "function", "function": described, "run": function}

    def build(self, tools, roll, **options):
        self.run = {tool["function"]["name"]: tool["run"] for tool in tools}
        self.tools = [{"type": "function", "function": tool["function"]} for tool in tools]
        self.histories: dict[str, list[Any]] = {}
        # ---- what the user writes
        litellm.callbacks = [ToolSelectionCallback(roll, **options)]

    def say(self, message, *steps, conversation="c"):
        return asyncio.run(self._say(message, steps, self.histories.setdefault(conversation, [])))

    async def _say(self, message, steps, messages):
        messages.append({"role": "user", "content": message})
        trace = Trace()
        with provider() as upstream:
            upstream.then(
                *[openai_reply(*names, step=len(messages) + at) for at, names in enumerate(steps)],
                openai_reply(),
            )
            while True:
                reply = await litellm.acompletion(
                    model="openai/m", api_base=upstream.url, api_key="x", messages=messages, tools=self.tools
                )
                trace.sent = [
                    [tool["function"]["name"] for tool in body["tools"]] for body in upstream.bodies
                ]
                said = reply.choices[0].message
                messages.append(
                    {
                        k: v
                        for k, v in said.model_dump().items()
                        if k in ("role", "content", "tool_calls") and (v or k != "tool_calls")
                    }
                )
                if not said.tool_calls:
                    trace.reply = said.content
                    return trace
                for call in said.tool_calls:
                    try:
                        text = self.run[call.function.name]("x")
                    except RuntimeError as error:
                        text = f"Error: {error}"
                    trace.answers.append(text)
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": text})


HARNESS = LiteLLM


class TestLiteLLM(Laws):
    harness = LiteLLM


FIRST, SECOND = scenario.dialog(2, FEW)
TOOLS = [{"type": "function", "function": tool["function"]} for tool in tools_of(LiteLLM)]
KEY = SimpleNamespace(user_id="ann", team_id="acme")


@pytest.fixture(autouse=True)
def nothing_called():
    CALLED.clear()
    FAILING.clear()


def selected(hook: ToolSelectionHook, key: Any = KEY, **data: Any) -> dict[str, Any]:
    return asyncio.run(hook.async_pre_call_hook(key, None, data, "completion"))


def asked(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def test_a_clients_own_tools_are_kept_and_never_all_dropped():
    """LiteLLM 26212: its filter dropped every tool that is none of its own MCP tools."""
    own = [{"type": "function", "function": {"name": "weather_lookup", "description": "Weather at a place"}}]
    hook = ToolSelectionHook(max_tools=12)
    assert selected(hook, messages=asked("Thank you!"), tools=own)["tools"] == own
    assert selected(hook, messages=asked("Thank you!"), tools=TOOLS)["tools"]


def test_tools_in_the_nested_form_are_read():
    """LiteLLM 31909: its filter read the name at the top only, and stripped all tools."""
    data = selected(ToolSelectionHook(max_tools=12), messages=asked(message_for(FIRST)), tools=TOOLS)
    assert FIRST in [tool["function"]["name"] for tool in data["tools"]] and len(data["tools"]) <= 12


@pytest.mark.parametrize("form", ["chat", "responses", "anthropic"])
def test_schemas_arrive_as_they_were(form):
    """LiteLLM 28766 and 32281: its filter sent flat tools to chat completions, without `function`."""
    tools = copy.deepcopy(TOOLS)
    if form == "responses":
        tools = [{"type": "function", "strict": False, **tool["function"]} for tool in tools]
    if form == "anthropic":
        tools = [
            {
                "name": tool["function"]["name"],
                "description": "",
                "input_schema": tool["function"]["parameters"],
                "cache_control": {"type": "ephemeral"},
            }
            for tool in tools
        ]
    before = copy.deepcopy(tools)
    key = "input" if form == "responses" else "messages"
    data = selected(ToolSelectionHook(max_tools=12), tools=tools, **{key: asked(message_for(FIRST))})
    assert data["tools"] and all(tool in before for tool in data["tools"]) and tools == before


def test_the_tool_that_the_choice_names_is_there():
    choice = {"type": "function", "function": {"name": SECOND}}
    data = selected(
        ToolSelectionHook(max_tools=1), messages=asked(message_for(FIRST)), tools=TOOLS, tool_choice=choice
    )
    assert SECOND in [tool["function"]["name"] for tool in data["tools"]] and data["tool_choice"] == choice


def test_without_a_tool_that_policy_allows_no_choice_is_left():
    roll = Toolroll.from_tools([], rules=[Rule("none", "deny", "org", {"org": "acme"}, tool=FIRST)])
    tools = [tool for tool in TOOLS if tool["function"]["name"] == FIRST]
    data = selected(ToolSelectionHook(roll), messages=asked("x"), tools=tools, tool_choice="required")
    assert "tools" not in data and "tool_choice" not in data


def test_hosted_tools_and_a_text_as_input_pass():
    hosted = {"type": "web_search_preview"}
    data = selected(ToolSelectionHook(max_tools=3), input=message_for(FIRST), tools=[*TOOLS, hosted])
    assert hosted in data["tools"] and len(data["tools"]) <= 4


@pytest.mark.parametrize(
    "data",
    [{}, {"tools": []}, {"tools": None, "messages": []}, {"tools": TOOLS}, {"tools": TOOLS, "prompt": "x"}],
)
def test_a_request_without_tools_or_messages_is_left_alone(data):
    assert selected(ToolSelectionHook(max_tools=3), **data).get("tools") == data.get("tools")


def test_a_named_session_keeps_its_list_and_its_users_apart():
    reports = Reports()
    hook = ToolSelectionHook(Toolroll.from_tools([], observers=[reports]), max_tools=12)
    first = selected(hook, messages=asked(message_for(FIRST)), tools=TOOLS, litellm_session_id="s")["tools"]
    messages = [
        *asked(message_for(FIRST)),
        {"role": "assistant", "content": "Done."},
        *asked(message_for(SECOND)),
    ]
    second = selected(hook, messages=messages, tools=TOOLS, metadata={"session_id": "s"})["tools"]
    assert second[:4] == first[:4]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((None, "ann", "k1", "s"), (None, "bob", "k2", "s")),
        (("red", None, "k1", "s"), ("blue", None, "k2", "s")),
        (("red", None, "k1", "s"), ("red", None, "k2", "s")),  # keys of services, which have no user
        ((None, "ann/s", "k1", "t"), (None, "ann", "k2", "s/t")),
    ],
)
def test_callers_who_name_the_same_session_have_one_each(one, other):
    def sent(hook, caller, name):
        team, user, token, session = caller
        key = SimpleNamespace(team_id=team, user_id=user, token=token)
        data = selected(hook, key, messages=asked(message_for(name)), tools=TOOLS, litellm_session_id=session)
        return [tool["function"]["name"] for tool in data["tools"]]

    hook = ToolSelectionHook(max_tools=12)
    sent(hook, one, FIRST)
    assert sent(hook, other, SECOND) == sent(ToolSelectionHook(max_tools=12), other, SECOND)


def names_in(body: dict[str, Any]) -> list[str]:
    return [(tool.get("function") or tool)["name"] for tool in body["tools"]]


def hidden_from(sent: list[str]) -> str:
    return next(tool["function"]["name"] for tool in TOOLS if tool["function"]["name"] not in sent)


@pytest.fixture
def upstream():
    litellm.callbacks = [ToolSelectionCallback(max_tools=2)]
    with provider() as upstream:
        yield upstream
    litellm.callbacks = []


def completed(upstream, *, stream: bool = False, **options: Any) -> Any:
    """The response to a message that needs `FIRST`; the parts of a streamed one."""

    async def complete():
        reply = await litellm.acompletion(
            model="openai/m", api_base=upstream.url, api_key="x", messages=asked(message_for(FIRST)),
            tools=TOOLS, stream=stream, **options,
        )  # fmt: skip
        return [part async for part in reply] if stream else reply

    return asyncio.run(complete())


def find_hidden(upstream) -> str:
    """The name of a tool that is not sent for `FIRST`."""
    upstream.then(openai_reply())
    completed(upstream)
    return hidden_from(names_in(upstream.bodies[0]))


def test_a_hidden_call_beside_another_is_taken_out_of_the_response(upstream):
    hidden = find_hidden(upstream)
    upstream.then(openai_reply(FIRST, hidden))
    (choice,) = completed(upstream).choices
    assert [call.function.name for call in choice.message.tool_calls] == [FIRST]
    assert choice.finish_reason == "tool_calls" and len(upstream.bodies) == 1


def test_a_model_that_insists_on_a_hidden_tool_gets_three_tries(upstream):
    hidden = find_hidden(upstream)
    upstream.then(*[openai_reply(hidden, step=at) for at in range(4)])
    (choice,) = completed(upstream).choices
    assert not choice.message.tool_calls and choice.finish_reason == "stop"
    assert "was not offered" in choice.message.content
    assert len(upstream.bodies) == 3 and all(
        names_in(body) == names_in(upstream.bodies[0]) for body in upstream.bodies
    )
    assert [one["role"] for one in upstream.bodies[2]["messages"]] == [
        "user", "assistant", "tool", "assistant", "tool",
    ]  # fmt: skip


def test_a_client_cannot_say_that_its_request_was_selected_for(upstream):
    hidden = find_hidden(upstream)
    upstream.then(openai_reply(hidden))
    (choice,) = completed(upstream, _agentic_loop_depth=2).choices
    assert len(names_in(upstream.bodies[0])) <= 2 and not choice.message.tool_calls


def test_an_unknown_name_is_the_callers_to_answer(upstream):
    upstream.then(openai_reply("no_such_tool"))
    (choice,) = completed(upstream).choices
    assert choice.message.tool_calls[0].function.name == "no_such_tool"


def test_hidden_calls_of_anthropics_messages_are_refused(upstream):
    tools = [
        {"name": one["name"], "description": one["description"], "input_schema": one["parameters"]}
        for one in (tool["function"] for tool in TOOLS)
    ]

    def created():
        return asyncio.run(
            litellm.anthropic.messages.acreate(
                model="anthropic/m", api_base=upstream.url, api_key="x", max_tokens=9,
                messages=asked(message_for(FIRST)), tools=tools,
            )
        )  # fmt: skip

    upstream.then(anthropic_reply())
    created()
    hidden = hidden_from(names_in(upstream.bodies[0]))
    upstream.then(anthropic_reply(hidden), anthropic_reply(FIRST, step=1))
    reply = created()
    assert [block["name"] for block in reply["content"]] == [FIRST]
    (result,) = upstream.bodies[1]["messages"][-1]["content"]
    assert result["is_error"] and "was not offered" in str(result["content"])
    upstream.then(*[anthropic_reply(hidden, step=at) for at in range(3)])
    reply = created()
    assert reply["stop_reason"] == "end_turn" and "was not offered" in reply["content"][0]["text"]


def test_hidden_calls_of_responses_are_taken_out(upstream):
    tools = [{"type": "function", **tool["function"]} for tool in TOOLS]

    def created(*names):
        calls = [
            {
                "type": "function_call",
                "id": name,
                "call_id": name,
                "name": name,
                "arguments": "{}",
                "status": "completed",
            }
            for name in names
        ]
        upstream.then(
            {"id": "r", "object": "response", "created_at": 0, "status": "completed", "model": "m", "output": calls,
             "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "usage": None, "error": None}
        )  # fmt: skip
        return asyncio.run(
            litellm.aresponses(
                model="openai/m", api_base=upstream.url, api_key="x", input=message_for(FIRST), tools=tools
            )
        )

    created(FIRST)
    hidden = hidden_from(names_in(upstream.bodies[0]))
    assert [one.name for one in created(FIRST, hidden).output] == [FIRST]


def test_a_streamed_answer_passes_as_it_is(upstream):
    """What the page says: this test fails when LiteLLM gets a hook for it."""
    hidden = find_hidden(upstream)
    upstream.then(openai_stream(hidden))
    parts = completed(upstream, stream=True)
    calls = [call for part in parts for call in part.choices[0].delta.tool_calls or ()]
    assert len(names_in(upstream.bodies[0])) <= 2 and calls[0].function.name == hidden


PROXY = """
model_list:
  - model_name: mock
    litellm_params: {{model: openai/m, api_key: x, api_base: "{url}"}}
litellm_settings:
  callbacks: selecting.select_tools
"""
MODULE = """
from toolroll.adapters.litellm import ToolSelectionHook

select_tools = ToolSelectionHook(max_tools=12)
"""


@pytest.mark.slow
def test_a_real_proxy_sends_a_few_tools_on_and_refuses_hidden_calls(tmp_path):
    with provider() as upstream:
        (tmp_path / "config.yaml").write_text(PROXY.format(url=upstream.url), "utf-8")
        (tmp_path / "selecting.py").write_text(MODULE, "utf-8")
        root = str(Path(__file__).parents[2] / "python")
        environment = os.environ | {
            "LITELLM_MASTER_KEY": "sk-test", "LITELLM_TELEMETRY": "False", "PYTHONPATH": f"{tmp_path}:{root}",
        }  # fmt: skip
        port = free_port()
        command = [
            Path(sys.executable).parent / "litellm",
            "--config",
            "config.yaml",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
        ]
        with (tmp_path / "log").open("wb") as log:
            process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log)
        try:
            wait_for(f"http://127.0.0.1:{port}/health/liveliness", process, tmp_path / "log")
            upstream.then(openai_reply())
            body = {"model": "mock", "messages": asked(message_for(FIRST)), "tools": TOOLS}
            request = urllib.request.Request(
                f"http://127.0.0.1:{port}/v1/chat/completions",
                json.dumps(body).encode(),
                {"content-type": "application/json", "authorization": "Bearer sk-test"},
            )
            with urllib.request.urlopen(request, timeout=60) as response:
                sent = upstream.bodies[0]["tools"]
                assert response.headers[HEADER] == f"{len(TOOLS)}->{len(sent)}"
            assert len(sent) <= 12 and all(tool in TOOLS for tool in sent)
            assert FIRST in [tool["function"]["name"] for tool in sent]
            upstream.then(openai_reply(hidden_from(names_in({"tools": sent}))), openai_reply())
            with urllib.request.urlopen(request, timeout=60) as response:
                (choice,) = json.load(response)["choices"]
            assert choice["message"]["content"] == "done" and len(upstream.bodies) == 2
            assert "was not offered" in upstream.bodies[1]["messages"][-1]["content"]
        finally:
            process.terminate()
            process.wait(30)


def wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(240):
        assert process.poll() is None, log.read_text("utf-8")[-2_000:]
        try:
            urllib.request.urlopen(url, timeout=2).close()
            return
        except OSError:
            time.sleep(0.5)
    raise AssertionError(log.read_text("utf-8")[-2_000:])


def test_the_page_runs():
    page = run_page("litellm")
    assert isinstance(litellm.callbacks[0], ToolSelectionCallback)
    assert isinstance(page["select_tools"], ToolSelectionHook)


@pytest.mark.parametrize("wrong", [{}, "ann"])
def test_a_context_that_is_none_is_refused(wrong):
    with pytest.raises(InvalidInput, match="context"):
        ToolSelectionHook(context=wrong)
