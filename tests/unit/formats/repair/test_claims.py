from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.table import each_row
from toolroll.formats.repair.claims import FALLBACK, LANGUAGES, Advice, check_claim, claims_action
from toolroll.formats.schemas.requests import required
from toolroll.model.errors import InvalidInput

DATA = Path(__file__).parents[3] / "data"


def labelled(name):
    lines = (DATA / name).read_text("utf-8").splitlines()
    return [
        (language, label == "1", sentence.replace("\\n", "\n"))
        for language, label, sentence in (line.split("\t") for line in lines)
    ]


SENTENCES = labelled("claims.tsv")


@each_row("language", LANGUAGES)
def test_there_are_sentences_enough_in_every_language(language):
    labels = [claims for code, claims, _ in SENTENCES if code == language]
    assert len(labels) >= 25 and 0.4 <= sum(labels) / len(labels) <= 0.6


@each_row(("language", "claims", "sentence"), SENTENCES)
def test_a_sentence_is_a_claim_where_its_label_says_so(language, claims, sentence):
    found = claims_action(sentence)
    assert (found is not None) == claims
    if found:
        assert found.language == language or {found.language, language} == {
            "es",
            "pt",
        }  # "e-mail enviado" is both
        assert sentence[found.start : found.end].strip() == found.phrase


def counted(name):
    """True claims, false alarms and missed claims among the replies of a file, by (language, label, found)."""
    return Counter(
        (language, claims, claims_action(reply) is not None) for language, claims, reply in labelled(name)
    )


def test_of_replies_that_the_grammar_was_not_written_for_most_english_claims_are_found_and_few_others():
    """Written before the grammar and never used to change it. The first run: 141 found, 4 false, 24 missed."""
    figures = counted("claims_test.tsv")
    assert sum(figures.values()) == 368 and figures["en", True, True] + figures["en", True, False] == 165
    found, false, missed = (
        figures["en", label, is_found] for label, is_found in ((True, True), (False, True), (True, False))
    )
    assert found / (found + false) >= 0.97 and found / (found + missed) >= 0.80


def test_of_replies_that_the_grammar_was_written_with_nearly_all_claims_are_found_and_no_others():
    figures = counted("claims_dev.tsv")
    assert figures["en", False, True] == 0
    assert figures["en", True, True] / (figures["en", True, True] + figures["en", True, False]) >= 0.9


def test_of_sentences_that_the_other_languages_phrases_were_not_written_for_there_are_no_false_alarms():
    figures = counted("claims_held_out.tsv")
    found, missed, false = (
        sum(count for (_, label, is_found), count in figures.items() if (label, is_found) == key)
        for key in ((True, True), (True, False), (False, True))
    )
    assert (found, missed, false) == (22, 9, 0)


REVIEWED = [
    (True, "✅ Sent!"),
    (True, "I restarted the server."),
    (True, "Done — your table is booked for 8."),
    (True, "All set!"),
    (True, "What I did:\n- Created the event\n- Invited Anna"),
    (False, "I've written a poem for you:"),
    (False, "The email was sent by Anna yesterday."),
    (False, "Okay, I won't send it."),
]


@each_row(("claims", "reply"), REVIEWED)
def test_short_claims_are_found_and_work_in_the_reply_and_deeds_of_others_are_none(claims, reply):
    assert (claims_action(reply) is not None) == claims


@pytest.mark.parametrize("text", ["Done!", " All done.\n", "You're all set!"])
def test_a_reply_that_says_nothing_but_done_claims_it_and_a_longer_one_does_not(text):
    found = claims_action(text)
    assert text[found.start : found.end] == found.phrase == text.strip()
    assert claims_action(f"{text} Here is the translation that you asked for.") is None
    assert claims_action(f'"{text.strip()}"') is None


@each_row(("language", "claims", "sentence"), [one for one in SENTENCES if one[2] != "Done!"][::7])
def test_a_claim_is_found_among_other_sentences(language, claims, sentence):
    text = f"Hello.\n\n{sentence}\nHow are you?"
    assert (claims_action(text) is not None) == claims


def test_a_reply_that_claims_what_was_called_is_fine():
    assert check_claim("I've sent the email.", called=True) is None
    assert check_claim("Paris is the capital of France.", called=False) is None


def test_the_advice_is_to_ask_again_so_that_a_tool_must_be_called():
    advice = check_claim("I've sent the email.", called=False)
    assert advice.claim.phrase == "I've sent" and advice.fallback == FALLBACK
    assert advice.request("openai") == advice.request("openai_responses") == {"tool_choice": "required"}
    assert advice.request("anthropic") == {"tool_choice": {"type": "any"}}
    assert advice.request("gemini") == {"tool_config": {"function_calling_config": {"mode": "ANY"}}}
    assert [advice.temperature(usual) for usual in (None, 0.0, 0.3, 1.0)] == [0.3, 0.0, 0.3, 0.3]


@each_row("provider", ["openai", "openai_responses", "anthropic", "gemini"])
def test_the_advice_is_spelled_as_a_delivery_that_must_call(provider):
    assert Advice(claims_action("I've sent the email.")).request(provider) == required(provider)


def test_a_request_belongs_to_whoever_asked_for_it():
    advice = Advice(claims_action("I've sent the email."))
    advice.request("gemini")["tool_config"]["function_calling_config"]["mode"] = "NONE"
    assert advice.request("gemini")["tool_config"]["function_calling_config"]["mode"] == "ANY"


@each_row("provider", ["cohere", "mcp", None, []])
def test_a_provider_must_be_known(provider):
    with pytest.raises(InvalidInput, match="must be one of openai"):
        Advice(claims_action("I've sent the email.")).request(provider)


@each_row("wrong", [None, 5, b"sent", ["I've sent"]])
def test_only_text_can_claim(wrong):
    with pytest.raises(InvalidInput, match="must be a string"):
        claims_action(wrong)


@given(st.text(max_size=40) | st.sampled_from(SENTENCES).map(lambda one: one[2][::-1]))
def test_no_text_crashes(text):
    claims_action(text)


@pytest.mark.slow
@each_row(
    "piece",
    [
        "I have ",
        "ich habe ",
        '"',
        "„",
        "`a",
        "I've sent?",
        "we ",
        "a.",
        "abc d. ",
        ",",
        "已经给",
        "我在",
        "\ud800",
        "é",
        "conf",
    ],
)
def test_a_megabyte_takes_seconds_at_most(piece):
    started = time.process_time()
    claims_action((piece * (1_000_000 // len(piece)))[:1_000_000])
    assert time.process_time() - started < 10
