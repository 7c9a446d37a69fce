from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.table import each_row
from toolroll.formats import strict_json
from toolroll.model.errors import InvalidDefinition

TEXTS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=8)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda children: st.lists(children, max_size=4) | st.dictionaries(TEXTS, children, max_size=4),
    max_leaves=12,
)


@given(VALUES, st.sampled_from([None, 1]), st.booleans())
def test_json_that_is_strict_is_read_as_the_standard_library_reads_it(value, indent, ascii_only):
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert strict_json.parse(text) == json.loads(text)


def paths_of(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from paths_of(item, (*path, key))


@given(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=4), st.randoms())
def test_the_line_of_a_path_is_where_its_key_stands(value, random):
    path = random.choice([path for path in paths_of(value) if path])
    marked, holder = json.loads(json.dumps(value)), None
    holder = marked
    for part in path[:-1]:
        holder = holder[part]
    text = json.dumps(value, indent=1)
    holder[path[-1]] = "the marked value"  # the oracle: everything above this line is unchanged
    above = json.dumps(marked, indent=1).split("the marked value")[0]
    assert strict_json.line_of(text, path) == above.count("\n") + 1


def test_a_path_that_is_not_there_gives_the_line_of_what_is():
    assert strict_json.line_of('{\n"a": {\n"b": 1}}', ("a", "nowhere")) == 2


@each_row(
    ("text", "message"),
    [
        ('{"a": }', "f.json:1:7: is not JSON: Expecting value"),
        ('{"a": 1,}', "f.json:1:"),
        ("", "f.json:1:1: is not JSON: Expecting value"),
        ('{"a": 1} x', "f.json:1:10: is not JSON: Extra data"),
        ('{"a":\n "b\nc"}', "f.json:2:4: is not JSON: Invalid control character at"),
        ('{\n "a": 1,\n "a": 2\n}', "f.json:3:2: key 'a' is given twice in one object"),
        ('{"b": [{"a": 1, "\\u0061": 2}]}', "f.json:1:17: key 'a' is given twice in one object"),
        ("[1,\nNaN]", "f.json:2:1: NaN is not JSON, must be a finite number"),
        ("[-Infinity]", "f.json:1:2: -Infinity is not JSON, must be a finite number"),
        ("[1e999]", "f.json:1:2: 1e999 is too large, must be a finite number"),
        (f"[{'9' * 5000}]", "f.json:1:2: a number has 5000 digits, must have at most 400"),
        ('["\\ud800"]', "f.json:1:2: a string holds a lone surrogate (\\ud800)"),
        ('{"\\udc00x": 1}', "f.json:1:2: a string holds a lone surrogate (\\udc00)"),
        ('["a\\u0000b"]', "f.json:1:2: a string holds NUL (\\u0000)"),
        ("[" * 100_000, "f.json:1:129: is nested deeper than 128 levels"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "f.json:1:641: is nested deeper than 128 levels"),
    ],
)
def test_what_is_wrong_is_told_with_file_line_and_column(text, message):
    with pytest.raises(InvalidDefinition) as caught:
        strict_json.parse(text, "f.json")
    assert str(caught.value).startswith(message)


def test_lines_are_counted_from_where_the_text_begins():
    with pytest.raises(InvalidDefinition, match="^f.jsonl:12:6: is not JSON"):
        strict_json.parse('{"a":x}', "f.jsonl", first_line=12)


def test_a_whole_surrogate_pair_and_an_escaped_backslash_are_fine():
    assert strict_json.parse('["\\ud83d\\ude00"]') == ["😀"]
    assert strict_json.parse('["\\\\u0000 \\\\ud800"]') == ["\\u0000 \\ud800"]


def test_bytes_that_are_not_utf_8_are_told_with_their_line():
    with pytest.raises(InvalidDefinition, match="^f.json:2: is not UTF-8: byte 0xff at offset 4$"):
        strict_json.decode(b'{\n"a\xff": 1}', "f.json")


def test_a_byte_order_mark_is_no_part_of_the_text():
    assert strict_json.decode(b"\xef\xbb\xbf{}", "f.json") == "{}"


@given(st.text(alphabet='{}[]",:\\u0aNIe1.-tn \n', max_size=40))
def test_no_text_does_anything_but_parse_or_raise_an_invalid_definition(text):
    try:
        strict_json.parse(text, "f.json")
    except InvalidDefinition as error:
        assert error.line is not None
