"""The cost of learning: selections with and without statistics, and recording outcomes."""

from __future__ import annotations

from collections.abc import Iterator

from bench import workloads
from bench.harness import Case, sizes
from toolroll import Context, Profile, Toolroll
from toolroll.embedders.static import StaticEmbedder
from toolroll.formats.sources.dicts import read_tools
from toolroll.selection.selection import Selection

MESSAGES = 4096
K = 7
TAUGHT = 3_000
_WITHOUT = "without outcomes"
_WITHOUT_RANKED = "without outcomes, as many candidates"
_SELECTION = "the selection itself"
#: At most so many times the selection without.
_MOST = 1.2
_TIERS, _PAGES, _USERS = ("free", "team", "enterprise"), 12, 300


def cases(quick: bool) -> Iterator[Case]:
    for n in sizes(158) if quick else sizes(158, 10_000):
        yield from _cases(n)


def _cases(n: int) -> Iterator[Case]:
    tools = read_tools(workloads.tools(n)).tools
    embedder = StaticEmbedder()
    learning = Toolroll.from_tools(tools, embedder=embedder, profile=Profile(rescored=30))
    plain = Toolroll.from_tools(tools, embedder=embedder, profile=Profile(learning=None))
    wide = Toolroll.from_tools(tools, embedder=embedder, profile=Profile(learning=None, candidates=30))
    asked = workloads.messages(MESSAGES, n)
    contexts = [
        Context(user=f"user-{at}", tier=_TIERS[at % 3], page=f"page-{at % _PAGES}") for at in range(_USERS)
    ]

    def by(roll: Toolroll) -> object:
        return lambda i: roll.select(asked[i % MESSAGES], contexts[i % _USERS], k=K)

    for i in range(TAUGHT):
        picked = learning.select(asked[i % MESSAGES], contexts[i % _USERS], k=K)
        if picked.names:
            learning.record(picked, {picked.names[i % min(3, len(picked))]: i % 10 > 0})

    def check() -> str:
        differ = sum(
            learning.select(asked[i], contexts[i % _USERS], k=K).names
            != plain.select(asked[i], contexts[i % _USERS], k=K).names
            for i in range(400)
        )
        assert differ > 20, "outcomes change nothing"
        return f"{differ} of 400 selections differ"

    yield Case(
        operation=f"select with what {TAUGHT:,} outcomes taught, 30 candidates, k={K}",
        size=f"{n:,} tools",
        ours=by(learning),  # type: ignore[arg-type]
        peers={_WITHOUT: by(plain), _WITHOUT_RANKED: by(wide)},  # type: ignore[dict-item]
        check=check,
        bars={_WITHOUT: 1 / _MOST},
        beside=(_WITHOUT, _WITHOUT_RANKED),
        note="learned vectors, lift, reliability and the draw; the second kept as many candidates",
        repeats=4000,
    )

    events: list[Selection] = [
        learning.select(asked[i % MESSAGES], contexts[i % _USERS], k=K) for i in range(40_000)
    ]

    def record(i: int) -> object:
        picked = events[i % len(events)]
        return learning.record(picked, {picked.names[0]: True} if picked.names else {})

    def counted() -> str:
        picked = learning.select(asked[0], contexts[0], k=K)
        assert learning.record(picked, {picked.names[0]: True}).counted == 1
        assert learning.record(picked, {picked.names[0]: True}).counted == 0
        return "counts once"

    yield Case(
        operation="record an outcome, in memory",
        size=f"{n:,} tools",
        ours=record,
        peers={_SELECTION: by(learning)},  # type: ignore[dict-item]
        check=counted,
        bars={_SELECTION: 1.0},
        beside=(_SELECTION,),
        note="folded at once; every event a new one",
        repeats=4000,
    )
