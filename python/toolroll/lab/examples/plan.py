"""Plans a run: the tools that lack examples, in batches, and the cost."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass

from toolroll.catalog.tokens import estimate_tokens
from toolroll.embedders.named import EmbedderChoice
from toolroll.lab.examples.answers import AnswerLog, ModelAnswer
from toolroll.lab.examples.prompt import ToolRequest, prompt
from toolroll.lab.examples.round_trip import ranked
from toolroll.model.tools import Definitions, Tool
from toolroll.roll import Toolroll

SPARE = 1.5  # messages asked for, for each that is wanted: some are rejected
NEAR_MISSES = 4  # asked for with each tool
SIMILAR = 3  # tools that a request shows beside each

_LONGEST = 400  # characters of a description that is asked like a message
_MESSAGE_TOKENS = 24  # of a message in an answer, with its quotes
_TOOL_TOKENS = 24  # of the rest of a tool in an answer


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a plan's requests, without retries. Tokens are estimates, without a model's thoughts."""

    requests: int
    tools: int
    input_tokens: int
    output_tokens: int

    def to_dict(self) -> dict[str, int]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class RequestPlan:
    """The requests for tools that lack examples.

    Attributes:
        wanted: the tools, in the catalog's order.
        missing: name → the number of missing examples.
        answered: name → the answer of an earlier run.
        batches: the requests for all other tools.
    """

    wanted: tuple[ToolRequest, ...]
    missing: Mapping[str, int]
    answered: Mapping[str, ModelAnswer]
    batches: tuple[tuple[ToolRequest, ...], ...]

    def cost(self, language: str) -> Cost:
        """The cost of all batches."""
        return Cost(
            requests=len(self.batches),
            tools=sum(map(len, self.batches)),
            input_tokens=sum(
                estimate_tokens(json.dumps(prompt(batch, language), ensure_ascii=False))
                for batch in self.batches
            ),
            output_tokens=sum(map(output_tokens, self.batches)),
        )


def output_tokens(batch: Sequence[ToolRequest]) -> int:
    """An estimate of the tokens of an answer."""
    return sum(_TOOL_TOKENS + _MESSAGE_TOKENS * (each.messages + each.near_misses) for each in batch)


def plan(
    definitions: Definitions,
    names: Collection[str],
    log: AnswerLog,
    *,
    per_tool: int,
    batch: int,
    embedder: EmbedderChoice = "static",
    progress: Callable[[int, int], None] | None = None,
) -> RequestPlan:
    """Plans requests for the named tools with fewer than `per_tool` examples.

    batch: most tools in a request. progress: called with (tools done, tools in all).
    """
    short = [tool for tool in definitions.tools if tool.name in names and len(tool.examples) < per_tool]
    by_name = {tool.name: tool for tool in definitions.tools}
    wanted = []
    with Toolroll.from_definitions(definitions, embedder=embedder) as roll:
        for done, tool in enumerate(short):
            near = ranked(roll, f"{tool.name} {tool.description}"[:_LONGEST])
            similar = tuple(by_name[name] for name in near if not _are_same(by_name[name], tool))[:SIMILAR]
            messages = math.ceil(SPARE * (per_tool - len(tool.examples)))
            wanted.append(ToolRequest(tool, messages, NEAR_MISSES, similar))
            if progress is not None:
                progress(done + 1, len(short))
    answered = {each.tool.name: answer for each in wanted if (answer := log.get(each)) is not None}
    asked = [each for each in wanted if each.tool.name not in answered]
    return RequestPlan(
        tuple(wanted),
        {tool.name: per_tool - len(tool.examples) for tool in short},
        answered,
        tuple(tuple(asked[at : at + batch]) for at in range(0, len(asked), batch)),
    )


def _are_same(one: Tool, other: Tool) -> bool:
    return one.name == other.name or (
        bool(one.interchangeable) and one.interchangeable == other.interchangeable
    )
