"""The graph of a large catalog: built beside selections, stopped, and made again where it is lost."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import pytest

from toolroll import Tool, Toolroll
from toolroll._core import GraphBuild, VectorIndex
from toolroll.catalog import catalog as catalog_module

WORDS = ("rain", "mail", "invoice", "calendar", "photo", "music", "ticket", "deploy", "backup", "translate")
TOOLS = [
    Tool(f"tool_{i}", f"{WORDS[i % 10]} {WORDS[i // 10 % 10]} {WORDS[i // 100]} number {i}")
    for i in range(300)
]


def index_of(rows: int) -> VectorIndex:
    vectors = np.random.default_rng(rows).standard_normal((rows, 32)).astype(np.float32)
    return VectorIndex.build(vectors)


def wait_until(holds: Callable[[], bool], seconds: float = 240.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.fixture
def pays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small catalogs count as large ones."""
    monkeypatch.setattr(catalog_module, "LEAST_NUMBERS_FOR_GRAPH", 300 * 256)


def test_an_index_is_searched_exactly_until_its_graph_is_there() -> None:
    index = index_of(800)
    query = np.ones(32, np.float32)
    exact = index.search(query, 10, method="exact")
    build = GraphBuild(index, ef_construction=40)
    while build.is_running:
        if not index.has_graph:
            rows, _ = index.search(query, 10)
            assert index.has_graph or rows.tolist() == exact[0].tolist()
    assert index.has_graph and build.done == 800
    rows, _ = index.search(query, 10, method="graph")
    assert len(set(rows.tolist()) & set(exact[0].tolist())) >= 8


def test_the_graph_that_comes_later_is_that_of_a_build_at_once() -> None:
    vectors = np.random.default_rng(1).standard_normal((600, 24)).astype(np.float32)
    at_once, later = VectorIndex.build(vectors, hnsw=True, ef_construction=40), VectorIndex.build(vectors)
    build = GraphBuild(later, ef_construction=40)
    wait_until(lambda: not build.is_running)
    for query in vectors[:20]:
        for one, other in zip(
            later.search(query, 12, method="graph"), at_once.search(query, 12, method="graph"), strict=True
        ):
            assert one.tolist() == other.tolist()


def test_a_build_that_is_stopped_leaves_no_graph() -> None:
    index = index_of(20_000)
    build = GraphBuild(index)
    build.stop()
    wait_until(lambda: not build.is_running)
    assert not index.has_graph and build.done < 20_000


def test_a_second_build_changes_nothing() -> None:
    index = index_of(500)
    first = GraphBuild(index)
    wait_until(lambda: not first.is_running)
    found = index.search(np.ones(32, np.float32), 10, method="graph")[0].tolist()
    second = GraphBuild(index)
    wait_until(lambda: not second.is_running)
    assert index.search(np.ones(32, np.float32), 10, method="graph")[0].tolist() == found
    assert second.done == 0


def test_misuse_of_a_build_is_an_error_that_names_the_argument() -> None:
    for options in ({"m": 1}, {"ef_construction": 4}):
        with pytest.raises(ValueError, match="graph: "):
            GraphBuild(index_of(10), **options)


@pytest.mark.usefixtures("pays")
def test_a_large_catalog_gets_its_graph_in_the_background_and_says_so() -> None:
    with Toolroll.from_tools(TOOLS) as roll:
        before = roll.select("rain mail", k=3).names
        assert roll.health()["graph"]["state"] in ("building", "ready")
        wait_until(lambda: roll.health()["graph"]["state"] == "ready")
        assert roll.health()["graph"]["rows"] == 300
        assert roll.select("rain mail", k=3).names == before


def test_a_small_catalog_gets_none() -> None:
    with Toolroll.from_tools(TOOLS) as roll:
        assert roll.health()["graph"] == {"state": "none", "rows": 0}


@pytest.mark.usefixtures("pays")
def test_the_option_switches_the_graph_off_or_builds_it_at_once() -> None:
    assert Toolroll.from_tools(TOOLS, hnsw=False).health()["graph"]["state"] == "none"
    assert Toolroll.from_tools(TOOLS, hnsw=True).health()["graph"]["state"] == "ready"


@pytest.mark.usefixtures("pays")
def test_a_refresh_builds_the_graph_of_the_next_catalog() -> None:
    with Toolroll.from_tools(TOOLS) as roll:
        roll.refresh([*TOOLS, Tool("another", "rain")])
        wait_until(lambda: roll.health()["graph"] == {"state": "ready", "rows": 301})


@pytest.mark.usefixtures("pays")
def test_a_closed_roll_builds_nothing() -> None:
    roll = Toolroll.from_tools([Tool(f"tool_{i}", f"{WORDS[i % 10]} {i}") for i in range(2_000)])
    roll.close()
    wait_until(lambda: roll.health()["graph"]["state"] != "building")


_ENDS = """
import numpy as np, time
from toolroll._core import GraphBuild, VectorIndex
index = VectorIndex.build(np.random.default_rng(0).standard_normal((200_000, 64)).astype(np.float32))
build = GraphBuild(index)
while build.done < 100:
    time.sleep(0.01)
print(time.monotonic(), flush=True)
"""


@pytest.mark.slow
def test_a_process_that_ends_does_not_wait_for_the_graph() -> None:
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", _ENDS], capture_output=True, text=True, check=True)
        assert time.monotonic() - float(done.stdout) < 30  # the graph would take a minute
        assert done.stderr == ""


_FORKS = """
import os, time
from toolroll import Tool, Toolroll
from toolroll.catalog import catalog
catalog.LEAST_NUMBERS_FOR_GRAPH = 1
roll = Toolroll.from_tools([Tool(f"tool_{i}", f"number {i}") for i in range(1_000)])
state = roll.health()["graph"]["state"]
child = os.fork()
if child == 0:
    while roll.health()["graph"]["state"] != "ready":
        time.sleep(0.01)
    assert roll.select("number 7", k=3).names
    os._exit(0)
_, status = os.waitpid(child, 0)
print(state, status)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
def test_the_child_of_a_fork_builds_its_own_graph() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _FORKS], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.split() in (["building", "0"], ["ready", "0"])
