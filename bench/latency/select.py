"""The whole `select`, offline embedder included, beside the tool selection that people install today.

Ours embeds each message and runs every stage. The peers that take vectors are given theirs, made by our
embedder beforehand, so theirs is the time of ranking alone. Every message is a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from bench import peers, workloads
from bench.harness import Case, sizes
from bench.peers.run import Remembered, hash_embed, hits
from bench.timing import Call

MESSAGES = 4096
CHECKED = 200
K = 7
#: Share of messages whose tool must be among the seven.
ENOUGH = 0.9

_HYBRID = "callbus hybrid"
_RATEL = "ratel-ai BM25"
_ROUTER = "semantic-router as in LiteLLM"

#: peer → (module, options, takes vectors, largest catalog that it builds in bearable time).
_PEERS: Mapping[str, tuple[str, dict[str, Any], bool, int]] = {
    _RATEL: ("ratel", {}, False, 100_000),
    _HYBRID: ("callbus", {"mode": "hybrid"}, True, 100_000),
    "callbus BM25": ("callbus", {"mode": "bm25"}, False, 100_000),
    _ROUTER: ("semantic_router", {}, True, 1_000),
    "FastMCP BM25": ("fastmcp_search", {}, False, 1_000),
    "microresolve": ("microresolve", {}, False, 158),
    "toolregistry BM25F": ("toolregistry", {}, False, 1_000),
    "toolpicker BM25": ("toolpicker", {}, False, 1_000),
    "dehydrator rank-bm25": ("dehydrator", {}, False, 1_000),
}

#: At least so many times as fast as this peer.
_BARS: Mapping[int, Mapping[str, float]] = {
    158: {_HYBRID: 10},
    1_000: {_RATEL: 1, _HYBRID: 10, _ROUTER: 100},
    10_000: {_RATEL: 1, _HYBRID: 10},
    100_000: {_RATEL: 1, _HYBRID: 10},
}
#: More than the caches of any processor here hold.
_COLD_BYTES = 64 << 20
_P99_US: Mapping[int, float] = {158: 1_000, 1_000: 1_000, 10_000: 1_000, 100_000: 1_000}
_GRAPH_FROM = 40_000


def cases(quick: bool) -> Iterator[Case]:
    for n in sizes(158, 1_000) if quick else sizes(158, 1_000, 10_000, 100_000):
        yield _beside_peers(n, quick)
        if n == 158:
            yield from _beside_its_kernels(n)
            yield _with_routes(n)
            yield _with_cold_caches(n)
    if not quick and 10_000 in sizes(10_000):
        yield _with_routes(10_000)


def _beside_peers(n: int, quick: bool) -> Case:
    ours, embed, why = _ours(n)
    contestants = {
        name: peers.start(
            module,
            {"tools": n, "messages": MESSAGES, "k": K, "options": options},
            Remembered(embed) if vectors else None,
            timeout_s=900,
        )
        for name, (module, options, vectors, most) in _PEERS.items()
        if n <= most and not (quick and most < 10_000)
    }

    def check() -> str:
        shares = {name: hits(call, 40, n) for name, call in contestants.items() if callable(call)}
        text = ", ".join(f"{name} {share:.2f}" for name, share in shares.items())
        if ours is not None:
            share = hits(ours, CHECKED, n)
            assert share >= ENOUGH, f"the tool asked for is among the {K} for {share:.2f} of the messages"
            text = f"ours {share:.3f}, {text}"
        return f"the tool asked for is among the {K}: {text}"

    return Case(
        operation=f"select, k={K}",
        size=f"{n:,} tools",
        ours=ours or why,
        peers=contestants,
        check=check,
        bars=_BARS.get(n, {}),
        limit_p99_us=_P99_US.get(n),
        note="ours embeds the message; callbus hybrid and semantic-router are given its vector",
        repeats=4000,
    )


def _ours(n: int) -> tuple[Call | None, Callable[[Any], Any], str]:
    """`Toolroll.select` over n tools and its embedder; or the stand-in and why there is no Toolroll."""
    try:
        from toolroll import Context, Toolroll
        from toolroll.embedders.static import StaticEmbedder
    except ImportError as error:
        return None, hash_embed, f"toolroll cannot be imported: {error}"
    embedder = StaticEmbedder()
    # The graph that a process gets in the background, some time after its start.
    roll = Toolroll.from_tools(definitions(n), embedder=embedder, hnsw=n >= _GRAPH_FROM)
    asked, context = workloads.messages(MESSAGES, n), Context()

    def select(i: int) -> tuple[str, ...]:
        return roll.select(asked[i % MESSAGES], context, k=K).names

    return select, embedder.embed, ""


def definitions(n: int) -> list[dict[str, Any]]:
    """The tools in the form that from_tools takes: the server's name is no part of a plain definition."""
    return [{key: tool[key] for key in ("name", "description", "parameters")} for tool in workloads.tools(n)]


