"""The messages over generated catalogs."""

from __future__ import annotations

from collections import Counter

from bench.quality.generated import APIS, MESSAGES


def test_each_api_has_fifty_different_messages():
    lines = [line.split("\t") for line in MESSAGES.read_text("utf-8").splitlines()]
    assert Counter(api for api, _, _ in lines) == dict.fromkeys(APIS, 50)
    assert len({text for _, _, text in lines}) == len(lines)
    assert all(name for _, names, _ in lines for name in names.split("|"))
