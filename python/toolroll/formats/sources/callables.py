"""Reads tools from annotated Python functions.

A tool has the function's name, the first paragraphs of its docstring as description, and parameters in JSON
Schema from its annotations. A parameter's description comes from ``Annotated[int, "how many"]``, or from its
section of the docstring (Google, numpy or Sphinx style).
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import functools
import inspect
import os
import pathlib
import types
import typing
import uuid
from collections import abc
from collections.abc import Callable, Mapping
from typing import Any, Literal, Union, get_args, get_origin

from toolroll.formats.sources import fields
from toolroll.formats.sources.docstrings import read_docstring
from toolroll.formats.sources.fields import FieldError
from toolroll.model.errors import quoted
from toolroll.model.tools import Tool

Schema = dict[str, Any]

_MAX_DEPTH = 8  # nested types; a dataclass that contains itself twice gives 2^8 copies


def read_callable(function: Callable[..., Any]) -> Tool:
    """Makes a tool from a function, bound method, coroutine function, partial or callable object.

    `self`, ``*args`` and ``**kwargs`` are not parameters of the tool. Raises FieldError for a function that
    cannot be called with named arguments, an unresolved forward reference, or a type without a JSON form.
    """
    target, name = _target(function)
    hints = _hints(target, name)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise FieldError(f"function {name!r} has no signature that can be read: {error}") from error
    summary, described = read_docstring(inspect.getdoc(target if target is not function else function) or "")
    properties: dict[str, Schema] = {}
    required: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise FieldError(
                f"function {name!r}: parameter {parameter.name!r} is positional-only, must have a name",
                (parameter.name,),
            )
        try:
            schema = schema_of(hints.get(parameter.name, Any))
        except _NoSchema as error:
            raise FieldError(
                f"function {name!r}: parameter {parameter.name!r}: {error}", (parameter.name,)
            ) from None
        if parameter.name in described and "description" not in schema:
            schema["description"] = described[parameter.name]
        if parameter.default is parameter.empty:
            required.append(parameter.name)
        elif (default := _json_value(parameter.default)) is not _NO_JSON:
            schema["default"] = default
        properties[parameter.name] = schema
    parameters = _with_definitions_at_the_root(_record(properties, required), name)
    try:
        fields.name(name)
    except fields.InvalidValue as error:
        raise FieldError(f"name is {fields.shown(error.value)}, must be {error.allowed}", ("name",)) from None
    return Tool(name, summary, parameters, original=function)


def schema_of(annotation: Any) -> Schema:
    """The JSON Schema of a Python type; ``{}``, which allows everything, for Any and without annotation."""
    return _schema(annotation, _MAX_DEPTH)


class _NoSchema(Exception):
    """A type without a JSON form."""


_NO_JSON = object()

_PLAIN: dict[Any, Schema] = {
    Any: {},
    object: {},
    inspect.Parameter.empty: {},
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    decimal.Decimal: {"type": "number"},
    bool: {"type": "boolean"},
    None: {"type": "null"},
    type(None): {"type": "null"},
    bytes: {"type": "string", "format": "byte"},
    list: {"type": "array", "items": {}},
    tuple: {"type": "array", "items": {}},
    set: {"type": "array", "items": {}, "uniqueItems": True},
    frozenset: {"type": "array", "items": {}, "uniqueItems": True},
    dict: {"type": "object"},
    datetime.datetime: {"type": "string", "format": "date-time"},
    datetime.date: {"type": "string", "format": "date"},
    datetime.time: {"type": "string", "format": "time"},
    datetime.timedelta: {"type": "string", "format": "duration"},
    uuid.UUID: {"type": "string", "format": "uuid"},
    pathlib.Path: {"type": "string", "format": "path"},
    pathlib.PurePath: {"type": "string", "format": "path"},
    os.PathLike: {"type": "string", "format": "path"},
}

_LISTS: tuple[Any, ...] = (list, abc.Sequence, abc.MutableSequence, abc.Iterable, abc.Collection)
_SETS: tuple[Any, ...] = (set, frozenset, abc.Set, abc.MutableSet)
_MAPPINGS: tuple[Any, ...] = (dict, abc.Mapping, abc.MutableMapping)


def _target(function: Callable[..., Any]) -> tuple[Any, str]:
    """The object with the annotations and the docstring, and the tool's name."""
    target: Any = function
    while isinstance(target, functools.partial):
        target = target.func
    if inspect.isclass(target):
        raise FieldError(f"is the class {target.__qualname__}, must be a function or a callable object")
    name = getattr(target, "__name__", None)
    if not inspect.isroutine(target) and name is None:
        name = type(target).__name__
        target = type(target).__call__
    if name == "<lambda>":
        raise FieldError("is a lambda, must be a function with a name")
    return target, str(name)


