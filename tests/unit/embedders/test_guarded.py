"""The guard: whatever the embedder behind it does, the turn goes on in time."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest

pytest.importorskip("urllib3")
pytest.importorskip("tenacity")
pytest.importorskip("circuitbreaker")

from tests import model_server as servers
from tests.model_server import ModelServer, running
from tests.table import each_row
from toolroll import Tool, Toolroll
from toolroll.embedders import guarded
from toolroll.embedders.cached import CachedEmbedder
from toolroll.embedders.checks import RequestRejected
from toolroll.embedders.guarded import GuardedEmbedder
from toolroll.embedders.hashing import HashingEmbedder
from toolroll.embedders.remote import OllamaEmbedder
from toolroll.model.errors import EmbedderUnavailable, InvalidInput

TEXTS = [f"tool {i}" for i in range(6)]


class Scripted:
    """An embedder that does what it is sent_rows, one item a call, then answers well."""

    is_instant, dim, identity = False, 16, "scripted@1"

    def __init__(self, *script: Any) -> None:
        self.script = list(script)
        self.calls: list[list[str]] = []
        self.times: list[float] = []

    def embed(self, texts: Sequence[str]) -> Any:
        self.calls.append(list(texts))
        self.times.append(time.monotonic())
        step = self.script.pop(0) if self.script else None
        if isinstance(step, Exception):
            raise step
        vectors = HashingEmbedder(16).embed(texts)
        return step(vectors) if callable(step) else vectors

    def embed_query(self, text: str) -> Any:
        answer = self.embed([text])
        return answer[0] if isinstance(answer, np.ndarray) and len(answer) == 1 else answer


DOWN = EmbedderUnavailable("down")


@pytest.fixture(autouse=True)
def quick_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded, "BACKOFF_S", 0.001)
    monkeypatch.setattr(guarded, "QUERY_BACKOFF_S", 0.001)


@pytest.fixture
def let_go() -> Iterator[Event]:
    event = Event()
    yield event
    event.set()


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with running() as running_server:
        yield running_server


def of(server: ModelServer, tmp_path: Path, **options: Any) -> GuardedEmbedder:
    return GuardedEmbedder(OllamaEmbedder("bag", server.url, folder=tmp_path), **options)


# Answers.


def test_what_is_good_goes_through() -> None:
    inner = Scripted()
    guard = GuardedEmbedder(inner)
    assert (guard.identity, guard.dim, guard.is_instant) == ("scripted@1", 16, False)
    assert np.array_equal(guard.embed(TEXTS), HashingEmbedder(16).embed(TEXTS))
    assert np.array_equal(guard.embed_query("tool 1"), HashingEmbedder(16).embed_query("tool 1"))
    assert not guard.embed(["?!"]).any()  # zero: nothing is known of the text


LIES: dict[str, Callable[[np.ndarray], Any]] = {
    "fewer": lambda v: v[:0],
    "more": lambda v: np.vstack([v, v]),
    "wider": lambda v: np.hstack([v, v]),
    "NaN": lambda v: v * np.nan,
    "infinite": lambda v: v * np.inf,
    "too long": lambda v: v * 1.1,
    "too short": lambda v: v * 0.5,
    "none": lambda v: None,
    "words": lambda v: "vectors",
}


@each_row("lie", LIES)
def test_what_is_no_unit_vector_is_not_handed_on(lie: str) -> None:
    guard = GuardedEmbedder(Scripted(LIES[lie], LIES[lie]), attempts=1, query_attempts=1)
    with pytest.raises(EmbedderUnavailable, match="embedder scripted@1: "):
        guard.embed(TEXTS)
    with pytest.raises(EmbedderUnavailable, match="embedder scripted@1: "):
        guard.embed_query("tool 1")


def test_an_error_of_another_library_is_translated() -> None:
    guard = GuardedEmbedder(Scripted(ConnectionResetError("by peer")), attempts=1)
    with pytest.raises(EmbedderUnavailable, match="ConnectionResetError: by peer") as caught:
        guard.embed(TEXTS)
    assert isinstance(caught.value.__cause__, ConnectionResetError)


# Retries.


def test_documents_are_tried_again_batch_by_batch() -> None:
    inner = Scripted(None, DOWN, DOWN)
    guard = GuardedEmbedder(inner, batch=2)
    assert np.array_equal(guard.embed(TEXTS), HashingEmbedder(16).embed(TEXTS))
    first, second, third = TEXTS[:2], TEXTS[2:4], TEXTS[4:]
    assert inner.calls == [first, second, second, second, third]


@pytest.mark.parametrize("attempts", [1, 2, 3])
def test_no_more_attempts_are_made_than_allowed(attempts: int) -> None:
    inner = Scripted(*[DOWN] * 9)
    guard = GuardedEmbedder(inner, attempts=attempts, query_attempts=attempts)
    for call in (lambda: guard.embed(TEXTS), lambda: guard.embed_query("tool")):
        inner.calls.clear()
        with pytest.raises(EmbedderUnavailable, match="down"):
            call()
        assert len(inner.calls) == attempts


def test_a_refusal_is_not_tried_again() -> None:
    inner = Scripted(RequestRejected("no such model"))
    with pytest.raises(RequestRejected):
        GuardedEmbedder(inner).embed(TEXTS)
    assert len(inner.calls) == 1


def test_the_embedders_own_wish_for_a_pause_is_granted() -> None:
    inner = Scripted(EmbedderUnavailable("busy", retry_after_s=0.2))
    GuardedEmbedder(inner).embed(TEXTS)
    assert inner.times[1] - inner.times[0] >= 0.2


def test_a_pause_longer_than_the_time_left_is_not_waited_for() -> None:
    inner = Scripted(EmbedderUnavailable("busy", retry_after_s=30.0))
    start = time.monotonic()
    with pytest.raises(EmbedderUnavailable, match="busy") as caught:
        GuardedEmbedder(inner, query_timeout_s=20.0).embed_query("tool")
    assert time.monotonic() - start < 15
    assert caught.value.retry_after_s == 30.0


def test_over_http_500s_and_429s_pass_in_as_many_requests_as_it_takes(
    server: ModelServer, tmp_path: Path
) -> None:
    guard = of(server, tmp_path)
    server.requests.clear()
    server.behave += [
        servers.status(500),
        servers.status(429, Retry_After="0"),
        servers.hanging_up,
    ]
    assert guard.embed(TEXTS).shape == (6, 64)
    assert server.texts == [TEXTS] * 4


# Deadlines.


def test_a_query_that_hangs_is_given_up(let_go: Event) -> None:
    guard = GuardedEmbedder(Scripted(lambda v: let_go.wait()), query_timeout_s=0.1)
    start = time.monotonic()
    with pytest.raises(EmbedderUnavailable, match=r"no answer in 0\.1\S* s, abandoned"):
        guard.embed_query("tool")
    assert time.monotonic() - start < 60


@pytest.mark.parametrize("bad", [servers.hanging, servers.dripping])
def test_a_server_that_hangs_or_drips_is_given_up(
    server: ModelServer, tmp_path: Path, bad: servers.Answer
) -> None:
    guard = of(server, tmp_path, query_timeout_s=0.2)
    server.behave.append(bad)
    start = time.monotonic()
    with pytest.raises(EmbedderUnavailable):
        guard.embed_query("tool")
    assert time.monotonic() - start < 60


def test_retries_end_with_the_time() -> None:
    guard = GuardedEmbedder(
        Scripted(*[lambda v: time.sleep(0.03) or LIES["NaN"](v)] * 9_999),
        query_timeout_s=0.1,
        query_attempts=9_999,
    )
    start = time.monotonic()
    with pytest.raises(EmbedderUnavailable):
        guard.embed_query("tool")
    assert time.monotonic() - start < 60


def test_a_hung_embedder_takes_no_more_threads_than_its_own(let_go: Event) -> None:
    inner = Scripted(*[lambda v: let_go.wait()] * 50)
    guard = GuardedEmbedder(inner, query_timeout_s=0.01, workers=2, failures=100)
    for _ in range(50):
        with pytest.raises(EmbedderUnavailable):
            guard.embed_query("tool")
    assert len(inner.calls) == 2  # the others were not begun


# The breaker.


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000.0
        monkeypatch.setattr("circuitbreaker.monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def failing_guard(inner: Scripted, **options: Any) -> GuardedEmbedder:
    return GuardedEmbedder(inner, query_attempts=1, attempts=1, failures=3, rest_s=10, **options)


def ask(guard: GuardedEmbedder, times: int = 1) -> list[str]:
    said = []
    for _ in range(times):
        try:
            guard.embed_query("tool")
            said.append("answered")
        except EmbedderUnavailable as error:
            said.append(str(error))
    return said


def test_after_some_failures_in_a_row_nobody_is_asked(clock: Clock) -> None:
    inner = Scripted(*[DOWN] * 9)
    guard = failing_guard(inner)
    ask(guard, 10)
    assert len(inner.calls) == 3
    with pytest.raises(EmbedderUnavailable, match="paused after 3 consecutive failures: down") as caught:
        guard.embed(TEXTS)
    assert caught.value.retry_after_s == 10


def test_a_success_between_failures_keeps_it_closed(clock: Clock) -> None:
    inner = Scripted(DOWN, DOWN, None, DOWN, DOWN, None)
    assert ask(failing_guard(inner), 6).count("answered") == 2
    assert len(inner.calls) == 6


def test_after_the_rest_one_call_decides(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    inner = Scripted(*[DOWN] * 4)
    guard = failing_guard(inner)
    ask(guard, 5)
    clock.now += 10
    ask(guard, 5)  # one is let through, and fails
    assert len(inner.calls) == 4
    clock.now += 9.9
    ask(guard)
    assert len(inner.calls) == 4
    clock.now += 0.1
    assert ask(guard, 3) == ["answered"] * 3
    assert len(inner.calls) == 7
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING", "INFO"]


def test_while_one_call_is_on_trial_the_others_are_not_made(clock: Clock, let_go: Event) -> None:
    inner = Scripted(DOWN, DOWN, DOWN, lambda v: let_go.wait(60) and v)
    guard = failing_guard(inner, query_timeout_s=60)
    ask(guard, 3)
    clock.now += 10
    on_trial: list[str] = []
    thread = Thread(target=lambda: on_trial.extend(ask(guard)))
    thread.start()
    while len(inner.calls) < 4:
        time.sleep(0.001)
    assert all("paused after" in said for said in ask(guard, 5))
    let_go.set()
    thread.join()
    assert on_trial == ["answered"] and ask(guard) == ["answered"]


def test_calls_that_were_given_up_count(clock: Clock, let_go: Event) -> None:
    inner = Scripted(*[lambda v: let_go.wait()] * 9)
    guard = failing_guard(inner, query_timeout_s=0.01, workers=9)
    ask(guard, 9)
    assert len(inner.calls) == 3


def test_lies_count(clock: Clock) -> None:
    inner = Scripted(*[LIES["NaN"]] * 9)
    ask(failing_guard(inner), 9)
    assert len(inner.calls) == 3


def test_a_text_that_is_refused_does_not_cost_the_others_their_embedder(clock: Clock) -> None:
    inner = Scripted(*[RequestRejected("too long", only_this_text=True)] * 5)
    guard = failing_guard(inner)
    assert ask(guard, 6) == ["too long"] * 5 + ["answered"]


def test_a_wrong_key_does(clock: Clock) -> None:
    inner = Scripted(*[RequestRejected("wrong key")] * 9)
    ask(failing_guard(inner), 9)
    assert len(inner.calls) == 3


def test_what_began_before_it_opened_does_not_close_it(clock: Clock, let_go: Event) -> None:
    inner = Scripted(lambda v: let_go.wait(60) and v, DOWN, DOWN, DOWN)
    guard = failing_guard(inner, query_timeout_s=60)
    thread = Thread(target=lambda: guard.embed_query("slow"))
    thread.start()
    while not inner.calls:
        time.sleep(0.001)
    ask(guard, 3)
    let_go.set()
    thread.join()
    assert "paused after" in ask(guard)[0]


def test_what_interrupts_a_trial_does_not_end_all_trials(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard = failing_guard(Scripted(DOWN, DOWN, DOWN))
    ask(guard, 3)
    clock.now += 10
    with monkeypatch.context() as patch:
        patch.setattr(guard._workers, "run", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            guard.embed_query("tool")
    assert ask(guard) == ["answered"]


def test_what_the_breaker_remembers_holds_no_message() -> None:
    guard = failing_guard(Scripted(DOWN, DOWN, DOWN))
    ask(guard, 3)
    traceback = guard._breaker._state.last_failure.__traceback__
    while traceback is not None:
        assert "texts" not in traceback.tb_frame.f_locals and "ask" not in traceback.tb_frame.f_locals
        traceback = traceback.tb_next


def test_many_threads_open_it_once_and_are_all_answered_in_time(caplog: pytest.LogCaptureFixture) -> None:
    guard = failing_guard(Scripted(*[DOWN] * 999))
    said: list[str] = []
    threads = [Thread(target=lambda: said.extend(ask(guard, 20))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(said) == 160 and "answered" not in said
    assert len(caplog.records) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_begins_with_threads_and_a_breaker_of_its_own(let_go: Event) -> None:
    inner = Scripted(*[lambda v: let_go.wait()] * 3)
    guard = failing_guard(inner, query_timeout_s=0.01, workers=1)
    ask(guard, 4)
    child = os.fork()
    if child == 0:
        try:
            inner.script.clear()
            guard._query.timeout_s = 5
            os._exit(0 if ask(guard) == ["answered"] else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0


@each_row(
    "wrong",
    [
        {"attempts": 0},
        {"query_attempts": 0},
        {"batch": 0},
        {"workers": 0},
        {"failures": 0},
        {"timeout_s": 0},
        {"query_timeout_s": float("inf")},
        {"rest_s": -1},
    ],
)
def test_senseless_limits_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        GuardedEmbedder(Scripted(), **wrong)


# In a turn.

TOOLS = [
    Tool("get_forecast", "Gets the weather forecast for a city"),
    Tool("create_event", "Creates an event in the calendar"),
    Tool("refund_invoice", "Refunds an invoice to a customer"),
    *(Tool(f"tool_{i}", f"Something else number {i}") for i in range(60)),
]
MESSAGE = "weather forecast for the city"


def bad_servers() -> dict[str, servers.Answer]:
    return {
        "hanging": servers.hanging,
        "dripping": servers.dripping,
        "failing": servers.status(500),
        "hanging up": servers.hanging_up,
        "refusing": servers.status(401),
        "garbage": servers.status(200, "<html>"),
        "NaN": servers.vectors_of(lambda v: v * np.nan),
        "zero": servers.vectors_of(lambda v: v * 0),
        "wider": servers.vectors_of(lambda v: np.hstack([v, v])),
        "fewer": servers.vectors_of(lambda v: v[1:]),
    }


@pytest.mark.parametrize("kind", bad_servers())
def test_a_selection_is_made_in_time_and_says_that_the_embedder_was_missing(
    server: ModelServer, tmp_path: Path, kind: str
) -> None:
    guard = of(server, tmp_path, query_timeout_s=0.5, failures=2)
    roll = Toolroll.from_tools(TOOLS, embedder=guard)
    assert roll.select(MESSAGE, k=3).degraded == ()
    server.always = bad_servers()[kind]
    start = time.monotonic()
    for _ in range(5):
        picked = roll.select(MESSAGE, k=3)
        assert picked.degraded == ("embedder",)
        assert picked.names[0] == "get_forecast"  # by its words
    assert time.monotonic() - start < 60
    server.requests.clear()
    roll.select(MESSAGE, k=3)
    assert not server.requests  # the breaker is open
    with pytest.raises(EmbedderUnavailable, match="paused after"):
        roll.select(MESSAGE, k=3, strict=True)


def test_an_event_loop_goes_on_while_the_embedder_hangs(server: ModelServer, tmp_path: Path) -> None:
    roll = Toolroll.from_tools(TOOLS, embedder=of(server, tmp_path, query_timeout_s=0.2))
    server.always = servers.hanging

    async def main() -> tuple[Any, int]:
        selecting = asyncio.ensure_future(roll.aselect(MESSAGE, k=3))
        ticks = 0
        while not selecting.done():
            await asyncio.sleep(0.01)
            ticks += 1
        return await selecting, ticks

    picked, ticks = asyncio.run(main())
    assert picked.degraded == ("embedder",) and picked.names[0] == "get_forecast"
    assert ticks > 3


# Under a cache.


def test_a_message_that_was_seen_is_answered_while_the_server_is_away(tmp_path: Path) -> None:
    with running() as server:
        cached = CachedEmbedder(of(server, tmp_path, query_timeout_s=0.2, failures=1), tmp_path)
        expected = cached.embed_query(MESSAGE)
    with pytest.raises(EmbedderUnavailable):
        cached.embed_query("another one")
    assert np.array_equal(cached.embed_query(MESSAGE), expected)


def test_a_failure_is_not_remembered(server: ModelServer, tmp_path: Path) -> None:
    cached = CachedEmbedder(of(server, tmp_path, query_attempts=1), tmp_path)
    server.behave.append(servers.status(500))
    with pytest.raises(EmbedderUnavailable):
        cached.embed_query(MESSAGE)
    assert cached.embed_query(MESSAGE).any()
    server.requests.clear()
    cached.embed_query(MESSAGE)
    assert not server.requests


def test_a_warm_start_asks_for_one_vector_and_a_start_without_a_server_for_none(tmp_path: Path) -> None:
    def start() -> Toolroll:
        return Toolroll.from_tools(
            TOOLS, embedder=CachedEmbedder(of(server, tmp_path, query_timeout_s=0.2), tmp_path)
        )

    with running() as server:
        revision = start().catalog.revision
        server.requests.clear()
        assert start().catalog.revision == revision
        assert len(server.requests) == 1
    roll = start()
    assert roll.catalog.revision == revision
    assert roll.select(MESSAGE, k=3).degraded == ("embedder",)
    with running(server.port):
        assert roll.select(MESSAGE, k=3).degraded == ()  # one failure does not open the breaker


def test_what_was_embedded_before_the_server_failed_is_not_embedded_again(
    server: ModelServer, tmp_path: Path
) -> None:
    guard = of(server, tmp_path, attempts=1, batch=64)
    cached = CachedEmbedder(guard, tmp_path)
    texts = [f"text {i}" for i in range(600)]
    server.requests.clear()
    server.behave += [servers.good] * 4 + [servers.status(500)]  # the first 256 in four requests
    with pytest.raises(EmbedderUnavailable):
        cached.embed(texts)
    server.requests.clear()
    cached.embed(texts)
    assert sum(map(len, server.texts)) == 600 - 256
