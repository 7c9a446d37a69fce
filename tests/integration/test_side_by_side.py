"""The same questions to twins: both databases, sync and async, with and without caches. All lists are identical."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.decisions.audit import Run, message, write
from tests.decisions.worlds import Case, Draw, roll_of
from toolroll import Context, Follow, Recording, Toolroll
from toolroll.embedders.cached import CachedEmbedder
from toolroll.embedders.static import StaticEmbedder
from toolroll.formats.providers import PROVIDERS
from toolroll.registry.registry import Registry
from toolroll.selection.selection import Selection
from toolroll.selection.stages.visibility import Visibility

pytestmark = pytest.mark.slow

LISTS = int(os.environ.get("TOOLROLL_TWINS", "500"))  # of each pair of twins
NOW = float(int(time.time()))  # databases keep microseconds
CALLERS = 25  # of one world
OPERATIONS = ("load", "unload", "fallback", "search", "used", "end_turn", "hints")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def run() -> Iterator[Run]:
    loop = asyncio.new_event_loop()
    yield loop.run_until_complete
    loop.close()


class Async:
    """Calls the twin with an "a" in front of its name, where there is one."""

    def __init__(self, of: Any, run: Run) -> None:
        self._of, self._run = of, run

    def __getattr__(self, name: str) -> Any:
        twin = getattr(self._of, f"a{name}", None)
        if twin is None:
            return getattr(self._of, name)

        def call(*arguments: Any, **options: Any) -> Any:
            found = self._run(twin(*arguments, **options))
            return Async(found, self._run) if name == "session" else found

        return call


class Forgetful:
    """Forgets what the policy has remembered before each call."""

    def __init__(self, roll: Toolroll) -> None:
        self._roll = roll

    def __getattr__(self, name: str) -> Any:
        visibility = self._roll._engine.snapshot.shared.hard[0]
        assert isinstance(visibility, Visibility) and visibility.policy is not None
        visibility.policy._forget()
        return getattr(self._roll, name)


class Silent:
    """Reports nothing: a registry keeps vectors of messages in half precision, so what it learns is a bit off."""

    def __init__(self, roll: Toolroll) -> None:
        self._roll = roll

    def record(self, *arguments: Any, **options: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return getattr(self._roll, name)


class Following:
    """Waits after each report until it counts."""

    def __init__(self, roll: Toolroll) -> None:
        self._roll = roll

    def record(self, *arguments: Any, **options: Any) -> None:
        self._roll.record(*arguments, **options)
        assert self._roll.flush(20)
        self._roll.warm_up([arguments[0].turn.context.org])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._roll, name)


def in_memory(case: Case, embedder: Any = "static") -> Toolroll:
    return fixed(roll_of(case, embedder))


def fixed(roll: Toolroll) -> Toolroll:
    """The same draws at the same time."""
    numbers = count()
    roll._engine._draw = lambda: next(numbers)
    roll._engine._clock = lambda: NOW
    return roll


def told(picked: Selection) -> tuple[object, ...]:
    """All that a selection decides."""
    return (
        picked.names,
        picked.candidates.scores.tolist(),
        picked.degraded,
        picked.confidence,
        picked.has_match,
        picked.missing_required,
    )


def answers(roll: Any, case: Case, seed: str) -> Iterator[object]:
    """What callers get, one list after the other; the same questions for the same seed."""
    draw = Draw(seed)
    names = [tool.name for tool in case.world.tools]
    for at in range(CALLERS):
        context: Context = draw.context(case)
        picked = roll.select(message(draw), context, draw.choice((None, 3, 7)))
        yield told(picked)
        provider = draw.choice(list(PROVIDERS))
        how = draw.choice(PROVIDERS[provider].hows)
        yield picked.deliver(provider, how).request
        yield told(roll.select("", replace(context, everything=True)))
        yield told(roll.select("", replace(context, required=tuple(draw.sample(names, 5)))))
        yield roll.visible(context).names
        if picked.names:
            roll.record(picked, {picked.names[0]: draw.maybe(0.7)}, reporter=f"user {at}")
        session = roll.session(f"talk {seed} {at}", context, learns=False)
        for _ in range(2):
            yield told(session.select(message(draw), draw.choice((None, 3))))
            yield step(session, draw, names)
            yield told(session.selection) if session.is_open else None


def step(session: Any, draw: Draw, names: list[str]) -> object:
    """Something that happens within a turn."""
    operation, some = draw.choice(OPERATIONS), draw.sample(names, 3)
    if operation in ("load", "unload"):
        answer = getattr(session, operation)(some)
        return answer.text, [tool.name for tool in answer.tools]
    if operation == "used":
        return session.used(dict.fromkeys(some, True))
    if operation == "search":
        return [tool.name for tool in session.search(message(draw) or "rain")]
    if operation == "fallback":
        return session.fallback().text
    return getattr(session, operation)()


def compare(make: Callable[[Draw, ExitStack], tuple[Case, Any, Any]], kind: str) -> int:
    """Asks both twins of world after world; how many lists were identical."""
    lists = 0
    for seed in count():
        with ExitStack() as stack:
            case, one, other = make(Draw(f"{kind} {seed}"), stack)
            pairs = zip(answers(one, case, str(seed)), answers(other, case, str(seed)), strict=True)
            for at, (first, second) in enumerate(pairs):
                assert first == second, (kind, seed, at)
                lists += 1
        if lists >= LISTS:
            print(f"{kind}: {lists:,} lists, all identical")
            return lists
    raise AssertionError


@pytest.mark.timeout(14_400)
def test_async_twins_decide_as_the_others(run):
    def make(draw: Draw, stack: ExitStack) -> tuple[Case, Any, Any]:
        case = draw.case()
        return case, in_memory(case), Async(in_memory(case), run)

    compare(make, "sync and async")


@pytest.mark.timeout(14_400)
def test_what_was_remembered_changes_no_list():
    def make(draw: Draw, stack: ExitStack) -> tuple[Case, Any, Any]:
        case = draw.case()
        return case, in_memory(case), Forgetful(in_memory(case))

    compare(make, "policy cached and not")


@pytest.mark.timeout(14_400)
def test_vectors_from_the_cache_give_the_same_lists(tmp_path):
    inner = StaticEmbedder()

    def make(draw: Draw, stack: ExitStack) -> tuple[Case, Any, Any]:
        case = draw.case()
        CachedEmbedder(inner, tmp_path).embed([tool.description for tool in case.world.tools])
        return case, in_memory(case, inner), in_memory(case, CachedEmbedder(inner, tmp_path))

    compare(make, "vectors cached and not")


def registry_of(url: str, case: Case, outbox: Path, stack: ExitStack) -> tuple[Case, Toolroll]:
    """A registry with this world; the world as it took it."""
    with Registry.open(url, actor="ada") as registry:
        case = write(registry, case)
    roll = stack.enter_context(
        Toolroll.open(
            url,
            profile=case.profile,
            follow=Follow(poll_s=60, settings_s=60, listens=False),
            recording=Recording(outbox=outbox),
        )
    )
    roll.warm_up()
    return case, fixed(roll)


@pytest.mark.timeout(14_400)
def test_a_registry_decides_as_the_same_tools_in_memory(new_database_url, tmp_path):
    numbers = count()

    def make(draw: Draw, stack: ExitStack) -> tuple[Case, Any, Any]:
        case = replace(draw.case(), routes=())
        url = new_database_url("sqlite")
        case, roll = registry_of(url, case, tmp_path / f"outbox {next(numbers)}", stack)
        return case, Silent(in_memory(case)), Silent(roll)

    compare(make, "memory and SQLite")


@pytest.mark.timeout(14_400)
def test_both_databases_decide_alike(postgresql, new_database_url, tmp_path):
    numbers = count()

    def make(draw: Draw, stack: ExitStack) -> tuple[Case, Any, Any]:
        case = draw.case(orgs=("acme", "globex"))
        rolls = []
        for dialect in ("sqlite", "postgresql"):
            url, outbox = new_database_url(dialect), tmp_path / f"outbox {next(numbers)}"
            taken, roll = registry_of(url, case, outbox, stack)
            rolls.append((taken, Following(roll)))
        (first, one), (second, other) = rolls
        assert first == second
        return first, one, other

    compare(make, "SQLite and PostgreSQL")
