"""`Form` and `Loss`: the options and the losses of a conversion; checks of lists of tools and names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from toolroll.model.errors import InvalidInput, quoted
from toolroll.model.tools import Tool

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Form:
    """How a tool is written if its provider has several ways.

    Attributes:
        strict: OpenAI only: strict mode, for every tool whose schema it can express.
        json_schema: Gemini only: parameters as JSON Schema (``parameters_json_schema``), not translated to
            Gemini's own subset of OpenAPI.
        returns: includes the schema of the tool's result, if the provider has a place for it. MCP always gets
            it, since no prompt pays for it.
    """

    strict: bool = False
    json_schema: bool = False
    returns: bool = False

    def __post_init__(self) -> None:
        for name in ("strict", "json_schema", "returns"):
            if not isinstance(value := getattr(self, name), bool):
                raise InvalidInput(f"{name}: is {quoted(value)}, must be True or False")


PLAIN = Form()


def form_of(strict: bool, json_schema: bool, returns: bool) -> Form:
    """The form with these options; `PLAIN` itself if all are False."""
    is_plain = strict is False and json_schema is False and returns is False
    return PLAIN if is_plain else Form(strict, json_schema, returns)


@dataclass(frozen=True, slots=True)
class Loss:
    """A part of a tool that its provider does not receive.

    Attributes:
        tool: the tool's own name.
        where: path to the part, such as "parameters.properties.to".
        what: the change, such as "default is dropped".
    """

    tool: str
    where: str
    what: str

    def __str__(self) -> str:
        return f"tool {self.tool!r}: {self.where}: {self.what}"


def names_of(value: object, what: str) -> frozenset[str]:
    """The names in a collection; InvalidInput for anything else, such as a single string."""
    return frozenset(_collected(value, what, str, "tool names", "tool names"))


def tools_of(value: object, what: str) -> tuple[Tool, ...]:
    """The tools in a collection, in its order; InvalidInput for anything else."""
    must = "Tool objects, such as a selection's `definitions`"
    return tuple(_collected(value, what, Tool, "Tool objects", must))


def _collected(value: object, what: str, kind: type[T], plural: str, must: str) -> list[T]:
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes, Mapping)):
        raise InvalidInput(f"{what} is {quoted(value)}, must be a list of {plural}")
    found = list(value)
    for one in found:
        if not isinstance(one, kind):
            raise InvalidInput(f"{what} holds {quoted(one)}, must hold {must}")
    return found
