"""Peers that run in a process of their own, in their own environment, and take turns with ours all the same.

Some libraries break each other in one process (simsimd and numkong beside faiss or usearch), some need an
environment that nobody wants beside theirs (semantic-router), and each should be measured with its own
memory. `start` runs ``python -m bench.peers.run NAME --serve`` there and hands back a contestant that the
harness can time: the calls are timed over there by the same loop.

A module of this package is one peer. For tool selection it has
``build(tools, embed, **options) -> Callable[[str, int], list[str]]`` (names, best first); for vectors
``load(vectors, k, **options) -> Callable[[query], rows]``. It imports its library inside that function.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench import environments

Embed = Callable[[Sequence[str]], NDArray[np.float32]]

#: Peers that need an environment of their own.
_ENVIRONMENTS = {"semantic_router": "semantic-router"}


class PeerFailed(RuntimeError):
    """The peer's process said what went wrong, died or took too long."""


class Remote:
    """One peer in its process: call it for an answer, `burst` it for times. Not for several threads at once.

    Attributes:
        facts: what building said: ``build_s``, ``rss_bytes`` (grown by building), ``versions``.
    """

    def __init__(self, name: str, job: dict[str, Any], embed: Embed | None, timeout_s: float) -> None:
        self._name, self._embed, self._timeout_s = name, embed, timeout_s
        root = Path(__file__).resolve().parents[2]
        python = environments.python_for(_ENVIRONMENTS.get(name, "main"))
        self._process = subprocess.Popen(
            [python, "-m", "bench.peers.run", name, "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if os.environ.get("TOOLROLL_BENCH_VERBOSE") else subprocess.DEVNULL,
            text=True,
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root)},
        )
        try:
            self.facts = self._ask({"do": "build", **job, "embed": embed is not None})
        except BaseException:
            self.close()
            raise

    def __call__(self, i: int) -> Any:
        return self._ask({"do": "answer", "i": i})["answer"]

    def burst(
        self,
        first: int,
        budget_ns: int,
        at_most: int,
        cpu: int | None = None,
        realtime: bool = False,
        cold_bytes: int = 0,
    ) -> list[int]:
        """`timing.burst`, over there."""
        asked = {"do": "burst", "first": first, "budget_ns": budget_ns, "at_most": at_most}
        how = {"cpu": cpu, "realtime": realtime, "cold_bytes": cold_bytes}
        samples: list[int] = self._ask({**asked, **how})["ns"]
        return samples

    def close(self) -> None:
        """Ends the process that this object has started."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        too_late = threading.Timer(self._timeout_s, self._process.kill)
        too_late.start()
        try:
            while True:
                try:
                    self._process.stdin.write(json.dumps(request) + "\n")
                    self._process.stdin.flush()
                    line = self._process.stdout.readline()
                except (OSError, ValueError) as error:
                    raise PeerFailed(self._end()) from error
                if not line:
                    raise PeerFailed(self._end())
                reply: dict[str, Any] = json.loads(line)
                if "texts" not in reply:
                    break
                request = {"vectors": self._vectors(reply["texts"])}
        finally:
            too_late.cancel()
        if "missing" in reply:
            raise ModuleNotFoundError(reply["missing"])
        if "failed" in reply:
            raise PeerFailed(reply["failed"])
        return reply

    def _vectors(self, texts: list[str]) -> str:
        """Embeds for the peer, which gets our vectors whatever its environment has; a file with them."""
        assert self._embed is not None
        handle, path = tempfile.mkstemp(suffix=".npy")
        os.close(handle)
        np.save(path, np.asarray(self._embed(texts), dtype=np.float32))
        return path

    def _end(self) -> str:
        try:
            status = self._process.wait(5)
        except subprocess.TimeoutExpired:
            return "no answer"
        return f"gave up after {self._timeout_s:.0f} s" if status == -9 else f"ended with status {status}"


def start(
    name: str,
    job: dict[str, Any],
    embed: Embed | None = None,
    timeout_s: float = 300.0,
) -> Remote | str | None:
    """Starts a peer on a job; None where it is not installed, a text where it could not be built.

    A job is ``{"tools": n, "messages": count, "k": k, "options": {}}`` or, for vectors, ``{"vectors": n,
    "dim": dim, "queries": count, "k": k, "options": {}}``: the workload is made over there, from its seed.
    """
    try:
        return Remote(name, job, embed, timeout_s)
    except ModuleNotFoundError:
        return None
    except PeerFailed as error:
        return f"did not build: {error}"
