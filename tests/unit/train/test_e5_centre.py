"""What is taken off the multilingual vectors: that it is what all of them have, and nothing else."""

from __future__ import annotations

import numpy as np
from tools.train.e5_centre import EACH, by_language, centre

DIM = 16


def test_each_language_counts_alike_however_many_texts_it_has() -> None:
    draw = np.random.default_rng(0)
    many, few = draw.normal(2, 1, (500, DIM)), draw.normal(-1, 1, (20, DIM))
    plain = draw.normal(size=(30, DIM))
    mean = centre([many, few], plain, plain + draw.normal(size=(30, DIM)))[0]
    assert np.allclose(mean, (many.mean(0) + few.mean(0)) / 2, atol=1e-5)


def test_the_way_in_which_languages_and_requests_differ_is_found() -> None:
    draw = np.random.default_rng(1)
    language, request = np.eye(DIM)[3], np.eye(DIM)[5]
    one, plain = draw.normal(size=(50, DIM)), draw.normal(size=(50, DIM))
    framed = plain + request + 0.01 * draw.normal(size=plain.shape)
    directions = centre([one, one + language], plain, framed)[1:]
    for known in (language, request):
        assert np.linalg.norm(directions @ known) > 0.99
    assert np.allclose(directions @ directions.T, np.eye(len(directions)), atol=1e-5)


def test_a_summary_is_of_the_language_whose_signs_it_has() -> None:
    texts = [
        "한국어 요약입니다",
        "日本語のまとめです",
        "一个简单的中文摘要",
        "краткое описание",
        "A summary",
        "Résumé",
    ]
    found = by_language(texts)
    assert {name: len(some) for name, some in found.items()} == {
        "Korean": 1, "Japanese": 1, "Chinese": 1, "Russian": 1, "Arabic": 0, "English": 1,
    }  # fmt: skip
    assert len(by_language(["A summary"] * (2 * EACH))["English"]) == EACH
