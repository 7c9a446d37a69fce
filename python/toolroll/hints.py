"""Tools that could be loaded, as text for a prompt: name and description, by toolkit, within a budget.

The more tools there are for the budget, the less is said of each: all of its description, the first
sentence, its name, and at last only how many a toolkit has. What is written here comes from whoever wrote
the tools, so each stays on a line of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from toolroll.candidates import Rows
from toolroll.catalog import Catalog
from toolroll.schemas.names import said_name
from toolroll.tokens import estimate_tokens
from toolroll.tools import Tool

TITLE = "# Tools that can be loaded"
LONGEST = 400  # characters of a description
_SENTENCE = 90
_LEAST = 3  # tokens of a line with a name
_END = "- … and {} more: search for them"


def hints(catalog: Catalog, rows: Rows, budget_tokens: int) -> str:
    """The text; "" where there is nothing to say of, or no room to say it.

    rows: of the tools, in any order; they are listed by toolkit and name.
    """
    tools = sorted((catalog.tools[row] for row in rows.tolist()), key=lambda tool: (tool.toolkit, tool.name))
    if not tools:
        return ""
    if _LEAST * len(tools) <= budget_tokens:
        for line in (_in_full, _in_short, _by_name):
            text = "\n".join([TITLE, *_by_toolkit(tools, line)])
            if estimate_tokens(text) <= budget_tokens:
                return text
    return _as_far_as(_counts(tools), len(tools), budget_tokens)


def plain(text: str, longest: int) -> str:
    """The text on one line, without what cannot be seen, cut to so many characters."""
    text = "".join(letter if letter.isprintable() else " " for letter in text[: 4 * longest])
    text = " ".join(text.split())
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def _by_toolkit(tools: list[Tool], line: Callable[[Tool], str]) -> Iterator[str]:
    heading = None
    for tool in tools:
        if tool.toolkit != heading:
            heading = tool.toolkit
            yield f"## {plain(heading, _SENTENCE) or 'others'}"
        yield line(tool)


def _in_full(tool: Tool) -> str:
    said = plain(tool.summary or tool.description, LONGEST)
    return f"- {said_name(tool.name)}: {said}" if said else _by_name(tool)


def _in_short(tool: Tool) -> str:
    said = plain(tool.summary or tool.description, LONGEST)
    sentence = plain(said.partition(". ")[0], _SENTENCE)
    return f"- {said_name(tool.name)}: {sentence}" if sentence else _by_name(tool)


def _by_name(tool: Tool) -> str:
    return f"- {plain(said_name(tool.name), LONGEST)}"


def _counts(tools: list[Tool]) -> list[tuple[str, int]]:
    """A line for each toolkit, and how many tools it stands for."""
    counts: dict[str, int] = {}
    for tool in tools:
        counts[tool.toolkit] = counts.get(tool.toolkit, 0) + 1
    return [(f"- {plain(name, _SENTENCE) or 'others'}: {n} tools", n) for name, n in counts.items()]


def _as_far_as(lines: list[tuple[str, int]], total: int, budget_tokens: int) -> str:
    """The title and as many of the lines as fit, and how many tools are left."""
    said = [TITLE]
    left = budget_tokens - estimate_tokens(TITLE) - estimate_tokens(_END.format(total))
    for line, count in lines:
        left -= estimate_tokens(line) + 1
        if left < 0:
            break
        said.append(line)
        total -= count
    if total and len(said) > 1:
        said.append(_END.format(total))
    return "\n".join(said) if len(said) > 1 else ""
