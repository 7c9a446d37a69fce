"""The vector cache: what it saves, and that it is never wrong nor in the way."""

from __future__ import annotations

import logging
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

from toolroll.embedders import cached
from toolroll.embedders.cached import CachedEmbedder, default_folder
from toolroll.embedders.hashing import HashingEmbedder
from toolroll.model.errors import EmbedderUnavailable, InvalidInput

TEXTS = ["weather forecast", "calendar event", "send e-mail"]


class Counting(HashingEmbedder):
    """Remembers what it was asked for."""

    def __init__(self, dim: int = 16, identity: str = "counting@1") -> None:
        super().__init__(dim)
        self.identity = identity
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str]) -> Any:
        self.asked += texts
        return HashingEmbedder(self.dim).embed(texts)

    def embed_query(self, text: str) -> Any:
        self.asked.append(text)
        return HashingEmbedder(self.dim).embed_query(text)


class Lying(HashingEmbedder):
    """Answers whatever it is sent_rows to."""

    def __init__(self, answer: object) -> None:
        super().__init__(4)
        self.answer = answer

    def embed(self, texts: Sequence[str]) -> Any:
        return self.answer


def embed_elsewhere(folder: Path) -> CachedEmbedder:
    """A second cache on the same folder, as another process would have it."""
    return CachedEmbedder(Counting(), folder)


def rows_in(cache: CachedEmbedder) -> int:
    assert cache.path is not None
    with closing(sqlite3.connect(cache.path)) as db:
        return int(db.execute("SELECT count(*) FROM vectors").fetchone()[0])


def test_only_what_is_missing_is_embedded_and_only_once(tmp_path: Path) -> None:
    inner = Counting()
    cache = CachedEmbedder(inner, tmp_path)
    first = cache.embed(TEXTS[:2])
    again = cache.embed([TEXTS[2], TEXTS[0], TEXTS[2], TEXTS[1]])
    assert inner.asked == TEXTS
    assert np.array_equal(again[[1, 3]], first)
    assert np.array_equal(again, HashingEmbedder(16).embed([TEXTS[2], TEXTS[0], TEXTS[2], TEXTS[1]]))


def test_a_new_process_finds_what_the_last_one_kept(tmp_path: Path) -> None:
    expected = CachedEmbedder(Counting(), tmp_path).embed(TEXTS)
    inner = Counting()
    assert np.array_equal(CachedEmbedder(inner, tmp_path).embed(TEXTS), expected)
    assert inner.asked == []


def test_another_identity_never_sees_these_vectors(tmp_path: Path) -> None:
    CachedEmbedder(Counting(identity="model@1"), tmp_path).embed(TEXTS)
    for identity in ("model@2", "MODEL@1", "model/1"):
        inner = Counting(identity=identity)
        CachedEmbedder(inner, tmp_path).embed(TEXTS)
        assert inner.asked == TEXTS


def test_texts_that_look_alike_are_told_apart(tmp_path: Path) -> None:
    texts = ["", " ", "\0", "\ud83d", "\ufffd", "é", "e\u0301"]
    inner = Counting()
    CachedEmbedder(inner, tmp_path).embed(texts)
    assert inner.asked == texts


def test_a_query_is_remembered_in_memory_and_never_on_disk(tmp_path: Path) -> None:
    inner = Counting()
    cache = CachedEmbedder(inner, tmp_path)
    first = cache.embed_query("umbrella?")
    assert cache.embed_query("umbrella?") is first
    assert inner.asked == ["umbrella?"]
    assert cache.path is not None and not cache.path.exists()
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 1


def test_only_the_latest_queries_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cached, "RECENT", 2)
    inner = Counting()
    cache = CachedEmbedder(inner, tmp_path)
    for text in ("a", "b", "a", "c", "a", "b"):
        cache.embed_query(text)
    assert inner.asked == ["a", "b", "c", "b"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (np.full((2, 4), np.nan, np.float32), "length nan"),
        (np.full((2, 4), np.inf, np.float32), "length inf"),
        (np.eye(2, 5, dtype=np.float32), r"shape \(2, 5\)"),
        (np.eye(3, 4, dtype=np.float32), r"shape \(3, 4\)"),
        (np.eye(2, 4, dtype=np.float32) * 2, "length 2"),
        ([[1.0, 0, 0, 0], [1.0]], "no array"),
        (None, "shape"),
        ("vectors", "no array"),
    ],
)
def test_an_answer_that_is_no_vector_is_an_error_and_is_not_kept(
    tmp_path: Path, answer: Any, said: str
) -> None:
    cache = CachedEmbedder(Lying(answer), tmp_path)
    with pytest.raises(EmbedderUnavailable, match=said):
        cache.embed(["a", "b"])
    honest = np.eye(2, 4, dtype=np.float32)
    assert np.array_equal(CachedEmbedder(Lying(honest), tmp_path).embed(["a", "b"]), honest)


