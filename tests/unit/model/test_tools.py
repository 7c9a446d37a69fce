from __future__ import annotations

import dataclasses
import pickle

import pytest

from tests.table import each_row
from toolroll.model.errors import (
    Conflict,
    Denied,
    EmbedderUnavailable,
    InvalidDefinition,
    InvalidInput,
    NotFound,
    StoreUnavailable,
    ToolrollError,
    Unavailable,
)
from toolroll.model.tools import Route, Tool, Toolkit, default_mode


def test_an_invalid_definition_says_file_line_tool_and_what_is_allowed():
    error = InvalidDefinition(
        "timeout_s is -1, must be > 0",
        file="toolkits/crm.json",
        line=41,
        field="timeout_s",
        tool="crm_export",
    )
    assert str(error) == "toolkits/crm.json:41: tool 'crm_export': timeout_s is -1, must be > 0"
    assert (error.file, error.line, error.field, error.tool) == (
        "toolkits/crm.json",
        41,
        "timeout_s",
        "crm_export",
    )


def test_an_invalid_definition_leaves_out_what_is_not_known():
    assert str(InvalidDefinition("is empty")) == "is empty"
    assert str(InvalidDefinition("is not JSON", file="a.json", line=3, column=7)) == "a.json:3:7: is not JSON"


def test_an_invalid_definition_survives_pickling():
    error = InvalidDefinition("is empty", file="a.json", line=3, tool="x")
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error) and copy.line == 3


@each_row(
    ("error", "builtin"),
    [
        (InvalidInput, ValueError),
        (InvalidDefinition, ValueError),
        (NotFound, LookupError),
        (Denied, PermissionError),
    ],
)
def test_errors_are_also_the_builtin_that_callers_expect(error, builtin):
    assert issubclass(error, builtin) and issubclass(error, ToolrollError)
    assert str(error("reason")) == "reason"


def test_what_is_unavailable_says_when_to_try_again():
    assert StoreUnavailable("no answer", retry_after_s=2.5).retry_after_s == 2.5
    assert EmbedderUnavailable("no answer").retry_after_s is None
    assert issubclass(StoreUnavailable, Unavailable) and not issubclass(Conflict, Unavailable)


def test_a_tool_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Tool("weather").name = "other"


def test_the_original_object_is_no_part_of_equality():
    assert Tool("weather", original=object()) == Tool("weather", original=object())


def test_a_tool_can_be_a_key_although_its_schema_is_a_dictionary():
    tool = Tool("weather", parameters={"type": "object"})
    assert {tool: 1}[Tool("weather", parameters={"type": "object"})] == 1


def test_tags_and_examples_given_as_lists_become_tuples():
    tool = Tool("weather", tags=["sky"], examples=["will it rain"])
    assert tool.tags == ("sky",) and tool.examples == ("will it rain",)


@each_row(
    ("fields", "message"),
    [
        ({"name": ""}, "name is '', must be a non-empty string"),
        ({"name": 3}, "name is 3, must be a non-empty string"),
        ({"description": None}, "tool 'x': description is None, must be a string"),
        ({"parameters": "{}"}, "tool 'x': parameters is '{}', must be a JSON Schema object or None"),
        ({"status": "on"}, "tool 'x': status is 'on', must be one of draft, active, deprecated, retired"),
        ({"tags": "sky"}, "tool 'x': tags is 'sky', must be a tuple of strings"),
        ({"examples": [1]}, "tool 'x': examples is [1], must be a tuple of strings"),
    ],
)
def test_a_tool_made_by_hand_says_what_is_wrong_with_it(fields, message):
    with pytest.raises(InvalidDefinition) as caught:
        Tool(**{"name": "x", **fields})
    assert str(caught.value) == message


def test_a_toolkit_needs_a_name():
    with pytest.raises(InvalidDefinition, match="toolkit name is '', must be a non-empty string"):
        Toolkit("")


def test_a_route_has_no_modes_or_one_for_each_keyword():
    with pytest.raises(
        InvalidDefinition, match="has 1 modes, must be none or one for each of its 2 keywords"
    ):
        Route(("weather",), ("rain", "sun"), modes=("word",))
    with pytest.raises(InvalidDefinition, match="mode is 'fuzzy', must be one of prefix, substring, word"):
        Route(("weather",), ("rain",), modes=("fuzzy",))


def test_a_mode_that_is_left_open_is_chosen_by_script():
    route = Route(("weather",), ("rain", "날씨", "sun"), modes=("substring", "", ""))
    assert route.keyword_modes == ("substring", "prefix", "word")
    assert Route(("weather",), ("rain", "날씨")).keyword_modes == ("word", "prefix")


@each_row(
    ("keyword", "mode"),
    [
        ("rain", "word"),
        ("git commit", "word"),
        ("café", "word"),
        ("погода", "word"),
        ("c++", "substring"),
        (".env", "substring"),
        ("날씨", "prefix"),
        ("API 날씨", "prefix"),
        ("天気", "substring"),
        ("カレンダー", "substring"),
        ("อากาศ", "substring"),
        ("", "substring"),
    ],
)
def test_the_default_mode_of_a_keyword_follows_its_script(keyword, mode):
    assert default_mode(keyword) == mode


@each_row(
    ("annotations", "hints"),
    [
        (None, {}),
        ({}, {}),
        ({"title": "T", "readOnlyHint": False}, {"title": "T", "readOnlyHint": False}),
        ({"readOnlyHint": True}, {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True}),
        (
            {"readOnlyHint": True, "destructiveHint": True, "idempotentHint": None},
            {"readOnlyHint": True, "destructiveHint": True, "idempotentHint": True},
        ),
        ({"readOnlyHint": 1, "destructiveHint": "false", "openWorldHint": None, "x": [], "y": 0.0}, {}),
        (
            {"readOnlyHint": True, "destructiveHint": "false"},  # damaged, so it is unknown
            {"readOnlyHint": True, "idempotentHint": True},
        ),
        ({"x-pii": "high", "x-billed": True}, {"x-pii": "high", "x-billed": True}),
    ],
)
def test_hints_are_what_annotations_tell_for_certain(annotations, hints):
    assert Tool("a", annotations=annotations).hints == hints


@each_row(
    ("field", "value", "says"),
    [
        ("annotations", [], "must be a mapping or None"),
        ("meta", "x", "must be a mapping or None"),
        ("execution", 1, "must be a mapping or None"),
        ("icons", "x", "must be a tuple of mappings"),
        ("icons", ["x"], "must be a tuple of mappings"),
        ("icons", {}, "must be a tuple of mappings"),
    ],
)
def test_metadata_of_the_wrong_type_is_refused(field, value, says):
    with pytest.raises(InvalidDefinition, match=says) as refused:
        Tool("a", **{field: value})
    assert refused.value.field == field


def test_icons_become_a_tuple():
    assert Tool("a", icons=[{"src": "x"}]).icons == ({"src": "x"},)
