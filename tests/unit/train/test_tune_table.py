"""The tuning of the static table, on numbers that one can check by hand and on a bank of a few capabilities."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tools.train import tune_table
from tools.train.capabilities import Capability
from tools.train.tune_table import Bags

from toolroll.embedders.static import checksum

DATA = Path(tune_table.__file__).parents[2] / "python" / "toolroll" / "embedders" / "data"
PUNCTUATION = 1_037  # rows of special pieces and of punctuation
BANK = (
    Capability(
        "calendar.event.move",
        ("Reschedules an event", "Another time"),
        ("push the standup back", "later, please"),
    ),
    Capability(
        "calendar.event.cancel",
        ("Deletes an event", "Calls it off"),
        ("drop the standup", "no meeting today"),
    ),
    Capability(
        "mail.message.send", ("Sends an email", "Outgoing mail"), ("write to Anna", "drop Jen a line")
    ),
)


def distilled() -> Any:
    rows = np.random.default_rng(0).normal(size=(len(tune_table.vocabulary()), 8)).astype(np.float32)
    rows[:PUNCTUATION] = 0
    return rows


def tuned(**changes: Any) -> Any:
    recipe = {
        "epochs": 200, "batch": 4, "rate": 0.02, "temperature": 0.15, "attraction": 0.01, "seed": 0,
    }  # fmt: skip
    return tune_table.tune(distilled(), BANK, **(recipe | changes))


def cosines(rows: Any) -> Any:
    """Of each first message and each first target."""
    known = rows.any(axis=1)
    messages = Bags.of([one.messages[0] for one in BANK], known).sums(rows)
    targets = Bags.of([f"{one.words}: {one.descriptions[0]}" for one in BANK], known).sums(rows)
    return tune_table.unit(messages)[0] @ tune_table.unit(targets)[0].T


def test_tuned_rows_put_a_message_nearest_to_its_own_capability() -> None:
    margins = []
    for rows in (distilled(), tuned()):
        found = cosines(rows)
        others = np.where(np.eye(len(BANK), dtype=bool), -1, found)
        margins.append(np.diag(found) - others.max(axis=1))
    assert margins[0].min() < 0.2 < margins[1].min()


def test_the_same_seed_gives_the_same_rows_and_another_one_others() -> None:
    one, again, other = tuned(epochs=20), tuned(epochs=20), tuned(epochs=20, seed=1)
    assert np.array_equal(one, again) and not np.array_equal(one, other)


def test_only_rows_of_the_bank_move_and_zero_rows_stay_zero() -> None:
    before, after = distilled(), tuned(epochs=20)
    texts, _ = tune_table.targets(BANK)
    read = Bags.of([*texts, *(m for one in BANK for m in one.messages)], np.ones(len(before), np.bool_))
    moved = np.flatnonzero((before != after).any(axis=1))
    assert set(moved.tolist()) <= set(read.pieces.tolist()) and len(moved) > 10
    assert not after[:PUNCTUATION].any()


def test_attraction_keeps_rows_near_the_distilled_ones() -> None:
    far, near = (np.linalg.norm(tuned(epochs=50, attraction=a) - distilled()) for a in (0.0, 1_000.0))
    assert near < 0.5 * far


def test_the_gradient_is_the_slope_of_the_loss() -> None:
    rng = np.random.default_rng(1)
    messages, targets = rng.normal(size=(2, 5, 4)).astype(np.float32)
    capabilities = np.array([0, 1, 2, 0, 3])

    def loss(m: Any, t: Any) -> float:
        q, s = m / np.linalg.norm(m, axis=1)[:, None], t / np.linalg.norm(t, axis=1)[:, None]
        logits = q @ s.T / 0.15
        logits[(capabilities[:, None] == capabilities) & ~np.eye(5, dtype=bool)] = -np.inf
        to = np.log(np.exp(logits).sum(1)) - np.diag(logits)
        back = np.log(np.exp(logits).sum(0)) - np.diag(logits)
        return float((to + tune_table.BACK * back).mean() / (1 + tune_table.BACK))

    _, by_message, by_target = tune_table.gradient(messages, targets, capabilities, 0.15)
    for given, found, at in ((messages, by_message, 0), (targets, by_target, 1)):
        for place in ((0, 1), (3, 2)):
            step = np.zeros_like(given, np.float64)
            step[place] = 1e-5
            both = [given.astype(np.float64) + sign * step for sign in (1, -1)]
            high, low = (loss(b, targets) if at == 0 else loss(messages, b) for b in both)
            assert found[place] == pytest.approx((high - low) / 2e-5, abs=1e-4)


def test_bags_sum_the_rows_of_each_text_and_select_texts() -> None:
    rows = np.eye(4, dtype=np.float32)
    bags = Bags(np.array([1, 1, 2, 3]), np.array([0, 3, 4]))
    assert bags.sums(rows).tolist() == [[0, 2, 1, 0], [0, 0, 0, 1]]
    assert bags.part(np.array([1, 0, 1])).sums(rows).tolist() == [[0, 0, 0, 1], [0, 2, 1, 0], [0, 0, 0, 1]]
    assert bags.owners.tolist() == [0, 0, 0, 1]


def test_a_text_without_a_known_piece_has_a_zero_sum() -> None:
    rows = distilled()
    assert not Bags.of(["?!", ""], rows.any(axis=1)).sums(rows).any()


def test_the_table_in_the_wheel_was_tuned_from_the_distilled_one_here() -> None:
    about = json.loads((DATA / "static_minilm" / "table.json").read_text("utf-8"))
    folder = tune_table.DISTILLED
    assert about["distilled"]["sha256"] == checksum(
        np.load(folder / "table.npy"), np.load(folder / "scale.npy")
    )
