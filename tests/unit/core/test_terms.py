"""What a text is about: the rules of the default analysis, one by one."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolroll import _core

DEFAULT = _core.Bm25Index.build([[]], [1.0])
PLAIN = _core.Bm25Index.build([[]], [1.0], analysis="plain")


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("jira_search_tickets", ["jira", "search", "ticket"]),
        ("crm.export-rows/all", ["crm", "export", "row", "all"]),
        ("createCalendarEvent", ["creat", "calendar", "event"]),
        ("HTTPServer", ["http", "server"]),
        ("getURLs", ["get", "url"]),
        ("parseJSON", ["pars", "json"]),
        ("S3Bucket", ["s3", "bucket"]),
        ("oauth2 ipv4 sha256", ["oauth", "2", "ipv", "4", "sha", "256"]),
        ("s3 ec2 k8s mp3 2fa 3d", ["s3", "ec2", "k8s", "mp3", "2fa", "3d"]),
        ("1password 2024report", ["1", "password", "2024", "report"]),
    ],
)
def test_identifiers_split_into_their_words(text: str, terms: list[str]) -> None:
    assert DEFAULT.terms(text) == terms


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Could you please find my flights?", ["find", "flight"]),
        ("I don't want it", []),
        ("what's the weather", ["weather"]),
    ],
)
def test_words_around_a_request_are_no_terms(text: str, terms: list[str]) -> None:
    assert DEFAULT.terms(text) == terms


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("날씨를 알려줘", ["날씨", "씨를", "알려", "려줘"]),
        ("시 BTC의", ["시", "btc", "의"]),
        ("天気を", ["天気", "気を"]),
        ("สภาพ", ["สภ", "ภา", "าพ"]),
        ("날씨API", ["날씨", "api"]),
    ],
)
def test_scripts_whose_words_do_not_stand_apart_give_pairs_of_characters(text: str, terms: list[str]) -> None:
    assert DEFAULT.terms(text) == terms


@pytest.mark.parametrize("text", ["날씨를 알려줘", "Čeština Ünïcode naïveté", "Ελλάδα", "ガス"])
def test_composed_and_decomposed_text_have_the_same_terms(text: str) -> None:
    assert DEFAULT.terms(unicodedata.normalize("NFD", text)) == DEFAULT.terms(text) != []


def test_case_and_accents_do_not_matter() -> None:
    assert DEFAULT.terms("CAFÉ STRASSE ЁЛКА") == DEFAULT.terms("cafe straße елка")
    assert DEFAULT.terms("ﬁne İstanbul") == ["fine", "istanbul"]


def test_plain_analysis_only_folds_and_splits_at_non_word_characters() -> None:
    assert PLAIN.terms("The HTTPServer's jobs, naïve snake_case ΣΊΣΥΦΟΣ") == [
        "the", "httpserver", "s", "jobs", "naïve", "snake_case", "σίσυφοσ",
    ]  # fmt: skip


@given(st.text())
def test_any_text_has_terms_that_are_folded_and_not_empty(text: str) -> None:
    for index in (DEFAULT, PLAIN):
        for term in index.terms(text):
            assert term
            assert _core.fold(term) == term


@given(st.text(), st.text())
def test_the_terms_of_two_texts_with_a_space_between_them_are_those_of_both(left: str, right: str) -> None:
    for index in (DEFAULT, PLAIN):
        assert index.terms(f"{left} {right}") == index.terms(left) + index.terms(right)


@given(st.text(alphabet="abAB12_-. sSÉé가漢"))
def test_a_text_without_case_changes_gives_the_same_terms_in_capitals(text: str) -> None:
    lower = text.lower()
    assert PLAIN.terms(lower.upper()) == PLAIN.terms(lower)


def test_a_megabyte_of_one_word_is_one_term() -> None:
    assert DEFAULT.terms("x" * 1_000_000) == ["x" * 1_000_000]


def test_a_lone_surrogate_separates_as_what_replaces_it_does() -> None:
    assert DEFAULT.terms("rain\ud800mail") == DEFAULT.terms("rain\ufffdmail") == ["rain", "mail"]


def test_an_unknown_analysis_is_named() -> None:
    with pytest.raises(ValueError, match="analysis: is 'other'"):
        _core.Bm25Index.build([[]], [1.0], analysis="other")


@given(st.lists(st.from_regex(r"[a-z]{1,30}", fullmatch=True), max_size=8))
def test_a_term_does_not_depend_on_the_texts_that_were_read_before(words: list[str]) -> None:
    text = " ".join(words)
    first = DEFAULT.terms(text)
    for _ in range(2):  # words of one slot take each other's place
        DEFAULT.terms(" ".join(reversed(words)) + " running runs run national rational")
        assert DEFAULT.terms(text) == first
