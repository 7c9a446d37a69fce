"""Marks and services of a message: what each selection pays to look for them.

The peer looks for the names of the services alone, with an alternation of the standard library.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from bench import workloads
from bench.harness import Case
from toolroll.catalog.mark_table import MarkTable
from toolroll.catalog.services import SERVICES
from toolroll.catalog.tool_text import texts_of
from toolroll.model.tools import Tool

MESSAGES = 4096
_MARKED = (
    "put costs.xlsx next to PAY-310",
    "ask ann@example.com in Outlook at 3pm",
    "read 2310.06770 in our wiki",
)


def cases(quick: bool) -> Iterator[Case]:
    definitions = workloads.tools(158)
    tools = [Tool(tool["name"], tool["description"]) for tool in definitions]
    tools += [Tool("excel_update_range", toolkit="ms365"), Tool("create_issue", toolkit="jira")]
    tools += [Tool("send_mail", toolkit="ms365"), Tool("search_papers", toolkit="arxiv"), Tool("notion_page")]
    table = MarkTable.of(texts_of(tools), None, 0, is_deferred=False)
    names = sorted((name for service in SERVICES for name in service.names), key=len, reverse=True)
    expression = re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\b", re.IGNORECASE)
    plain = workloads.messages(MESSAGES, 158)
    for size, messages in (("no mark", plain), ("two or three marks", list(_MARKED))):
        yield _case(table, expression, messages, size)


def _case(table: MarkTable, expression: re.Pattern[str], messages: list[str], size: str) -> Case:
    def check() -> str:
        found = [{hit.label for hit in table.hits(message)} for message in _MARKED]
        assert found[0] == {"mark '.xlsx'", "mark 'ticket key'"}, found[0]
        assert "service 'outlook'" in found[1] and "service 'our wiki'" in found[2], found
        return "the marks of three messages are found"

    return Case(
        operation="marks and services",
        size=size,
        ours=lambda i: table.hits(messages[i % len(messages)]),
        peers={"services by re": lambda i: expression.findall(messages[i % len(messages)])},
        check=check,
        limit_us=5,
        note=f"messages of {sum(map(len, messages)) / len(messages):.0f} characters",
    )
