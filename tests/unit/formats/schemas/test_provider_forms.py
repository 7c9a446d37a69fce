from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolroll.formats.providers import PROVIDERS
from toolroll.formats.schemas import (
    Form,
    convert,
    convert_all,
)
from toolroll.formats.sources import as_tool, read_tools
from toolroll.model.errors import InvalidDefinition, InvalidInput
from toolroll.model.identity import canonical_json, content_hash, schema_text
from toolroll.model.tools import Tool

SCHEMA = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
SEND = Tool("send", "Sends.", SCHEMA)

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
SIMPLE = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "number", "integer", "boolean"])}, optional={"description": TEXTS}
)
SCHEMAS = st.recursive(
    SIMPLE,
    lambda children: (
        st.builds(lambda items: {"type": "array", "items": items}, children)
        | st.builds(
            lambda properties: {"type": "object", "properties": properties},
            st.dictionaries(TEXTS, children, min_size=1, max_size=3),
        )
    ),
    max_leaves=8,
)
OBJECTS = st.builds(
    lambda properties, required: {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name in required],
    },
    st.dictionaries(st.sampled_from(["a", "b", "type", "$ref", "é"]), SCHEMAS, max_size=3),
    st.sets(st.sampled_from(["a", "b", "type", "$ref", "é"])),
)
TOOLS = st.builds(Tool, st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_-]{0,20}", fullmatch=True), TEXTS, OBJECTS)


def test_each_provider_gets_its_own_form():
    function = {"name": "send", "description": "Sends.", "parameters": SCHEMA}
    assert convert(SEND, "openai") == {"type": "function", "function": function}
    assert convert(SEND, "openai_responses") == {"type": "function", **function, "strict": False}
    assert convert(SEND, "anthropic") == {"name": "send", "description": "Sends.", "input_schema": SCHEMA}
    assert convert(SEND, "mcp") == {"name": "send", "description": "Sends.", "inputSchema": SCHEMA}
    assert convert(SEND, "gemini") == {
        "name": "send",
        "description": "Sends.",
        "parameters": {"type": "OBJECT", "properties": {"to": {"type": "STRING"}}, "required": ["to"]},
    }


@given(TOOLS, st.sampled_from(["openai", "openai_responses", "anthropic", "mcp"]))
def test_a_tool_survives_the_way_to_a_provider_and_back(tool, provider):
    assert as_tool(convert(tool, provider)) == tool


@given(TOOLS)
def test_a_tool_of_plain_types_survives_the_way_to_gemini_and_back(tool):
    back = as_tool(convert(tool, "gemini"))
    assert canonical_json(_without_empties(back.parameters)) == canonical_json(
        _without_empties(tool.parameters)
    )
    assert (back.name, back.description) == (tool.name, tool.description)


def _without_empties(schema: Any) -> Any:
    """Gemini has no objects without properties, no empty required lists and no empty descriptions."""
    if not schema or schema.get("properties") == {}:
        return {}
    kept = {key: value for key, value in schema.items() if value or key not in ("required", "description")}
    if "properties" in kept:
        kept["properties"] = {name: _without_empties(part) for name, part in kept["properties"].items()}
    if "items" in kept:
        kept["items"] = _without_empties(kept["items"])
    return kept


ORIGINALS = {
    "openai": {"type": "function", "function": {"name": "send", "parameters": SCHEMA, "strict": True}},
    "openai_responses": {"type": "function", "name": "send", "parameters": SCHEMA, "strict": True},
    "anthropic": {"name": "send", "input_schema": SCHEMA, "cache_control": {"type": "ephemeral"}},
    "gemini": {
        "name": "send",
        "parameters": {"type": "OBJECT", "properties": {"to": {"type": "STRING", "nullable": True}}},
        "behavior": "BLOCKING",
    },
    "mcp": {"name": "send", "title": "Send", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}},
}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_is_already_in_the_providers_form_comes_back_as_the_same_object(provider):
    original = ORIGINALS[provider]
    before = json.dumps(original)
    assert convert(as_tool(original), provider) is original
    assert json.dumps(original) == before


