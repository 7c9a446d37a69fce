"""The examples of docs/delivery.md run, one after the other."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace as Made
from typing import Any

from tests.table import each_row
from tests.test_docs import blocks
from toolroll import Toolroll
from toolroll.formats.providers import HOWS, PROVIDERS

PAGE = (Path(__file__).parents[3] / "docs" / "delivery.md").read_text("utf-8")


class Client:
    """Answers every request with a call of each tool that the request lets it call, and keeps the request."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.chat = Made(completions=Made(create=self.create_chat))
        self.messages = Made(create=self.create_message)
        self.models = Made(generate_content=self.generate)

    def create_chat(self, **request: Any) -> Any:
        self.requests.append(json.loads(json.dumps(request["tools"])))
        calls = [
            Made(
                function=Made(
                    name=tool["function"]["name"], arguments='{"name": "get_forecast", "arguments": {}}'
                )
            )
            for tool in request["tools"]
        ]
        return Made(choices=[Made(message=Made(tool_calls=calls))])

    def create_message(self, **request: Any) -> Any:
        self.requests.append(json.loads(json.dumps(request["tools"])))
        use = Made(
            type="tool_use", id="toolu_1", name="search_tools", input={"queries": ["weather forecast"]}
        )
        return Made(content=[Made(type="text", text="I search."), use])

    def generate(self, **request: Any) -> Any:
        self.requests.append(request)
        allowed = request["config"]["tool_config"]["function_calling_config"]["allowed_function_names"]
        return Made(function_calls=[Made(name=name) for name in allowed])


def test_the_examples_run(capsys):
    openai, anthropic, gemini = Client(), Client(), Client()
    world: dict[str, Any] = {
        "roll": Toolroll.demo(),
        "messages": [{"role": "user", "content": "Will it rain in Oslo tomorrow?"}],
        "openai_client": openai,
        "anthropic_client": anthropic,
        "gemini_client": gemini,
    }
    examples = blocks(PAGE, "python")
    for example in examples:
        exec(compile(example, "docs/delivery.md", "exec"), world)
    assert len(examples) == 7
    assert json.loads(world["body"])["tools"] == world["delivery"].request["tools"]
    assert len(openai.requests) == 2 and len(anthropic.requests) == 1 and len(gemini.requests) == 1
    assert world["messages"][-1]["content"][0]["content"][0]["type"] == "tool_reference"
    assert world["tool"].name == "get_forecast"
    assert "is dropped in strict mode" in capsys.readouterr().out


def test_the_table_is_that_of_the_providers():
    header, _, *rows = [line.strip("| ").split("|") for line in PAGE.splitlines() if line.startswith("|")][:6]
    columns = [cell.split("`")[1] for cell in header[3:]]
    assert columns == list(PROVIDERS)
    for line in [line for line in PAGE.splitlines() if line.startswith("|")][2:6]:
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        how = cells[0].strip("`")
        assert {name for name, cell in zip(columns, cells[3:], strict=True) if cell == "●"} == {
            name for name, provider in PROVIDERS.items() if how in provider.hows
        }
    assert [row[0].strip(" `") for row in rows] == list(HOWS)


@each_row("name", ["strict", "json_schema", "returns", "deferred", "must_call", "core", "meta_tools"])
def test_every_choice_is_documented(name):
    assert f"`{name}=" in PAGE or f"{name}=META_TOOLS" in PAGE
