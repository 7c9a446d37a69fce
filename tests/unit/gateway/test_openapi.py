"""OpenAPI documents as tools, and the requests that calls of them make."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("mcp")

from hypothesis import given
from hypothesis import strategies as st

from tests.table import each_row
from toolroll.gateway.openapi.operations import operations_of
from toolroll.gateway.openapi.requests import request_of
from toolroll.model.errors import InvalidDefinition, InvalidInput


def document(paths, version="3.1.0", **components):
    return {"openapi": version, "info": {}, "paths": paths, "components": components}


def parameter(name, place="query", **more):
    return {"name": name, "in": place, "schema": {"type": "string"}, **more}


def one(operation, path="/things", method="get", **more):
    """The only operation of a document, and what was left out."""
    found, problems = operations_of(document({path: {method: operation}}, **more))
    return next(iter(found.values()), None), problems


def test_an_operation_is_a_tool_with_a_schema_of_its_parameters_and_body():
    body = {
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}},
        "required": True,
    }
    found, problems = operations_of(
        document(
            {
                "/pets/{id}": {
                    "parameters": [parameter("id", "path", schema={"type": "integer"})],
                    "put": {
                        "operationId": "update pet",
                        "summary": "Changes a pet",
                        "parameters": [
                            {"$ref": "#/components/parameters/Dry"},
                            parameter("X-Reason", "header", description="Why"),
                            parameter("Authorization", "header", required=True),
                        ],
                        "requestBody": body,
                    },
                }
            },
            parameters={"Dry": parameter("dry", schema={"type": "boolean"})},
            schemas={
                "Pet": {
                    "type": "object",
                    "properties": {
                        "name": {"type": "string"},
                        "mother": {"$ref": "#/components/schemas/Pet"},
                    },
                }
            },
        )
    )
    assert problems == [] and list(found) == ["update_pet"]
    assert found["update_pet"].tool == {
        "name": "update_pet",
        "description": "Changes a pet",
        "inputSchema": {
            "type": "object",
            "properties": {
                "id": {"type": "integer"},
                "dry": {"type": "boolean"},
                "X-Reason": {"description": "Why", "type": "string"},
                "body": {"$ref": "#/$defs/Pet"},
            },
            "additionalProperties": False,
            "required": ["id", "body"],
            "$defs": {
                "Pet": {
                    "type": "object",
                    "properties": {"name": {"type": "string"}, "mother": {"$ref": "#/$defs/Pet"}},
                }
            },
        },
        "annotations": {"readOnlyHint": False, "idempotentHint": True},
    }


@pytest.mark.parametrize(
    ("method", "annotations"),
    [
        ("get", {"readOnlyHint": True}),
        ("delete", {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True}),
        ("post", {"readOnlyHint": False}),
    ],
)
def test_the_method_says_what_an_operation_may_do(method, annotations):
    operation, _ = one({}, method=method)
    assert operation.tool["annotations"] == annotations and operation.tool["name"] == f"{method}_things"


def test_schemas_of_version_3_0_are_written_as_json_schema():
    schema = {
        "type": "integer",
        "minimum": 1,
        "exclusiveMinimum": True,
        "nullable": True,
        "example": 3,
        "x-a": 1,
    }
    operation, _ = one({"parameters": [parameter("a", schema=schema)]}, version="3.0.3")
    assert operation.tool["inputSchema"]["properties"]["a"] == {
        "type": ["integer", "null"],
        "exclusiveMinimum": 1,
    }


def test_properties_that_are_named_like_keywords_stay():
    schema = {"type": "object", "properties": {"example": {"type": "string"}, "nullable": {"type": "string"}}}
    operation, _ = one({"parameters": [parameter("a", schema=schema, style="deepObject")]})
    assert operation.tool["inputSchema"]["properties"]["a"] == schema


LOOP = {"$ref": "#/components/parameters/A"}


@each_row(
    ("operation", "components", "problem"),
    [
        ({"parameters": [LOOP]}, {"parameters": {"A": LOOP}}, "references in a circle"),
        ({"parameters": [{"$ref": "#/components/none"}]}, {}, "leads nowhere"),
        ({"parameters": [parameter("a", schema={"$ref": "other.json#/A"})]}, {}, "leads out of the document"),
        (
            {"parameters": [parameter("a", schema={"$ref": "http://10.0.0.1/A"})]},
            {},
            "leads out of the document",
        ),
        ({"parameters": [parameter("a", schema={"$ref": ["#/A"]})]}, {}, "leads out of the document"),
        (
            {"parameters": [parameter("s", "cookie", required=True)]},
            {},
            "needs the parameter 's' in 'cookie'",
        ),
        (
            {"parameters": [parameter("a", schema={"$ref": "#/components/schemas/A"})]},
            {"schemas": {"A": {"$ref": "#/components/schemas/A"}}},
            "references in a circle",
        ),
        ({"parameters": [{"in": "query"}]}, {}, "has no name"),
        ({"parameters": 7}, {}, "must be a list"),
        ([], {}, "an object must be"),
        ({"requestBody": {"required": True, "content": {"multipart/form-data": {}}}}, {}, "no tool can send"),
        (
            {"parameters": [parameter("a", schema={"enum": ["x" * 300_000]})]},
            {},
            "more than 200,000 characters",
        ),
    ],
)
def test_an_operation_that_cannot_be_a_tool_is_left_out_and_told(operation, components, problem):
    found, problems = operations_of(document({"/a": {"get": operation}, "/b": {"get": {}}}, **components))
    assert list(found) == ["get_b"]
    assert len(problems) == 1 and problems[0].startswith("GET /a: left out: ") and problem in problems[0]


def test_a_schema_that_is_nested_too_deeply_costs_its_operation():
    schema = {}
    for _ in range(5_000):
        schema = {"not": schema}
    found, problems = operations_of(
        document({"/a": {"get": {"parameters": [parameter("a", schema=schema)]}}, "/b": {"get": {}}})
    )
    assert list(found) == ["get_b"] and "nested too deeply" in problems[0]


def test_references_that_double_at_each_step_are_written_once():
    schemas = {
        f"S{n}": {"properties": {key: {"$ref": f"#/components/schemas/S{n + 1}"} for key in "ab"}}
        for n in range(60)
    }
    operation, _ = one(
        {"parameters": [parameter("a", schema={"$ref": "#/components/schemas/S0"})]},
        schemas={**schemas, "S60": {"type": "string"}},
    )
    assert len(operation.tool["inputSchema"]["$defs"]) == 61


@each_row(
    ("text", "problem"),
    [
        ({"swagger": "2.0"}, "Swagger 2"),
        ({"openapi": "4.0"}, "must be 3.x"),
        ([], "must be an object"),
        ({"openapi": "3.1.0", "paths": []}, "paths must be an object"),
        (document({f"/{n}": {"get": {}} for n in range(5_001)}), "more than 5,000 operations"),
    ],
)
def test_what_is_no_document_of_version_3_is_refused(text, problem):
    with pytest.raises(InvalidDefinition, match=problem):
        operations_of(text)


def test_operations_with_the_same_id_have_names_of_their_own():
    same = {"operationId": "list"}
    found, _ = operations_of(document({"/a": {"get": same, "post": same}, "/a/": {"post": same}}))
    assert [(each.method, name) for name, each in found.items()] == [
        ("GET", "list"), ("POST", "post_a"), ("POST", "post_a_2"),
    ]  # fmt: skip


@each_row(
    ("given", "value", "target"),
    [
        ({}, ["a", "b c"], "/things?q=a&q=b%20c"),
        ({"explode": False}, ["a", "b"], "/things?q=a%2Cb"),
        ({"style": "pipeDelimited"}, ["a", "b"], "/things?q=a%7Cb"),
        ({"style": "deepObject"}, {"a": 1}, "/things?q%5Ba%5D=1"),
        ({}, {"a": True}, "/things?a=true"),
        ({}, "x&y=1#", "/things?q=x%26y%3D1%23"),
        ({}, 1.5, "/things?q=1.5"),
        ({}, None, "/things"),
    ],
)
def test_arguments_are_written_into_the_query_as_openapi_says(given, value, target):
    operation, _ = one({"parameters": [parameter("q", **given)]})
    assert request_of(operation, {"q": value}).target == target


def test_a_body_is_sent_as_its_media_type_says():
    form = {"content": {"application/x-www-form-urlencoded": {"schema": {"type": "object"}}}}
    operation, _ = one({"requestBody": form}, method="post")
    request = request_of(operation, {"body": {"a": "x y", "b": [1, 2]}})
    assert request.content == b"a=x+y&b=1&b=2"
    assert request.headers == {"content-type": "application/x-www-form-urlencoded"}
    text = {"required": True, "content": {"text/plain": {}, "application/vnd.a+json": {}}}
    operation, _ = one({"requestBody": text}, method="post")
    assert json.loads(request_of(operation, {"body": {"a": "ü"}}).content) == {"a": "ü"}
    with pytest.raises(InvalidInput, match="'body' is missing"):
        request_of(operation, {})


@each_row(
    ("arguments", "problem"),
    [
        ({"id": ".."}, "leads to another path"),
        ({"id": "../../admin"}, "leads to another path"),
        ({"id": "a\\..\\b"}, "leads to another path"),
        ({"id": ""}, "must be a part of a path"),
        ({"id": {}}, "is an object"),
        ({}, "'id' is missing"),
        ({"id": 1, "who": "x"}, "'who' is unknown; there are X-A, id"),
        ({"id": 1, "X-A": "a\r\nHost: b"}, "printable ASCII"),
    ],
)
def test_wrong_arguments_make_no_request(arguments, problem):
    operation, _ = one(
        {"parameters": [parameter("id", "path"), parameter("X-A", "header")]}, path="/things/{id}"
    )
    with pytest.raises(InvalidInput, match=problem):
        request_of(operation, arguments)


@given(st.text(), st.text())
def test_no_argument_leads_to_another_path(first, second):
    operation, _ = one(
        {"parameters": [parameter("a", "path"), parameter("b", "path")]}, path="/v1/{a}{b}/end"
    )
    try:
        target = request_of(operation, {"a": first, "b": second}).target
    except InvalidInput:
        return
    _, version, own, end = target.split("/")
    assert (version, end) == ("v1", "end") and own not in (".", "..") and not set("?#\\ \r\n") & set(target)


def test_a_path_that_leads_above_the_service_is_left_out():
    found, problems = operations_of(document({"/../admin": {"get": {}}, "admin": {"get": {}}}))
    assert not found and len(problems) == 2
