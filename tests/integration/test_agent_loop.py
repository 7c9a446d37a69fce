"""The page "A complete agent loop", as it stands: its code, two processes' worth of it, against the providers' clients."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

import toolroll
from tests.integration.scripted_model import Reply, ScriptedModel, scripted_model
from tests.integration.test_turns import counted
from toolroll.cli import main
from toolroll.formats.repair.claims import FALLBACK
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database

pytestmark = pytest.mark.slow

pytest.importorskip("openai")
pytest.importorskip("anthropic")

DEMO = Path(toolroll.__file__).parent / "demo" / "toolkits"
PAGE = (Path(__file__).parents[2] / "docs" / "agent-loop.md").read_text("utf-8")
LOOP, OPENAI, ANTHROPIC, ASYNC = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
PROVIDERS = {"openai": OPENAI, "anthropic": ANTHROPIC}
URL = "sqlite:///tools.db"
MOVE = "Look at my calendar for tomorrow, move the meeting to Friday and email Anna"


class Process:
    """One process of the page's program: a `Toolroll` and a client of its own."""

    def __init__(self, *blocks: str) -> None:
        self.ran: list[tuple[str, dict[str, Any]]] = []
        self.failures = 0  # of the next calls, so many fail
        self.world: dict[str, Any] = {"run_tool": self.run_tool}
        for block in blocks:
            exec(compile(block, "agent-loop.md", "exec"), self.world)

    def run_tool(self, name: str, arguments: dict[str, Any]) -> str:
        self.ran.append((name, arguments))
        if self.failures:
            self.failures -= 1
            raise TimeoutError("no answer")
        return f"{name} is done."

    def close(self) -> None:
        assert self.world["roll"].flush()
        self.world["roll"].close()
        self.world["client"].close()


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedModel]:
    """The model, where both clients look for it, and a registry with the demonstration's tools."""
    monkeypatch.chdir(tmp_path)
    assert main(["import", str(DEMO), "--to", URL]) == 0
    with scripted_model() as server:
        for name, path in (("OPENAI", "/v1"), ("ANTHROPIC", "")):
            monkeypatch.setenv(f"{name}_API_KEY", "key")
            monkeypatch.setenv(f"{name}_BASE_URL", server.url + path)
        yield server
    assert server.script == []


