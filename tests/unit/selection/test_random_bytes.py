"""Random bytes are handed out once, to whichever thread or process asks."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from toolroll.selection.random_bytes import SIZE, random_bytes

MORE_THAN_A_FETCH = 600


def test_no_piece_is_handed_out_twice() -> None:
    pieces = [random_bytes() for _ in range(MORE_THAN_A_FETCH)]
    assert {len(piece) for piece in pieces} == {SIZE}
    assert len(set(pieces)) == MORE_THAN_A_FETCH


def test_threads_never_get_the_same_piece() -> None:
    found: list[list[bytes]] = [[] for _ in range(4)]
    together = threading.Barrier(4)

    def take(into: list[bytes]) -> None:
        together.wait()
        into.extend(random_bytes() for _ in range(MORE_THAN_A_FETCH))

    threads = [threading.Thread(target=take, args=(into,)) for into in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pieces = [piece for into in found for piece in into]
    assert len(set(pieces)) == 4 * MORE_THAN_A_FETCH


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_child_gets_other_bytes_than_its_parent() -> None:
    script = """
import os
from toolroll.selection.random_bytes import random_bytes
random_bytes()
inlet, outlet = os.pipe()
if os.fork() == 0:
    os.write(outlet, random_bytes())
    os._exit(0)
os.wait()
assert os.read(inlet, 16) != random_bytes()
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_the_operating_system_is_asked_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    real = os.urandom
    monkeypatch.setattr(os, "urandom", lambda size: asked.append(size) or real(size))
    for _ in range(1_024):
        random_bytes()
    assert len(asked) <= 5
