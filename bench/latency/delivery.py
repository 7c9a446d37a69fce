"""What it costs to write a selection into a request, in each way, beside a selection.

The whole list of `allow` and `defer` is the same on each turn; beside it stands the plain way, which
converts and copies it each time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy

from bench.harness import Case, sizes
from toolroll import Selection, Tool, Toolroll
from toolroll.formats.meta_tools import SEARCH_TOOLS
from toolroll.formats.providers import MOST_TOOLS, PROVIDERS, How
from toolroll.formats.schemas import convert_all

MESSAGES = (
    "Will it rain in Oslo tomorrow?",
    "play some music",
    "book a table for two",
    "send the report to Bob",
)
K = 7
_EACH_TIME = "the list put together each time"
_SELECT = "the selection itself"
_AS_JSON = "the same as bytes"


def cases(quick: bool) -> Iterator[Case]:
    for n in sizes(120) if quick else sizes(120, 6_000):
        roll = _roll(n)
        picked = [roll.select(text, k=K) for text in MESSAGES]
        for provider, how in _ways(n):
            yield _case(roll, picked, provider, how)


def _roll(n: int) -> Toolroll:
    tools = Toolroll.demo().catalog.tools
    rounds = -(-n // len(tools))
    named = [
        Tool(f"{tool.name}_{i}", tool.description, deepcopy(tool.parameters))
        for i in range(rounds)
        for tool in tools
    ]
    return Toolroll.from_tools(named[:n])


def _ways(n: int) -> Iterator[tuple[str, How]]:
    for provider in PROVIDERS.values():
        for how in provider.hows:
            if how != "allow" or n <= MOST_TOOLS[provider.name]:
                yield provider.name, how


def _case(roll: Toolroll, picked: list[Selection], provider: str, how: How) -> Case:
    def ours(i: int) -> object:
        return picked[i % len(picked)].deliver(provider, how).request

    def as_json(i: int) -> object:
        return picked[i % len(picked)].deliver(provider, how).request_json

    def each_time(i: int) -> object:
        selection = picked[i % len(picked)]
        tools = [selection.catalog.tools[row] for row in selection.candidates.allowed.rows().tolist()]
        if how == "allow":
            return convert_all(tools, provider)[0]
        return convert_all([SEARCH_TOOLS, *tools], provider, deferred={tool.name for tool in tools})[0]

    def select(i: int) -> object:
        return roll.select(MESSAGES[i % len(MESSAGES)], k=K)

    is_whole = how == "allow" or (provider, how) == ("anthropic", "defer")

    def check() -> str:
        assert all(json.loads(as_json(i)) == ours(i) for i in range(len(picked))), (
            "the bytes say something else"
        )  # type: ignore[arg-type]
        sent = [json.dumps(ours(i)["tools"]) for i in range(len(picked))]  # type: ignore[index]
        if how == "replace":
            return f"{len(sent[0]):,} characters"
        assert len(set(sent)) == 1, "the list changes from turn to turn"
        if is_whole:
            assert sent[0] == json.dumps(each_time(0)), "the list is not the one that is made plainly"
        return f"{len(sent[0]):,} characters, the same on each turn"

    return Case(
        operation=f"deliver: {how}, {provider}",
        size=f"{len(roll.catalog):,} tools",
        ours=ours,
        peers={_SELECT: select, _AS_JSON: as_json, **({_EACH_TIME: each_time} if is_whole else {})},
        check=check,
        beside=(_SELECT, _AS_JSON, _EACH_TIME),
        repeats=500,
    )
