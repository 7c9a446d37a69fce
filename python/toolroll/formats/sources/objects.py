"""Reads the tool objects of agent frameworks by their public attributes; no framework is imported.

It knows LangChain and CrewAI (`args_schema`), LlamaIndex (`metadata`), Pydantic-AI (`tool_def`, or its
definitions), OpenAI Agents (`params_json_schema`), smolagents (`inputs`) and FastMCP (`parameters`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from toolroll.formats.sources.fields import FieldError


class Described(NamedTuple):
    """A framework's tool: JSON values, not checked yet."""

    name: Any
    description: Any
    parameters: Any


def described(item: object) -> Described | None:
    """Name, description and parameters of a framework's tool; None for an object of another kind.

    Raises:
        FieldError: the object has no readable parameters.
    """
    if isinstance(item, type):
        return None
    for read in _READERS:
        try:
            found = read(item)
        except FieldError:
            raise
        except Exception as error:  # an error of the framework, such as a type without a schema
            raise FieldError(f"is a {type(item).__name__} whose schema cannot be read: {error}") from error
        if found is not None:
            return found
    return None


def _langchain(item: Any) -> Described | None:
    if not hasattr(item, "args_schema") or not isinstance(getattr(item, "name", None), str):
        return None
    # `tool_call_schema` leaves out the arguments that the framework itself fills in.
    schema = getattr(item, "tool_call_schema", None)
    if schema is None:
        schema = item.args_schema
    return Described(item.name, getattr(item, "description", None), _json_schema(schema))


def _llama_index(item: Any) -> Described | None:
    metadata = getattr(item, "metadata", None)
    parameters = getattr(metadata, "get_parameters_dict", None)
    if metadata is None or not callable(parameters):
        return None
    return Described(metadata.name, metadata.description, parameters())


def _pydantic_ai(item: Any) -> Described | None:
    definition = getattr(item, "tool_def", item)
    schema = getattr(definition, "parameters_json_schema", None)
    if schema is None:
        return None
    return Described(definition.name, definition.description, schema)


def _openai_agents(item: Any) -> Described | None:
    schema = getattr(item, "params_json_schema", None)
    return None if schema is None else Described(item.name, getattr(item, "description", None), schema)


def _smolagents(item: Any) -> Described | None:
    inputs = getattr(item, "inputs", None)
    if not isinstance(inputs, Mapping) or not hasattr(item, "output_type"):
        return None
    properties = {
        name: {key: said[key] for key in said if key != "nullable"} for name, said in inputs.items()
    }
    required = [name for name, said in inputs.items() if not said.get("nullable")]
    schema = {"type": "object", "properties": properties, "required": required}
    return Described(item.name, item.description, schema)


def _named(item: Any) -> Described | None:
    name, parameters = getattr(item, "name", None), getattr(item, "parameters", None)
    if callable(item) or not isinstance(name, str) or not isinstance(parameters, Mapping):
        return None
    return Described(name, getattr(item, "description", None), parameters)


_READERS: tuple[Callable[[Any], Described | None], ...] = (
    _langchain,
    _llama_index,
    _pydantic_ai,
    _openai_agents,
    _smolagents,
    _named,
)


def _json_schema(schema: Any) -> Any:
    """The JSON Schema of a pydantic model, of version 2 or 1. A dictionary is returned unchanged."""
    for name in ("model_json_schema", "schema"):
        if callable(made := getattr(schema, name, None)):
            return made()
    return schema