def test_a_query_vector_that_is_none_is_an_error_and_is_not_remembered(tmp_path: Path) -> None:
    inner = Lying(None)
    inner.embed_query = lambda text: np.full(4, np.nan, np.float32)  # type: ignore[method-assign]
    cache = CachedEmbedder(inner, tmp_path)
    for _ in range(2):
        with pytest.raises(EmbedderUnavailable, match="length nan"):
            cache.embed_query("a")


def test_what_an_interrupted_run_had_embedded_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cached, "CHUNK", 2)

    class Breaking(Counting):
        def embed(self, texts: Sequence[str]) -> Any:
            if "send e-mail" in texts:
                raise EmbedderUnavailable("down")
            return HashingEmbedder(self.dim).embed(texts)

    with pytest.raises(EmbedderUnavailable, match="down"):
        CachedEmbedder(Breaking(), tmp_path).embed(TEXTS)
    inner = Counting()
    CachedEmbedder(inner, tmp_path).embed(TEXTS)
    assert inner.asked == ["send e-mail"]


@pytest.mark.parametrize("damage", ["garbage", "truncated", "zeroed", "no text", "foreign"])
def test_a_damaged_file_is_moved_aside_and_begun_again(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    cache = CachedEmbedder(Counting(), tmp_path)
    expected = cache.embed([f"tool {i}" for i in range(400)])
    assert cache.path is not None
    content = cache.path.read_bytes()
    if damage == "garbage":
        cache.path.write_bytes(b"not a database " * 1000)
    elif damage == "truncated":
        cache.path.write_bytes(content[: len(content) // 3])
    elif damage == "zeroed":
        cache.path.write_bytes(content[:4096] + bytes(len(content) - 4096))
    elif damage == "no text":  # SQLite quotes it in its message
        cache.path.write_bytes(content.replace(b"CREATE TABLE", b"CREATE \xf3ABLE"))
    else:
        cache.path.unlink()
        with closing(sqlite3.connect(cache.path)) as db:
            db.execute("CREATE TABLE vectors (other TEXT)")
    for _ in range(2):  # the first may find the damage only as it writes
        assert np.array_equal(embed_elsewhere(tmp_path).embed([f"tool {i}" for i in range(400)]), expected)
    inner = Counting()
    assert np.array_equal(CachedEmbedder(inner, tmp_path).embed([f"tool {i}" for i in range(400)]), expected)
    assert inner.asked == []
    assert "moved aside" in caplog.text
    assert list(tmp_path.glob("*.damaged"))


def test_a_flipped_bit_in_a_vector_is_noticed_and_healed(tmp_path: Path) -> None:
    cache = CachedEmbedder(Counting(), tmp_path)
    expected = cache.embed(TEXTS)
    assert cache.path is not None
    with closing(sqlite3.connect(cache.path, isolation_level=None)) as db:
        row, blob = db.execute("SELECT id, vector FROM vectors LIMIT 1").fetchone()
        db.execute("UPDATE vectors SET vector = ? WHERE id = ?", (bytes([blob[0] ^ 1]) + blob[1:], row))
    inner = Counting()
    assert np.array_equal(CachedEmbedder(inner, tmp_path).embed(TEXTS), expected)
    assert len(inner.asked) == 1
    inner = Counting()
    assert np.array_equal(CachedEmbedder(inner, tmp_path).embed(TEXTS), expected)
    assert inner.asked == []


def test_vectors_of_another_width_under_the_same_name_are_not_used(tmp_path: Path) -> None:
    CachedEmbedder(Counting(dim=8), tmp_path).embed(TEXTS)
    assert CachedEmbedder(Counting(dim=16), tmp_path).embed(TEXTS).shape == (3, 16)


@pytest.mark.slow
def test_above_the_limit_the_oldest_go(tmp_path: Path) -> None:
    dim = 496  # 2,112 bytes a row with its overhead: 31 rows in 64 KiB
    cache = CachedEmbedder(Counting(dim), tmp_path, max_bytes=2**16)
    texts = [f"tool {i}" for i in range(100)]
    for text in texts:
        cache.embed([text])
    assert rows_in(cache) == 31
    inner = Counting(dim)
    CachedEmbedder(inner, tmp_path, max_bytes=2**16).embed(texts[-31:])
    assert inner.asked == []
    assert cache.path is not None and cache.path.stat().st_size < 3 * 2**16


def test_a_full_disk_costs_one_warning_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    CachedEmbedder(Counting(), tmp_path).embed(TEXTS[:1])
    connect = sqlite3.connect

    def almost_full(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        db = connect(*args, **kwargs)
        db.execute("PRAGMA max_page_count = 1")  # SQLite keeps to what the file has already
        return db

    monkeypatch.setattr("sqlite3.connect", almost_full)
    inner = Counting()
    cache = CachedEmbedder(inner, tmp_path)
    many = [f"tool {i}" for i in range(600)]
    with caplog.at_level(logging.WARNING):
        assert np.array_equal(cache.embed(many), HashingEmbedder(16).embed(many))
        cache.embed(many)
    assert [r.levelname for r in caplog.records] == ["WARNING"]
    assert "full" in caplog.text
    inner.asked.clear()
    cache.embed(TEXTS[:1])
    assert inner.asked == []  # what was there before can still be read
    monkeypatch.undo()
    monkeypatch.setattr(cached, "REST_S", 0.0)
    cache._resumes_at[True] = 0.0
    cache.embed(many)
    inner.asked.clear()
    cache.embed(many)
    assert inner.asked == []  # there is room again, without a restart


def test_without_a_folder_it_embeds_and_warns_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = CachedEmbedder(Counting(), tmp_path / "file" / "folder")
    assert cache.path is None
    for _ in range(2):
        assert np.array_equal(cache.embed(TEXTS), HashingEmbedder(16).embed(TEXTS))
    assert len(caplog.records) == 1


def test_a_locked_file_costs_this_call_its_cache_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cached, "WAIT_S", 0.01)
    cache = CachedEmbedder(Counting(), tmp_path)
    cache.embed(TEXTS[:1])
    assert cache.path is not None
    with closing(sqlite3.connect(cache.path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert np.array_equal(cache.embed(TEXTS), HashingEmbedder(16).embed(TEXTS))
        other.execute("ROLLBACK")
    cache.embed(TEXTS)
    assert rows_in(cache) == 3
    assert not caplog.records


@pytest.mark.slow
def test_several_processes_fill_one_file(tmp_path: Path) -> None:
    code = (
        "import sys; from toolroll.embedders.cached import CachedEmbedder;"
        "from toolroll.embedders.hashing import HashingEmbedder;"
        "cache = CachedEmbedder(HashingEmbedder(16), sys.argv[1]);"
        "start = int(sys.argv[2]);"
        "[cache.embed([f'tool {i} {j}' for j in range(5)]) for i in range(start, start + 30)]"
    )
    # Two of the four write the same texts.
    processes = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path), s]) for s in ("0", "0", "30", "60")
    ]
    assert [p.wait(120) for p in processes] == [0] * 4
    cache = CachedEmbedder(HashingEmbedder(16), tmp_path)
    texts = [f"tool {i} {j}" for i in range(90) for j in range(5)]
    assert rows_in(cache) == len(texts)
    assert np.array_equal(cache.embed(texts), HashingEmbedder(16).embed(texts))
    assert not list(tmp_path.glob("*.damaged"))


def test_several_threads_share_one_cache(tmp_path: Path) -> None:
    cache = CachedEmbedder(Counting(), tmp_path)
    texts = [f"tool {i}" for i in range(50)]
    expected = HashingEmbedder(16).embed(texts)
    answers: list[bool] = []
    threads = [
        Thread(target=lambda: answers.append(np.array_equal(cache.embed(texts), expected))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [True] * 4
    assert rows_in(cache) == 50


def test_the_folder_is_the_environments_or_the_platforms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLROLL_CACHE", str(tmp_path))
    assert default_folder() == tmp_path / "vectors"
    monkeypatch.delenv("TOOLROLL_CACHE")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_folder() == tmp_path / "xdg" / "toolroll" / "vectors"


def test_a_limit_below_what_a_page_takes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="max_bytes is 10"):
        CachedEmbedder(Counting(), tmp_path, max_bytes=10)