def test_geminis_declarations_with_json_schema_come_back_as_the_same_object():
    original = {"name": "send", "parameters_json_schema": SCHEMA}
    assert convert(as_tool(original), "gemini") is original
    wrapped = {"function_declarations": [original, ORIGINALS["gemini"] | {"name": "other"}]}
    schemas, _ = convert_all(read_tools([wrapped]).tools, "gemini")
    assert schemas == [wrapped]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    "change", [{"name": "other"}, {"description": "Other."}, {"parameters": {"type": "object"}}]
)
def test_a_changed_copy_of_a_tool_no_longer_goes_out_as_its_original(provider, change):
    tool = dataclasses.replace(as_tool(ORIGINALS[provider]), **change)
    assert convert(tool, provider) == convert(dataclasses.replace(tool, original=None), provider)


def test_a_dictionary_with_our_own_keys_is_not_sent_as_it_is():
    for item in (
        {"type": "function", "function": {"name": "send", "parameters": SCHEMA}, "tags": ["mail"]},
        {"name": "send", "input_schema": SCHEMA, "examples": ["write to Bob"]},
        {"name": "send", "parameters": SCHEMA, "toolkit": "mail"},
    ):
        for provider in PROVIDERS:
            sent = json.dumps(convert(as_tool(item), provider))
            assert not any(word in sent for word in ("tags", "examples", "toolkit", "mail"))


def test_an_object_of_an_mcp_library_is_written_out_by_that_library():
    class Listed:
        name, description, title, inputSchema = "send", "Sends.", "Send", SCHEMA

        def model_dump(self, **options: Any) -> dict[str, Any]:
            assert options == {"by_alias": True, "exclude_none": True, "mode": "json"}
            return {"name": self.name, "title": self.title, "inputSchema": self.inputSchema}

    tool = as_tool(Listed())
    assert convert(tool, "mcp") == {"name": "send", "title": "Send", "inputSchema": SCHEMA}
    assert convert(dataclasses.replace(tool, description="x"), "mcp")["description"] == "x"


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("parameters", [None, {}, {"type": "object"}, {"properties": {}}])
def test_a_tool_without_parameters_has_a_form_that_the_provider_takes(provider, parameters):
    sent = convert(Tool("ping", "", parameters), provider)
    empty = {"type": "object", "properties": {}}
    assert (
        sent.get("function", sent)
        == {
            "openai": {"name": "ping", "description": "", "parameters": empty},
            "openai_responses": {
                "type": "function",
                "name": "ping",
                "description": "",
                "parameters": empty,
                "strict": False,
            },
            "anthropic": {"name": "ping", "description": "", "input_schema": empty},
            "gemini": {"name": "ping", "description": ""},
            "mcp": {"name": "ping", "description": "", "inputSchema": empty},
        }[provider]
    )


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_name_that_the_provider_refuses_is_replaced_and_leads_back(provider):
    tools = [Tool("send"), Tool("날씨 조회"), Tool("uber ride!"), Tool("x" * 200)]
    schemas, back = convert_all(tools, provider)
    declared = schemas[0]["function_declarations"] if provider == "gemini" else schemas
    sent = [schema.get("function", schema)["name"] for schema in declared]
    assert sent == list(back) and list(back.values()) == [tool.name for tool in tools]
    assert sent[0] == "send" and all(len(name) <= 128 and name.isascii() for name in sent)


def test_an_unknown_provider_is_refused():
    with pytest.raises(InvalidInput, match="provider is 'cohere', must be one of openai, openai_responses"):
        convert(SEND, "cohere")


def test_nothing_to_send_is_an_empty_list():
    for provider in PROVIDERS:
        assert convert_all([], provider) == ([], {})


