"""The making of the multilingual table, on numbers that one can check by hand, and what its files promise."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from tools.train import multilingual_table
from tools.train.english_gate import fit_gate
from tools.train.multilingual_pieces import DATA, LANGUAGES, EnglishSums, Reader, bank_messages, unaccented
from tools.train.multilingual_table import (
    Texts,
    Training,
    everyday_words,
    fit,
    frames,
    gradient,
    table_checksum,
)
from tools.train.word_translations import translate

FOLDER = DATA / "static_multilingual"


def unit(rows: Any) -> Any:
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def test_the_gradient_is_the_slope_of_the_loss() -> None:
    rng = np.random.default_rng(0)
    sums, targets = rng.normal(size=(3, 4)), unit(rng.normal(size=(3, 4)))

    def loss(at: Any) -> float:
        vectors = unit(at)
        logits = vectors @ targets.T / 0.5
        spread = np.log(np.exp(logits).sum(1)) - np.diag(logits)
        return float((1 - (vectors * targets).sum(1)).mean() + 0.1 * spread.mean())

    distance, slope = gradient(sums.astype(np.float32), targets.astype(np.float32), 0.1, 0.5)
    assert distance == pytest.approx(1 - (unit(sums) * targets).sum(1).mean(), abs=1e-5)
    for at in np.ndindex(3, 4):
        step = np.zeros((3, 4))
        step[at] = 1e-5
        assert slope[at] == pytest.approx((loss(sums + step) - loss(sums - step)) / 2e-5, abs=1e-4)


def test_a_text_learns_its_targets_direction_and_english_rows_stay() -> None:
    english = np.array([[0, 0, 1, 0]], np.float32)
    targets = unit(np.array([[1, 0, 0, 0], [0, 1, 0, 0], [1, 0, 1, 0]], np.float32)).astype(np.float16)
    texts = Texts(np.array([0, 1, 2, 3], np.int32), np.array([0, 1, 2, 4]), targets)  # piece 3 is English
    recipe: dict[str, Any] = {"steps": 300, "rate": 0.05, "contrast": 0.0, "temperature": 0.06, "seed": 0}
    rows = fit(Training({("software", "de"): texts}, 8, 0), 3, english, **recipe)
    assert rows.shape == (3, 4)
    assert (unit(rows)[[0, 1], [0, 1]] > 0.99).all()
    assert unit(rows[2] + english[0]) @ targets[2] > 0.99
    again = fit(Training({("software", "de"): texts}, 8, 0), 3, english, **recipe)
    assert again.tobytes() == rows.tobytes()


def test_the_gate_lets_english_pass_and_stops_the_others() -> None:
    sums = EnglishSums()
    english = ["show my contacts", "send the mail to Anna", "what is on my calendar", "delete the file"] * 30
    others = [
        "zeige meine Kontakte",
        "schicke die Mail an Anna",
        "was steht im Kalender",
        "lösche die Datei",
    ] * 30
    gate = fit_gate(english, others, sums.encode, sums.size)
    for text, is_other in (("show the calendar", False), ("zeige die Kalender", True)):
        assert (gate[sums.encode(text, 99)].sum() + gate[-1] > 0) == is_other


def test_english_words_of_a_text_have_the_numbers_of_the_english_table() -> None:
    sums = EnglishSums()
    gate = np.zeros(sums.size + 2, np.float32)
    gate[sums.encode("zeige", 9)] = 1
    read = Reader(["▁zeige", "显示"], np.array([-1, -1], np.float32), gate)
    assert read("zeige GitHub 显示") == [0, 1, *(sums.encode("GitHub", 9) + 2).tolist()]
    assert read.others("zeige GitHub, 显示") == "zeige 显示"


def test_words_are_translated_by_their_nearest_english_words() -> None:
    english, order = np.eye(12, dtype=np.float32), np.random.default_rng(0).permutation(12)
    words = english[order] + 0.05
    known, means = translate(words, english, np.arange(12, dtype=np.float32)[:, None])
    assert known.all()
    assert means[:, 0] == pytest.approx(order, abs=0.2)
    assert not translate(-words, english, np.zeros((12, 1), np.float32))[0].all()


def test_all_languages_have_frames_and_messages_and_the_table_of_words_is_whole() -> None:
    assert frames().keys() == {*LANGUAGES, "en"}
    assert {len(some) for some in frames().values()} == {10}
    assert all(frame.count("{}") == 1 for some in frames().values() for frame in some)
    assert {language for language, _, _ in bank_messages()} == set(LANGUAGES)
    assert everyday_words().keys() <= set(LANGUAGES)
    assert all(
        word.strip() == word and word for some in everyday_words().values() for pair in some for word in pair
    )


def test_accents_are_taken_off_latin_letters() -> None:
    assert unaccented("Żółć déjà Việt đường") == "Zolc deja Viet duong"


def test_the_table_in_the_wheel_says_what_it_was_made_from() -> None:
    about = json.loads((FOLDER / "table.json").read_text("utf-8"))
    table, scale = np.load(FOLDER / "table.npy"), np.load(FOLDER / "scale.npy")
    pieces = (FOLDER / "pieces.txt").read_text("utf-8").splitlines()
    assert about["sha256"] == table_checksum(FOLDER)
    assert table.shape == (about["pieces"], about["dim"]) and len(pieces) == len(scale) == len(table)
    assert len(set(pieces)) == len(pieces)
    licences = {source["licence"].partition(" ")[0] for source in about["texts"]["sources"].values()}
    assert licences <= {"MPL-2.0", "BSD-3-Clause", "Apache-2.0", "PostgreSQL", "MIT", "Unicode-3.0"}
    assert tuple(about["languages"]) == multilingual_table.LANGUAGES
