"""One peer by itself: ``python -m bench.peers.run NAME [toy] [N ...] [key=value ...]`` prints JSON lines.

``toy`` proves the adapter on three tools; each N times it on a catalog of that size. ``--serve`` speaks the
protocol of `bench.peers.Remote` on standard input and output: one JSON object a line each way.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import importlib
import importlib.metadata
import json
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from bench import machine, timing, workloads

_TOYS = [
    {
        "name": "get_weather",
        "description": "Get the current weather and the forecast for a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "description": "Name of the city"}},
            "required": ["city"],
        },
        "server": "weather",
    },
    {
        "name": "send_email",
        "description": "Send an email message to somebody.",
        "parameters": {
            "type": "object",
            "properties": {
                "to": {"type": "string", "description": "Address of the recipient"},
                "body": {"type": "string", "description": "Text of the message"},
            },
            "required": ["to", "body"],
        },
        "server": "mail",
    },
    {
        "name": "create_calendar_event",
        "description": "Create a calendar event or a meeting at a given time.",
        "parameters": {
            "type": "object",
            "properties": {
                "title": {"type": "string"},
                "start": {"type": "string", "description": "Date and time, ISO 8601"},
            },
            "required": ["title", "start"],
        },
        "server": "calendar",
    },
]
_ASKED = [
    ("what is the weather in Rome", "get_weather"),
    ("send an email to Bob about the demo", "send_email"),
    ("schedule a meeting tomorrow at 10", "create_calendar_event"),
]


def hash_embed(texts: Sequence[str], dim: int = 384) -> NDArray[np.float32]:
    """A stand-in where toolroll's embedder is not there: signed hashes of words and trigrams, unit rows."""
    out = np.zeros((len(texts), dim), dtype=np.float32)
    for row, text in zip(out, texts, strict=True):
        for word in re.findall(r"\w+", text.lower().replace("_", " ")):
            framed = f"<{word}>"
            for gram in [word, *(framed[i : i + 3] for i in range(len(framed) - 2))]:
                digest = int.from_bytes(hashlib.blake2b(gram.encode(), digest_size=8).digest(), "little")
                row[digest % dim] += 1.0 if digest >> 63 else -1.0
    norms = np.linalg.norm(out, axis=1, keepdims=True)
    out /= np.maximum(norms, 1e-9)
    return out


class Remembered:
    """Each text embedded once: what is timed afterwards is the peer's own work, "vectors given"."""

    def __init__(self, embed: Callable[[Sequence[str]], NDArray[np.float32]]) -> None:
        self._embed = embed
        self._known: dict[str, NDArray[np.float32]] = {}

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if new:
            self._known.update(zip(new, self._embed(new), strict=True))
        if len(texts) == 1:
            return self._known[texts[0]][None, :]
        return np.stack([self._known[text] for text in texts])


def rss_bytes() -> int:
    """Resident memory of this process; 0 where the system does not tell as Linux does."""
    with contextlib.suppress(OSError), open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _peer(name: str) -> Any:
    return importlib.import_module(f"bench.peers.{name}")


def _job(name: str, job: dict[str, Any], embed: Any) -> tuple[timing.Call, dict[str, Any]]:
    """Makes the workload, builds the peer and asks it once: many finish building at the first query."""
    peer, options, k = _peer(name), job.get("options", {}), job.get("k", 7)
    gc.collect()
    if "vectors" in job:
        vectors = workloads.clustered_vectors(job["vectors"], job.get("dim", 384))
        queries = workloads.queries_near(vectors, job.get("queries", 200))
        before, start = rss_bytes(), time.perf_counter()
        search = peer.load(vectors, k, **options)

        def call(i: int) -> object:
            return search(queries[i % len(queries)])
    else:
        catalog = workloads.tools(job["tools"])
        asked = workloads.messages(job.get("messages", 200), job["tools"])
        if embed is not None:
            embed(asked)
        before, start = rss_bytes(), time.perf_counter()
        select = peer.build(catalog, embed, **options)

        def call(i: int) -> object:
            return select(asked[i % len(asked)], k)

    call(0)
    built_s = time.perf_counter() - start
    grown = rss_bytes() - before
    gc.collect()
    gc.freeze()
    return call, {"build_s": round(built_s, 4), "rss_bytes": grown, "versions": machine.versions()}


