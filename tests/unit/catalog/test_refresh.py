"""A catalog with changes, against one that is built whole of the same definitions."""

from __future__ import annotations

import gc
import random
import weakref
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import strategies as some
from toolroll import Context, Tool, Toolkit
from toolroll._core import Bitset
from toolroll.catalog.catalog import Catalog, CatalogOptions
from toolroll.catalog.refresh import ToolChanges, with_changes
from toolroll.embedders.hashing import HashingEmbedder
from toolroll.model.context import Turn
from toolroll.model.errors import InvalidDefinition
from toolroll.model.tools import Definitions
from toolroll.selection.compose import compose
from toolroll.selection.profiles import PROFILES, Profile

EMBEDDER = HashingEmbedder(64)
MEANING = CatalogOptions(toolkits_by_meaning=True)
MESSAGES = ("rain and mail", "deal number 3 of the song", "please lihgt the backpu", "export costs.xlsx", "")
WORDS = (*some.WORDS, "file", "spreadsheet", "issue", "event", "calendar", "github")


def world(seed: int, size: int) -> Definitions:
    """Tools with so many examples that hubs are damped and messages are held out."""
    draw = random.Random(seed)

    def text(length: int) -> str:
        return " ".join(draw.choice(WORDS) for _ in range(length))

    tools = [
        Tool(
            f"{draw.choice(WORDS[:5])}_{draw.choice(WORDS[6:])}_{at}",
            text(6),
            toolkit=draw.choice(("", *some.TOOLKITS)),
            examples=tuple(f"{text(3)} {draw.randrange(9)}" for _ in range(draw.choice((0, 2, 9, 20)))),
            status=draw.choice(("active", "active", "retired")),
            parameters={"properties": {draw.choice(WORDS): {"type": "string"}}},
            pinned=draw.random() < 0.1,
            public=draw.random() < 0.8,
        )
        for at in range(size)
    ]
    return Definitions(tuple(tools), (Toolkit("weather", "rain", parent="home"), Toolkit("home", base=True)))


def edited(definitions: Definitions, seed: int) -> Definitions:
    """A few tools changed, removed, renamed and added."""
    draw, tools = random.Random(seed), list(definitions.tools)
    other = world(seed + 1, 4).tools
    for _ in range(draw.randrange(1, 4)):
        at, kind = draw.randrange(len(tools)), draw.choice(("change", "remove", "rename", "add", "move"))
        if kind == "change":
            tools[at] = replace(tools[at], description="mail deal", examples=other[0].examples)
        elif kind == "remove" and len(tools) > 2:
            del tools[at]
        elif kind == "rename":
            tools[at] = replace(tools[at], name=f"{draw.choice(WORDS)}_{seed}_{len(tools)}_{at}")
        elif kind == "move":
            tools[at] = replace(tools[at], toolkit=draw.choice(("", "new", *some.TOOLKITS)))
        else:
            tools.append(replace(other[1], name=f"{draw.choice(WORDS)}_{seed}_{len(tools)}_new"))
    names = {tool.name: tool for tool in tools}
    return replace(definitions, tools=tuple(names.values()))


def changed(catalog: Catalog, now: Definitions, embedder, options=MEANING) -> Catalog:
    changes = ToolChanges.between(catalog, now.tools)
    return with_changes(catalog, changes, replace(now, tools=()), embedder, options)


def rows_of(bits: Bitset | None) -> list[int] | None:
    return None if bits is None else bits.rows().tolist()


def assert_same(found: Catalog, built: Catalog) -> None:
    """All that a selection or anybody else reads of a catalog."""
    assert list(found.tools) == list(built.tools)
    assert dict(found.names) == dict(built.names) and len(found.names) == len(built.names)
    assert found.names.get("no such tool") is None and "no such tool" not in found.names
    assert list(found.toolkits.items()) == list(built.toolkits.items())
    for one, other in ((found.below, built.below), (found.routes.rows, built.routes.rows)):
        assert list(one) == list(other)
        assert all(np.array_equal(one[name], other[name]) for name in one)
    assert found.revision == built.revision and found.space == built.space and found.dim == built.dim
    assert np.array_equal(found.costs, built.costs) and found.scale == built.scale
    assert rows_of(found.inactive) == rows_of(built.inactive)
    assert rows_of(found.not_public) == rows_of(built.not_public)
    assert np.array_equal(found.base, built.base) and np.array_equal(found.pinned, built.pinned)
    every = np.arange(len(built), dtype=np.int32)
    assert np.array_equal(found.keys().arms(every), built.keys().arms(every))
    assert (found.indexes.intents is None) == (built.indexes.intents is None)
    for text in MESSAGES:
        assert found.corrections(text, Bitset.full(len(found))) == built.corrections(
            text, Bitset.full(len(built))
        )
        one, other = (catalog.marks.hits(text) for catalog in (found, built))
        assert [(hit.label, hit.rows.tolist()) for hit in one] == [
            (hit.label, hit.rows.tolist()) for hit in other
        ]
        assert found.routes.hits(text) == built.routes.hits(text)
        one, other = (catalog.indexes.postings.search(text, len(built)) for catalog in (found, built))
        assert np.array_equal(one[0], other[0]) and np.array_equal(one[1], other[1])
        if built.indexes.vectors is not None:
            vector = EMBEDDER.embed_query(text)
            one, other = (catalog.indexes.vectors.scores(vector, every) for catalog in (found, built))
            assert np.array_equal(one, other)
        if built.indexes.intents is not None:
            one, other = (
                catalog.indexes.intents.nearest(EMBEDDER.embed_query(text), every)
                for catalog in (found, built)
            )
            assert np.array_equal(one, other)
    assert (found.toolkit_index is None) == (built.toolkit_index is None)
    if built.toolkit_index is not None:
        vector = EMBEDDER.embed_query("rain")
        assert found.toolkit_index.near(vector, -1.0) == built.toolkit_index.near(vector, -1.0)


