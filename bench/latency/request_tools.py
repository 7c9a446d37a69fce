"""The tools of a request: indexed and asked for the first time, found again, and with one tool changed.

Lists have 600 bytes of JSON a tool. "First" is a list of which nothing was seen before, from its parsed
objects to the first selection. A hit is the same objects, or the same content in new objects, as a gateway
parses it from each request; the selection itself comes on top (`select`). Users without a catalog would index
the same texts with rank_bm25 or bm25s for each request: by words alone, without stems, rules or vectors.
"""

from __future__ import annotations

import gc
import hashlib
import json
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

from bench import workloads
from bench.harness import Case, Figure, sizes

K = 8
MESSAGE = "please approve the overdue invoice"
_FIRST_MS = {20: 1.0, 128: 3.0, 500: 12.0}
_HIT_US = 20.0
_LISTS = 15


def cases(quick: bool) -> Iterator[Case | Figure]:
    for n in sizes(20, 128) if quick else sizes(20, 128, 500):
        yield from _of_size(n, 3 if quick else _LISTS)


def _of_size(n: int, count: int) -> Iterator[Case | Figure]:
    from toolroll import Toolroll

    lists = _lists(n, count)
    rolls = [Toolroll.from_tools([]) for _ in lists]
    roll, first = rolls[0], lists[0]
    Toolroll.from_tools([]).with_tools(first[:12]).select(MESSAGE, k=K)
    yield Figure(
        "a list for the first time, with its first selection",
        f"{n} tools",
        _median_ms(lambda at: rolls[at].with_tools(lists[at]).select(MESSAGE, k=K), count),
        "ms",
        _FIRST_MS.get(n),
        f"median of {count} lists",
        {"rank_bm25": _peer_ms(_rank_bm25, lists), "bm25s": _peer_ms(_bm25s, lists)},
    )
    changed = [[*first[: n // 2], *_lists(1, 1, f"_{at}")[0], *first[n // 2 + 1 :]] for at in range(count)]
    yield Figure(
        "a list of which one tool is new, with its first selection",
        f"{n} tools",
        _median_ms(lambda at: roll.with_tools(changed[at]).select(MESSAGE, k=K), count),
        "ms",
    )
    yield Case(
        "hit: the same objects",
        f"{n} tools",
        ours=lambda i: roll.with_tools(first),
        peers={},
        check=lambda: _checked(roll, first, first),
        limit_us=_HIT_US,
    )
    text = json.dumps(first)
    fresh = [json.loads(text) for _ in range(16)]
    yield Case(
        "hit: the same content in new objects",
        f"{n} tools",
        ours=lambda i: roll.with_tools(fresh[i % len(fresh)]),
        peers={
            "json.loads": lambda i: json.loads(text),
            "json.dumps and BLAKE2": lambda i: hashlib.blake2b(json.dumps(fresh[0]).encode()).digest(),
        },
        check=lambda: _checked(roll, first, fresh[0]),
        note="every value is compared; beside it what the parsing takes, and a digest of the list",
    )


def _lists(n: int, count: int, suffix: str = "") -> list[list[dict[str, Any]]]:
    """Lists of different tools, as a request of OpenAI's chat has them."""
    made = [
        {
            "type": "function",
            "function": {
                "name": tool["name"] + suffix,
                "description": tool["description"],
                "parameters": tool["parameters"],
            },
        }
        for tool in workloads.tools(n * count)
    ]
    return [made[at * n : (at + 1) * n] for at in range(count)]


def _median_ms(run: Callable[[int], object], count: int) -> float:
    took = []
    for at in range(count):
        gc.collect()
        start = time.perf_counter()
        run(at)
        took.append(1e3 * (time.perf_counter() - start))
    return statistics.median(took)


def _peer_ms(
    search: Callable[[list[dict[str, Any]], str], object], lists: list[list[dict[str, Any]]]
) -> float | None:
    try:
        search(lists[0], MESSAGE)
    except ImportError:
        return None
    return _median_ms(lambda at: search(lists[at], MESSAGE), len(lists))


def _texts(tools: list[dict[str, Any]]) -> list[str]:
    texts = []
    for tool in tools:
        function = tool["function"]
        parameters = function["parameters"].get("properties", {})
        words = [f"{name} {said.get('description', '')}" for name, said in parameters.items()]
        texts.append(" ".join([function["name"].replace("_", " "), function["description"], *words]).lower())
    return texts


def _rank_bm25(tools: list[dict[str, Any]], message: str) -> object:
    import rank_bm25

    index = rank_bm25.BM25Okapi([text.split() for text in _texts(tools)])
    return index.get_top_n(message.split(), tools, n=K)


def _bm25s(tools: list[dict[str, Any]], message: str) -> object:
    import bm25s

    index = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    index.index(bm25s.tokenize(_texts(tools), stopwords=None, show_progress=False), show_progress=False)
    tokens = bm25s.tokenize(message, stopwords=None, show_progress=False)
    rows, _ = index.retrieve(tokens, k=min(K, len(tools)), show_progress=False)
    return [tools[row] for row in rows[0].tolist()]


def _checked(roll: Any, first: list[dict[str, Any]], again: list[dict[str, Any]]) -> str:
    ours, theirs = roll.with_tools(again), roll.with_tools(first)
    assert ours.catalog is theirs.catalog, "the list was indexed again"
    picked = ours.select(MESSAGE, k=K)
    own = {id(tool) for tool in again}
    assert all(id(tool) in own for tool in picked.tools), "an object of another request came back"
    assert picked.names == theirs.select(MESSAGE, k=K).names
    return "the same catalog, the request's own objects"