@pytest.fixture(params=PROVIDERS)
def provider(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def processes(model: ScriptedModel, provider: str) -> Iterator[tuple[Process, Process]]:
    """Two processes that share the registry and nothing else."""
    both = Process(LOOP, PROVIDERS[provider]), Process(LOOP, PROVIDERS[provider])
    yield both
    for process in both:
        process.close()


def stored(messages: list[Any]) -> list[Any]:
    """The messages as another process reads them."""
    read: list[Any] = json.loads(json.dumps(messages))
    return read


def texts(messages: list[dict[str, Any]]) -> list[str]:
    """The results of the calls, in their order."""
    found = []
    for message in messages:
        if message["role"] == "tool":
            found.append(message["content"])
        elif message["role"] == "user" and isinstance(message["content"], list):
            found += [block["content"] for block in message["content"]]
    return found


def last_text(process: Process, messages: list[dict[str, Any]]) -> str:
    text: str = process.world["text_of"](messages[-1])
    return text


def outcomes() -> dict[str, dict[str, str]]:
    """Message → tool → outcome, as the store has them."""
    database = Database.open(URL, create=False, migrate=False)
    events = tables.selection_events.c
    with database.reading() as connection:
        rows = connection.execute(sa.select(events.event_id, events.message))
        messages = {event_id: message for event_id, message in rows}
    database.close()
    return {messages[event_id]: of_event for event_id, of_event in counted(URL).items()}


def as_text(arguments: dict[str, Any], provider: str) -> Any:
    """Arguments as the provider's models send them."""
    return json.dumps(arguments) if provider == "openai" else arguments


def test_a_turn_of_several_steps_goes_on_in_another_process(model, processes, provider):
    here, there = processes
    window = {"from": "2026-11-24T00:00:00Z", "to": "2026-11-25T00:00:00Z"}
    moved = {
        "event_id": 7,
        "changes": '{"start": "2026-11-27T10:00:00Z"}',
        "notify": "true",
        "team": "x",
        "scope": None,
    }
    mail = {"to": '["anna@example.org"]', "subject": "Friday", "body": "We meet on Friday."}
    model.script = [
        Reply("Let me look.", [("list_events", as_text(window, provider)), ("search_flights", as_text({}, provider))]),
        Reply("", [("update_event", as_text(moved, provider)), ("send_email", as_text(mail, provider))]),
        # The second process goes on from here.
        Reply(f'Once more:\n<tool_call>{{"name": "list_events", "arguments": {json.dumps(window)}}}</tool_call>'),
        Reply("", [("search_tools", as_text({"queries": ["rain tomorrow"]}, provider))]),
        Reply("", [("call_tool", as_text({"name": "get_forecast", "arguments": {"place": "Oslo", "days": "3"}}, provider))]),
        Reply("", [("create_event", '{"title": "cut off' if provider == "openai" else {"title": "a", "start": "b"})]),
        Reply("I've moved the meeting and sent the email. It will rain."),
    ]  # fmt: skip
    messages: list[Any] = [{"role": "user", "content": MOVE}]
    waiting = here.world["message_arrives"]("ann", "c-1", messages)
    assert len(waiting) == 1 and len(model.requests) == 2
    assert here.ran == [
        ("list_events", window),
        ("update_event", {"event_id": "7", "changes": {"start": "2026-11-27T10:00:00Z"}, "notify": True}),
    ]
    assert "was not offered" in texts(messages)[1]

    messages = stored(messages)
    there.failures = 1
    assert there.world["approval_arrives"]("ann", "c-1", messages, {waiting[0]: True}) == []
    ran = [
        ("send_email", {"to": ["anna@example.org"], "subject": "Friday", "body": "We meet on Friday."}),
        ("list_events", window),
        ("get_forecast", {"place": "Oslo", "days": 3}),
    ]
    if provider == "anthropic":  # its models send no text that could be cut off
        ran.append(("create_event", {"title": "a", "start": "b"}))
    assert there.ran == ran
    assert texts(messages)[3] == "The tool failed: no answer"
    assert "get_forecast" in texts(messages)[5]
    assert last_text(there, messages) == "I've moved the meeting and sent the email. It will rain."
    assert here.world["roll"].flush() and there.world["roll"].flush()
    expected = {
        "list_events": "succeeded",
        "update_event": "succeeded",
        "send_email": "failed",
        "get_forecast": "wanted_succeeded",
    }
    assert outcomes() == {MOVE: expected | ({"create_event": "succeeded"} if provider == "anthropic" else {})}


def test_a_call_behind_call_tool_waits_for_approval_too_and_a_refused_one_counts_for_nothing(
    model, processes, provider
):
    here, there = processes
    mail = {"to": ["bob@example.org"], "subject": "Hi", "body": "Hi"}
    hidden = as_text({"name": "send_email", "arguments": mail}, provider)
    model.script = [
        Reply("", [("call_tool", hidden), ("get_current_time", as_text({}, provider))]),
        Reply("Then I leave it."),
    ]
    messages: list[Any] = [{"role": "user", "content": "Say hi to Bob"}]
    (waiting,) = here.world["message_arrives"]("ann", "c-2", messages)
    assert here.world["approval_arrives"]("ann", "c-2", messages, {}) == [waiting]  # the user looks again
    messages = stored(messages)
    assert there.world["approval_arrives"]("ann", "c-2", messages, {waiting: False}) == []
    assert [name for name, _ in here.ran] == ["get_current_time"] and there.ran == []
    assert "The user does not allow this call." in texts(messages)
    assert here.world["roll"].flush() and there.world["roll"].flush()
    assert outcomes() == {"Say hi to Bob": {"get_current_time": "succeeded"}}


def test_a_claim_without_a_call_is_asked_again_once(model, processes, provider):
    here, there = processes
    mail = as_text({"to": ["bob@example.org"], "subject": "Hi", "body": "Hi"}, provider)
    model.script = [
        Reply("I've sent the email to Bob."),
        Reply("", [("send_email", mail)], must_call=True),
        Reply("I've sent the email to Bob."),  # now it is true
        Reply("I've sent the email to Carl."),
        Reply("Really, I've sent it.", must_call=True),
    ]
    messages: list[Any] = [{"role": "user", "content": "Email Bob hi"}]
    (waiting,) = here.world["message_arrives"]("ann", "c-3", messages)
    there.world["approval_arrives"]("ann", "c-3", messages, {waiting: True})
    assert last_text(there, messages) == "I've sent the email to Bob."
    messages.append({"role": "user", "content": "And Carl"})
    assert here.world["message_arrives"]("ann", "c-3", messages) == []
    assert last_text(here, messages) == FALLBACK
    assert [name for name, _ in there.ran] == ["send_email"] and here.ran == []


def test_a_model_that_never_stops_is_stopped_and_the_next_turn_is_valid(model, processes, provider):
    here, there = processes
    call = ("get_current_time", as_text({}, provider))
    model.script = [Reply("", [call])] * here.world["MOST_STEPS"] + [Reply("It is late.")]
    messages: list[Any] = [{"role": "user", "content": "What time is it?"}]
    assert here.world["message_arrives"]("ann", "c-4", messages) == []
    assert len(here.ran) == here.world["MOST_STEPS"] - 1
    assert "too many steps" in last_text(here, messages)
    messages = [*stored(messages), {"role": "user", "content": "Well?"}]
    assert there.world["message_arrives"]("ann", "c-4", messages) == []
    assert last_text(there, messages) == "It is late."
    assert there.world["roll"].session("c-4").turn == 2


def test_in_an_event_loop_a_turn_goes_the_same_way(model):
    process = Process(LOOP, OPENAI, ASYNC)
    window = {"from": "2026-11-24T00:00:00Z", "to": "2026-11-25T00:00:00Z"}
    model.script = [
        Reply("", [("list_events", json.dumps(window)), ("search_flights", "{}")]),
        Reply("Two meetings."),
    ]
    messages: list[Any] = [{"role": "user", "content": MOVE}]
    asyncio.run(process.world["answered"]("ann", "c-5", messages))
    assert last_text(process, messages) == "Two meetings."
    assert process.ran == [("list_events", window)] and "was not offered" in texts(messages)[1]
    process.close()
    assert outcomes() == {MOVE: {"list_events": "succeeded"}}
