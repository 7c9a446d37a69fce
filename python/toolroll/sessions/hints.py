"""Describes the tools that could be loaded as text for a prompt, by toolkit, within a budget.

A smaller budget gives shorter texts: the whole description of each tool, its first 400 characters, its first
sentence, its name, and finally only the number of tools. Toolkits take turns, so that a large one does not
crowd out the others. The texts are foreign: each tool gets exactly one line.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from toolroll.catalog.catalog import Catalog
from toolroll.catalog.tokens import estimate_tokens
from toolroll.formats.foreign_text import Encoded, fill, line_text, name_text, title_text
from toolroll.formats.schemas.names import said_name
from toolroll.formats.visible_text import one_line
from toolroll.model.arrays import Rows
from toolroll.model.tools import Tool

TITLE = "# Tools that can be loaded"
LONGEST = 400  # characters of a description, until each tool has so many
_SENTENCE = 90
_LONGEST_WORD = 16  # characters of a token at the most, about
_BREAK = 1.5  # tokens of a line break and of rounding
_NAMES = 0.6  # the share of the budget for names; the rest is for descriptions
_MORE = "- … and {} more: search for them"
_OTHERS = "- … and {} toolkits more"


def hints(catalog: Catalog, rows: Rows, budget_tokens: int) -> str:
    """The text; "" if there are no tools or no room. O(n log n) of the rows.

    rows: the tools, in any order; they are listed by toolkit and name.
    """
    groups: dict[str, list[Tool]] = {}
    for tool in sorted(
        (catalog.tools[row] for row in rows.tolist()), key=lambda tool: (tool.toolkit, tool.name)
    ):
        groups.setdefault(tool.toolkit, []).append(tool)
    left = budget_tokens - _cost(TITLE) - _cost(_OTHERS.format(len(groups)))
    headings: dict[str, Encoded] = {}
    for name, tools in groups.items():
        heading = _heading(name)
        left -= _cost(heading) + _cost(_MORE.format(len(tools)))
        if left < 0:
            break
        headings[name] = heading
    if not headings:
        return ""
    lines: dict[str, dict[int, Encoded]] = {name: {} for name in headings}
    left = max(left, 0.0)
    for said, kept in ((_by_name, (1 - _NAMES) * left), (_in_short, 0.0), (_in_full, 0.0)):
        for name, at, tool in _in_turns({name: groups[name] for name in headings}):
            line, before = said(tool), lines[name].get(at)
            more = _cost(line) - (0.0 if before is None else _cost(before))
            if (before is not None or said is _by_name) and more <= left - kept:
                left -= more
                lines[name][at] = line
    for name, at, tool in _in_turns({name: groups[name] for name in headings}):
        if at in lines[name] and LONGEST < len(_said(tool)) <= left * _LONGEST_WORD:
            line = fill("%s: %s", _by_name(tool), line_text(_said(tool), len(_said(tool))))
            more = _cost(line) - _cost(lines[name][at])
            if more <= left:
                left -= more
                lines[name][at] = line
    text: list[str] = [TITLE]
    for name, heading in headings.items():
        text += [heading, *[lines[name][at] for at in sorted(lines[name])]]
        if unsaid := len(groups[name]) - len(lines[name]):
            text.append(_MORE.format(unsaid))
    if len(headings) < len(groups):
        text.append(_OTHERS.format(len(groups) - len(headings)))
    return "\n".join(text)


def _in_turns(groups: dict[str, list[Tool]]) -> Iterator[tuple[str, int, Tool]]:
    """(toolkit, place, tool): the first of each toolkit, then the second of each, and so on."""
    for at, some in enumerate(zip_longest(*groups.values())):
        for name, tool in zip(groups, some, strict=True):
            if tool is not None:
                yield name, at, tool


def _cost(line: str) -> float:
    return estimate_tokens(line) + _BREAK


def _said(tool: Tool) -> str:
    return tool.summary or tool.description


def _heading(toolkit: str) -> Encoded:
    cut = toolkit if len(toolkit) <= _SENTENCE else f"{toolkit[: _SENTENCE - 1]}…"
    return fill("## %s", title_text(cut)) if toolkit else fill("## others")


def _by_name(tool: Tool) -> Encoded:
    return fill("- %s", name_text(said_name(tool.name)))


def _in_short(tool: Tool) -> Encoded:
    sentence = line_text(one_line(_said(tool), LONGEST).partition(". ")[0], _SENTENCE)
    return fill("%s: %s", _by_name(tool), sentence) if sentence else _by_name(tool)


def _in_full(tool: Tool) -> Encoded:
    said = line_text(_said(tool), LONGEST)
    return fill("%s: %s", _by_name(tool), said) if said else _by_name(tool)
