"""sentence-transformers: an encoder that is loaded already, and one that cannot be loaded."""

from __future__ import annotations

import sys
from pathlib import Path
from threading import Lock, Thread
from typing import Any

import numpy as np
import pytest

from tests.table import each_row
from toolroll.embedders.hashing import HashingEmbedder
from toolroll.embedders.sentence_transformers import SentenceTransformersEmbedder
from toolroll.model.errors import EmbedderUnavailable, InvalidInput

TEXTS = ["Gets the weather forecast", "Creates an event", "Refunds an invoice"]


class Encoder:
    """What of a SentenceTransformer is used; answers, as some models do, without unit length."""

    def __init__(self, dim: int = 32, scale: float = 5.0) -> None:
        self.model, self.scale = HashingEmbedder(dim), scale
        self.calls: list[tuple[list[str], dict[str, Any]]] = []
        self.busy = Lock()

    def encode(self, sentences: list[str], **options: Any) -> Any:
        assert self.busy.acquire(blocking=False), "two threads at once"
        try:
            self.calls.append((list(sentences), options))
            return self.scale * (self.model.embed(sentences) + 0.01)
        finally:
            self.busy.release()


def test_vectors_are_the_encoders_at_unit_length() -> None:
    encoder = Encoder()
    embedder = SentenceTransformersEmbedder(encoder)
    expected = encoder.model.embed(TEXTS) + 0.01
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert embedder.dim == 32
    assert np.allclose(embedder.embed(TEXTS), expected, atol=1e-6)
    assert np.allclose(embedder.embed_query(TEXTS[0]), expected[0], atol=1e-6)


def test_texts_are_encoded_one_by_one_unless_asked_for_more() -> None:
    encoder = Encoder()
    SentenceTransformersEmbedder(encoder).embed(TEXTS)
    SentenceTransformersEmbedder(encoder, batch=8).embed(TEXTS)
    assert [options["batch_size"] for sent, options in encoder.calls if sent == TEXTS] == [1, 8]


def test_prefixes_stand_before_what_they_are_for() -> None:
    encoder = Encoder()
    embedder = SentenceTransformersEmbedder(encoder, query_prefix="query: ", document_prefix="passage: ")
    embedder.embed(["rain"])
    embedder.embed_query("rain")
    assert [sent for sent, _ in encoder.calls[1:]] == [["passage: rain"], ["query: rain"]]


def test_the_identity_follows_the_answers_of_an_encoder_without_weights() -> None:
    one = SentenceTransformersEmbedder(Encoder()).identity
    assert one.startswith("sentence-transformers:Encoder@")
    assert SentenceTransformersEmbedder(Encoder(scale=2.0)).identity == one  # the same directions
    others = {
        SentenceTransformersEmbedder(Encoder(dim=33)).identity,
        SentenceTransformersEmbedder(Encoder(), query_prefix="q").identity,
        SentenceTransformersEmbedder(Encoder(), document_prefix="q").identity,
        SentenceTransformersEmbedder(Encoder(), max_chars=9).identity,
    }
    assert len(others | {one}) == 5


def test_threads_take_turns() -> None:
    encoder = Encoder()
    embedder = SentenceTransformersEmbedder(encoder)
    threads = [Thread(target=lambda: [embedder.embed_query("rain") for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(encoder.calls) == 1 + 200


@each_row(
    "answer",
    [
        lambda v: v[1:],
        lambda v: v * 0,
        lambda v: v * np.nan,
        lambda v: [["a"] * 32] * len(v),
        lambda v: None,
        lambda v: 1 // 0,
    ],
)
def test_what_is_no_vector_is_not_believed(answer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = Encoder()
    embedder = SentenceTransformersEmbedder(encoder)
    good = encoder.encode
    monkeypatch.setattr(encoder, "encode", lambda texts, **options: answer(good(texts)))
    with pytest.raises(EmbedderUnavailable, match="embedder Encoder: "):
        embedder.embed(TEXTS)


def test_a_missing_extra_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(EmbedderUnavailable, match=r'pip install "toolroll\[sentence-transformers\]"'):
        SentenceTransformersEmbedder("a-model")


@each_row("wrong", [{"batch": 0}, {"max_chars": 0}])
def test_senseless_limits_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        SentenceTransformersEmbedder(Encoder(), **wrong)


def test_a_real_model_is_known_by_its_weights_wherever_it_lies(tmp_path: Path) -> None:
    """Runs where the extra is installed, on a model of random weights that is made here."""
    library = pytest.importorskip("sentence_transformers")
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    torch.manual_seed(0)
    words = sorted({word for text in TEXTS for word in text.lower().split()})
    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]))
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    BertModel(BertConfig(vocab_size=5 + len(words), **shape)).save_pretrained(tmp_path / "bert")
    BertTokenizerFast(str(tmp_path / "vocab.txt")).save_pretrained(tmp_path / "bert")
    library.SentenceTransformer(str(tmp_path / "bert"), device="cpu").save(str(tmp_path / "model"))

    by_path = SentenceTransformersEmbedder(str(tmp_path / "model"), device="cpu")
    model = library.SentenceTransformer(str(tmp_path / "model"), device="cpu")
    by_instance = SentenceTransformersEmbedder(model)
    revision = by_path.identity.partition("@")[2]
    assert by_path.dim == 32 and by_instance.identity.partition("@")[2] == revision
    together = by_path.embed(TEXTS)
    assert np.array_equal(together, np.stack([by_instance.embed_query(text) for text in TEXTS]))
    assert SentenceTransformersEmbedder(model).identity == by_instance.identity  # after use, too
    with torch.no_grad():
        next(model.parameters()).mul_(1.01)
    assert SentenceTransformersEmbedder(model).identity != by_instance.identity


@pytest.mark.parametrize("name", ["nobody/no-such-model", "/no/such/folder"])
def test_a_model_that_is_not_on_this_machine_is_not_downloaded(name: str) -> None:
    pytest.importorskip("sentence_transformers")
    with pytest.raises(EmbedderUnavailable, match="local_files_only=False lets the library download it"):
        SentenceTransformersEmbedder(name)
