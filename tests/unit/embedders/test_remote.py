"""Embedders behind HTTP: what is sent, what is believed, and what is known of the model behind a name."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("urllib3")

from tests import model_server as servers
from tests.model_server import ModelServer, running
from tests.table import each_row
from toolroll.embedders import fingerprint, remote
from toolroll.embedders.checks import RequestRejected
from toolroll.embedders.remote import OllamaEmbedder, OpenAICompatibleEmbedder
from toolroll.model.errors import EmbedderUnavailable, InvalidInput

TEXTS = ["Gets the weather forecast", "Creates an event", "Refunds an invoice"]
SECRET = "sk-unit-0123456789"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with running() as running_server:
        yield running_server


@pytest.fixture(autouse=True)
def of_no_other_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLROLL_CACHE", str(tmp_path))
    for name in ("OPENAI_API_KEY", "TOOLROLL_EMBEDDER_KEY"):
        monkeypatch.delenv(name, raising=False)


def ollama(server: ModelServer, **options: Any) -> OllamaEmbedder:
    return OllamaEmbedder("bag", server.url, **options)


def openai(server: ModelServer, **options: Any) -> OpenAICompatibleEmbedder:
    return OpenAICompatibleEmbedder("bag", f"{server.url}/v1/", **options)


BOTH = pytest.mark.parametrize("made", [ollama, openai])
Made = Callable[..., remote.RemoteEmbedder]


def units(server: ModelServer, texts: list[str]) -> np.ndarray:
    vectors = server.model(texts)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


# What is sent.


@BOTH
def test_vectors_are_the_servers_at_unit_length(server: ModelServer, made: Made) -> None:
    embedder = made(server)
    assert embedder.dim == 64
    assert np.allclose(embedder.embed(TEXTS), units(server, TEXTS), atol=1e-6)
    assert np.allclose(embedder.embed_query(TEXTS[0]), units(server, TEXTS)[0], atol=1e-6)


@BOTH
def test_making_one_costs_one_request(server: ModelServer, made: Made) -> None:
    made(server)
    assert server.texts == [[fingerprint.TEXT]]


@BOTH
def test_documents_travel_in_batches(server: ModelServer, made: Made) -> None:
    embedder = made(server, batch=10)
    server.requests.clear()
    texts = [f"tool {i}" for i in range(25)]
    assert np.allclose(embedder.embed(texts), units(server, texts), atol=1e-6)
    assert server.texts == [texts[:10], texts[10:20], texts[20:]]


def test_each_speaks_its_own_protocol(server: ModelServer) -> None:
    ollama(server, dim=64, keep_alive="24h")
    openai(server, dim=64, api_key=SECRET)
    one, other = server.requests
    assert one["path"] == "/api/embed" and other["path"] == "/v1/embeddings"
    assert one["body"] == {
        "model": "bag",
        "input": [fingerprint.TEXT],
        "truncate": True,
        "dimensions": 64,
        "keep_alive": "24h",
    }
    assert other["body"] == {
        "model": "bag",
        "input": [fingerprint.TEXT],
        "encoding_format": "float",
        "dimensions": 64,
    }
    assert "Authorization" not in one["headers"]
    assert other["headers"]["Authorization"] == f"Bearer {SECRET}"


def test_prefixes_stand_before_what_they_are_for(server: ModelServer) -> None:
    embedder = ollama(server, query_prefix="query: ", document_prefix="passage: ")
    embedder.embed(TEXTS[:1])
    embedder.embed_query(TEXTS[0])
    assert server.texts[1:] == [[f"passage: {TEXTS[0]}"], [f"query: {TEXTS[0]}"]]


def test_a_blank_text_is_not_sent_and_has_no_vector(server: ModelServer) -> None:
    embedder = ollama(server)
    server.requests.clear()
    assert not embedder.embed(["", " \n", "\u3000"]).any()
    assert not embedder.embed_query("\t").any()
    assert not server.requests
    assert embedder.embed(["", "rain"])[1].any() and server.texts == [["rain"]]


def test_a_long_text_is_cut(server: ModelServer) -> None:
    ollama(server, max_chars=5).embed(["weather forecast"])
    assert server.texts[-1] == ["weath"]


@pytest.mark.parametrize("indexed", [True, False])
def test_rows_are_put_in_the_order_of_their_index(server: ModelServer, indexed: bool) -> None:
    embedder = openai(server)
    if indexed:
        server.behave.append(servers.shuffled)
    else:  # some servers leave it out: then the order is the one they came in
        rows = [{"embedding": list(row)} for row in server.model(TEXTS)]
        server.behave.append(servers.json_of({"data": rows}))
    assert np.allclose(embedder.embed(TEXTS), units(server, TEXTS), atol=1e-6)


# What is believed.


def one_nan(vectors: np.ndarray) -> np.ndarray:
    vectors[-1, 3] = np.nan
    return vectors


LIES: dict[str, tuple[servers.Answer, str]] = {
    "no JSON": (servers.status(200, "<html>"), "no JSON"),
    "nothing": (servers.status(200), "no JSON"),
    "deep JSON": (servers.status(200, "[" * 100_000), "no JSON"),
    "other JSON": (servers.json_of([1, 2]), "something other than embeddings"),
    "null": (servers.json_of(None), "something other than embeddings"),
    "other key": (servers.json_of({"embedding": [1.0]}), "something other than embeddings"),
    "too few": (servers.vectors_of(lambda v: v[1:]), "2 vectors for 3 texts"),
    "too many": (servers.vectors_of(lambda v: [*v, v[0]]), "4 vectors for 3 texts"),
    "wider": (servers.vectors_of(lambda v: np.hstack([v, v])), "width 128, must be 64"),
    "ragged": (servers.vectors_of(lambda v: [v[0], v[1][:3], v[2]]), "different widths"),
    "NaN": (servers.vectors_of(one_nan), "zero or not finite"),
    "infinite": (servers.vectors_of(lambda v: v * np.inf), "zero or not finite"),
    "huge": (servers.vectors_of(lambda v: v * 1e300), "zero or not finite"),
    "zero": (servers.vectors_of(lambda v: v * 0), "zero or not finite"),
    "words": (servers.json_of({"embeddings": [["0.5"] * 64] * 3}), "than vectors of numbers"),
    "booleans": (servers.json_of({"embeddings": [[True] * 64] * 3}), "than vectors of numbers"),
    "nulls": (servers.json_of({"embeddings": [[None] * 64] * 3}), "than vectors of numbers"),
    "numbers only": (servers.json_of({"embeddings": [1.0, 2.0, 3.0]}), "than vectors of numbers"),
}


@each_row("lie", LIES)
def test_what_is_no_vector_of_each_text_is_not_believed(server: ModelServer, lie: str) -> None:
    answer, message = LIES[lie]
    embedder = ollama(server)
    server.behave.append(answer)
    with pytest.raises(EmbedderUnavailable, match=message):
        embedder.embed(TEXTS)
    assert np.allclose(embedder.embed(TEXTS), units(server, TEXTS), atol=1e-6)  # and no harm is done


@pytest.mark.parametrize("indexes", [[0, 0, 1], [1, 2, 3], [0, 1, None], ["0", "1", "2"]])
def test_an_index_that_does_not_count_the_texts_is_not_believed(
    server: ModelServer, indexes: list[Any]
) -> None:
    embedder = openai(server)
    rows = [{"index": i, "embedding": list(v)} for i, v in zip(indexes, server.model(TEXTS), strict=True)]
    server.behave.append(servers.json_of({"data": rows}))
    with pytest.raises(EmbedderUnavailable, match="something other than embeddings"):
        embedder.embed(TEXTS)


def test_an_answer_without_end_is_cut_off(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = ollama(server)
    monkeypatch.setattr(remote, "BYTES_A_TEXT", 500_000)
    server.behave.append(servers.endless)
    with pytest.raises(EmbedderUnavailable, match="over 1000000 bytes"):
        embedder.embed(TEXTS[:1])


def test_a_redirect_is_not_followed(server: ModelServer) -> None:
    embedder = openai(server, api_key=SECRET)
    server.behave.append(servers.redirect)
    with pytest.raises(RequestRejected, match="answered 307: redirects are not followed"):
        embedder.embed(TEXTS)
    assert all(request["path"] == "/v1/embeddings" for request in server.requests)


# What fails, and how that is said.


@each_row("code", [400, 401, 403, 404, 413, 422])
def test_a_refusal_says_whether_it_is_about_the_text(server: ModelServer, code: int) -> None:
    embedder = openai(server)
    server.behave.append(servers.status(code, json.dumps({"error": {"message": "input\ntoo long"}})))
    with pytest.raises(RequestRejected, match=rf"answered {code} \(input too long\)") as caught:
        embedder.embed(TEXTS)
    assert caught.value.only_this_text == (code in (400, 413, 422))


@pytest.mark.parametrize(
    ("code", "after", "seconds"),
    [(429, "7", 7.0), (503, None, None), (500, "soon", None), (429, "-1", None)],
)
def test_what_may_pass_later_is_no_refusal_and_says_when(
    server: ModelServer, code: int, after: str | None, seconds: float | None
) -> None:
    embedder = ollama(server)
    headers = {} if after is None else {"Retry_After": after}
    server.behave.append(servers.status(code, '{"error": "busy"}', **headers))
    with pytest.raises(EmbedderUnavailable, match=rf"answered {code} \(busy\)") as caught:
        embedder.embed(TEXTS)
    assert not isinstance(caught.value, RequestRejected)
    assert caught.value.retry_after_s == seconds


def test_a_date_says_when_to_come_back_too(server: ModelServer) -> None:
    embedder = ollama(server)
    server.behave.append(servers.status(503, Retry_After="Wed, 21 Oct 2015 07:28:00 GMT"))
    with pytest.raises(EmbedderUnavailable) as caught:
        embedder.embed(TEXTS)
    assert caught.value.retry_after_s == 0.0


@pytest.mark.parametrize("bad", [servers.hanging, servers.dripping])
def test_a_server_that_hangs_when_one_is_made_is_given_up(server: ModelServer, bad: servers.Answer) -> None:
    server.behave.append(bad)
    start = time.monotonic()
    with pytest.raises(EmbedderUnavailable, match=r"ollama serve"):
        ollama(server, timeout_s=0.3)
    assert time.monotonic() - start < 60


def test_a_server_that_hangs_later_is_given_up(server: ModelServer) -> None:
    embedder = ollama(server, timeout_s=0.2, query_timeout_s=0.1)
    server.behave += [servers.hanging, servers.hanging]
    with pytest.raises(EmbedderUnavailable, match="timed out waiting for the answer"):
        embedder.embed(TEXTS)
    with pytest.raises(EmbedderUnavailable, match="timed out waiting for the answer"):
        embedder.embed_query(TEXTS[0])


def test_a_connection_that_breaks_is_unavailability(server: ModelServer) -> None:
    embedder = ollama(server)
    server.behave.append(servers.hanging_up)
    with pytest.raises(EmbedderUnavailable, match=r"no answer from http://127\.0\.0\.1"):
        embedder.embed(TEXTS)


@BOTH
def test_without_a_server_the_message_says_what_to_do(made: Made) -> None:
    with running() as gone:
        pass
    with pytest.raises(EmbedderUnavailable, match=r'refused.*"static" needs no server'):
        made(gone)


@each_row(
    ("url", "message"),
    [
        ("localhost:11434", "must be like http"),
        ("ftp://host", "must be like http"),
        ("http://", "must be like http"),
        ("http://host/?key=1", "must be like http"),
        ("http://host:port", "base_url: "),
        (f"http://me:{SECRET}@host", "use api_key for a key"),
    ],
)
def test_an_address_that_is_none_is_refused_without_its_secrets(url: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        OllamaEmbedder("bag", url)
    assert SECRET not in str(caught.value)


@each_row(
    "wrong", [{"batch": 0}, {"max_chars": 0}, {"dim": 0}, {"timeout_s": 0}, {"query_timeout_s": float("nan")}]
)
def test_senseless_limits_are_refused(server: ModelServer, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        ollama(server, **wrong)


# Secrets.


def test_the_key_is_in_no_message_log_or_repr(server: ModelServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    embedder = openai(server, api_key=f"{SECRET}\n")  # as it comes out of a file
    echo = json.dumps({"error": {"message": f"key {SECRET} is wrong"}})
    server.behave += [servers.status(401, echo), servers.status(500, echo), servers.hanging_up]
    said = [repr(embedder), str(embedder), embedder.identity]
    for _ in range(3):
        with pytest.raises(EmbedderUnavailable) as caught:
            embedder.embed(TEXTS)
        said += [repr(caught.value), repr(caught.value.__cause__), repr(caught.value.__context__)]
    assert SECRET not in caplog.text + "".join(said)
    assert "key *** is wrong" in "".join(said)


def test_a_key_that_no_header_can_hold_is_refused_unseen(server: ModelServer) -> None:
    with pytest.raises(InvalidInput) as caught:
        openai(server, api_key=f"{SECRET}\r\nX-Evil: 1")
    assert SECRET not in str(caught.value)


def test_what_a_server_echoes_of_a_text_is_not_repeated(server: ModelServer) -> None:
    embedder = openai(server)
    server.behave.append(servers.status(422, json.dumps({"detail": [{"input": TEXTS[0]}]})))
    with pytest.raises(RequestRejected) as caught:
        embedder.embed(TEXTS)
    assert TEXTS[0] not in str(caught.value)


def test_openais_key_goes_to_nobody_else(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    openai(server)
    assert "Authorization" not in server.requests[0]["headers"]
    monkeypatch.setenv("TOOLROLL_EMBEDDER_KEY", "for-this-server")
    openai(server)
    assert server.requests[1]["headers"]["Authorization"] == "Bearer for-this-server"


def test_a_proxy_is_not_asked_for_what_is_on_this_machine(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert ollama(server).dim == 64


def test_a_proxy_is_asked_for_another_machine(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    server.always = servers.json_of({"embeddings": [[1.0, 2.0]]})
    assert OllamaEmbedder("bag", "http://models.invalid:11434").dim == 2
    assert server.requests[0]["path"] == "http://models.invalid:11434/api/embed"


# Who the model is.


def noisy(dim: int, size: float) -> Callable[[list[str]], np.ndarray]:
    """The same model on another card: its answers differ a little, each time."""
    model, draw = servers.bag_of_words(dim), np.random.default_rng(0)
    return lambda texts: model(texts) + draw.normal(0, size, (len(texts), dim))


def another(texts: list[str]) -> np.ndarray:
    return servers.bag_of_words(64)([text[::-1] for text in texts])


@BOTH
def test_the_identity_is_provider_model_and_revision(server: ModelServer, made: Made) -> None:
    provider = "ollama" if made is ollama else "openai"
    name, at, revision = made(server).identity.partition("@")
    assert name == f"{provider}:bag" and at and len(revision) == 12


def test_an_at_sign_in_a_models_name_does_not_break_the_identity(server: ModelServer) -> None:
    assert OllamaEmbedder("bag@2", server.url).identity.startswith("ollama:bag-2@")


def test_the_same_model_at_another_address_has_the_same_identity(server: ModelServer) -> None:
    with running() as other:
        assert ollama(server).identity == ollama(other).identity


def test_another_model_under_the_same_name_has_another_identity(server: ModelServer) -> None:
    before = ollama(server).identity
    server.model = another
    assert ollama(server).identity != before
    server.model = servers.bag_of_words(64)
    assert ollama(server).identity == before  # who comes back finds his vectors again


@pytest.mark.parametrize(
    "setting", [{"query_prefix": "q: "}, {"document_prefix": "d: "}, {"max_chars": 99}, {"dim": 64}]
)
def test_what_changes_vectors_changes_the_identity(server: ModelServer, setting: dict[str, Any]) -> None:
    assert ollama(server, **setting).identity != ollama(server).identity


def test_small_differences_between_two_starts_are_still_the_same_model(server: ModelServer) -> None:
    server.model = noisy(64, 0.005)
    assert len({ollama(server).identity for _ in range(20)}) == 1


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": 1, "known": [{}]}', b'{"format": 9}'])
def test_a_damaged_memory_is_begun_again(server: ModelServer, tmp_path: Path, content: bytes) -> None:
    before = ollama(server).identity
    (path,) = tmp_path.glob("vectors/*.probe")
    path.write_bytes(content)
    assert ollama(server).identity == before
    assert json.loads(path.read_bytes())["known"]


def test_without_a_place_to_remember_it_works_all_the_same(
    server: ModelServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    assert ollama(server, folder=tmp_path / "file" / "folder").identity == ollama(server).identity
    assert "the model is not remembered" in caplog.text


def test_while_its_server_is_away_it_is_who_it_was(caplog: pytest.LogCaptureFixture) -> None:
    with running() as server:
        before = ollama(server)
    again = ollama(server)
    assert (again.identity, again.dim) == (before.identity, before.dim)
    assert "continuing with the cached vectors" in caplog.text
    with pytest.raises(EmbedderUnavailable):
        again.embed_query(TEXTS[0])
    with running(server.port) as back:
        assert np.allclose(again.embed_query(TEXTS[0]), units(back, TEXTS)[0], atol=1e-6)
        assert back.texts == [[TEXTS[0], fingerprint.TEXT]]  # it was compared, in the same request
        again.embed_query(TEXTS[1])
        assert back.texts[1:] == [[TEXTS[1]]]  # once


def test_a_server_that_comes_back_with_another_model_is_not_used() -> None:
    with running() as server:
        ollama(server)
    again = ollama(server)
    with running(server.port) as back:
        back.model = another
        for _ in range(2):
            with pytest.raises(RequestRejected, match="another model"):
                again.embed_query(TEXTS[0])
        with pytest.raises(RequestRejected, match="another model"):
            again.embed(TEXTS)


def test_a_model_that_is_swapped_while_it_runs_is_noticed(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "RECHECK_S", 0.0)
    embedder = ollama(server)
    embedder.embed_query(TEXTS[0])
    server.model = another
    with pytest.raises(RequestRejected, match="another model"):
        embedder.embed_query(TEXTS[0])


def test_a_refusal_at_the_start_is_not_bridged_by_memory(server: ModelServer) -> None:
    ollama(server)
    server.behave.append(servers.status(404, '{"error": "model \\"bag\\" not found"}'))
    with pytest.raises(EmbedderUnavailable, match="ollama pull bag"):
        ollama(server)


# The process around it.


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_does_not_share_its_parents_connection(server: ModelServer) -> None:
    embedder = ollama(server)
    parent_pool = embedder._endpoint._pool
    child = os.fork()
    if child == 0:
        try:
            works = np.allclose(embedder.embed(TEXTS), units(server, TEXTS), atol=1e-6)
            os._exit(0 if works and embedder._endpoint._pool is not parent_pool else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert np.allclose(embedder.embed(TEXTS), units(server, TEXTS), atol=1e-6)


def test_importing_toolroll_imports_nothing_of_the_extra() -> None:
    code = (
        "import sys, toolroll, toolroll.embedders.named;"
        "sys.exit(any(m in sys.modules for m in ('urllib3', 'tenacity', 'circuitbreaker')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
