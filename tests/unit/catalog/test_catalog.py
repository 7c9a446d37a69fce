"""What a catalog is built from: texts, vectors, switches, revisions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.table import each_row
from toolroll import Route, Tool, Toolkit
from toolroll.catalog import tool_text
from toolroll.catalog.catalog import Catalog
from toolroll.embedders.hashing import HashingEmbedder
from toolroll.model.errors import InvalidDefinition
from toolroll.model.tools import Definitions

EMBEDDER = HashingEmbedder(128)


def test_rows_ascend_with_names():
    catalog = Catalog.build(Definitions((Tool("b"), Tool("c"), Tool("a"))), EMBEDDER)
    assert [tool.name for tool in catalog.tools] == ["a", "b", "c"]
    assert catalog.names == {"a": 0, "b": 1, "c": 2}
    assert len(catalog) == 3


def test_a_toolkit_holds_the_rows_of_those_below_it():
    kits = (Toolkit("top"), Toolkit("middle", parent="top"), Toolkit("leaf", parent="middle"))
    tools = (Tool("a", toolkit="top"), Tool("b", toolkit="leaf"), Tool("c", toolkit="other"))
    catalog = Catalog.build(Definitions(tools, kits, (Route(("top",), ("x",)),)), None)
    assert catalog.routes.rows["top"].tolist() == [0, 1]
    assert catalog.routes.rows["middle"].tolist() == [1]
    assert {name: rows.tolist() for name, rows in catalog.below.items()} == {
        "top": [0, 1],
        "middle": [1],
        "leaf": [1],
        "other": [2],
    }
    assert "other" in catalog.toolkits


@pytest.mark.parametrize("taught", [0, 60])
def test_probes_have_the_vectors_that_embedding_them_gives(taught):
    """Nearly all are taken from what was embedded for the tools; blank and endless examples are not there."""
    examples = ("rain in Oslo", " ", "snow " * 3_000, "rain in Rome")
    tools = [Tool(f"a{i}", "weather", examples=(f"{i} degrees", *examples)) for i in range(taught)]
    tools += [Tool(f"b{i}", f"plain {i}") for i in range(9)]
    catalog = Catalog.build(Definitions(tuple(tools)), EMBEDDER)
    assert np.array_equal(catalog.probes.vectors, EMBEDDER.embed(catalog.probes.texts))


def test_the_heaviest_pin_comes_first():
    tools = (Tool("a", pinned=True), Tool("b", pinned=True, pin_weight=5), Tool("c"))
    assert Catalog.build(Definitions(tools), None).pinned.tolist() == [1, 0]


@each_row(
    "change",
    [
        {"description": "other"},
        {"parameters": {"type": "object", "properties": {"x": {}}}},
        {"examples": ("x",)},
        {"status": "draft"},
        {"toolkit": "kit"},
        {"pinned": True},
        {"public": True},
        {"tags": ("t",)},
    ],
)
def test_the_revision_follows_the_content(change):
    tool = Tool("a", "alpha")
    one, same = (Catalog.build(Definitions((tool,)), EMBEDDER) for _ in range(2))
    other = Catalog.build(Definitions((replace(tool, **change),)), EMBEDDER)
    assert one.revision == same.revision
    assert one.revision != other.revision


def test_arrays_of_a_catalog_cannot_be_written_to():
    catalog = Catalog.build(Definitions((Tool("a", pinned=True),), (Toolkit("k", base=True),)), None)
    for array in (catalog.base, catalog.pinned):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0


def test_a_definition_that_cannot_be_sent_is_refused_by_name():
    with pytest.raises(InvalidDefinition, match=r"tool 'a': cannot be written as JSON.*surrogates"):
        Catalog.build(Definitions((Tool("a", parameters={"title": "broken \ud800 text"}),)), EMBEDDER)


def test_the_texts_of_each_tool_are_made_once(monkeypatch):
    made = {"_prose": [], "_words_of_parameters": [], "example_texts": []}
    for name, calls in made.items():
        plain = getattr(tool_text, name)

        def counted(first, *rest, _plain=plain, _calls=calls):
            _calls.append(first)
            return _plain(first, *rest)

        monkeypatch.setattr(tool_text, name, counted)
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    tools = [Tool(f"t{at}", "does", schema, examples=(f"do {at}", f"try {at}")) for at in range(20)]
    catalog = Catalog.build(Definitions(tuple(tools)), EMBEDDER)
    assert catalog.calibration_set is not None and catalog.probes.vectors is not None
    assert {name: len(calls) for name, calls in made.items()} == dict.fromkeys(made, 20)
