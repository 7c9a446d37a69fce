"""What a catalog is built from: texts, vectors, switches, revisions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from toolroll import Catalog, Route, Tool, Toolkit
from toolroll.embedders.hashing import HashingEmbedder
from toolroll.errors import InvalidDefinition
from toolroll.tool2vec import tool_vectors
from toolroll.tool_text import FIELD_WEIGHTS, description_text, fields, words
from toolroll.tools import Definitions

EMBEDDER = HashingEmbedder(128)


def test_identifiers_become_words():
    assert words("gmail_listEmails") == "gmail list Emails"
    assert words("HTTPServer.get-URL") == "HTTP Server get URL"
    assert words("") == ""


def test_all_that_helps_to_find_a_tool_is_in_some_field():
    tool = Tool(
        "send",
        "desc",
        {"properties": {"to": {"description": "who", "properties": {"cc": {"description": "copy"}}}}},
        toolkit="mail",
        summary="sum",
        when_to_use="when",
        tags=("tag",),
        examples=("one", "two"),
    )
    found = fields(tool)
    assert len(found) == len(FIELD_WEIGHTS)
    assert found == ("send mail", "desc sum when tag", "to who cc copy", "one two")
    assert description_text(tool) == "mail: send: desc sum when tag"


def test_a_schema_that_holds_itself_is_read_once_a_level():
    schema: dict[str, object] = {"properties": {}}
    schema["properties"]["self"] = schema
    assert "self" in fields(Tool("a", parameters=schema))[2]


def test_long_texts_are_bounded():
    tool = Tool(
        "a", "word " * 100_000, {"properties": {f"p{i}": {} for i in range(10_000)}}, examples=("x " * 9_999,)
    )
    assert sum(map(len, fields(tool))) < 10_000


def test_a_tool_without_examples_has_the_vector_of_its_text():
    tool = Tool("send", "an e-mail message")
    assert np.allclose(tool_vectors([tool], EMBEDDER)[0], EMBEDDER.embed_query(description_text(tool)))


def test_a_tool_with_examples_lies_halfway_between_its_text_and_their_mean():
    tool = Tool("send", "an e-mail message", examples=("write to Bob", "answer the letter"))
    text = EMBEDDER.embed_query(description_text(tool))
    mean = EMBEDDER.embed(tool.examples).sum(axis=0)
    expected = text + mean / np.linalg.norm(mean)
    expected /= np.linalg.norm(expected)
    assert np.allclose(tool_vectors([tool], EMBEDDER)[0], expected, atol=1e-6)


def test_only_the_first_eight_examples_count():
    few = Tool("a", examples=tuple(f"example {i}" for i in range(8)))
    many = replace(few, examples=(*few.examples, *(f"planted {i}" for i in range(56))))
    assert np.array_equal(tool_vectors([few], EMBEDDER), tool_vectors([many], EMBEDDER))


def test_progress_is_told_while_embedding():
    told: list[tuple[int, int]] = []
    tools = [Tool(f"t{i}") for i in range(5_000)]
    tool_vectors(tools, EMBEDDER, lambda done, of: told.append((done, of)))
    assert told[-1] == (5_000, 5_000)
    assert len(told) > 1


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
    assert "other" in catalog.toolkits


def test_the_heaviest_pin_comes_first():
    tools = (Tool("a", pinned=True), Tool("b", pinned=True, pin_weight=5), Tool("c"))
    assert Catalog.build(Definitions(tools), None).pinned.tolist() == [1, 0]


@pytest.mark.parametrize(
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
        Catalog.build(Definitions((Tool("a", "broken \ud800 text"),)), EMBEDDER)
