"""The steps of the distillation, each on numbers that one can check by hand."""

from __future__ import annotations

import numpy as np
import pytest
from tools.train import distil

RNG = np.random.default_rng(0)


def test_only_latin_letters_and_digits_have_rows() -> None:
    assert all(map(distil.is_readable, ["weather", "##ing", "24", "x", "##2", "##é"]))
    assert not any(map(distil.is_readable, ["[CLS]", "[unused7]", "?", "##!", "日", "##비", "ж", "α", "["]))


def test_a_rare_piece_starts_heavier_than_a_frequent_one() -> None:
    alone = np.array([[1, 0], [-1, 0], [0, 1]], np.float32)
    rows = distil.start(alone, [np.array([0] * 999 + [1], np.int32)])
    assert np.linalg.norm(rows[1]) > 10 * np.linalg.norm(rows[0])


def test_eight_bits_are_off_by_at_most_half_a_step() -> None:
    rows = RNG.normal(size=(50, 8)).astype(np.float32)
    rows[7] = 0
    table, scale = distil.quantise(rows)
    assert table.dtype == np.int8 and np.abs(table.astype(int)).max() == 127
    assert (np.abs(table * scale[:, None] - rows) <= scale[:, None] / 2 + 1e-6).all()
    assert not table[7].any() and scale[7] == 0


def test_fewer_columns_keep_the_inner_products_of_what_lies_in_them() -> None:
    rows = (RNG.normal(size=(40, 3)) @ RNG.normal(size=(3, 16))).astype(np.float32)
    narrow = distil.narrow(rows, 3)
    assert narrow.shape == (40, 3)
    assert np.allclose(narrow @ narrow.T, rows @ rows.T, atol=1e-3)


def test_agreement_is_one_with_oneself_and_near_zero_with_noise() -> None:
    ours, noise = (
        distil.sums(RNG.normal(size=(60, 8)), [np.array([i]) for i in range(60)]) for _ in range(2)
    )
    assert distil.agreement(ours, ours) == pytest.approx(1)
    assert abs(distil.agreement(ours, noise)) < 0.2


def test_descent_finds_rows_whose_sums_point_where_the_teacher_points_and_does_so_again() -> None:
    pytest.importorskip("torch")
    truth = RNG.normal(size=(20, 6)).astype(np.float32)
    pieces = [RNG.integers(0, 20, 4).astype(np.int32) for _ in range(300)]
    targets = distil.sums(truth, pieces)
    begin = RNG.normal(size=(20, 6)).astype(np.float32)

    def learn() -> distil.Floats:
        return distil.descend(begin, pieces, targets, steps=300, batch=64, rate=3e-2, seed=1, started=0.0)

    learnt = learn()
    fit = (distil.sums(learnt, pieces) * targets).sum(1).mean()
    assert fit > 0.95 > (distil.sums(begin, pieces) * targets).sum(1).mean()
    assert np.array_equal(learnt, learn())
