"""Under which keys and versions sessions are kept, and what of them can be."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolroll.errors import InvalidInput
from toolroll.registry.events.rows import word
from toolroll.registry.sessions.records import (
    MOST_BYTES,
    first_version,
    key_of,
    mark_of,
    new_mark,
    next_version,
    turn_in,
)

ANY_TEXT = st.text(st.characters(codec=None), min_size=1, max_size=200)
KEY = ("acme", "conversation-42")


@given(ANY_TEXT)
def test_every_text_is_an_id_that_both_databases_keep(text):
    org, session = key_of("acme", text)
    assert org == "acme" and 0 < len(session) <= 128 and "\0" not in session
    session.encode()
    assert key_of("acme", session) == (org, session)  # what a list shows finds the session again


@given(ANY_TEXT, ANY_TEXT)
def test_ids_that_differ_have_keys_that_differ(one, other):
    assert (key_of("", one) == key_of("", other)) == (one == other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a\0b", "a\u2400b"),
        ("a\ud800", "a\udfff"),
        ("a\ud800", "a\ufffd"),
        ("x" * 200, "x" * 201),
        ("x" * 200 + "\0", "x" * 200 + "\u2400"),
        ("\U0001f600" * 10**6, "\U0001f600" * (10**6 - 1)),
    ],
)
def test_ids_that_would_become_alike_are_told_apart(one, other):
    assert key_of("", one) != key_of("", other)


def test_an_id_has_the_key_that_the_log_of_selections_has_it_under():
    for text in ("conversation-42", "날씨 42", "x" * 128, "y" * 129, "line\nbreak"):
        assert key_of("acme", text) == ("acme", word(text))


@pytest.mark.parametrize("session", ["", None, 42, b"x"])
def test_what_is_no_id_is_refused(session):
    with pytest.raises(InvalidInput, match="session is"):
        key_of("acme", session)


@pytest.mark.parametrize("org", [None, "a\0", "\ud800", "x" * 5_000])
def test_an_organisation_that_cannot_be_kept_is_refused_rather_than_made_like_another(org):
    with pytest.raises(InvalidInput, match="org"):
        key_of(org, "conversation-42")


def test_a_record_of_just_the_largest_size_is_kept_and_one_byte_more_is_not():
    text = "é" * ((MOST_BYTES - len('{"a":""}')) // 2)
    assert turn_in({"a": text}, KEY) == 0
    with pytest.raises(InvalidInput, match=r"65,537 bytes as JSON, must have at most 65,536"):
        turn_in({"a": text + "x"}, KEY)


def test_a_record_that_is_nested_without_end_is_refused():
    value: list = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(InvalidInput, match="conversation-42"):
        turn_in({"x": value}, KEY)


@pytest.mark.parametrize(
    "record",
    [
        {"x": float("nan")},
        {"x": float("inf")},
        {"x": {1, 2}},
        {"x": object()},
        {"x": "\ud800"},
        {"x": b"bytes"},
        {("a", "b"): 1},
        {"turn": -1},
        {"turn": 2**31},
        {"turn": True},
        {"turn": "3"},
        {"turn": None},
        ["turn"],
        "turn",
        None,
    ],
)
def test_what_is_no_record_is_refused_by_the_name_of_its_session(record):
    with pytest.raises(InvalidInput, match="conversation-42"):
        turn_in(record, KEY)


@settings(max_examples=30)
@given(st.dictionaries(st.text(max_size=5), st.recursive(st.none() | st.integers() | st.text(), st.lists)))
def test_a_record_is_refused_or_is_json(record):
    try:
        turn_in(record, KEY)
    except InvalidInput:
        return
    assert json.loads(json.dumps(record)) == record


def test_a_version_says_who_wrote_it_and_moves_on_with_each_write():
    marks = {new_mark() for _ in range(100)}
    assert len(marks) > 95 and 0 not in marks
    version = first_version(7)
    assert mark_of(version) == 7 and 0 < version < 2**62
    seen = [version]
    for mark in (7, 7, 0, 3, 2**31 - 1):
        seen.append(next_version(seen[-1], mark))
        assert mark_of(seen[-1]) == mark
    assert seen == sorted(set(seen)) and seen[-1] < 2**63
    assert first_version(7) != first_version(7)
