"""Tool objects of agent frameworks: read by their attributes, and given back as they came.

The stand-ins have the attributes of the real classes (langchain-core 1.7, llama-index-core 0.14, pydantic-ai
2.68, openai-agents 0.24, smolagents 1.26, fastmcp 4.1). Below, the same laws hold for the real ones.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.table import each_row
from toolroll import Toolroll
from toolroll.formats.sources import as_tool
from toolroll.model.errors import InvalidDefinition

SCHEMA = {"type": "object", "properties": {"target": {"type": "string"}}, "required": ["target"]}


def refund(target: str) -> str:
    """Give a customer the money back.

    Args:
        target: whose payment
    """
    return target


class Model:
    @classmethod
    def model_json_schema(cls) -> dict[str, Any]:
        return SCHEMA


class LangChain:
    """`StructuredTool`: a Runnable, so it has an `input_schema`, which is a class."""

    name, description = "refund", "Give a customer the money back."
    args_schema = tool_call_schema = Model

    @property
    def input_schema(self) -> type:
        return Model

    def invoke(self, value: object) -> object:
        return value


class CrewAI:
    name, description, args_schema = "refund", "Give a customer the money back.", Model


class LlamaIndex:
    class metadata:
        name, description = "refund", "Give a customer the money back."

        @staticmethod
        def get_parameters_dict() -> dict[str, Any]:
            return SCHEMA

    def __call__(self, *values: object) -> object:
        return values


class SmolAgents:
    name, description, output_type = "refund", "Give a customer the money back.", "string"

    def __init__(self) -> None:
        self.inputs: dict[str, Any] = {"target": {"type": "string"}}

    def __call__(self, *values: object) -> object:
        return values


SAID = {"name": "refund", "description": "Give a customer the money back."}
STAND_INS: dict[str, Any] = {
    "langchain": LangChain(),
    "langchain, schema as a dict": SimpleNamespace(**SAID, args_schema=SCHEMA),
    "crewai": CrewAI(),
    "llama_index": LlamaIndex(),
    "pydantic_ai": SimpleNamespace(
        name="refund", tool_def=SimpleNamespace(**SAID, parameters_json_schema=SCHEMA)
    ),
    "pydantic_ai definition": SimpleNamespace(**SAID, parameters_json_schema=SCHEMA),
    "openai agents": SimpleNamespace(**SAID, params_json_schema=SCHEMA, on_invoke_tool=print),
    "smolagents": SmolAgents(),
    "fastmcp": SimpleNamespace(**SAID, parameters=SCHEMA),
}


@each_row("framework", STAND_INS)
def test_a_frameworks_tool_is_read_and_given_back(framework):
    given = STAND_INS[framework]
    tool = as_tool(given)
    assert (tool.name, tool.description, tool.parameters) == (SAID["name"], SAID["description"], SCHEMA)
    roll = Toolroll.from_tools([given])
    assert roll.select("the customer wants her money back").tools[0] is given
    assert roll.with_tools([given]).select("her money back").tools[0] is given


def test_an_optional_input_of_smolagents_is_not_required():
    tool = SmolAgents()
    tool.inputs = {"target": {"type": "string"}, "count": {"type": "integer", "nullable": True}}
    assert as_tool(tool).parameters == {
        "type": "object",
        "properties": {"target": {"type": "string"}, "count": {"type": "integer"}},
        "required": ["target"],
    }


def test_a_tool_without_a_schema_takes_anything():
    assert as_tool(SimpleNamespace(**SAID, args_schema=None, invoke=print)).parameters is None


def test_a_schema_that_the_framework_cannot_make_is_an_error_of_its_tool():
    class Broken(LangChain):
        @property
        def tool_call_schema(self) -> type:
            raise ValueError("no schema for <lock>")

    with pytest.raises(
        InvalidDefinition,
        match=r"tool 'refund': is a Broken whose schema cannot be read: no schema for <lock>",
    ):
        as_tool(Broken())
    # A request's list is not refused for it.
    assert len(Toolroll.from_tools([]).with_tools([Broken()]).select("x").tools) == 1


def test_a_class_is_no_tool_of_a_framework():
    with pytest.raises(InvalidDefinition, match="is the class"):
        as_tool(CrewAI)


def _langchain() -> Any:
    return pytest.importorskip("langchain_core.tools").StructuredTool.from_function(refund)


def _langchain_decorated() -> Any:
    return pytest.importorskip("langchain_core.tools").tool(refund)


def _pydantic_ai() -> Any:
    return pytest.importorskip("pydantic_ai").Tool(refund)


def _openai_agents() -> Any:
    return pytest.importorskip("agents").function_tool(refund)


def _llama_index() -> Any:
    return pytest.importorskip("llama_index.core.tools").FunctionTool.from_defaults(refund)


def _smolagents() -> Any:
    return pytest.importorskip("smolagents").tool(refund)


def _fastmcp() -> Any:
    return pytest.importorskip("fastmcp.tools").Tool.from_function(refund)


@pytest.mark.filterwarnings("ignore")  # of the packages
@pytest.mark.parametrize(
    "make",
    [_langchain, _langchain_decorated, _pydantic_ai, _openai_agents, _llama_index, _smolagents, _fastmcp],
)
def test_a_real_tool_of_a_framework_is_read_and_given_back(make):
    given = make()
    tool = as_tool(given)
    assert tool.name == "refund" and "money back" in tool.description
    assert tool.parameters is not None and tool.parameters["properties"]["target"]["type"] == "string"
    assert tool.parameters["required"] == ["target"]
    for roll in (Toolroll.from_tools([given]), Toolroll.from_tools([]).with_tools([given])):
        assert roll.select("the customer wants her money back").tools[0] is given
