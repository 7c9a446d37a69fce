"""The text file: read from WordNet's own format, and the same for the same seed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tools.train import corpus

NOUNS = """  1 This software and database is being provided to you
00000010 06 n 02 umbrella 0 rain_cover 0 001 @ 00000020 n 0000 | a handheld canopy; "her umbrella is open"
00000020 13 n 01 apple 0 000 | fruit with red or yellow skin; "an apple a day"; "two apples"
"""
VERBS = '00000030 30 v 01 rain 0 000 01 + 01 00 | precipitate as rain; "If it rains, there will be floods"\n'
NOUN_INDEX = """  1 This software
apple n 1 1 @ 1 1 00000020
rain_cover n 1 1 @ 1 0 00000010
umbrella n 2 1 @ 2 1 00000010 00000020
"""


@pytest.fixture
def wordnet(tmp_path: Path) -> Path:
    for name, content in {"data.noun": NOUNS, "data.verb": VERBS, "data.adj": "",
                          "data.adv": "", "index.noun": NOUN_INDEX,
                          "index.verb": "rain v 1 1 + 1 1 00000030\n"}.items():  # fmt: skip
        (tmp_path / name).write_text(content)
    return tmp_path


def test_a_synset_is_words_definition_and_examples(wordnet: Path) -> None:
    umbrella, apple = corpus.synsets(wordnet, "noun")
    assert umbrella == (
        10,
        6,
        ["umbrella", "rain cover"],
        "a handheld canopy",
        ["her umbrella is open"],
    )
    assert apple[3:] == ("fruit with red or yellow skin", ["an apple a day", "two apples"])


def test_everyday_words_are_those_of_the_vocabulary_in_their_first_sense(wordnet: Path) -> None:
    nouns, verbs = corpus.everyday(wordnet, frozenset({"umbrella", "apple", "rain", "cover"}))
    assert nouns == [corpus.Noun("apple", 13), corpus.Noun("umbrella", 6)]
    assert verbs == ["rain"]


def test_the_same_seed_gives_the_same_texts(wordnet: Path) -> None:
    def texts(seed: int) -> list[str]:
        nouns, verbs = corpus.everyday(wordnet, frozenset({"umbrella", "apple", "rain"}))
        return [
            *corpus.from_everyday(nouns, verbs, random.Random(seed), 30),
            *corpus.from_wordnet(wordnet, random.Random(seed), 10, 10),
        ]

    assert texts(1) == texts(1) != texts(2)


def test_requests_are_whole_sentences_about_the_noun() -> None:
    asked = list(corpus.from_everyday([corpus.Noun("umbrella", 6)], ["rain"], random.Random(0), 200))[2:]
    assert all(("umbrella" in t) or ("rain" in t) or ("everything" in t) for t in asked)
    assert "Should I bring an umbrella?" in asked
    assert not any("{" in t for t in asked)


def test_of_equal_summaries_one_is_taken_and_lines_of_another_shape_none() -> None:
    lines = ["a-b\tReads and writes files of the format that nobody uses\n"] * 3 + ["no tab\n", "c\tshort\n"]
    assert len(list(corpus.from_summaries(lines, random.Random(0), 10, 10))) == 1