def _hints(target: Any, name: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(inspect.unwrap(target), include_extras=True)
    except NameError as error:
        missing = error.name or str(error)
        raise FieldError(
            f"function {name!r}: its annotations name {missing!r}, which is not defined in its module; "
            "import it there, and not only under TYPE_CHECKING"
        ) from error
    except (TypeError, SyntaxError, AttributeError) as error:
        raise FieldError(f"function {name!r}: its annotations cannot be read: {error}") from error


def _schema(annotation: Any, depth: int) -> Schema:
    if depth == 0:
        return {}
    try:
        if annotation in _PLAIN:
            return dict(_PLAIN[annotation])
    except TypeError:  # unhashable: Literal[...] of a list and the like; no key of the table
        pass
    if isinstance(annotation, type) and not get_origin(annotation):
        return _schema_of_class(annotation, depth)
    return _schema_of_form(annotation, depth)


def _schema_of_class(annotation: type, depth: int) -> Schema:
    if issubclass(annotation, enum.Enum):
        return _enumeration([member.value for member in annotation])
    if typing.is_typeddict(annotation):
        optional: frozenset[str] = getattr(annotation, "__optional_keys__", frozenset())
        hints = _class_hints(annotation)
        properties = {key: _schema(hint, depth - 1) for key, hint in hints.items()}
        return _record(properties, [key for key in hints if key not in optional])
    if dataclasses.is_dataclass(annotation):
        return _schema_of_dataclass(annotation, depth)
    if callable(model_schema := getattr(annotation, "model_json_schema", None)):  # pydantic's protocol
        return dict(model_schema())
    if annotation in _LISTS:
        return {"type": "array", "items": {}}
    if annotation in _SETS:
        return {"type": "array", "items": {}, "uniqueItems": True}
    if annotation in _MAPPINGS:
        return {"type": "object"}
    for base in (bool, int, float, str):  # a str subclass is sent as a string
        if issubclass(annotation, base):
            return dict(_PLAIN[base])
    raise _NoSchema(f"{annotation.__qualname__} has no form in JSON")


def _class_hints(annotation: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(annotation, include_extras=True)
    except NameError as error:
        missing = error.name or str(error)
        raise _NoSchema(
            f"{annotation.__qualname__} names {missing!r}, which is not defined in its module"
        ) from error


def _schema_of_dataclass(annotation: type, depth: int) -> Schema:
    hints = _class_hints(annotation)
    _, described = read_docstring(annotation.__doc__ or "")
    properties: dict[str, Schema] = {}
    required = []
    for item in dataclasses.fields(annotation):
        if not item.init:
            continue
        schema = _schema(hints[item.name], depth - 1)
        if item.name in described:
            schema.setdefault("description", described[item.name])
        if item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING:
            required.append(item.name)
        elif item.default is not dataclasses.MISSING and (value := _json_value(item.default)) is not _NO_JSON:
            schema["default"] = value
        properties[item.name] = schema
    return _record(properties, required)


def _schema_of_form(annotation: Any, depth: int) -> Schema:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is typing.Annotated:
        return _annotated(arguments[0], arguments[1:], depth)
    if getattr(origin, "_name", None) in _QUALIFIERS:
        return _schema(arguments[0], depth)
    if origin is Literal:
        return _enumeration(list(arguments))
    if origin is Union or origin is types.UnionType:
        return _union([_schema(argument, depth - 1) for argument in arguments])
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return {"type": "array", "items": _schema(arguments[0], depth - 1)}
        items = [_schema(argument, depth - 1) for argument in arguments if argument != ()]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    if origin in _LISTS:
        return {"type": "array", "items": _schema(arguments[0], depth - 1)}
    if origin in _SETS:
        return {"type": "array", "items": _schema(arguments[0], depth - 1), "uniqueItems": True}
    if origin in _MAPPINGS:
        values = _schema(arguments[1], depth - 1)
        return {"type": "object", "additionalProperties": values} if values else {"type": "object"}
    if isinstance(annotation, typing.TypeVar):
        return _schema(annotation.__bound__ or Any, depth)
    if (alias := getattr(annotation, "__value__", None)) is not None:  # type X = ... (3.12)
        return _schema(alias, depth - 1)
    if (supertype := getattr(annotation, "__supertype__", None)) is not None:  # NewType
        return _schema(supertype, depth)
    if isinstance(origin, type):
        return _schema_of_class(origin, depth)
    raise _NoSchema(f"{annotation!r} has no form in JSON")


# By name: Required and similar are in typing from 3.11 on, in typing_extensions before.
_QUALIFIERS = ("Required", "NotRequired", "ReadOnly", "Final", "ClassVar")


def _annotated(inner: Any, extras: tuple[Any, ...], depth: int) -> Schema:
    schema = _schema(inner, depth)
    for extra in extras:
        if isinstance(extra, str):
            schema["description"] = extra
        elif isinstance(extra, Mapping):  # a piece of JSON Schema
            schema.update(extra)
        elif isinstance(description := getattr(extra, "description", None), str):  # pydantic.Field
            schema["description"] = description
        elif isinstance(documentation := getattr(extra, "documentation", None), str):  # typing_extensions.Doc
            schema["description"] = documentation
    return schema


def _enumeration(values: list[Any]) -> Schema:
    plain = [_json_value(value) for value in values]
    if any(value is _NO_JSON for value in plain):
        raise _NoSchema(f"its values {quoted(values)} have no form in JSON")
    kinds = list(dict.fromkeys(_TYPE_NAMES.get(type(value), "") for value in plain))
    schema: Schema = {"enum": plain}
    if all(kinds) and kinds:
        schema = {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": plain}
    return schema


_TYPE_NAMES = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
    list: "array",
    dict: "object",
}


def _union(schemas: list[Schema]) -> Schema:
    """A list of types if that is enough, otherwise anyOf."""
    distinct = [schema for i, schema in enumerate(schemas) if schema not in schemas[:i]]
    if len(distinct) == 1:
        return distinct[0]
    if {} in distinct:
        return {}
    if all(schema.keys() == {"type"} and isinstance(schema["type"], str) for schema in distinct):
        return {"type": [schema["type"] for schema in distinct]}
    return {"anyOf": distinct}


def _record(properties: dict[str, Schema], required: list[str]) -> Schema:
    schema: Schema = {"type": "object", "properties": properties}
    return {**schema, "required": required} if required else schema


def _with_definitions_at_the_root(parameters: Schema, name: str) -> Schema:
    """Moves every ``$defs`` to the root, where references of a pydantic schema point."""
    definitions: dict[str, Any] = {}

    def lift(value: Any) -> Any:
        if isinstance(value, list):
            return [lift(item) for item in value]
        if not isinstance(value, dict):
            return value
        if "$defs" in value and value.keys() - {"$defs"}:
            for key, definition in value["$defs"].items():
                if definitions.setdefault(key, definition) != definition:
                    raise FieldError(f"function {name!r}: two different models are called {key!r}")
        return {key: lift(item) for key, item in value.items() if key != "$defs"}

    lifted: Schema = lift(parameters)
    return {**lifted, "$defs": definitions} if definitions else lifted


def _json_value(value: Any, depth: int = _MAX_DEPTH) -> Any:
    """`value` as a JSON value, or _NO_JSON."""
    if isinstance(value, enum.Enum):
        return _json_value(value.value, depth)
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else _NO_JSON  # inf - inf and nan - nan are nan
    if isinstance(value, (list, tuple)) and depth:
        items = [_json_value(item, depth - 1) for item in value]
        return _NO_JSON if any(item is _NO_JSON for item in items) else items
    if isinstance(value, dict) and depth and all(isinstance(key, str) for key in value):
        members = {key: _json_value(item, depth - 1) for key, item in value.items()}
        return _NO_JSON if any(item is _NO_JSON for item in members.values()) else members
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (uuid.UUID, pathlib.PurePath)):
        return str(value)
    return _NO_JSON
