"""The store of sign-ins: what it keeps on the disk."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("cryptography")

from toolroll.gateway import accounts
from toolroll.gateway.accounts import LARGEST, TokenStore
from toolroll.model.errors import InvalidInput


def store_in(folder):
    return TokenStore(folder / "tokens", "k" * 32, {}, folder)


def test_a_record_that_is_too_large_is_refused_and_the_old_one_stays(tmp_path):
    store = store_in(tmp_path)
    store.write("r", "ann", {"tokens": "t"})
    with pytest.raises(InvalidInput, match="its sign-in brought 64,0.. bytes, may bring 64,000"):
        store.write("r", "ann", {"tokens": "t" * LARGEST})
    assert store.read("r", "ann") == {"tokens": "t"}


def test_the_records_that_were_written_longest_ago_make_room(tmp_path, monkeypatch):
    monkeypatch.setattr(accounts, "MOST_BYTES", 50_000)
    store = store_in(tmp_path)
    for number in range(20):
        store.write("r", f"user {number}", {"tokens": "t" * 4_000})
        path = store._path("r", f"user {number}")
        os.utime(path, (number, number))
    store.write("r", "user 15", {"tokens": "renewed"})
    sizes = [path.stat().st_size for path in (tmp_path / "tokens").iterdir()]
    assert sum(sizes) <= 50_000 and len(sizes) > 5
    assert not store.read("r", "user 1") and store.read("r", "user 19")
    assert store.read("r", "user 15") == {"tokens": "renewed"}
