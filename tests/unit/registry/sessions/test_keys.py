"""Under which keys sessions are kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.table import each_row
from toolroll.model.errors import InvalidInput
from toolroll.registry.events.rows import word
from toolroll.registry.sessions.keys import key_of, whole_key_of

ANY_TEXT = st.text(st.characters(codec=None), min_size=1, max_size=200)


@given(ANY_TEXT)
def test_every_text_is_an_id_that_both_databases_keep(text):
    org, session = key_of("acme", text)
    assert org == "acme" and 0 < len(session) <= 128 and "\0" not in session
    session.encode()
    assert key_of("acme", session) == (org, session)  # what a list shows finds the session again


@given(ANY_TEXT, ANY_TEXT)
def test_ids_that_differ_have_keys_that_differ(one, other):
    assert (key_of("", one) == key_of("", other)) == (one == other)


@each_row(
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


@each_row("session", ["", None, 42, b"x"])
def test_what_is_no_id_is_refused(session):
    with pytest.raises(InvalidInput, match="session is"):
        key_of("acme", session)


@each_row("org", [None, "a\0", "\ud800", "x" * 5_000])
def test_an_organisation_that_cannot_be_kept_is_refused_rather_than_made_like_another(org):
    with pytest.raises(InvalidInput, match="org"):
        key_of(org, "conversation-42")


def test_a_name_that_looks_shortened_is_refused_since_it_may_be_anothers():
    org, session = key_of("acme" * 100, "x" * 300)
    for names in ((org, "s"), ("acme", session)):
        with pytest.raises(InvalidInput, match="shortened"):
            whole_key_of(*names)
    assert whole_key_of("acme" * 100, "x" * 300) == (org, session)