def _serve(name: str, inlet: TextIO, outlet: TextIO) -> None:
    def say(reply: dict[str, Any]) -> None:
        outlet.write(json.dumps(reply) + "\n")
        outlet.flush()

    def from_parent(texts: Sequence[str]) -> NDArray[np.float32]:
        say({"texts": list(texts)})
        path = json.loads(inlet.readline())["vectors"]
        vectors: NDArray[np.float32] = np.load(path)
        os.unlink(path)
        return vectors

    call: timing.Call | None = None
    clock_ns = timing.clock_cost_ns()
    for line in inlet:
        request = json.loads(line)
        try:
            if request["do"] == "build":
                embed = Remembered(from_parent) if request.pop("embed", False) else None
                call, facts = _job(name, request, embed)
                gc.disable()
                say(facts)
            elif request["do"] == "answer":
                assert call is not None
                answer = call(request["i"])
                say({"answer": answer.tolist() if isinstance(answer, np.ndarray) else answer})
            else:
                assert call is not None
                first, budget_ns, at_most = request["first"], request["budget_ns"], request["at_most"]
                with timing.scheduled(request["cpu"], request["realtime"]):
                    timed = timing.burst(call, first, budget_ns, at_most, clock_ns, request["cold_bytes"])
                say({"ns": timed})
        except ModuleNotFoundError as error:
            say({"missing": str(error)})
        except Exception as error:  # whatever a foreign library throws is its result here
            say({"failed": f"{type(error).__name__}: {error}"[:300]})


def _toy(name: str, options: dict[str, Any]) -> bool:
    select = _peer(name).build(_TOYS, Remembered(hash_embed), **options)
    answers = {text: select(text, 2) for text, _ in _ASKED}
    right = all(answers[text][:1] == [wanted] for text, wanted in _ASKED)
    print(json.dumps({"peer": name, "options": options, "toy": right, "answers": answers}))
    return right


def hits(call: timing.Call, count: int, n: int) -> float:
    """Share of the first messages about n tools whose tool is in the answer."""
    wanted = workloads.targets(count, n)
    found = 0
    for i in range(count):
        names: Any = call(i)
        found += any(tuple(name.split("_")[:3]) == wanted[i] for name in names)
    return found / count


def _probe(name: str, n: int, options: dict[str, Any]) -> None:
    call, facts = _job(name, {"tools": n, "messages": 200, "options": options}, Remembered(hash_embed))
    gc.disable()
    times = timing.burst(call, 0, 3_000_000_000, 2000, timing.clock_cost_ns())[1:]
    gc.enable()
    facts |= {f"p{q}_us": round(float(np.percentile(times, q)) / 1e3, 1) for q in (50, 99) if times}
    facts |= {"target_in_7": hits(call, min(100, len(times) + 1), n)}
    facts.pop("versions")
    print(json.dumps({"peer": name, "options": options, "tools": n, **facts}))


def main(arguments: list[str]) -> int:
    name, *rest = arguments
    if rest == ["--serve"]:
        # What the peer prints goes to standard error: the line protocol keeps the real standard output.
        outlet = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        _serve(name, sys.stdin, outlet)
        return 0
    options: dict[str, Any] = {}
    for argument in rest:
        if "=" in argument:
            key, value = argument.split("=", 1)
            options[key] = {"true": True, "false": False}.get(value, value)
    right = True
    for argument in rest:
        if argument == "toy":
            right &= _toy(name, options)
        elif argument.isdigit():
            _probe(name, int(argument), options)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
