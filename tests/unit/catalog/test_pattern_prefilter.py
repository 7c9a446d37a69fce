"""No text that RE2 matches is turned away before RE2 is asked."""

from __future__ import annotations

import re
import warnings

import re2
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.table import each_row
from toolroll import Toolroll
from toolroll.catalog.pattern_prefilter import PatternPrefilter, requirement_of

PIECES = [
    "a", "K", "s", "é", "@", "-", r"\.", ".", r"\d", r"\D", r"\w", r"\W", r"\s", r"\S", r"\b", "^", "$",
    "[a-z]", "[A-c]", "[Y-]", "[^a]", "[kS1]", r"[\w.+-]", "[é-ü]", "(a|bc)", "(ab|)", "(?:a|b+)", "(?i:x)", "(x)", r"\x41",
    "[[:alpha:]]", r"\pL", r"\Qa.b\E", "(?s).", "|",
]  # fmt: skip
REPEATS = ["", "", "", "?", "*", "+", "+?", "{2}", "{1,3}", "{0,9}", "{2,}", "{20}"]
patterns = st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from(REPEATS)), min_size=1, max_size=6).map(
    lambda pieces: "".join(piece + repeat for piece, repeat in pieces)
)
texts = st.text(st.sampled_from("aAbcKkſKsSxéÉü@-. 1٣\n\u00a0İı"), max_size=24)


def matches(pattern: str, text: str) -> bool:
    options = re2.Options()
    options.case_sensitive = False
    options.log_errors = False
    try:
        return re2.compile(pattern, options).search(text) is not None
    except re2.error:
        assume(False)
        raise


@given(patterns, texts)
def test_a_text_that_a_pattern_matches_may_match(pattern: str, text: str) -> None:
    if matches(pattern, text):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            needed = requirement_of(pattern)
            assert needed is None or all(expression.search(text) for expression in needed.any_case)
            prefilter = PatternPrefilter.of([pattern])
            assert prefilter is None or prefilter.may_match(text)


@each_row(
    ("pattern", "text", "other"),
    [
        (r"(?i)\bs\d{1,2}e\d{1,3}\b", "put on S02E11", "set 2 lights to 50 %"),
        (r"magnet:\?xt=\S+", "get magnet:?xt=urn", "a magnet for the fridge"),
        (r"\b[\w.+-]+@[\w-]+\.[\w.]{2,}\b", "write to a.b@c.org", "meet @ noon."),
        (r"\b(KE|OZ|AA) ?\d{2,4}\b", "where is OZ 106", "convert 20 dollars to yen"),
        (r"(?:ab){2,}c", "ababc", "acbc"),
    ],
)
def test_texts_that_lack_what_a_pattern_needs_are_turned_away(pattern: str, text: str, other: str) -> None:
    prefilter = PatternPrefilter.of([pattern])
    assert prefilter is not None
    assert prefilter.may_match(text)
    assert not prefilter.may_match(other)


@each_row("pattern", [r"\S*", "(a|b+)?", "[[:digit:]]", r"\pN", "", "x?"])
def test_a_pattern_that_may_match_anything_leaves_the_decision_to_re2(pattern: str) -> None:
    prefilter = PatternPrefilter.of(["certain", pattern])
    assert prefilter is None or prefilter.may_match("no such letters: 7")


def test_a_long_text_is_left_to_re2() -> None:
    prefilter = PatternPrefilter.of(["certain"])
    assert prefilter is not None
    assert prefilter.may_match("x" * 5_000)
    assert PatternPrefilter.of(["certain"] * 65) is None


def test_an_expression_has_few_ways_to_match_at_one_place() -> None:
    needed = requirement_of(r"(a{1,5}a{1,5}){1,5}a{1,4}a{1,4}a{1,4}a{1,4}x*b{1,900}")
    assert needed is not None and len(needed.lower) > 2
    for expression in needed.lower:
        bounds = re.findall(r"\{(\d+),(\d+)\}", expression.pattern)
        assert "*" not in expression.pattern
        assert "+" not in expression.pattern
        assert len([1 for least, most in bounds if least != most]) <= 2
        assert all(int(most) - int(least) <= 4 for least, most in bounds)


def test_the_demonstration_asks_re2_only_where_a_pattern_may_match() -> None:
    routes = Toolroll.demo().catalog.routes
    assert routes.prefilter is not None
    assert not routes.prefilter.may_match("convert 20 dollars to euros")
    assert routes.prefilter.may_match("watch https://example.org/a")
    assert "web" in routes.hits("watch https://example.org/a")
