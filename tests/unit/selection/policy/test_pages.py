"""Which toolkits belong to a page."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import PAGES, TOOLKITS, callers, page_mappings
from tests.table import each_row
from toolroll import Context
from toolroll.model.errors import InvalidDefinition
from toolroll.model.rules import PageMapping
from toolroll.selection.policy.pages import PageTable, check, matches

SIZE = 8
BELOW = {name: np.array([at, at + 4], np.int32) for at, name in enumerate(TOOLKITS)}


def table_of(*pages: PageMapping) -> PageTable:
    return PageTable.of(SIZE, pages, BELOW)


def rows_on(table: PageTable, **context: str) -> set[int] | None:
    found = table.kept(Context(**context))
    return None if found is None else set(found.rows.rows().tolist())


@each_row(
    ("pattern", "on", "not_on"),
    [
        ("contacts", ["contacts"], ["contact", "contacts/7", "Contacts", ""]),
        ("contacts*", ["contacts", "contacts/7"], ["my/contacts", "Contacts/7", "contact"]),
        ("*contacts", ["contacts", "my/contacts"], ["contacts/7"]),
        ("*contacts*", ["contacts", "my/contacts/7"], ["my/contact/s"]),
        ("*", ["contacts", "x", "*"], []),
        ("a*", ["a", "a*"], ["ba"]),
    ],
)
def test_a_pattern_is_exact_or_open_where_it_has_a_star(pattern, on, not_on):
    assert [matches(pattern, page) for page in on] == [True] * len(on)
    assert [matches(pattern, page) for page in not_on] == [False] * len(not_on)


@given(st.text("ab", max_size=3), st.text("ab", max_size=5), st.booleans(), st.booleans())
def test_a_pattern_means_what_a_regular_expression_would(body, page, starts, ends):
    import re

    pattern = "*" * starts + body + "*" * ends
    expected = re.fullmatch(f"{'.*' * starts}{body}{'.*' * ends}", page)
    assert matches(pattern, page) == (expected is not None)


def test_all_mappings_that_match_count_the_platforms_and_the_organisations():
    table = table_of(
        PageMapping("contacts*", ("email",)),
        PageMapping("*", ("home",), org="acme"),
        PageMapping("contacts", ("sales", "weather"), priority=5),
    )
    assert rows_on(table, page="contacts", org="acme") == {0, 4, 1, 5, 2, 6, 3, 7}
    assert (
        rows_on(table, page="contacts") == rows_on(table, page="contacts", org="globex") == {0, 4, 1, 5, 2, 6}
    )
    assert rows_on(table, page="contacts/7") == {1, 5}


def test_without_a_page_or_a_mapping_that_matches_there_is_no_answer():
    table = table_of(PageMapping("contacts", ("email",)))
    assert rows_on(table) is rows_on(table, page="home") is rows_on(table, page="home") is None
    assert table_of().kept(Context(page="contacts")) is None


def test_toolkits_are_told_by_priority_then_by_name_with_the_pattern_that_named_them():
    table = table_of(
        PageMapping("con*", ("weather", "email"), priority=1),
        PageMapping("contacts", ("sales", "email"), priority=1),
        PageMapping("*", ("weather", "home"), priority=7),
    )
    found = table.kept(Context(page="contacts"))
    assert found.toolkits == ("home", "weather", "email", "sales")
    assert found.words == (
        ("home", "page '*'"),
        ("weather", "page '*'"),
        ("email", "page 'con*'"),
        ("sales", "page 'contacts'"),
    )


def test_a_toolkit_that_does_not_exist_has_no_rows():
    assert rows_on(table_of(PageMapping("*", ("unheard_of",))), page="contacts") == set()


@given(st.lists(page_mappings(), max_size=5), callers())
def test_an_answer_is_the_union_of_what_each_mapping_says_and_its_order_does_not_matter(pages, context):
    found = table_of(*pages).kept(context)
    hits = [page for page in pages if page.org in ("", context.org) and matches(page.pattern, context.page)]
    if not hits or not context.page:
        assert found is None
        return
    named = {name for page in hits for name in page.toolkits}
    assert set(found.toolkits) == named
    assert set(found.rows.rows().tolist()) == {row for name in named for row in BELOW[name].tolist()}
    turned = table_of(*reversed(pages)).kept(context)
    assert (turned.rows, turned.toolkits, turned.words) == (found.rows, found.toolkits, found.words)


@given(st.lists(page_mappings(), max_size=5), st.lists(callers(), max_size=8))
def test_what_was_asked_before_changes_no_answer(pages, contexts):
    table = table_of(*pages)
    for context in (*contexts, *contexts):
        cold = table_of(*pages).kept(context)
        warm = table.kept(context)
        assert (cold is None) == (warm is None)
        if cold is not None:
            assert (cold.rows, cold.words) == (warm.rows, warm.words)


def test_memory_is_bounded_however_many_pages_there_are_and_however_long():
    table = table_of(PageMapping("*", ("email",)), PageMapping("9*", ("home",)))
    for at in range(3_000):
        assert rows_on(table, page=f"{at}") == ({1, 5, 3, 7} if str(at)[0] == "9" else {1, 5})
    assert len(table._answers) <= 1024
    assert len(table._sets) <= 2
    before = len(table._answers)
    assert rows_on(table, page="x" * 100_000) == {1, 5}
    assert len(table._answers) == before


@each_row("pattern", ["*", *PAGES, "a*", "*a", "*a*"])
def test_a_pattern_of_one_of_the_four_forms_is_fine(pattern):
    check(PageMapping(pattern, ("email",)))


@each_row(
    ("changes", "field", "says"),
    [
        ({"pattern": ""}, "pattern", "page mapping '': pattern must not be empty: say '*' for every page"),
        ({"pattern": "a*b"}, "pattern", "may have '*' only as its first or last character"),
        ({"pattern": "*a*b*"}, "pattern", "may have '*' only as its first or last character"),
        ({"pattern": "**"}, "pattern", "may have '*' only as its first or last character"),
        ({"pattern": None}, "pattern", "pattern is None, must be a string"),
        ({"toolkits": "email"}, "toolkits", "toolkits is 'email', must be names of toolkits"),
        ({"toolkits": (1,)}, "toolkits", "must be names of toolkits"),
        ({"toolkits": ()}, "toolkits", "must name at least one toolkit"),
        ({"toolkits": ("email", "")}, "toolkits", "none by ''"),
        ({"priority": "1"}, "priority", "priority is '1', must be a whole number"),
        ({"org": None}, "org", "org is None, must be a string"),
    ],
)
def test_a_wrong_mapping_is_refused_with_what_is_allowed(changes, field, says):
    with pytest.raises(InvalidDefinition) as refused:
        PageTable.of(SIZE, [replace(PageMapping("contacts", ("email",)), **changes)], BELOW)
    assert refused.value.field == field
    assert says in str(refused.value)


@each_row("blank", ["", " ", "\t\n", "\u3000", "\u200b", "\x00", "\u2800"])
def test_a_blank_page_is_on_no_page(blank):
    table = PageTable.of(8, [PageMapping("*", ("kit",))], {"kit": np.array([1], np.int32)})
    assert table.kept(Context(page=blank)) is None
    assert table.kept(Context(page=" home")) is not None
