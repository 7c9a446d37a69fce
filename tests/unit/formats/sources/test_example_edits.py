"""Examples are added to definition files; nothing else in a file changes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolroll.formats.sources.example_edits import read_edited, with_examples
from toolroll.formats.sources.folder import read_folder

TWO = ("will it rain", 'say "hi" \\ 날씨')

TOOLKIT = """\
{
    "name": "weather",
    "keywords": ["rain"],
    "tasks": [
        {
            "type": "function",
            "function": {"name": "get_forecast", "description": "Forecast.", "parameters": {"type": "object"}},
            "tags": ["sky"]
        },
        {"name": "get_tides", "description": "Tides."},
        {
            "name": "get_wind",
            "examples": [
                "how windy is it"
            ],
            "description": "Wind."
        },
        {"name": "get_snow", "examples": ["snow?"], "tags": []},
        {"name": "get_hail", "examples": []}
    ]
}
"""


def edit(path: Path, **examples: Any) -> str:
    """The new text of the only file that changes."""
    (content,) = with_examples(str(path), examples).values()
    return content.decode()


@pytest.fixture
def toolkit(tmp_path: Path) -> Path:
    file = tmp_path / "weather.json"
    file.write_text(TOOLKIT, encoding="utf-8")
    return file


def test_examples_follow_the_last_key_of_an_object_a_message_a_line_if_it_has_a_key_a_line(
    toolkit: Path,
) -> None:
    old = '            "tags": ["sky"]\n'
    new = (
        '            "tags": ["sky"],\n'
        '            "examples": [\n'
        '                "will it rain",\n'
        '                "say \\"hi\\" \\\\ 날씨"\n'
        "            ]\n"
    )
    assert edit(toolkit, get_forecast=TWO) == TOOLKIT.replace(old, new)


def test_an_object_on_one_line_stays_on_it(toolkit: Path) -> None:
    old, new = '"Tides."}', '"Tides.", "examples": ["high tide?", "low tide?"]}'
    assert edit(toolkit, get_tides=("high tide?", "low tide?")) == TOOLKIT.replace(old, new)


def test_examples_are_added_behind_those_of_the_file_in_its_style(toolkit: Path) -> None:
    assert edit(toolkit, get_wind=("a", "b")) == TOOLKIT.replace(
        '"how windy is it"\n', '"how windy is it",\n                "a",\n                "b"\n'
    )
    assert edit(toolkit, get_snow=("a",)) == TOOLKIT.replace('["snow?"]', '["snow?", "a"]')
    assert edit(toolkit, get_hail=("a",)) == TOOLKIT.replace('"examples": []', '"examples": ["a"]')


def test_several_tools_of_a_file_are_edited_at_once(toolkit: Path) -> None:
    names = ("get_forecast", "get_tides", "get_wind", "get_snow", "get_hail")
    before = read_folder(toolkit).tools
    contents = with_examples(str(toolkit), dict.fromkeys(names, TWO))
    after = read_edited(str(toolkit), contents).tools
    assert [tool.examples for tool in after] == [(*tool.examples, *TWO) for tool in before]
    assert [tool.name for tool in after] == list(names)


def test_a_line_of_tools_is_edited_alone_and_keeps_its_separators_and_escapes(tmp_path: Path) -> None:
    lines = [
        '{"name":"a","description":"caf\\u00e9"}',
        "",
        '{"name": "b", "server": "x"}\r',
        '{"type": "function", "function": {"name": "c"}}',
        '{"name": "d", "inputSchema": {"type": "object"}}',
        '{"function_declarations": [{"name": "e"}]}',
    ]
    (tmp_path / "tools.jsonl").write_bytes("\n".join(lines).encode())
    expected = [
        '{"name":"a","description":"caf\\u00e9","examples":["\\u00e9"]}',
        "",
        '{"name": "b", "server": "x", "examples": ["é"]}\r',
        '{"type": "function", "function": {"name": "c"}, "examples": ["é"]}',
        '{"name": "d", "inputSchema": {"type": "object"}, "examples": ["é"]}',
        '{"function_declarations": [{"name": "e", "examples": ["é"]}]}',
    ]
    contents = with_examples(str(tmp_path), dict.fromkeys("abcde", ("é",)))
    assert contents[str(tmp_path / "tools.jsonl")].decode().split("\n") == expected
    assert [tool.examples for tool in read_edited(str(tmp_path), contents).tools] == [("é",)] * 5


def test_the_form_of_mcp_gets_no_examples(tmp_path: Path) -> None:
    tool = {"name": "a", "inputSchema": {"type": "object"}}
    for name, value in (
        ("list.json", [tool]),
        ("mail.json", {"tools": [tool]}),
        ("x.jsonl", {"tools": [tool]}),
    ):
        file = tmp_path / name
        file.write_text(json.dumps(value))
        assert with_examples(str(file), {"a": ("x",)}) == {}


def test_a_line_that_is_no_json_stays_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "tools.jsonl"
    file.write_text('{"name": "a"}\n{"name": \n{"name": "b"}\n')
    contents = with_examples(str(file), {"a": ("x",), "b": ("y",)})
    assert contents[str(file)].decode() == (
        '{"name": "a", "examples": ["x"]}\n{"name": \n{"name": "b", "examples": ["y"]}\n'
    )
    assert [tool.examples for tool in read_edited(str(file), contents, "skip").tools] == [("x",), ("y",)]


def test_a_byte_order_mark_and_windows_line_ends_stay(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(b'\xef\xbb\xbf[\r\n  {\r\n    "name": "a"\r\n  }\r\n]\r\n')
    assert with_examples(str(file), {"a": ("x",)})[str(file)] == (
        b'\xef\xbb\xbf[\r\n  {\r\n    "name": "a",\r\n    "examples": [\r\n      "x"\r\n    ]\r\n  }\r\n]\r\n'
    )


def test_a_folder_whose_toolkits_name_each_other_is_read_with_its_new_contents(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"name": "a", "tasks": [{"name": "one"}]}')
    (tmp_path / "b.json").write_text('{"name": "b", "parent": "a", "tasks": [{"name": "two"}]}')
    contents = with_examples(str(tmp_path), {"two": ("x",)})
    assert list(contents) == [os.path.join(str(tmp_path), "b.json")]
    assert [tool.examples for tool in read_edited(str(tmp_path), contents).tools] == [(), ("x",)]


_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(st.characters(exclude_categories=["Cs"], min_codepoint=1)),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text('ab{}[]",:\\', max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(
    st.lists(
        st.fixed_dictionaries(
            {"description": st.text(st.characters(exclude_categories=["Cs"], min_codepoint=32), max_size=20)},
            optional={"examples": st.lists(st.text('x "é\\{', max_size=4), max_size=3), "metadata_": _json},
        ),
        max_size=4,
    ),
    st.sampled_from([None, 1, 2, "\t"]),
    st.booleans(),
    st.sampled_from([None, (",", ":")]),
    st.data(),
)
def test_an_edit_changes_the_examples_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory,
    tools: list[Any],
    indent: Any,
    ascii: bool,
    separators: Any,
    data: Any,
) -> None:
    items = [{"name": f"tool{i}", **tool} for i, tool in enumerate(tools)]
    new = {item["name"]: data.draw(st.lists(st.text('ab"\\é\n', max_size=5), max_size=3)) for item in items}
    file = tmp_path_factory.mktemp("edit") / "tools.json"
    text = json.dumps(items, indent=indent, ensure_ascii=ascii, separators=separators)
    file.write_text(text, encoding="utf-8")
    found = with_examples(str(file), new)
    expected = [
        {
            **item,
            **({"examples": [*item.get("examples", []), *new[item["name"]]]} if new[item["name"]] else {}),
        }
        for item in items
    ]
    if not any(new.values()):
        assert found == {}
        return
    edited = found[str(file)].decode()
    assert json.loads(edited) == expected
    at, left = 0, text  # the old text is there, in its order, apart from an empty list that was filled
    for letter in left.replace('"examples": []', '"examples": ').replace('"examples":[]', '"examples":'):
        at = edited.index(letter, at) + 1
