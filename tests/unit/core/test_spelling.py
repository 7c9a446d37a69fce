"""Spelling in the core, compared with measuring the distance to every known word."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.core.corrected import corrected
from toolroll._core import Bm25Index, LanguageGate, Lexicon, Speller, WordPiece

GENERAL = {"the": 9.0, "want": 8.0, "what": 7.0, "whether": 6.0, "weather": 1.0, "tomorrow": 3.0, "from": 5.0}


def lexicon(words: dict[str, float]) -> Lexicon:
    return Lexicon.of_words(list(words), np.array(list(words.values()), np.float32))


def lexicon_of(*texts: str) -> Lexicon:
    return Lexicon.of_texts(texts, np.ones(len(texts), np.float32))


def speller(*catalog: str) -> Speller:
    return Speller(lexicon_of(*catalog), lexicon(GENERAL))


TERMS = Bm25Index.build([[]], [1.0]).terms


def stem_of(word: str) -> str:
    return next(iter(TERMS(word)), word)


def edit(word: str, other: str) -> str:
    """Which one edit makes `other` of `word`; "" for none, for more, and for the same word."""
    if len(word) == len(other):
        places = [i for i in range(len(word)) if word[i] != other[i]]
        if len(places) == 1:
            return "wrong"
        if len(places) == 2 and places[1] == places[0] + 1:
            i = places[0]
            return "swapped" if (word[i], word[i + 1]) == (other[i + 1], other[i]) else ""
        return ""
    longer, shorter = (other, word) if len(other) > len(word) else (word, other)
    if shorter not in [longer[:i] + longer[i + 1 :] for i in range(len(longer))]:
        return ""
    return "missing" if longer == other else "added"


def oracle(text: str, catalog: dict[str, float], general: dict[str, float]) -> str:
    """For messages of lower-case words with single spaces, at most 32 of them unknown."""
    stems = {stem_of(word) for word in (*catalog, *general)}

    def knows(word: str) -> bool:
        stem = stem_of(word)
        return word in catalog or word in general or (stem != word and stem in stems)

    def best(word: str) -> tuple[bool, str] | None:
        found = []
        for is_general, words in enumerate((catalog, general)):
            for other, weight in words.items():
                kind = edit(word, other)
                if kind and len(other) >= 5 and not (is_general and other in catalog):
                    weight *= 3 if kind in ("missing", "swapped") else 1
                    weight *= 3 if other[0] == word[0] else 1
                    found.append((is_general, -weight, other))
        return (bool(min(found)[0]), min(found)[2]) if found else None

    words = text.split(" ")
    read = [word for word in words if len(word) >= 3]
    unknown = [word for word in read if len(word) >= 5 and not knows(word)]
    mended = {word: best(word) for word in unknown}
    of_catalog = [word for word in unknown if (other := mended[word]) and not other[0]]
    known = [word for word in read if knows(word)] + of_catalog
    is_english = "the" in known and len(unknown) - len(of_catalog) <= len(known)
    out = []
    for word in words:
        other = mended.get(word)
        out.append(other[1] if other and (is_english or not other[0]) else word)
    return " ".join(out)


LETTERS = "abcde"
WORDS = st.text(LETTERS, min_size=3, max_size=6)
WEIGHTS = st.sampled_from([1.0, 2.0, 3.0, 6.0, 9.0])
VOCABULARY = st.dictionaries(WORDS, WEIGHTS, max_size=6)


@given(VOCABULARY, VOCABULARY, st.lists(WORDS | st.just("the"), max_size=8))
@example({"abcd": 1.0}, {"abce": 9.0}, ["the", "abca"])
@example({"aabb": 1.0}, {}, ["abab", "aabbc", "aab", "xaabb"])
def test_the_corrected_word_is_the_best_of_all_known_ones_at_distance_one(catalog, general, words):
    general = {**general, "the": 1.0}
    text = " ".join(words)
    assert corrected(Speller(lexicon(catalog), lexicon(general)), text) == oracle(text, catalog, general)


PIECES = ["[UNK]", "the", *LETTERS, *(f"##{letter}" for letter in LETTERS)]


@given(
    VOCABULARY,
    VOCABULARY,
    st.lists(WORDS | st.just("the"), max_size=8),
    st.lists(st.integers(-3, 3), min_size=len(LETTERS), max_size=len(LETTERS)),
    st.integers(-9, 9),
)
def test_a_foreign_message_is_not_corrected_to_english_words(catalog, general, words, weights, bias):
    general = {**general, "the": 1.0}
    of_letter = dict(zip(LETTERS, weights, strict=True))
    gate = LanguageGate(WordPiece(PIECES), np.array([0, 0, *weights, *weights, 0, bias], np.float32))

    def foreignness(word: str) -> int:
        return 0 if word == "the" else sum(of_letter[letter] for letter in word)

    text = " ".join(words)
    whole = Speller(lexicon(catalog), lexicon(general))
    mended = corrected(whole, text)
    expected = text
    if bias + sum(map(foreignness, mended.split())) <= 0:
        expected = mended
    else:
        for begin, end, word in reversed(whole.corrections(text)):
            if foreignness(word) > 0 and not lexicon(general).knows(word):
                expected = expected[:begin] + word + expected[end:]
    assert corrected(Speller(lexicon(catalog), lexicon(general), gate), text) == expected
    assert (
        corrected(Speller(lexicon({}), lexicon(general), gate).with_own(lexicon(catalog)), text) == expected
    )


@given(st.text(alphabet=[*"abcdeABé \n\t.,'`-_/@#1한漢。ß\u0301\ud800"], max_size=60), VOCABULARY)
def test_corrections_are_places_where_the_text_changes(text, catalog):
    reader = Speller(lexicon(catalog), lexicon(GENERAL))
    found = reader.corrections(text)
    assert [place for place in found if not place[0] < place[1]] == []
    assert all(before[1] <= after[0] for before, after in pairwise(found))
    for start, end, word in found:
        assert text[start:end] != word


@given(st.lists(WORDS | st.just("the"), max_size=30), VOCABULARY)
def test_a_corrected_text_stays_as_it_is(words, catalog):
    reader = Speller(lexicon(catalog), lexicon(GENERAL))
    once = corrected(reader, " ".join(words))
    assert corrected(reader, once) == once


@pytest.mark.parametrize(
    "typo", ["weathar", "weathr", "weaather", "waether", "Weathar", "WEATHAR", "wéathar"]
)
def test_each_kind_of_typo_is_mended(typo):
    assert corrected(speller("weather"), typo) == "weather"


def test_a_word_of_the_catalog_is_preferred_to_a_commoner_one():
    assert corrected(speller(), "what is the wether") == "what is the whether"
    assert corrected(speller("weather"), "what is the wether") == "what is the weather"


@pytest.mark.parametrize("word", ["forecasts", "forecasted", "forecasting", "tomorrows"])
def test_inflections_of_known_words_are_known(word):
    reader = speller("forecast tomorro forecastes")
    assert corrected(reader, f"the {word}") == f"the {word}"


def test_the_stem_of_a_word_is_no_word():
    assert not lexicon_of("schedule").knows("schedul")
    assert corrected(speller("schedule"), "schedul it") == "schedule it"


@pytest.mark.parametrize(
    "text",
    [
        "http://exmaple.com/wether",
        "www.wether.com",
        "john@wether.com",
        "#wether",
        "wether_id",
        "reports/wether",
        r"C:\wether",
        "--wether",
        "`wether`",
        "`a wether b`",
        "getWether",
        "wether2",
        "2wether",
        "wether=1",
        "wether's",
        "wether’s",
        "o'wether",
        "wetherß",
        "wetherы",
    ],
)
def test_identifiers_addresses_and_code_are_left_alone(text):
    message = f"what is the {text} from"
    assert corrected(speller("weather"), message) == message


@pytest.mark.parametrize("text", ["(wether)", '"wether",', "wether.", "wether, ", "¿wether?", "wether를"])
def test_punctuation_and_particles_do_not_hide_a_word(text):
    assert corrected(speller("weather"), f"the {text}") == f"the {text.replace('wether', 'weather')}"


def test_a_back_quote_without_its_partner_quotes_nothing():
    assert corrected(speller("weather"), "the ` wether") == "the ` weather"


def test_what_may_be_a_name_becomes_a_word_of_the_catalog_or_stays():
    assert corrected(speller(), "Whethar want the what from Whethar") == "whether want the what from Whethar"
    assert corrected(speller("Notion"), "want the Nption") == "want the notion"


def test_a_message_in_another_language_is_mended_by_the_catalog_alone():
    german = "das wether ist wie ein whethe und die wetter vom kalendar"
    assert corrected(speller("calendar"), german) == german.replace("kalendar", "calendar")


@pytest.mark.parametrize(("strangers", "last"), [(31, "weather"), (32, "wether")])
def test_after_32_unknown_words_nothing_more_is_mended(strangers, last):
    unknown = " ".join(["qzxjqzxj"] * strangers)
    assert corrected(speller("weather"), f"{unknown} wether") == f"{unknown} {last}"


@pytest.mark.parametrize(("letters", "mended"), [(23, 24), (24, 24), (25, 25), (26, 26)])
def test_words_of_more_than_24_letters_are_neither_kept_nor_mended(letters, mended):
    reader = speller("a" * 24, "a" * 26)
    assert corrected(reader, "a" * letters) == "a" * mended


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("listGitHub_repos", ["list", "git", "hub", "listgithub", "repos"]),
        ("HTTPServer v2beta", ["http", "server", "httpserver", "beta"]),
        ("Météo a la carte", ["meteo", "carte"]),
        ("날씨weather를 ok", ["weather"]),
    ],
)
def test_texts_give_the_parts_of_identifiers_and_the_whole(text, words):
    built = lexicon_of(text)
    assert built.size == len(words)
    assert all(built.weight(word) == 1 for word in words)


def test_words_of_texts_weigh_what_their_occurrences_do():
    built = Lexicon.of_texts(["Rain, rain", "go away rain"], np.array([1, 2], np.float32))
    assert (built.weight("rain"), built.weight("away"), built.weight("snow")) == (4, 2, 0)


def test_weights_of_words_add_up_and_what_is_no_word_is_left_out():
    built = Lexicon.of_words(["Rain", "rain", "x", "two words", "s3"], np.ones(5, np.float32))
    assert (built.size, built.weight("rain")) == (1, 2)


@pytest.mark.parametrize("weight", [0, -1, float("nan"), float("inf")])
def test_weights_must_be_finite_and_positive(weight):
    with pytest.raises(ValueError, match="weight 0: must be finite and positive"):
        Lexicon.of_words(["rain"], np.array([weight], np.float32))


def test_there_must_be_one_weight_a_word():
    with pytest.raises(ValueError, match="weights: are 2, must be 1"):
        Lexicon.of_words(["rain"], np.ones(2, np.float32))


def test_a_lexicon_takes_less_than_a_hundred_bytes_a_word():
    words = [
        f"{a}{b}{c}{d}xylo" for a in "bcdfghjklm" for b in "aeiou" for c in "bcdfghjklm" for d in "aeiou"
    ]
    built = lexicon_of(*words)
    assert built.size == len(words)
    assert built.memory_bytes < 100 * len(words)


@given(
    st.lists(
        st.sampled_from(
            ["the", "weather", "wether", "Tomorow", "from", "zigbe", "a_b", "`wather`", "wän", "é", "天気"]
        )
    ).map(" ".join)
)
def test_a_text_whose_words_are_all_known_has_nothing_to_correct_whatever_the_catalog(text: str) -> None:
    general = lexicon(GENERAL)
    if general.knows_words_of(text):
        assert Speller(lexicon_of("zigbee weatherman tomorrows"), general).corrections(text) == []


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("what the weather", True),
        ("", True),
        ("wether", False),
        ("Weather, tomorrow!", True),
        ("x9 abcd", True),
    ],
)
def test_words_that_no_speller_corrects_are_known_enough(text: str, known: bool) -> None:
    assert lexicon(GENERAL).knows_words_of(text) is known


@given(st.lists(st.text("aBzé1#\x0b", max_size=5), max_size=8), st.floats(0.5, 2_000))
def test_a_vocabulary_gives_its_whole_words_by_their_place(pieces: list[str], flat: float) -> None:
    words = [piece for piece in pieces if len(piece) >= 3 and piece.isascii() and piece.isalpha()]
    weights = (1 / (np.arange(len(words)) + flat)).astype(np.float32)
    expected = Lexicon.of_words(words, weights)
    for vocabulary in (pieces, "\n".join([*pieces, ""]).encode() if pieces else b""):
        found = Lexicon.of_vocabulary(vocabulary, flat)
        assert found.size == expected.size
        for word in map(str.lower, pieces):
            assert found.weight(word) == expected.weight(word)


def test_the_weight_of_a_vocabulary_is_checked() -> None:
    for flat in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="flat"):
            Lexicon.of_vocabulary(["word"], flat)
