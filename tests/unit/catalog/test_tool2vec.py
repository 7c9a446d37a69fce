"""The vectors of a tool, from its words and from its examples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.table import each_row
from toolroll import Tool
from toolroll.catalog.tool2vec import (
    DESCRIPTION_COUNTS,
    GROUP_SIZE,
    LEAST_GROUPED,
    MOST_GROUPS,
    ToolVectors,
    _centres,
)
from toolroll.catalog.tool_text import (
    MOST_EXAMPLES,
    description_text,
    embedded_texts,
    parameter_text,
    texts_of,
)
from toolroll.embedders.hashing import HashingEmbedder
from toolroll.embedders.static import StaticEmbedder
from toolroll.model.errors import EmbedderUnavailable

EMBEDDER = HashingEmbedder(128)


def unit(vector):
    length = np.linalg.norm(vector)
    return vector / length if length else vector


def vectors_of(*tools: Tool):
    return ToolVectors.of(texts_of(tools), EMBEDDER).vectors()


def tool_with(n: int, what: str = "example") -> Tool:
    return Tool("send", "an e-mail message", examples=tuple(f"{what} number {i}" for i in range(n)))


def two_subjects(n: int) -> tuple[str, ...]:
    """n messages of each of two subjects that share no word."""
    rain = [
        f"will it rain in {city}"
        for city in ["oslo", "rome", "lima", "cairo", "delhi", "quito", "dakar", "paris"]
    ]
    song = [
        f"please play my {kind} songs"
        for kind in ["jazz", "rock", "folk", "punk", "soul", "disco", "blues", "metal"]
    ]
    return tuple(text for pair in zip(rain[:n], song[:n], strict=True) for text in pair)


def test_a_tool_without_examples_has_the_vector_of_its_text():
    tool = Tool("send", "an e-mail message")
    assert np.allclose(vectors_of(tool)[0], EMBEDDER.embed_query(description_text(tool)), atol=1e-6)


def test_names_of_parameters_add_two_fifths_to_the_description():
    """Oracle: the sum of both unit vectors, at unit length, in whatever order the tools come."""
    schemas = [{"city": {}, "unit": {}}, {}, {"to": {}}, {"city": {}, "unit": {}}]
    tools = [
        Tool(f"t{i}", f"text {i}", {"properties": names}, examples=("one",) * (i % 2))
        for i, names in enumerate(schemas)
    ]
    vectors = ToolVectors.of(texts_of(tools), EMBEDDER).descriptions
    for vector, tool in zip(vectors, tools, strict=True):
        parameters = EMBEDDER.embed_query(parameter_text(tool))
        expected = unit(EMBEDDER.embed_query(description_text(tool)) + 0.4 * parameters)
        assert np.allclose(vector, expected, atol=1e-6)


def test_other_words_for_the_verb_add_a_tenth():
    tool = Tool("delete_note", "no longer there", {"properties": {"id": {}}})
    (vector,) = ToolVectors.of(texts_of([tool]), EMBEDDER).descriptions
    text, parameters, verb = EMBEDDER.embed(embedded_texts(tool))
    assert np.allclose(vector, unit(unit(text + 0.4 * parameters) + 0.1 * verb), atol=1e-6)


def test_a_verb_in_other_words_decides_between_tools_on_one_noun():
    tools = [
        Tool(f"{verb}_deployment", f"{verb} the specified Deployment") for verb in ("read", "patch", "delete")
    ]
    vectors = ToolVectors.of(texts_of(tools), StaticEmbedder()).vectors()
    asked = ("get rid of the deployment", "change the deployment", "show the deployment")
    best = [int(np.argmax(vectors @ StaticEmbedder().embed_query(message))) for message in asked]
    assert [tools[row].name for row in best] == ["delete_deployment", "patch_deployment", "read_deployment"]


def test_parameters_that_tools_share_are_embedded_once():
    asked: list[str] = []

    class Recording(HashingEmbedder):
        def embed(self, texts):
            asked.extend(texts)
            return super().embed(texts)

    schema = {"properties": {"city": {}}}
    ToolVectors.of(texts_of([Tool("a", parameters=schema), Tool("b", parameters=schema)]), Recording(128))
    assert asked == ["a: ", "b: ", "city"]


def test_many_parameters_do_not_hide_a_description():
    """Tools from an API description share ten parameters; in one text they lost to a tool with one."""
    shared = ("pretty", "continue", "field_selector", "label_selector", "resource_version", "timeout_seconds")
    tools = [
        Tool("list_namespaced_pod", "lists objects of kind Pod", {"properties": {key: {} for key in shared}}),
        Tool("read_namespaced_pod", "reads the specified Pod", {"properties": {"name": {}}}),
    ]
    embedder = StaticEmbedder()
    vectors = ToolVectors.of(texts_of(tools), embedder).vectors()
    listing, reading = vectors @ embedder.embed_query("list all pods")
    assert listing > reading


@each_row("n", [1, 2, 3, 8, 40])
def test_the_description_counts_as_much_as_three_examples(n):
    """Oracle: shares of the description's vector and of the examples' mean, at unit length."""
    tool = tool_with(n)
    text = EMBEDDER.embed_query(description_text(tool))
    mean = unit(sum(EMBEDDER.embed_query(example) for example in tool.examples))
    expected = unit((DESCRIPTION_COUNTS * text + n * mean) / (n + DESCRIPTION_COUNTS))
    assert np.allclose(vectors_of(tool)[0], expected, atol=1e-5)


def test_tool2vec_as_published_is_the_examples_mean_and_the_text_where_there_are_none():
    warm, cold = tool_with(2), Tool("call", "a phone number")
    vectors = ToolVectors.of(texts_of([warm, cold]), EMBEDDER, description_counts=0).vectors()
    mean = unit(sum(EMBEDDER.embed_query(example) for example in warm.examples))
    assert np.allclose(vectors[0], mean, atol=1e-6)
    assert np.allclose(vectors[1], EMBEDDER.embed_query(description_text(cold)), atol=1e-6)


def test_the_more_examples_the_nearer_their_mean():
    cosines = []
    for n in range(1, MOST_EXAMPLES, 9):
        tool = tool_with(n)
        mean = unit(EMBEDDER.embed(tool.examples).sum(axis=0))
        cosines.append(float(vectors_of(tool)[0] @ mean))
    assert cosines == sorted(cosines)
    assert cosines[-1] > 0.99


def test_examples_beyond_those_that_count_change_nothing():
    few = tool_with(MOST_EXAMPLES)
    many = replace(few, examples=(*few.examples, *(f"planted {i}" for i in range(500))))
    assert np.array_equal(vectors_of(few), vectors_of(many))


def test_each_tool_has_the_vector_it_would_have_alone():
    tools = [Tool("bare", "nothing"), tool_with(9), Tool("last", "words", examples=("one",)), Tool("end")]
    alone = np.concatenate([vectors_of(tool) for tool in tools])
    assert np.allclose(vectors_of(*tools), alone, atol=1e-6)


def test_all_vectors_have_unit_length_or_say_nothing():
    tools = [tool_with(n) for n in range(12)] + [Tool("?")]
    lengths = np.linalg.norm(vectors_of(*tools), axis=1)
    assert np.allclose(lengths[:-1], 1, atol=1e-5)


class Patchy(HashingEmbedder):
    """Knows nothing of texts in capitals, as an English table knows nothing of Korean."""

    def embed_query(self, text):
        return super().embed_query(text) * (text.upper() != text)


def test_a_tool_whose_text_means_nothing_has_the_mean_of_its_examples():
    tool = Tool("A", "B", examples=("will it rain", "is it wet"))
    assert np.allclose(
        ToolVectors.of(texts_of([tool]), Patchy(128)).vectors()[0],
        unit(EMBEDDER.embed(tool.examples).sum(axis=0)),
        atol=1e-6,
    )


def test_a_tool_whose_examples_mean_nothing_has_the_vector_of_its_text():
    tool = Tool("send", "mail", examples=("A", "B") * 8)
    embedded = ToolVectors.of(texts_of([tool]), Patchy(128))
    assert np.allclose(embedded.vectors()[0], EMBEDDER.embed_query(description_text(tool)), atol=1e-6)
    assert embedded.intents() is None


def test_a_tool_of_which_nothing_is_known_has_a_zero_vector():
    embedded = ToolVectors.of(texts_of([Tool("A", "B", examples=("C",) * 12)]), Patchy(128))
    assert not embedded.vectors().any()
    assert np.isfinite(embedded.vectors()).all()


def test_no_tools_have_no_vectors():
    embedded = ToolVectors.of(texts_of([]), EMBEDDER)
    assert embedded.vectors().shape == (0, 128)
    assert embedded.intents() is None


def test_tools_with_few_examples_have_no_intents():
    assert ToolVectors.of(texts_of([tool_with(LEAST_GROUPED - 1), Tool("x")]), EMBEDDER).intents() is None


def test_two_clearly_different_subjects_become_two_intents():
    examples = two_subjects(4)
    tool = Tool("do", "does things", examples=examples)
    intents = ToolVectors.of(texts_of([Tool("cold"), tool]), EMBEDDER).intents()
    assert (intents.size, intents.count) == (2, len(examples) // GROUP_SIZE)
    rain, song = (unit(EMBEDDER.embed(examples[at::2]).sum(axis=0)) for at in (0, 1))
    weight = len(examples) / (len(examples) + DESCRIPTION_COUNTS)
    rows = np.array([0, 1], np.int32)
    for centre in (rain, song):
        assert intents.nearest(centre.astype(np.float32), rows) == pytest.approx([0, weight], abs=1e-3)


def test_a_message_of_one_subject_is_nearer_to_its_intent_than_to_the_blurred_mean():
    tool = Tool("do", "does things", examples=two_subjects(8))
    embedded = ToolVectors.of(texts_of([tool]), EMBEDDER)
    asked = EMBEDDER.embed_query("will it rain in tokyo")
    assert embedded.intents().nearest(asked, np.array([0], np.int32))[0] > embedded.vectors()[0] @ asked


def test_the_order_of_subjects_does_not_matter_and_twice_is_the_same():
    examples = two_subjects(8)
    asked, row = EMBEDDER.embed_query("play some songs"), np.array([0], np.int32)
    found = [
        ToolVectors.of(texts_of([Tool("do", "things", examples=texts)]), EMBEDDER)
        .intents()
        .nearest(asked, row)[0]
        for texts in (examples, examples, examples[::-1])
    ]
    assert found[0] == found[1] == pytest.approx(found[2], abs=0.1)


@given(st.lists(st.sampled_from(["rain", "mail", "song", "snow"]), min_size=LEAST_GROUPED, max_size=40))
def test_centres_are_of_unit_length_and_each_subject_has_one_where_there_are_enough(words):
    examples = EMBEDDER.embed([f"{word} {word}" for word in words])
    centres = _centres(examples)
    assert len(centres) == min(MOST_GROUPS, len(words) // GROUP_SIZE)
    assert np.allclose(np.linalg.norm(centres, axis=1), 1, atol=1e-5)
    if len(set(words)) <= len(centres):
        assert ((examples @ centres.T).max(axis=1) > 0.999).all()


def test_examples_of_which_nothing_is_known_take_no_part():
    some = Tool("do", "does things", examples=two_subjects(4))
    more = replace(some, examples=(*some.examples, *"ABCDEFG"))
    one, other = (ToolVectors.of(texts_of([tool]), Patchy(128)) for tool in (some, more))
    assert np.array_equal(one.vectors(), other.vectors())
    asked = np.stack([one.examples[0], one.examples[1]])
    row = np.array([0], np.int32)
    for vector in asked:
        assert one.intents().nearest(vector, row) == other.intents().nearest(vector, row)


def test_a_part_is_what_the_tools_would_have_without_the_others():
    tools = [tool_with(10, "a"), tool_with(3, "b"), Tool("cold", "cold"), tool_with(9, "d")]
    embedded = ToolVectors.of(texts_of(tools), EMBEDDER)
    kept = np.arange(len(embedded.examples)) % 2 == 0
    part = embedded.part(np.array([3, 0, 2], np.int32), kept)
    left = []
    for row in (3, 0, 2):
        own = range(embedded.begins[row], embedded.begins[row + 1])
        left.append(
            replace(tools[row], examples=tuple(tools[row].examples[i - own[0]] for i in own if kept[i]))
        )
    again = ToolVectors.of(texts_of(left), EMBEDDER)
    assert np.array_equal(part.vectors(), again.vectors())
    assert np.array_equal(part.begins, again.begins)


def test_progress_is_told_while_embedding():
    told: list[tuple[int, int]] = []
    tools = [Tool(f"t{i}", examples=("x",)) for i in range(2_500)]
    ToolVectors.of(texts_of(tools), EMBEDDER, lambda done, of: told.append((done, of)))
    assert told == [(4_096, 5_000), (5_000, 5_000)]


@each_row("answer", [None, np.ones((1, 3)), np.full((3, 128), np.nan), np.ones(128)])
def test_what_are_no_vectors_are_refused(answer):
    class Wrong(HashingEmbedder):
        def embed(self, texts):
            return answer

    with pytest.raises(
        EmbedderUnavailable, match=r"hashing-128@1: (answered 3 texts with shape|row 0 has length nan)"
    ):
        ToolVectors.of(texts_of([tool_with(2)]), Wrong(128))
