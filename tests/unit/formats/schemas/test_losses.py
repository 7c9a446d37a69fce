"""What a provider isn't told is told to whoever asks, and what it has a place for is carried over."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.table import each_row
from tests.unit.formats.schemas.test_provider_forms import OBJECTS, ORIGINALS, TEXTS
from tests.unit.formats.schemas.test_strict_schema import HOSTILE, JUNK
from toolroll.cli import main
from toolroll.formats.providers import PROVIDERS
from toolroll.formats.schemas import Form, convert, convert_all, losses
from toolroll.formats.sources import as_tool, read_tools
from toolroll.model.errors import InvalidInput
from toolroll.model.tools import Tool

SCHEMA = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
ANSWER = {"type": "object", "properties": {"sent": {"type": "boolean"}}}
MCP = {
    "name": "send",
    "title": "Send mail",
    "description": "Sends.",
    "inputSchema": SCHEMA,
    "outputSchema": ANSWER,
    "annotations": {"destructiveHint": True},
}


def told(tool: Tool, provider: str, **form: bool) -> list[str]:
    return [f"{loss.where}: {loss.what}" for loss in losses([tool], provider, Form(**form))]


@each_row("provider", PROVIDERS)
def test_nothing_is_lost_of_a_tool_that_goes_out_as_it_came(provider):
    assert losses([as_tool(ORIGINALS[provider])], provider) == ()


@given(st.builds(Tool, st.just("t"), TEXTS, OBJECTS), st.sampled_from([*PROVIDERS]))
def test_nothing_is_lost_of_a_tool_of_plain_types(tool, provider):
    assert losses([tool], provider) == ()


def test_what_a_provider_has_no_place_for_is_said_once_each():
    tool = as_tool(MCP)
    assert told(tool, "openai") == [
        "title: openai has no place for it",
        "outputSchema: openai has no place for it",
        "annotations: openai has no place for it",
    ]
    assert told(tool, "gemini") == [
        "title: gemini has no place for it",
        "outputSchema: is sent with returns=True only, since the model reads it in each prompt",
        "annotations: gemini has no place for it",
    ]
    assert told(tool, "gemini", returns=True) == told(tool, "gemini")[::2]
    assert told(tool, "mcp") == []
    assert str(losses([tool], "openai")[0]) == "tool 'send': title: openai has no place for it"


def test_marks_that_two_providers_understand_differently_are_not_carried_over():
    claude = {"name": "a", "input_schema": SCHEMA, "strict": True, "input_examples": [{"to": "Bob"}]}
    tool = as_tool(claude)
    assert told(tool, "openai") == [
        "strict: openai has no place for it",
        "input_examples: openai has no place for it",
    ]
    assert "strict" not in convert(tool, "openai")["function"]
    assert convert(tool, "openai_responses")["strict"] is False
    openai = as_tool({"type": "function", "function": {"name": "a", "parameters": SCHEMA, "strict": True}})
    assert told(openai, "anthropic") == ["strict: anthropic has no place for it"]
    assert "strict" not in convert(openai, "anthropic")


def test_strict_mode_of_one_openai_interface_holds_for_the_other():
    chat = {"type": "function", "function": {"name": "a", "parameters": SCHEMA, "strict": True}}
    assert convert(as_tool(chat), "openai_responses")["strict"] is True
    flat = {"type": "function", "name": "a", "parameters": SCHEMA, "strict": True}
    assert convert(as_tool(flat), "openai")["function"]["strict"] is True


def test_a_keyword_that_gemini_does_not_know_is_named_with_its_place():
    properties = {
        "id": {"type": "string", "format": "uuid"},
        "tags": {
            "type": "array",
            "items": {"type": "string", "contentEncoding": "base64"},
            "uniqueItems": True,
        },
        "size": {"enum": [1, 2]},
        "more": {"type": "object", "additionalProperties": {"type": "string"}},
        "kind": {"oneOf": [{"type": "string"}, {"type": "integer", "multipleOf": 2}]},
        "far": {"$ref": "http://127.0.0.1:9/x"},
        "any": {},
    }
    tool = Tool("t", "", {"type": "object", "properties": properties})
    place = "parameters.properties"
    assert told(tool, "gemini") == [
        f"{place}.id: format 'uuid' is dropped",
        f"{place}.tags: uniqueItems is dropped",
        f"{place}.tags.items: contentEncoding is dropped",
        f"{place}.size: enum: only non-empty strings can be listed, others go into the description",
        f"{place}.more: properties of any name are not sent",
        f"{place}.kind: oneOf is sent as anyOf",
        f"{place}.kind.oneOf: multipleOf is dropped",
        f"{place}.far: $ref 'http://127.0.0.1:9/x' leads nowhere, or back to itself: an open object",
        f"{place}.any: any value is sent as string",
    ]
    assert told(tool, "gemini", json_schema=True) == []


def test_why_a_tool_is_sent_without_strict_mode_is_said():
    tool = Tool("t", "", {"type": "object", "properties": {"x": {"type": "object"}}})
    (loss,) = losses([tool], "openai", Form(strict=True))
    assert str(loss) == (
        "tool 't': parameters.properties.x: takes any object, which strict mode cannot say: "
        "sent without strict mode"
    )
    assert "strict" not in convert(tool, "openai", Form(strict=True))["function"]
    assert convert(tool, "openai_responses", Form(strict=True))["strict"] is False


def test_strict_form_is_sent_as_such():
    tool = Tool("t", "D.", {"type": "object", "properties": {"x": {"type": "string"}}})
    function = convert(tool, "openai", Form(strict=True))["function"]
    assert function["strict"] is True and function["parameters"]["required"] == ["x"]
    assert convert(tool, "openai_responses", Form(strict=True)) == {"type": "function", **function}


def test_an_original_goes_out_in_strict_mode_only_if_that_is_what_its_author_wrote():
    closed = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    ready = {"type": "function", "function": {"name": "a", "parameters": closed, "strict": True}}
    assert convert(as_tool(ready), "openai", Form(strict=True)) is ready
    loose = {"type": "function", "function": {"name": "a", "parameters": SCHEMA}}
    assert convert(as_tool(loose), "openai", Form(strict=True)) is not loose
    assert convert(as_tool(loose), "openai") is loose


@pytest.mark.parametrize("provider", ["anthropic", "gemini", "mcp"])
def test_strict_mode_is_refused_where_there_is_none(provider):
    for ask in (convert, lambda tool, provider, form: losses([tool], provider, form)):
        with pytest.raises(InvalidInput, match=f"must be False for {provider}: strict mode is OpenAI's"):
            ask(Tool("a"), provider, Form(strict=True))
    if provider != "gemini":
        with pytest.raises(InvalidInput, match=f"json_schema is True, must be False for {provider}"):
            convert(Tool("a"), provider, Form(json_schema=True))


def test_gemini_takes_json_schema_as_it_is():
    schema = {"type": "object", "properties": {"x": {"type": ["string", "null"], "format": "uuid"}}}
    sent = convert(Tool("a", "", schema), "gemini", Form(json_schema=True))
    assert sent == {"name": "a", "description": "", "parameters_json_schema": schema}
    assert convert(Tool("a"), "gemini", Form(json_schema=True)) == {"name": "a", "description": ""}
    assert as_tool(sent).parameters == schema


def test_what_a_tool_answers_is_carried_wherever_there_is_a_place():
    tool = as_tool(MCP)
    assert tool.returns == ANSWER and tool.display_name == "Send mail"
    gemini = convert(tool, "gemini", Form(returns=True))
    responses = convert(tool, "openai_responses", Form(returns=True))
    assert gemini["response_json_schema"] == responses["output_schema"] == ANSWER
    for back in (as_tool(gemini), as_tool(responses)):
        assert convert(back, "mcp") == {
            "name": "send",
            "description": "Sends.",
            "inputSchema": convert(back, "mcp")["inputSchema"],
            "outputSchema": ANSWER,
        }


def test_a_malformed_answer_schema_does_not_cost_the_tool():
    for wrong in ("text", 7, {"properties": 3}, True):
        assert as_tool({**MCP, "outputSchema": wrong}).returns is None


def test_a_renamed_tool_keeps_what_mcp_said_of_it():
    sent = convert(as_tool({**MCP, "name": "send mail!"}), "mcp")
    assert sent["name"].startswith("send_mail__")
    assert {key: sent[key] for key in ("title", "outputSchema", "annotations")} == {
        key: MCP[key] for key in ("title", "outputSchema", "annotations")
    }


def test_a_changed_copy_is_sent_with_its_own_annotations_and_not_with_those_of_its_original():
    changed = dataclasses.replace(as_tool(MCP), description="Deletes.")
    assert convert(changed, "mcp") == {**MCP, "description": "Deletes."}
    safe = dataclasses.replace(
        as_tool(MCP), annotations={"readOnlyHint": True}, display_name="", returns=None
    )
    assert convert(safe, "mcp") == {
        "name": "send",
        "description": "Sends.",
        "inputSchema": SCHEMA,
        "annotations": {"readOnlyHint": True},
    }
    assert told(safe, "openai") == ["annotations: openai has no place for it"]


def test_all_metadata_of_mcp_is_named_where_a_provider_has_no_place_for_it():
    tool = as_tool(
        {**MCP, "icons": [{"src": "a"}], "_meta": {"x": 1}, "execution": {"taskSupport": "optional"}}
    )
    assert [loss.where for loss in losses([tool], "anthropic")] == [
        *("title", "outputSchema", "annotations", "icons", "_meta", "execution")
    ]
    assert told(tool, "mcp") == [] == told(dataclasses.replace(tool, original=None), "mcp")


@each_row("provider", ["openai", "openai_responses", "anthropic", "gemini"])
def test_alternatives_at_the_root_become_one_object_with_the_properties_of_all(provider):
    schema = {
        "anyOf": [
            {"type": "object", "properties": {"kind": {"const": "mail"}, "to": {"type": "string"}}, "required": ["kind", "to"]},
            {"$ref": "#/$defs/call"},
        ],
        "$defs": {
            "call": {"type": "object", "properties": {"kind": {"const": "call"}, "number": {"type": "string"}}, "required": ["kind"]}
        },
    }  # fmt: skip
    sent = json.dumps(convert(Tool("t", "", schema), provider)).lower()
    assert told(Tool("t", "", schema), provider) == [
        "parameters: anyOf at the root: sent as one object with the properties of all"
    ]
    parameters = convert(Tool("t", "", schema), provider)
    parameters = parameters.get("function", parameters)
    parameters = parameters.get("parameters") or parameters.get("input_schema")
    assert parameters["type"].lower() == "object" and "anyOf" not in parameters
    assert list(parameters["properties"]) == ["kind", "to", "number"]
    assert parameters["required"] == ["kind"]
    assert '"enum": ["mail", "call"]' in sent


def test_a_reference_at_the_root_is_put_in_place():
    schema = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": SCHEMA}}
    sent = convert(Tool("t", "", schema), "anthropic")["input_schema"]
    assert {key: sent[key] for key in SCHEMA} == SCHEMA
    assert told(Tool("t", "", schema), "anthropic") == []


def test_parts_at_the_root_that_contradict_each_other_are_noted():
    schema = {
        "type": "object",
        "allOf": [
            {"properties": {"a": {"type": "string"}}, "additionalProperties": False},
            {"properties": {"a": {"type": "integer"}}, "additionalProperties": True},
        ],
        "not": {"required": ["b"]},
    }
    assert told(Tool("t", "", schema), "openai") == [
        "parameters: two schemas of property a, the first is sent",
        "parameters: two values of additionalProperties at once, the first is sent",
        "parameters: not is not taken at the root",
    ]


def test_the_command_line_says_what_is_lost_beside_the_schemas(tmp_path, capsys):
    task = {
        "name": "a",
        "description": "Sends.",
        "parameters": {"type": "object", "properties": {"id": {"type": "string", "format": "uuid"}}},
    }
    (tmp_path / "kit.json").write_text(json.dumps({"name": "kit", "tasks": [task]}), "utf-8")
    assert main(["select", "send", "--catalog", str(tmp_path), "--schemas", "gemini"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)[0]["function_declarations"][0]["name"] == "a"
    assert printed.err.strip() == "tool 'a': parameters.properties.id: format 'uuid' is dropped"


@each_row("name", HOSTILE)
@each_row("provider", PROVIDERS)
def test_a_hostile_schema_ends_soon(name, provider, within_seconds):
    tool = Tool("t", "", HOSTILE[name])
    with within_seconds(3):
        convert(tool, provider)
        losses([tool], provider)


@given(
    st.dictionaries(st.sampled_from(["properties", "anyOf", "oneOf", "allOf", "$ref", "$defs", "type"]), JUNK)
)
def test_junk_becomes_an_object_without_alternatives_at_the_root(schema):
    convert(Tool("t", "", schema), "gemini")
    losses([Tool("t", "", schema)], "gemini")
    for provider, key in (("anthropic", "input_schema"), ("openai_responses", "parameters")):
        sent: Any = convert(Tool("t", "", schema), provider)[key]
        assert sent["type"] == "object" and isinstance(sent["properties"], dict)
        assert not sent.keys() & {"anyOf", "oneOf", "allOf", "not", "enum", "$ref"}
        losses([Tool("t", "", schema)], provider)


TOOLS = [
    {"name": "a", "input_schema": SCHEMA},
    {"name": "b", "input_schema": SCHEMA, "cache_control": {"type": "ephemeral"}},
    {"name": "c", "input_schema": SCHEMA, "defer_loading": True},
]


def test_a_tool_is_deferred_exactly_if_the_list_says_so():
    tools = read_tools(TOOLS).tools
    for provider in ("anthropic", "openai_responses"):
        schemas, _ = convert_all(tools, provider, deferred={"a"})
        assert [schema.get("defer_loading") for schema in schemas] == [True, None, None]


def test_a_deferred_tool_carries_no_cache_mark_and_the_last_loaded_one_gets_it():
    schemas, _ = convert_all(read_tools(TOOLS).tools, "anthropic", deferred={"b", "c"})
    assert [schema.get("cache_control") for schema in schemas] == [{"type": "ephemeral"}, None, None]
    kept, _ = convert_all(read_tools(TOOLS).tools, "anthropic", deferred={"c"})
    assert [schema.get("cache_control") for schema in kept] == [None, {"type": "ephemeral"}, None]
    assert TOOLS[1]["cache_control"] and TOOLS[2]["defer_loading"], "originals stay untouched"


def test_a_list_of_which_all_is_deferred_is_refused_for_anthropic():
    with pytest.raises(InvalidInput, match="all 3 tools are deferred, which anthropic refuses"):
        convert_all(read_tools(TOOLS).tools, "anthropic", deferred={"a", "b", "c"})


@pytest.mark.parametrize("provider", ["openai", "gemini", "mcp"])
def test_deferring_is_refused_where_it_is_unknown(provider):
    with pytest.raises(
        InvalidInput, match=f"{provider} cannot defer tools; openai_responses and anthropic can"
    ):
        convert_all(read_tools(TOOLS).tools, provider, deferred={"a"})
