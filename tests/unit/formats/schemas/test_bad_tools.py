"""A tool whose schema is malformed, endless or far too deep costs no other tool its place, nor the turn its time."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.table import each_row
from tests.unit.formats.schemas.test_strict_schema import JUNK
from toolroll import Profile, Tool, Toolroll
from toolroll.formats.providers import PROVIDERS
from toolroll.formats.schemas import Form, convert, convert_all, losses
from toolroll.formats.schemas.relax import MAX_NODES, relax

FORMS = [(provider, Form()) for provider in PROVIDERS]
FORMS += [("openai", Form(strict=True)), ("gemini", Form(json_schema=True))]
CAN = [(provider, how) for provider in PROVIDERS for how in PROVIDERS[provider].hows]
KEYS = {f"x{i:05}": "abcdefghij" for i in range(9_000)}
NAMES = [f"name_{i}" for i in range(9_000)]


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"x": schema}}
    return schema


MALFORMED: dict[str, Any] = {
    "names that are none": {"type": "object", "$ref": "#", "required": ["x", {}]},
    "names in a list": {"type": "object", "properties": {"x": {"type": "object", "properties": {}, "required": [["x"]]}}, "required": [["x"]]},
    "alternatives that require no names": {"anyOf": [{"properties": {"a": {}}, "required": [{}]}, {"required": [[], "a"]}]},
    "types that are none": {"type": "object", "properties": {"x": {"type": [{}], "format": []}, "y": {"type": {}}}},
}  # fmt: skip
SLOW: dict[str, Any] = {
    "alternatives beside many keys": {"type": "object", "properties": {"x": {"anyOf": [{"type": "string", "minLength": i} for i in range(2_000)], **KEYS}}},
    "many names in two alternatives": {"anyOf": [{"properties": {}, "required": NAMES}, {"required": NAMES[::-1]}]},
    "many alternatives": {"type": "object", "properties": {"x": {"anyOf": [{"type": "string", "description": f"d{i}"} for i in range(9_000)]}}},
    "references to many keys": {"type": "object", "properties": {f"p{i}": {"$ref": "#/$defs/a"} for i in range(1_500)}, "$defs": {"a": KEYS}},
    "references to many values": {"type": "object", "properties": {f"p{i}": {"$ref": "#/$defs/a"} for i in range(1_500)}, "$defs": {"a": {"enum": list(range(9_000))}}},
}  # fmt: skip


@each_row("name", MALFORMED)
@each_row(("provider", "form"), FORMS)
def test_what_is_no_name_among_the_required_ones_is_passed_over(name, provider, form):
    made = convert(Tool("t", "", MALFORMED[name]), provider, form)
    assert json.dumps(made)
    assert not any(
        "cannot be converted" in loss.what
        for loss in losses([Tool("t", "", MALFORMED[name])], provider, form)
    )


@each_row("name", SLOW)
@each_row(("provider", "form"), FORMS)
def test_a_schema_that_would_take_long_goes_out_soon(name, provider, form, within_seconds):
    with within_seconds(0.5):
        convert(Tool("t", "", SLOW[name]), provider, form)
    with within_seconds(1):
        losses([Tool("t", "", SLOW[name])], provider, form)


def test_what_was_not_described_is_lost_and_said_so():
    tool = Tool("t", "Says.", SLOW["alternatives beside many keys"])
    assert convert(tool, "gemini") == {"name": "t", "description": "Says."}
    assert [str(loss) for loss in losses([tool], "gemini")] == [
        "tool 't': parameters: cannot be converted (takes too many steps): sent as a tool that takes any object"
    ]


def test_a_failed_conversion_is_logged_once_for_each_tool_and_provider(caplog):
    class Unreadable(dict):
        def items(self):
            raise OSError("the disk is gone")

    bad, good = Tool("unreadable_once", "", Unreadable(type="object", properties={})), Tool("good")
    for _ in range(2):
        sent = [convert_all([bad, good], provider)[0] for provider in ("openai", "anthropic")]
        assert [[schema.get("name") or schema["function"]["name"] for schema in one] for one in sent] == [
            ["unreadable_once", "good"]
        ] * 2
    assert [record.getMessage().split(" (")[0] for record in caplog.records] == [
        f"tool 'unreadable_once': its parameters cannot be converted for {provider}"
        for provider in ("openai", "anthropic")
    ]
    assert all(record.exc_info for record in caplog.records)
    (loss,) = losses([bad, good], "openai")
    assert "OSError: the disk is gone" in loss.what


@each_row("levels", [80, 240, 480])
@each_row(("provider", "form"), FORMS)
def test_a_schema_that_is_nested_too_deeply_goes_out_undescribed(levels, provider, form):
    made = convert(Tool("t", "", nested(levels)), provider, form)
    assert len(json.dumps(made)) < 5_000
    assert losses([Tool("t", "", nested(levels))], provider, form)
    assert "x" in json.dumps(convert(Tool("t", "", nested(30)), provider, form))


@each_row(("provider", "how"), CAN)
def test_a_bad_tool_costs_no_other_its_place(provider, how):
    bad = [
        Tool(f"bad_{i}", "Breaks things.", schema)
        for i, schema in enumerate([nested(300), *MALFORMED.values()])
    ]
    good = Tool(
        "good", "Sends mail.", {"type": "object", "properties": {"to": {"type": "string"}}}, pinned=True
    )
    roll = Toolroll.from_tools([*bad, good], profile=Profile(pass_through_tools=0))
    for picked in (roll.select("send mail", k=1), roll.select("break things", k=9)):
        assert picked.deliver(provider, how).check("good").name == "good"
        assert (
            len(convert_all(picked.definitions, provider)[1]) == len(picked.schemas(provider))
            or provider == "gemini"
        )


@given(st.dictionaries(st.sampled_from(["type", "properties", "required", "anyOf", "allOf", "$ref", "enum"]), JUNK, max_size=5), st.sampled_from(FORMS))  # fmt: skip
def test_junk_is_converted_without_being_given_up(schema, to):
    provider, form = to
    tool = Tool("t", "", schema)
    assert not any("cannot be converted" in loss.what for loss in losses([tool], provider, form))


def test_targets_that_lie_within_each_other_are_relaxed_as_long_as_that_stays_small(within_seconds):
    wide: dict[str, Any] = {"type": "string"}
    for _ in range(30):
        wide = {
            "type": "object",
            "properties": {"x": wide, **{f"k{i}": {"type": "integer"} for i in range(600)}},
        }
    pointers = {f"r{i}": {"$ref": "#" + "/properties/x" * i} for i in range(1, 30)}
    wide["properties"]["pointers"] = {"type": "object", "properties": pointers}
    with within_seconds(1):
        relaxed = relax(wide)
    assert relaxed == wide and MAX_NODES > 30 * 600
