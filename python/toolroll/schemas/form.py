"""The choices that some providers leave open, and what is lost on the way to one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Form:
    """How a tool is written where its provider has more than one way.

    Attributes:
        strict: OpenAI only: in strict mode, wherever that can say what the tool takes.
        json_schema: Gemini only: parameters as JSON Schema (``parameters_json_schema``), not translated to
            Gemini's own subset of OpenAPI.
        returns: with the schema of what the tool answers, where the provider has a place for it. MCP, which
            has no model to pay for it, gets it always.
    """

    strict: bool = False
    json_schema: bool = False
    returns: bool = False


PLAIN = Form()


@dataclass(frozen=True, slots=True)
class Loss:
    """Something of a tool that its provider isn't told.

    Attributes:
        tool: the tool's own name.
        where: path to it, such as "parameters.properties.to".
        what: what is not said, or said differently.
    """

    tool: str
    where: str
    what: str

    def __str__(self) -> str:
        return f"tool {self.tool!r}: {self.where}: {self.what}"