def assert_same_samples(found: Catalog, built: Catalog) -> None:
    assert found.probes.texts == built.probes.texts and found.probes.owners == built.probes.owners
    assert np.array_equal(found.probes.vectors, built.probes.vectors)
    assert (found.calibration_set is None) == (built.calibration_set is None)
    if built.calibration_set is not None:
        assert found.calibration_set.held_out.messages == built.calibration_set.held_out.messages
        assert found.calibration_set.owners.tolist() == built.calibration_set.owners.tolist()


def assert_selects_same(found: Catalog, built: Catalog, profile: Profile) -> None:
    context = Context(settings=frozenset(some.SETTINGS))
    for text in MESSAGES:
        turn = Turn(text, context, EMBEDDER.embed_query(text) if built.dim else None)
        one, other = (compose(catalog, profile).decide(turn) for catalog in (found, built))
        assert one.names == other.names
        assert np.array_equal(one.candidates.scores, other.candidates.scores)
        assert one.explain() == other.explain()


@given(
    some.definitions(), st.lists(some.definitions(), min_size=1, max_size=2), some.parameters(), st.booleans()
)
def test_any_changes_give_the_catalog_of_a_whole_build(first, later, profile, has_embedder):
    embedder = EMBEDDER if has_embedder else None
    catalog = Catalog.build(first, embedder, MEANING)
    for now in later:
        if not first.tools or not now.tools:
            return
        catalog.keys()
        try:
            built = Catalog.build(now, embedder, MEANING)
        except InvalidDefinition as error:
            with pytest.raises(InvalidDefinition, match="is not in the catalog|cycle"):
                changed(catalog, now, embedder)
            assert "is not in" in str(error) or "cycle" in str(error)
            return
        catalog = changed(catalog, now, embedder)
        assert_same(catalog, built)
        assert_same_samples(catalog, built)
        assert_selects_same(catalog.measured(), built, profile)


@given(st.integers(0, 1_000_000), st.integers(14, 40), st.booleans())
def test_many_small_changes_give_the_catalog_of_a_whole_build(seed, size, is_measured):
    now = world(seed, size)
    catalog = Catalog.build(now, EMBEDDER, MEANING)
    profile = PROFILES["default"]
    compose(catalog, profile)
    for step in range(3):
        now = edited(now, seed + step)
        catalog = changed(catalog, now, EMBEDDER)
        compose(catalog, profile)
        if is_measured:
            catalog = catalog.measured()
    built = Catalog.build(now, EMBEDDER, MEANING)
    catalog = catalog.measured()
    assert_same(catalog, built)
    assert_same_samples(catalog, built)
    assert_selects_same(catalog, built, profile)


def test_a_changed_catalog_keeps_no_catalog_before_it_even_while_it_is_not_measured():
    now = world(3, 30)
    catalog = Catalog.build(now, EMBEDDER, MEANING)
    compose(catalog, PROFILES["default"])
    gone = [weakref.ref(catalog.indexes.vectors), weakref.ref(catalog.indexes.postings)]
    for step in range(2):
        now = edited(now, step)
        catalog = changed(catalog, now, EMBEDDER)
        gone.append(weakref.ref(catalog.indexes.vectors))
    gc.collect()
    assert [one() is None for one in gone] == [True, True, True, False]
    assert len(catalog.measured()) == len(now.tools)


def test_two_tools_of_one_name_are_refused_as_by_a_build():
    now = world(3, 20)
    catalog, first = Catalog.build(now, EMBEDDER), now.tools[0]
    for added in ((replace(first, toolkit="other"),), (Tool("twice"), Tool("twice", "again"))):
        with pytest.raises(InvalidDefinition, match="defined more than once"):
            with_changes(catalog, ToolChanges(frozenset(), added), Definitions(), EMBEDDER, CatalogOptions())


def test_changes_are_told_by_content_and_by_the_callers_object():
    now = world(3, 20)
    catalog = Catalog.build(now, EMBEDDER)
    assert not ToolChanges.between(catalog, [replace(tool) for tool in now.tools])
    for fields in ({"description": "new"}, {"original": object()}, {"parameters": {"x": True}}):
        some = [replace(now.tools[0], **fields), *now.tools[1:]]
        found = ToolChanges.between(catalog, some)
        assert found.removed == {now.tools[0].name} and found.added == (some[0],)
    one = replace(now.tools[0], parameters={"x": 1})
    catalog = Catalog.build(Definitions((one, *now.tools[1:])), EMBEDDER)
    assert ToolChanges.between(catalog, [replace(one, parameters={"x": True}), *now.tools[1:]]).added