def _with_cold_caches(n: int) -> Case:
    """A selection now and then, as in a process that does other work between two messages."""
    ours, _, why = _ours(n)
    job = {"tools": n, "messages": MESSAGES, "k": K, "options": {}}
    contestants = {name: peers.start(_PEERS[name][0], job) for name in (_RATEL, "microresolve")}

    def check() -> str:
        assert ours is not None
        share = hits(ours, CHECKED, n)
        assert share >= ENOUGH, f"the tool asked for is among the {K} for {share:.2f} of the messages"
        return f"the tool asked for is among the {K}: {share:.3f}"

    return Case(
        operation=f"select, k={K}, caches cold",
        size=f"{n:,} tools",
        ours=ours or why,
        peers=contestants,
        check=check,
        bars={_RATEL: 1},
        note=f"{_COLD_BYTES >> 20} MB touched before each call",
        repeats=400,
        budget_s=8,
        cold_bytes=_COLD_BYTES,
    )


def _beside_its_kernels(n: int) -> Iterator[Case]:
    """What a selection costs on top of the core's spelling, embedding and retrieval."""
    try:
        from tests.oracle.candidates import Candidates
        from tests.oracle.marks import Marks
        from tests.oracle.pipeline import retrieval_of

        from toolroll import Context, Toolroll
        from toolroll.embedders.static import StaticEmbedder
        from toolroll.model.context import Turn
        from toolroll.selection.compose import compose
        from toolroll.selection.profiles import PROFILES
    except ImportError:
        return
    ours, _, _ = _ours(n)
    assert ours is not None
    embedder = StaticEmbedder()
    catalog = Toolroll.from_tools(definitions(n), embedder=embedder).catalog
    profile = PROFILES["default"]
    pipeline, retrieval = compose(catalog, profile), retrieval_of(catalog, profile, 0)
    marks = Marks(catalog.marks, profile.services, profile.marks, retrieval.damping)
    search, fusion, k = retrieval.retriever.search, retrieval.fusion, retrieval.candidates
    everything, correct, embed = Candidates.everything(n).pool, catalog.speller.correct, embedder.embed_query
    asked = [
        (text, [clause for clause, *_ in pipeline.reader.read(text).clauses])
        for text in workloads.messages(MESSAGES, n)
    ]

    def marked(message: str, clauses: tuple[str, ...]) -> Any:
        """What the marks of a message add, which the search is given."""
        parts = tuple([(clause, None, 1.0, 1.0) for clause in clauses])
        found = marks(Candidates.everything(n), Turn(message, Context(), clauses=parts))
        return found.rows, found.scores

    known = [marked(message, clauses) for message, clauses in asked]

    def kernels(i: int) -> Any:
        message, clauses = asked[i % MESSAGES]
        rows, scores = known[i % MESSAGES]
        text = correct(message)
        pieces = tuple([(clause, embed(clause), 1.0, 1.0) for clause in clauses])
        return search(text, embed(text), 1.0, pieces, (), everything, rows, scores, k, fusion)

    def check() -> str:
        for i in range(CHECKED):
            names = tuple(catalog.tools[row].name for row in kernels(i)[0][:K].tolist())
            assert names == ours(i), f"message {i}: {names} and {ours(i)}"
        return f"the same {K} tools, {CHECKED} of {CHECKED} messages"

    yield Case(
        operation="select beside its own kernels",
        size=f"{n:,} tools",
        ours=ours,
        peers={"its kernels alone": kernels},
        check=check,
        bars={"its kernels alone": 0.55},
        note="at most 1.8 × the kernels is a ratio of at least 0.55; "
        "kernels: spelling, embedding and retrieval in C++",
        repeats=8000,
    )


def _with_routes(n: int) -> Case:
    """The same with a toolkit for each app and 480 keywords, so that the automaton has something to do."""
    try:
        from toolroll import Context, Toolroll
        from toolroll.model.tools import Route
    except ImportError as error:
        return Case("select with routes", f"{n:,} tools", str(error), {}, lambda: "")
    from dataclasses import replace

    from toolroll.formats.sources.dicts import read_tools

    catalog = workloads.tools(n)
    given = read_tools(definitions(n)).tools
    apps = {tool["name"]: tool["server"] for tool in catalog}
    kept = [replace(tool, toolkit=apps[tool.name]) for tool in given]
    stock = workloads.keywords(2_000)[500:]  # behind the single words, which would be in every message
    names = sorted(set(apps.values()))
    routes = [
        Route(toolkits=(app,), keywords=(app, *stock[10 * i : 10 * i + 9])) for i, app in enumerate(names)
    ]
    roll = Toolroll.from_tools(kept, routes=routes)
    asked, context = workloads.messages(MESSAGES, n), Context()

    def select(i: int) -> tuple[str, ...]:
        return roll.select(asked[i % MESSAGES], context, k=K).names

    def check() -> str:
        share = hits(select, CHECKED, n)
        assert share >= ENOUGH, f"the tool asked for is among the {K} for {share:.2f} of the messages"
        return f"the tool asked for is among the {K}: {share:.3f}"

    return Case(
        operation="select with routes",
        size=f"{n:,} tools, {len(names)} toolkits",
        ours=select,
        peers={},
        check=check,
        limit_p99_us=_P99_US.get(n),
        note=f"{sum(len(route.keywords) for route in routes)} keywords; every message names an app",
        repeats=4000,
    )
