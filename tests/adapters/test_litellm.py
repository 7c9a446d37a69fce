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
from tests.adapters.loopback import openai_reply, provider
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
from toolroll import Rule, Toolroll

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
litellm = pytest.importorskip("litellm")
from toolroll.adapters.litellm import HEADER, ToolSelectionCallback, ToolSelectionHook  # noqa: E402

# litellm logs by a queue that it drains at exit, and leaves its clients' sockets to the collector.
pytestmark = pytest.mark.filterwarnings("ignore")


class LiteLLM(Harness):
    """A program's own loop over `litellm.acompletion`. It runs every tool that the model calls."""

    refuses = False
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
                trace.sent.append([tool["function"]["name"] for tool in upstream.bodies[-1]["tools"]])
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
def test_a_real_proxy_sends_a_few_tools_on(tmp_path):
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
        finally:
            process.terminate()
            process.wait(30)


def free_port() -> int:
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


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
