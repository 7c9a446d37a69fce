"""How often the right tool is found, beside what a user would take instead.

``python -m bench.quality.peers FOLDER… [--by KEY] [-k 5] [--only NAME]…``. Each folder is a dataset as
`toolroll eval` reads it. Tools have no examples, messages are asked without their history, and messages that
no tool serves are left out. Prints one Markdown table a folder: recall@k of each system over all messages and
over those of each value of the context key KEY. Systems that are not installed are listed after it
(`bench/requirements.txt` pins them; toolroll with MiniLM needs the extra `onnx`).

Each system runs in a process of its own, since some change how others work.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from toolroll import Toolroll
from toolroll.lab.evaluation.dataset import Dataset, Query, divide, read_dataset, with_examples
from toolroll.lab.evaluation.metrics import recall
from toolroll.model.errors import ToolrollError

Search = Callable[[str, int], Sequence[str]]

OURS = {"toolroll": "static", "toolroll with MiniLM": "minilm", "toolroll, words alone": "none"}
PEERS: dict[str, tuple[str, dict[str, Any]]] = {
    "callbus, BM25": ("callbus", {"mode": "bm25"}),
    "FastMCP's search": ("fastmcp_search", {}),
    "ratel-ai, BM25": ("ratel", {}),
    "microresolve": ("microresolve", {}),
    "toolregistry": ("toolregistry", {}),
}


def ours(dataset: Dataset, embedder: str) -> Search:
    """The default profile with another embedder."""
    bare = with_examples(dataset.definitions, (), keep=False, most=None)
    roll = Toolroll.from_definitions(bare, embedder=embedder)
    return lambda message, k: roll.select(message, k=k).names


def peer(dataset: Dataset, module: str, options: dict[str, Any]) -> Search:
    """A peer by its adapter in `bench.peers`."""
    tools = [
        {
            "name": tool.name,
            "description": tool.description,
            "parameters": dict(tool.parameters) or {"type": "object", "properties": {}},
            "server": tool.toolkit or "tools",
        }
        for tool in dataset.definitions.tools
    ]
    build: Callable[..., Search] = importlib.import_module(f"bench.peers.{module}").build
    return build(tools, None, **options)


def asked(dataset: Dataset) -> list[Query]:
    """The messages of the test split that some tool serves."""
    return [query for query in divide(dataset.queries, "test", "none")[0] if query.gold]


def measure(folder: Path, system: str, k: int) -> list[float] | str:
    """Recall of each message, or why the system could not be asked."""
    dataset = read_dataset(folder)
    try:
        search = ours(dataset, OURS[system]) if system in OURS else peer(dataset, *PEERS[system])
        return [recall(query, search(query.text, k)) for query in asked(dataset)]
    except (ImportError, ToolrollError) as error:
        return f"{type(error).__name__}: {error}"


def alone(folder: Path, system: str, k: int) -> list[float] | str:
    """`measure` in a new process."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        try:
            return pool.submit(measure, folder, system, k).result()
        except Exception as error:  # whatever a foreign library throws is its result here
            return f"{type(error).__name__}: {error}"[:200]


def table(folder: Path, systems: Sequence[str], by: str, k: int) -> None:
    """Prints a folder's table, a row when it is known."""
    dataset = read_dataset(folder)
    queries = asked(dataset)
    groups: dict[str, list[int]] = {"all": list(range(len(queries)))}
    for at, query in enumerate(queries if by else ()):
        groups.setdefault(str(query.context.get(by, "–")), []).append(at)
    print(f"\n{dataset.name}: {len(dataset.definitions.tools)} tools, recall@{k}\n")
    print(f"| | {' | '.join(f'{name} ({len(rows)})' for name, rows in groups.items())} |")
    print(f"| --- |{' --- |' * len(groups)}", flush=True)
    absent = []
    for system in systems:
        found = alone(folder, system, k)
        if isinstance(found, str):
            absent.append(f"{system}: {found}")
            continue
        column = np.array(found)
        means = " | ".join(f"{column[rows].mean():.3f}" for rows in groups.values())
        print(f"| {system} | {means} |", flush=True)
    for line in absent:
        print(f"\nnot measured: {line}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, and prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--by", default="", metavar="KEY", help="a context key")
    parser.add_argument("-k", type=int, default=5)
    known = (*OURS, *PEERS)
    parser.add_argument("--only", action="append", choices=known, metavar="NAME", help=json.dumps(known))
    args = parser.parse_args(arguments)
    for folder in args.folders:
        table(folder, args.only or known, args.by, args.k)
    return 0


if __name__ == "__main__":
    sys.exit(main())
