"""A few tools of a registry change: they are in the catalog at the cost of these tools alone."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from bench.holds import Holds

from tests.unit.catalog.test_refresh import EMBEDDER, MESSAGES, edited, world
from toolroll import Context, Follow, Recording, Tool, Toolroll
from toolroll.catalog import tool_text
from toolroll.catalog.refresh import ToolChanges
from toolroll.model.errors import InvalidDefinition
from toolroll.model.tools import Definitions
from toolroll.registry.registry import Registry
from toolroll.selection import pipeline_builder
from toolroll.selection.effective_policy import EffectivePolicy
from toolroll.selection.pipeline_builder import PipelineBuilder
from toolroll.selection.profiles import PROFILES

ACME = Context(org="acme")
SIZE = 40
SOON_S = 60.0


@pytest.fixture(autouse=True)
def _small_catalogs_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline_builder, "_LEAST", 1)
    monkeypatch.setattr(pipeline_builder, "_SHARE", 1)


@pytest.fixture
def registry(database_url: str) -> Iterator[Registry]:
    with Registry.open(database_url, actor="ada") as opened:
        tools = world(1, SIZE).tools
        opened.sync(Definitions(tuple(replace(tool, version="1.0.0") for tool in tools)), plugin="crm")
        opened.create(Tool("acme_tool", "serves acme with rain"), org="acme")
        yield opened


@pytest.fixture
def roll(registry: Registry, database_url: str) -> Iterator[Toolroll]:
    with Toolroll.open(database_url, embedder=EMBEDDER, follow=Follow(poll_s=3_600, listens=False)) as opened:
        opened.warm_up()
        yield opened


def soon(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SOON_S
    while not holds():
        assert time.monotonic() < deadline, "never came true"
        time.sleep(0.01)


def written(registry: Registry, definitions: Definitions) -> None:
    registry.sync(
        Definitions(tuple(replace(tool, version="1.0.0") for tool in definitions.tools)), plugin="crm"
    )


def picks(roll: Toolroll, context: Context) -> list[tuple[tuple[str, ...], list[float]]]:
    found = [roll.select(message, context, k=7) for message in MESSAGES]
    assert all(picked.degraded == () for picked in found)
    return [(picked.names, picked.candidates.scores.tolist()) for picked in found]


def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the tools whose texts are read from now on."""
    read, prose = [], tool_text._prose

    def counted(tool: Tool) -> str:
        read.append(tool.name)
        return prose(tool)

    monkeypatch.setattr(tool_text, "_prose", counted)
    return read


def test_changes_one_after_another_end_in_the_catalog_of_a_new_process(registry, roll, database_url):
    now = world(1, SIZE)
    for step in range(5):
        now = edited(now, step)
        written(registry, now)
        roll.refresh()
    roll.warm_up()
    with Toolroll.open(database_url, embedder=EMBEDDER) as fresh:
        fresh.warm_up()
        assert roll.catalog.revision == fresh.catalog.revision
        for context in (Context(), ACME):
            assert picks(roll, context) == picks(fresh, context)


def test_a_changed_tool_is_read_and_no_other(registry, roll, monkeypatch):
    read = reads(monkeypatch)
    name = next(tool.name for tool in roll.catalog.tools if tool.status == "active" and not tool.examples)
    registry.update(name, {"description": "folds paper cranes"}, version=1)
    roll.refresh()
    assert name in roll.select("fold a paper crane", k=3).names
    # An organisation's own tools are stacked anew in the background, and may be there already.
    assert set(read) - {"acme_tool"} == {name}


def test_a_deleted_tool_and_a_new_one_are_seen_by_organisations_too(registry, roll):
    gone = roll.catalog.tools[3].name
    registry.delete(gone)
    registry.create(Tool("aaa_crane", "folds paper cranes"))
    roll.refresh()
    assert gone not in roll.catalog.names and roll.catalog.tools[0].name == "aaa_crane"
    roll.warm_up()
    picked = roll.select("fold a paper crane", ACME, k=3)
    assert picked.degraded == () and picked.names[0] == "aaa_crane"
    assert "acme_tool" in roll.select("serves acme with rain", ACME, k=3).names


def test_a_failure_in_the_middle_leaves_the_old_catalog_and_the_next_try_succeeds(
    registry, roll, monkeypatch
):
    before = roll.catalog
    registry.create(Tool("aaa_crane", "folds paper cranes"))
    with monkeypatch.context() as patch:

        def fails(*args: object) -> None:
            raise InvalidDefinition("out of luck")

        patch.setattr("toolroll.catalog.refresh.changed_speller", fails)
        with pytest.raises(InvalidDefinition, match="out of luck"):
            roll.refresh()
        assert roll.catalog is before
        assert roll.select("rain and mail", k=3).names
    roll.refresh()
    assert "aaa_crane" in roll.select("fold a paper crane", k=3).names