@given(TOOLS, st.sampled_from([*PROVIDERS]))
def test_the_same_tool_gives_the_same_bytes(tool, provider):
    assert json.dumps(convert(tool, provider)) == json.dumps(convert(dataclasses.replace(tool), provider))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda children: st.lists(children, max_size=3) | st.dictionaries(TEXTS, children, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_canonical_json_says_the_same_and_does_not_depend_on_the_order_of_keys(value):
    def reversed_keys(value: Any) -> Any:
        if isinstance(value, list):
            return [reversed_keys(item) for item in value]
        if isinstance(value, dict):
            return {key: reversed_keys(value[key]) for key in reversed(value)}
        return value

    assert json.loads(canonical_json(value)) == value
    assert canonical_json(reversed_keys(value)) == canonical_json(value)


def test_canonical_json_is_sorted_compact_and_in_utf_8():
    assert canonical_json({"b": [1, None], "a": "날씨"}) == '{"a":"날씨","b":[1,null]}'


CYCLE: dict[str, Any] = {}
CYCLE["self"] = CYCLE


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), "cannot be written as JSON: Out of range float values are not JSON compliant"),
        ({1, 2}, "cannot be written as JSON: set has no form in JSON"),
        (CYCLE, "cannot be written as JSON: Circular reference detected"),
        ("\ud800", "cannot be written as JSON: 'utf-8' codec can't encode"),
    ],
)
def test_what_json_cannot_hold_is_a_clear_error_that_names_the_tool(value, message):
    with pytest.raises(InvalidDefinition) as caught:
        canonical_json(value)
    assert str(caught.value).startswith(message)
    for read in (content_hash, schema_text):
        with pytest.raises(InvalidDefinition) as caught:
            read(Tool("x", parameters={"default": value}))
        assert str(caught.value).startswith(f"tool 'x': {message}")


def test_the_content_hash_is_of_what_the_model_sees_and_of_nothing_else():
    expected = hashlib.sha256(
        b'{"description":"Sends.","name":"send","parameters":'
        b'{"properties":{"to":{"type":"string"}},"required":["to"],"type":"object"}}'
    ).hexdigest()
    assert content_hash(SEND) == expected
    assert content_hash(dataclasses.replace(SEND, tags=("x",), original=3, version="2.0.0")) == expected
    for change in ({"name": "x"}, {"description": "x"}, {"parameters": {}}):
        assert content_hash(dataclasses.replace(SEND, **change)) != expected


def test_the_schema_text_is_the_compact_openai_form():
    assert json.loads(schema_text(SEND)) == convert(SEND, "openai")
    assert ": " not in schema_text(SEND)


@pytest.mark.parametrize(
    ("provider", "form"), [*((one, Form()) for one in PROVIDERS), ("openai", Form(strict=True))]
)
def test_a_list_is_the_callers_to_change(provider, form):
    class Odd(str):
        """What marshal cannot write."""

    shared = {"type": "string", "enum": ["a"]}
    properties = {"one": shared, "two": shared}
    tools = [Tool("plain", "", {"type": "object", "properties": properties})]
    odd = {"three": {"type": "string", "description": Odd("Says.")}}
    tools.append(Tool("odd", "", {"type": "object", "properties": odd}))
    tools.append(as_tool(ORIGINALS[provider]))
    before = json.dumps(convert_all(tools, provider, form))
    _spoil(convert_all(tools, provider, form)[0])
    assert json.dumps(convert_all(tools, provider, form)) == before
    assert shared == {"type": "string", "enum": ["a"]}


def _spoil(value: Any) -> None:
    for part in list(value.values() if isinstance(value, dict) else value):
        if isinstance(part, (dict, list)):
            _spoil(part)
    value.clear()


def test_two_tools_of_one_name_in_two_catalogs_are_not_confused():
    one, other = Tool("same", "One."), Tool("same", "Other.")
    assert [convert_all([tool], "mcp")[0][0]["description"] for tool in (one, other, one)] == [
        "One.",
        "Other.",
        "One.",
    ]
