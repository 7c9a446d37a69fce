"""Native passes over texts and schemas, against plain Python."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.table import each_row
from toolroll._core import compact_json, count_bytes, is_plain, parameter_words
from toolroll.catalog import plain_text as markup
from toolroll.catalog import tool_text
from toolroll.catalog.plain_text import plain_text

PIECES = (
    "<b>",
    "&amp;",
    "](",
    "[a](b)",
    "://",
    "data:x",
    "**",
    "`",
    "__",
    "~~",
    "# ",
    "\n",
    " ",
    "a" * 70,
    "é" * 31,
)
texts = st.text(max_size=30) | st.lists(
    st.sampled_from(PIECES) | st.text(max_size=5) | st.text("ab1 :/#", max_size=70), max_size=6
).map("".join)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=4) | st.integers(0, 2), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(texts)
@example("a" * 59)
@example("1" * 60)
@example("x " + "1" * 60)
def test_a_text_that_is_plain_has_nothing_to_remove(text: str) -> None:
    if is_plain(text):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(markup, "is_plain", lambda text: False)
            assert plain_text(text) == text


@given(st.text("abc XYZ.,()1", max_size=50))
def test_a_text_of_short_words_is_plain(text: str) -> None:
    assert is_plain(text)


@given(texts | st.text(st.characters(), max_size=20))
def test_bytes_are_counted_as_by_hand(text: str) -> None:
    counts = count_bytes(text)
    try:
        content = text.encode()
    except UnicodeEncodeError:
        assert counts is None
        return
    letters = sum(chr(byte) in 'abcdefghijklmnopqrstuvwxyz"' for byte in content)
    middle = sum(byte >= 0x80 or chr(byte).isupper() for byte in content)
    spaces = content.count(b" ")
    assert counts == (letters, middle, spaces, len(content) - letters - middle - spaces)


class OwnDict(dict[str, Any]):
    pass


@given(values)
@example({'\x00\x1f\x7f\u2028"\\/\n\r\t\f\b': "ø"})
@example([2**63 - 1, -(2**63)])
def test_json_is_that_of_the_standard_library_or_none(value: Any) -> None:
    text = compact_json(value)
    if text is not None:
        assert text == json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
        max_leaves=12,
    )
)
def test_what_schemas_hold_is_written(value: Any) -> None:
    assert compact_json(value) is not None


@each_row("value", [1.5, 2**63, "\ud800", {1: 2}, {"\ud800": 1}, OwnDict(a=1), {1, 2}, object(), [b""]])
def test_what_is_unusual_is_left_to_the_standard_library(value: object) -> None:
    assert compact_json(value) is None and compact_json({"a": [value]}) is None


def test_a_cycle_and_a_deep_value_are_left_to_the_standard_library() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    deep: list[Any] = []
    for _ in range(100):
        deep = [deep]
    assert compact_json(cycle) is None and compact_json(deep) is None


schemas = st.recursive(
    st.none() | st.text(max_size=4) | st.lists(st.integers(), max_size=2) | st.just(()),
    lambda inner: (
        st.fixed_dictionaries({}, optional={"properties": inner, "description": inner, "type": inner})
        | st.dictionaries(st.text(max_size=3) | st.integers(0, 1), inner, max_size=5)
        | st.dictionaries(st.text(max_size=3), inner, max_size=5).map(lambda found: {"properties": found})
    ),
    max_leaves=16,
)


@given(schemas.filter(lambda schema: type(schema) is dict), st.integers(1, 3))
def test_words_of_parameters_are_those_that_python_reads(schema: dict[str, Any], most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tool_text, "_MOST_PARAMETERS", most)
        text = parameter_words(schema, most, 4)
        if text is not None:
            assert text == " ".join(tool_text._parameter_words(schema))


def test_words_of_an_ordinary_schema_are_read_natively_to_their_depth() -> None:
    schema: dict[str, Any] = {"type": "object"}
    for at in range(6):
        schema = {"type": "object", "properties": {f"p{at}": {**schema, "description": f"d{at}"}, "x": {}}}
    assert parameter_words(schema, 64, 4) == "p5 d5 p4 d4 p3 d3 p2 d2 x x x x"
    assert parameter_words({}, 64, 4) == ""
