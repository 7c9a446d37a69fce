"""The operations of an OpenAPI document, each as a tool."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from toolroll.gateway.openapi.schemas import Schemas, dereferenced
from toolroll.model.errors import InvalidDefinition

Json = dict[str, Any]
ParameterLocation = Literal["path", "query", "header"]
_LOCATIONS: tuple[ParameterLocation, ...] = get_args(ParameterLocation)
BODY = "body"  # the argument with the request's body
FORM, JSON, TEXT = "application/x-www-form-urlencoded", "application/json", "text/plain"
MOST_OPERATIONS = 5_000
_LARGEST_SCHEMA = 200_000  # characters of one tool's schema
_LONGEST_DESCRIPTION = 4_000
_METHODS = ("get", "put", "post", "delete", "patch", "head", "options")
# POST and PATCH may do anything, so nothing is said of them that would make them harmless.
_HINTS: Mapping[str, Json] = {
    "get": {"readOnlyHint": True},
    "head": {"readOnlyHint": True},
    "options": {"readOnlyHint": True},
    "put": {"readOnlyHint": False, "idempotentHint": True},
    "delete": {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True},
}
# Headers of the connection and the sign-in, which a model must not set. OpenAPI ignores the first three.
_NO_PARAMETERS = frozenset(
    {"accept", "content-type", "authorization", "host", "cookie", "content-length", "connection", "upgrade"}
    | {"transfer-encoding", "te", "trailer", "proxy-authorization", "forwarded", "x-forwarded-for"}
    | {"x-forwarded-host", "x-http-method-override"}
)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an operation.

    Attributes:
        argument: its name in the tool.
        name, place: its name and its place in the request.
        style, explode: how lists and objects are written, in OpenAPI's terms.
    """

    argument: str
    name: str
    place: ParameterLocation
    style: str
    explode: bool
    is_required: bool


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation.

    Attributes:
        path: of its requests, with `{name}` for parameters.
        parameters: of path, query and header.
        media_type: of the body; "" if there is none.
        tool: the definition for clients.
    """

    method: str
    path: str
    parameters: tuple[Parameter, ...]
    media_type: str
    tool: Json


def operations_of(document: Any) -> tuple[dict[str, Operation], list[str]]:
    """Returns the operations by the names of their tools, and a sentence for each omitted operation.

    Raises:
        InvalidDefinition: it is no OpenAPI document of version 3, or has too many operations.
    """
    if not isinstance(document, dict):
        raise InvalidDefinition("is no OpenAPI document: must be an object")
    if "swagger" in document:
        raise InvalidDefinition("is a Swagger 2 document, must be OpenAPI 3: convert it")
    version = document.get("openapi")
    if not isinstance(version, str) or not version.startswith("3."):
        raise InvalidDefinition(f"openapi is {version!r:.50}, must be 3.x")
    paths = document.get("paths", {})
    if not isinstance(paths, dict):
        raise InvalidDefinition("paths must be an object")
    found: dict[str, Operation] = {}
    problems: list[str] = []
    for path, item in paths.items():
        try:
            item = dereferenced(document, item)
        except InvalidDefinition as error:
            problems.append(f"{path:.200}: left out: {error}")
            continue
        for method in _METHODS:
            if method not in item:
                continue
            try:
                operation = _operation(document, path, method, item, found)
            except (InvalidDefinition, RecursionError) as error:
                why = "is nested too deeply" if isinstance(error, RecursionError) else error
                problems.append(f"{method.upper()} {path:.200}: left out: {why}")
                continue
            found[operation.tool["name"]] = operation
            if len(found) > MOST_OPERATIONS:
                raise InvalidDefinition(f"has more than {MOST_OPERATIONS:,} operations")
    return found, problems


def _operation(
    document: Json, path: str, method: str, item: Json, taken: Mapping[str, Operation]
) -> Operation:
    if not path.startswith("/") or any(part in (".", "..") for part in path.split("/")):
        raise InvalidDefinition("its path must begin with / and have no . or .. in it")
    body = dereferenced(document, item[method])
    schemas = Schemas(document)
    properties: Json = {}
    parameters: list[Parameter] = []
    for given in _parameters(document, item, body):
        if parameter := _parameter(given, properties):
            parameters.append(parameter)
            schema = schemas.rewritten(_schema_of(given))
            if not isinstance(schema, dict):
                schema = {}
            told = given.get("description")
            if isinstance(told, str) and told and "$ref" not in schema:
                schema = {"description": told, **schema}
            properties[parameter.argument] = schema
    missing = set(re.findall(r"\{([^{}]*)\}", path)) - {one.name for one in parameters if one.place == "path"}
    if missing:
        raise InvalidDefinition(f"its path has no parameter {min(missing)!r:.100}")
    media_type, schema, is_required = _body(document, body)
    required = [one.argument for one in parameters if one.is_required]
    if media_type:
        properties[BODY] = schemas.rewritten(schema)
        if is_required:
            required.append(BODY)
    input_schema: Json = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        input_schema["required"] = required
    if schemas.definitions:
        input_schema["$defs"] = schemas.definitions
    if len(json.dumps(input_schema)) > _LARGEST_SCHEMA:
        raise InvalidDefinition(f"its schema has more than {_LARGEST_SCHEMA:,} characters")
    tool: Json = {
        "name": _name(body.get("operationId"), method, path, taken),
        "description": _description(body, method, path),
        "inputSchema": input_schema,
        "annotations": dict(_HINTS.get(method, {"readOnlyHint": False})),
    }
    return Operation(method.upper(), path, tuple(parameters), media_type, tool)


def _parameters(document: Json, item: Json, body: Json) -> list[Json]:
    """The parameters of path and operation. The operation's replace the path's with the same name."""
    found: dict[tuple[Any, Any], Json] = {}
    for part in (item, body):
        listed = part.get("parameters") or []
        if not isinstance(listed, list):
            raise InvalidDefinition("its parameters must be a list")
        for given in listed:
            one = dereferenced(document, given)
            found[str(one.get("name")), str(one.get("in"))] = one
    return list(found.values())


def _parameter(given: Json, taken: Mapping[str, Any]) -> Parameter | None:
    """Returns the parameter; None if a model must not or need not set it."""
    name, place = given.get("name"), given.get("in")
    if not isinstance(name, str) or not name:
        raise InvalidDefinition("a parameter has no name")
    is_required = given.get("required") is True or place == "path"
    if place not in _LOCATIONS or (place == "header" and name.lower() in _NO_PARAMETERS):
        if is_required and place not in ("header", *_LOCATIONS):
            raise InvalidDefinition(f"needs the parameter {name!r:.100} in {place!r:.50}")
        return None
    argument = name if name not in taken and name != BODY else f"{name}_{place}"
    if argument in taken:
        raise InvalidDefinition(f"has two parameters {name!r:.100}")
    style = given.get("style") or ("form" if place == "query" else "simple")
    explode = given.get("explode")
    if not isinstance(explode, bool):
        explode = style == "form"
    return Parameter(argument, name, cast(ParameterLocation, place), str(style), explode, is_required)


def _schema_of(given: Json) -> Any:
    content = given.get("content")
    if isinstance(content, dict) and content:
        raise InvalidDefinition(f"its parameter {given.get('name')!r:.100} has a media type")
    return given.get("schema", {})


def _body(document: Json, operation: Json) -> tuple[str, Any, bool]:
    """Returns media type and schema of the body, and whether it is required; "" if there is no body."""
    if "requestBody" not in operation:
        return "", {}, False
    body = dereferenced(document, operation["requestBody"])
    content = body.get("content")
    offered: Json = content if isinstance(content, dict) else {}
    for wanted in (JSON, r"[\w.+-]+/[\w.+-]+\+json", FORM, TEXT):
        for media_type, value in offered.items():
            if re.fullmatch(wanted, media_type.partition(";")[0].strip().lower()) or media_type == wanted:
                schema = value.get("schema", {}) if isinstance(value, dict) else {}
                return media_type, schema, body.get("required") is True
    if body.get("required") is True:
        raise InvalidDefinition(
            f"its body is {', '.join(offered) or 'of no type'!s:.200}, which no tool can send"
        )
    return "", {}, False


def _name(operation_id: Any, method: str, path: str, taken: Mapping[str, Operation]) -> str:
    plain = f"{method}_{re.sub(r'[^A-Za-z0-9_-]+', '_', path).strip('_')}".rstrip("_")
    name = plain
    if isinstance(operation_id, str) and operation_id.strip():
        name = re.sub(r"[^A-Za-z0-9_-]+", "_", operation_id.strip()).strip("_") or plain
    if name in taken:
        name = plain
    number = 2
    while name in taken:
        name, number = f"{plain}_{number}", number + 1
    return name


def _description(operation: Json, method: str, path: str) -> str:
    texts = [operation.get("summary"), operation.get("description")]
    told = [text.strip() for text in texts if isinstance(text, str) and text.strip()]
    if len(told) == 2 and told[1].startswith(told[0]):
        del told[0]
    if operation.get("deprecated") is True:
        told.insert(0, "Deprecated.")
    return ("\n\n".join(told) or f"{method.upper()} {path}")[:_LONGEST_DESCRIPTION]