@pytest.mark.slow
def test_selections_go_on_while_tools_change_and_each_sees_one_catalog(registry, database_url):
    stop, errors, picked = threading.Event(), [], []
    # No events: writing as many as there are here would keep SQLite from the tools.
    roll = Toolroll.open(
        database_url,
        embedder=EMBEDDER,
        recording=Recording(messages="none"),
        follow=Follow(poll_s=3_600, listens=False),
    )

    def select() -> None:
        try:
            while not stop.wait(0.001):
                found = roll.select("folds paper cranes", k=5)
                assert found.names == tuple(found.catalog.tools[row].name for row in found.rows.tolist())
                assert all(found.catalog.names[name] in found.rows for name in found.names)
                picked.append(found.names)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=select) for _ in range(3)]
    for thread in threads:
        thread.start()
    draw = random.Random(5)
    for step in range(12):
        registry.create(Tool(f"{draw.choice('amz')}_{step}_crane", f"folds paper cranes {step}"))
        roll.refresh()
    stop.set()
    for thread in threads:
        thread.join()
    roll.close()
    assert not errors
    assert any(name.endswith("_crane") for names in picked for name in names)


def test_what_is_measured_anew_is_put_in_place_without_a_call(registry, roll, database_url):
    for at in range(3):  # they claim everybody's messages
        claims = tuple(f"{word} {number}" for word in MESSAGES[0].split() for number in range(9))
        registry.create(Tool(f"hub_{at}", "rain mail deal light song backup", examples=claims))
    roll.refresh()
    with Toolroll.open(database_url, embedder=EMBEDDER) as fresh:
        soon(lambda: picks(roll, Context()) == picks(fresh, Context()))


def test_in_memory_a_changed_tool_is_read_and_no_other(monkeypatch):
    tools = list(world(1, SIZE).tools)
    roll = Toolroll.from_tools(tools, embedder=EMBEDDER)
    at = next(at for at, tool in enumerate(tools) if tool.status == "active" and not tool.examples)
    tools[at] = replace(tools[at], description="folds paper cranes")
    read = reads(monkeypatch)
    roll.refresh(tools)
    assert tools[at].name in roll.select("fold a paper crane", k=3).names
    assert set(read) == {tools[at].name}
    built = Toolroll.from_tools(tools, embedder=EMBEDDER)
    assert roll.catalog.revision == built.catalog.revision
    assert picks(roll, Context()) == picks(built, Context())


def test_a_changed_catalog_is_searched_exactly_until_its_graph_is_built(registry, database_url):
    with Toolroll.open(
        database_url, embedder=EMBEDDER, follow=Follow(hnsw=True, poll_s=3_600, listens=False)
    ) as roll:
        assert roll.catalog.indexes.vectors.has_graph
        registry.create(Tool("aaa_crane", "folds paper cranes"))
        roll.refresh()
        assert "aaa_crane" in roll.select("fold a paper crane", k=3).names
        soon(lambda: roll.catalog.indexes.vectors.has_graph)
        with Toolroll.open(database_url, embedder=EMBEDDER, follow=Follow(hnsw=True)) as fresh:
            assert picks(roll, Context()) == picks(fresh, Context())


def test_in_memory_too_a_changed_catalog_gets_its_graph():
    tools = list(world(1, SIZE).tools)
    roll = Toolroll.from_tools(tools, embedder=EMBEDDER, hnsw=True)
    roll.refresh([*tools, Tool("aaa_crane", "folds paper cranes")])
    assert "aaa_crane" in roll.catalog.names
    soon(lambda: roll.catalog.indexes.vectors.has_graph)


@pytest.mark.slow
def test_no_thread_waits_five_milliseconds_for_a_changed_tool():
    tools = world(1, 4_000).tools
    builder = PipelineBuilder(EMBEDDER, PROFILES["default"])
    pipeline = builder.pipeline(Definitions(tools), EffectivePolicy())
    held = []
    for at in range(5):
        changes = ToolChanges(frozenset({tools[at].name}), (replace(tools[at], name=f"aaa_{at}"),))
        with Holds() as holds:
            assert builder.changed(pipeline, changes, Definitions(), EffectivePolicy()) is not None
        held.append(holds.held_s)
    assert min(held) < 0.005  # the others waited for a processor, too
