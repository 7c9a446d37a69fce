"""Whole selections of ours, and what follows them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache

from bench import workloads
from bench.micro.rotation import Call, each
from toolroll import Context, Observer, Toolroll
from toolroll.embedders.static import StaticEmbedder
from toolroll.formats.sources.dicts import read_tools
from toolroll.model.tools import Route
from toolroll.selection.selection import Selection
from toolroll.sessions.session import Session

K, TURNS, TAUGHT = 7, 10, 300
MANY = 1_000
CONTEXT = Context(user="ann", session="plain")


@lru_cache(maxsize=2)
def roll_of(n: int) -> Toolroll:
    return Toolroll.from_tools(read_tools(workloads.tools(n)).tools, embedder=StaticEmbedder())


@lru_cache(maxsize=2)
def asked(n: int = 158) -> list[str]:
    return workloads.messages(1_024, n)


@lru_cache(maxsize=1)
def picked() -> list[Selection]:
    """Selections of just twelve tools."""
    found = [roll_of(158).select(text, k=12) for text in asked()[:64]]
    assert {len(one) for one in found} == {12}
    return found


def plain() -> Call:
    roll = roll_of(158)
    return each(lambda text: roll.select(text, CONTEXT, K), asked())


def plain_1_000() -> Call:
    roll = roll_of(MANY)
    return each(lambda text: roll.select(text, CONTEXT, K), asked(MANY))


def three_clauses() -> Call:
    roll, texts = roll_of(158), asked()
    joined = [f"{texts[at]}, then {texts[at + 1]} and after that {texts[at + 2]}" for at in range(512)]
    return each(lambda text: roll.select(text, CONTEXT, K), joined)


def routes_hit() -> Call:
    kept = [
        replace(tool, toolkit=given["server"])
        for tool, given in zip(read_tools(workloads.tools(158)).tools, workloads.tools(158), strict=True)
    ]
    apps = sorted({tool.toolkit for tool in kept})
    routes = [Route(toolkits=(app,), keywords=(f"with {app}",)) for app in apps]
    roll = Toolroll.from_tools(kept, routes=routes, embedder=StaticEmbedder())
    texts = [f"{text} with {apps[at % len(apps)]}" for at, text in enumerate(asked())]
    assert "keyword" in roll.select(texts[0], k=K).explain()
    return each(lambda text: roll.select(text, CONTEXT, K), texts)


@lru_cache(maxsize=1)
def taught() -> Toolroll:
    roll = Toolroll.from_tools(read_tools(workloads.tools(158)).tools, embedder=StaticEmbedder())
    for at in range(TAUGHT):
        one = roll.select(asked()[at], Context(user=f"user-{at % 40}"), K)
        roll.record(one, {one.names[at % 3]: at % 10 > 0})
    return roll


def learnt() -> Call:
    roll = taught()
    return each(lambda text: roll.select(text, CONTEXT, K), asked())


def session_turn() -> Call:
    """A turn of a conversation whose list has grown and in which tools were called."""
    ready: list[Session] = []
    for at in range(40):
        session = roll_of(158).session(f"conversation-{at}", CONTEXT, learns=False)
        for turn in range(1, TURNS):
            chosen = session.select(asked()[at + turn], K, turn=turn)
            session.used(chosen.names[-1:])
        ready.append(session)
    # Another message each time: the same one again would be a further step of the same turn.
    turns = [(ready[at % len(ready)], text) for at, text in enumerate(asked())]
    return each(lambda one: one[0].select(one[1], K, turn=TURNS), turns)


def observed() -> Call:
    roll = Toolroll.from_tools(read_tools(workloads.tools(158)).tools, embedder=StaticEmbedder())

    class Ignoring(Observer):
        def on_selection(self, selection: Selection) -> None: ...

    roll.observe(Ignoring())
    return each(lambda text: roll.select(text, CONTEXT, K), asked())


def logged() -> Call:
    """With a record at DEBUG that goes nowhere."""
    log = logging.getLogger("toolroll.selection")
    roll = roll_of(158)

    def select(text: str) -> Selection:
        log.setLevel(logging.DEBUG)
        try:
            return roll.select(text, CONTEXT, K)
        finally:
            log.setLevel(logging.NOTSET)

    if not any(isinstance(handler, logging.NullHandler) for handler in log.handlers):
        log.addHandler(logging.NullHandler())
        log.propagate = False
    return each(select, asked())


def record() -> Call:
    """An outcome in memory, which changes what is known each time."""
    roll = Toolroll.from_tools(read_tools(workloads.tools(158)).tools, embedder=StaticEmbedder())
    chosen = [roll.select(text, CONTEXT, K) for text in asked()]
    outcomes = [(one, works) for works in (True, False) for one in chosen]
    return each(lambda given: roll.record(given[0], {given[0].names[0]: given[1]}), outcomes)


def schemas() -> Call:
    return each(lambda one: one.schemas("openai"), picked())


def schemas_json() -> Call:
    return each(lambda one: one.schemas_json("openai"), picked())


def deliver() -> Call:
    return each(lambda one: one.deliver("anthropic", "replace").request_json, picked())


def deliver_deferred() -> Call:
    return each(lambda one: one.deliver("anthropic", "defer").request_json, picked())


def check() -> Call:
    chosen = [roll_of(158).select(text, CONTEXT, K) for text in asked()[:64]]
    return each(lambda one: one.check(one.names[0]), chosen)


def contains() -> Call:
    return each(lambda one: one.names[0] in one, picked())


def tools() -> Call:
    return each(lambda one: one.tools, picked())


def summary() -> Call:
    return each(Selection.summary, picked())


def explain() -> Call:
    return each(Selection.explain, picked())


SELECTIONS: Mapping[str, Callable[[], Call]] = {
    make.__name__: make
    for make in (
        plain, plain_1_000, three_clauses, routes_hit, learnt, session_turn, observed, logged, record,
        schemas, schemas_json, deliver, deliver_deferred, check, contains, tools, summary, explain,
    )
}  # fmt: skip
