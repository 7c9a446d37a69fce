"""Which tools deal with a mark or belong to a service, by their names."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import texts
from tests.unit.core.test_marks import find_marks
from toolroll.catalog.mark_table import MarkTable
from toolroll.catalog.marks import ENDINGS, MEANINGS
from toolroll.catalog.services import SERVICES
from toolroll.catalog.tool_text import ToolText, texts_of, words
from toolroll.model.tools import Tool

TOOLS = (
    Tool("update-excel-range", toolkit="ms365"),
    Tool("send_mail", toolkit="ms365"),
    Tool("get_gmail_message", toolkit="google_workspace"),
    Tool("search_maps", toolkit="google_maps"),
    Tool("createIssue", toolkit="jira"),
    Tool("notion_create_page"),
    Tool("list_teams", toolkit="pagerduty"),
)


def table_of(tools, shared=None, behind=0) -> MarkTable:
    return MarkTable.of(texts_of(tools), shared, behind, is_deferred=False)


def found(text: str, query: str = "", table: MarkTable = table_of(TOOLS)) -> dict[str, list[str]]:
    return {hit.label: [TOOLS[row].name for row in hit.rows.tolist()] for hit in table.hits(text, query)}


@pytest.mark.parametrize(
    ("message", "hits"),
    [
        ("put it into costs.XLSX", {"mark '.xlsx'": ["update-excel-range"]}),
        ("who has PAY-310", {"mark 'ticket key'": ["createIssue"]}),
        ("tell ann@example.com", {"mark 'mail address'": ["send_mail", "get_gmail_message"]}),
        ("find it in outlook", {"service 'outlook'": ["update-excel-range", "send_mail"]}),
        ("find it in my Gmail", {"service 'gmail'": ["get_gmail_message"]}),
        ("write it down in our wiki", {"service 'our wiki'": ["notion_create_page"]}),
        ("https://www.notion.so/abc", {"service 'notion'": ["notion_create_page"]}),
        ("what is 10.0.0.1", {}),  # no meaning
        ("open photo.png", {}),  # no tool
        ("ask in slack", {}),  # nor here
        ("", {}),
    ],
)
def test_a_mark_or_service_is_found_with_the_tools_whose_names_say_so(message, hits):
    assert found(message) == hits


@pytest.mark.parametrize(
    "message", ["set me to away in Teams", "post it on teams", "the Microsoft Teams chat"]
)
def test_a_name_that_is_a_common_word_counts_with_a_capital_or_in_a_phrase(message):
    assert "service 'microsoft teams'" in found(message)


@pytest.mark.parametrize("message", ["which teams are there", "Teams of three. Teams of four", "TEAMSTERS"])
def test_it_does_not_count_as_a_common_word(message):
    assert not found(message)


def test_services_are_read_in_the_corrected_message_too_and_marks_in_the_original_alone():
    assert found("look in outlok", "look in outlook") == {
        "service 'outlook'": ["update-excel-range", "send_mail"]
    }
    assert not found("look in it", "look in costs.xlsx")


def test_of_a_stacked_catalog_both_parts_are_found_in_order():
    table = table_of(TOOLS[4:], table_of(TOOLS[:4]), 4)
    for message in ("mail ann@example.com about PAY-310", "notion or gmail?"):
        assert found(message, table=table) == found(message)


def test_a_deferred_table_finds_the_same():
    table = MarkTable.of(texts_of(TOOLS), None, 0, is_deferred=True)
    assert found("tell ann@example.com", table=table) == found("tell ann@example.com")


def test_a_name_with_the_words_of_everything_deals_with_nothing():
    greedy = Tool("excel_pdf_gmail_jira_notion_slack_github_calendar_image")
    assert not table_of((greedy,)).hits("open costs.xlsx in notion")


def test_a_meaning_of_too_many_tools_says_nothing():
    def rows(n: int) -> int:
        hits = table_of([Tool(f"slack_{i}") for i in range(n)]).hits("ask in slack")
        return sum(len(hit.rows) for hit in hits)

    assert (rows(512), rows(513)) == (512, 0)


NAMES = [
    *dict.fromkeys(word for one in SERVICES for word in one.servers),
    "list",
    "send_Mail",
    "getFiles",
    "x",
]
PIECES = [name for one in SERVICES for name in one.names] + ["PAY-3", "a.pdf", "14:30", "ok.", "Teams", "le"]


def _has(word: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE) is not None


@given(
    st.lists(st.builds(Tool, st.sampled_from(NAMES), toolkit=st.sampled_from(["", *NAMES])), max_size=5),
    st.lists(st.sampled_from(PIECES), max_size=6).map(" ".join) | texts(),
)
def test_the_rows_are_those_that_a_loop_over_all_words_and_tools_gives(tools, message):
    names = [f"{words(tool.toolkit)} {words(tool.name)}" for tool in tools]
    expected = {}
    for mark in find_marks(message):
        kind = mark.lower() if mark.startswith(".") else mark
        meant = {**MEANINGS, **ENDINGS}.get(kind, ())
        expected[f"mark '{kind}'"] = [
            row
            for row, name in enumerate(names)
            if any(_has(f"{w}{s}", name) for w in meant for s in ("", "s"))
        ]
    for service in SERVICES:
        if any(name.islower() and _has(name, message) for name in service.names) or any(
            re.search(rf"(?<=[^.!?\s])\s*\b{name[0]}(?i:{name[1:]})\b", message)
            for name in service.names
            if not name.islower()
        ):
            expected[f"service '{service.names[0]}'"] = [
                row for row, name in enumerate(names) if any(_has(word, name) for word in service.servers)
            ]
    texts = [ToolText.of(tool) for tool in tools]
    hits = MarkTable.of(texts, None, 0, is_deferred=True).hits(message)
    assert {hit.label: hit.rows.tolist() for hit in hits} == {
        label: rows for label, rows in expected.items() if rows
    }


def test_each_kind_of_mark_that_has_a_meaning_exists():
    shown = (
        "~/x PAY-3 #1 PR 5 !3 9fceb02d CVE-2026-12345 2310.06770 10.1000/1 a@b.co +44 20 7946 0958 3pm 2026-05-01 "
        "48.858, 2.294 21° $AAPL #general A1:B2 s3://b SELECT x"
    )
    assert set(MEANINGS) == {mark for mark in find_marks(shown) if not mark.startswith(".")}
    assert all(find_marks(f"x{ending}") == [ending] for ending in ENDINGS)


def test_no_name_of_a_service_is_there_twice():
    names = [name.casefold() for service in SERVICES for name in service.names]
    assert sorted(names) == sorted(set(names))
