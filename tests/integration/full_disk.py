"""A process whose disk is full for a while; run as a script by test_full_disk.py.

Its registry, outbox and cache of vectors are in one folder. The disk is full either because a file takes all
room of a small file system, or because no file of this process may grow.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from collections import Counter
from pathlib import Path

from toolroll import Context, Follow, Recording, Tool, Toolroll
from toolroll.embedders.cached import CachedEmbedder
from toolroll.embedders.hashing import HashingEmbedder
from toolroll.model.errors import StoreUnavailable
from toolroll.model.tools import Definitions
from toolroll.registry.registry import Registry

TOOLS = Definitions(tuple(Tool(f"tool_{at}", f"does the thing of number {at}") for at in range(30)))
ANN = Context(user="ann")


class Disk:
    """What a full disk does, and what frees it."""

    def __init__(self, how: str, folder: Path) -> None:
        self._how, self._file = how, folder / "filler"

    def fill(self) -> None:
        if self._how == "limit":
            resource.setrlimit(resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
            return
        with open(self._file, "wb", buffering=0) as filler:
            for size in (65_536, 4_096, 512, 1):
                try:
                    while True:
                        filler.write(b"x" * size)
                except OSError:
                    pass

    def free(self) -> None:
        if self._how == "limit":
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        else:
            self._file.unlink()


def main(how: str, place: str, seconds: float) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    folder, said = Path(place), Counter[str]()
    disk, url = Disk(how, folder), f"sqlite:///{folder / 'tools.db'}"
    with Registry.open(url, create=True, actor="ada") as registry:
        registry.import_(TOOLS)
    cache = CachedEmbedder(HashingEmbedder(32), folder / "cache")
    roll = Toolroll.open(
        url, embedder=cache, follow=Follow(poll_s=0.1), recording=Recording(outbox=folder / "outbox")
    )
    registry = Registry.open(url, actor="ada")
    acknowledged: list[str] = []
    refused: list[str] = []
    degraded: set[str] = set()
    number = 0

    def turn() -> None:
        """Selects, talks, reports, embeds and writes; what fails must be an error of ours."""
        nonlocal number
        number += 1
        picked = roll.select(f"number {number % 30}", ANN, k=5)
        assert picked.names
        assert roll.session(f"talk {number % 3}", ANN).select("number 5", k=3).names
        try:
            roll.record(picked, [picked.names[-1]])
            acknowledged.append(picked.event_id)
        except StoreUnavailable as error:
            refused.append(picked.event_id)
            said["record: " + ("full" if "full" in str(error) else "outbox")] += 1
        assert len(cache.embed([f"text {number} {at}" for at in range(20)])) == 20
        try:
            registry.create(Tool(f"new_{number}", "n" * 3_000))
            created.append(f"new_{number}")
        except StoreUnavailable as error:
            said["create: " + ("nothing" if "nothing was changed" in str(error) else str(error))] += 1
        degraded.update(roll.health()["degraded"])

    def turns(until: float) -> None:
        while time.monotonic() < until:
            turn()
            time.sleep(0.02)

    created: list[str] = []
    turns(time.monotonic() + 0.5)
    before = len(acknowledged)
    assert not degraded and not said, (degraded, said)
    disk.fill()
    turns(time.monotonic() + seconds)
    meanwhile = {"degraded": sorted(degraded), "said": dict(said), "refused": len(refused)}
    disk.free()
    freed = time.monotonic()
    is_well = False
    while not is_well and time.monotonic() < freed + 60:
        failed = sum(said.values())
        turn()
        is_well = sum(said.values()) == failed and not roll.health()["degraded"] and roll.flush(5)
    well_s = time.monotonic() - freed
    text = f"stored again {number}"
    deadline = time.monotonic() + 60
    while not cache._read_rows({_key_of(text)}) and time.monotonic() < deadline:
        cache.embed([text])
        time.sleep(0.1)
    cached_s = time.monotonic() - freed
    registry.close()
    roll.close()
    answer = {
        "before": before, "acknowledged": acknowledged, "refused": refused, "created": created,
        "well_s": well_s, "cached_s": cached_s, "meanwhile": meanwhile,
    }  # fmt: skip
    os.write(1, json.dumps(answer).encode() + b"\n")


def _key_of(text: str) -> bytes:
    from toolroll.embedders import cached

    return cached._key(text)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
