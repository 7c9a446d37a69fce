"""What the figures were measured on: processor, compiler, versions, commit, bandwidth. No names, no paths."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

_PACKAGES = (
    "numpy faiss-cpu usearch hnswlib simsimd numkong pyahocorasick ahocorasick-rs tantivy bm25s "
    "google-re2 callbus ratel-ai semantic-router microresolve fastmcp toolregistry toolpicker dehydrator"
)

_ROOT = Path(__file__).resolve().parent.parent


def cpu_name() -> str:
    """The processor's own name, "AMD EPYC 9V74" say, or the architecture where the system does not tell."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    lines = re.finditer(r"^(model name|cpu family|model)\s*:\s*(.+)$", text, re.MULTILINE)
    found: dict[str, str] = {line[1]: line[2].strip() for line in lines}
    if "model name" in found:
        name = found["model name"]
        if not re.search(r"\d", name):  # a hypervisor's "AMD EPYC" says too little
            name += f" family {found.get('cpu family', '?')} model {found.get('model', '?')}"
        return name
    if sys.platform == "darwin":
        return _said("sysctl", "-n", "machdep.cpu.brand_string") or platform.machine()
    return platform.processor() or platform.machine()


def slug(name: str) -> str:
    """A folder name for `bench/record/`: "amd-epyc-9v74"."""
    return re.sub(r"[^a-z0-9]+", "-", re.sub(r"\((r|tm)\)", "", name.lower())).strip("-") or "unknown"


def versions() -> dict[str, str]:
    """The peers that this interpreter has."""
    found = {}
    for package in _PACKAGES.split():
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def commit() -> str:
    """The commit that is checked out, with "+" behind it where the tree differs from it."""
    head = _said("git", "-C", str(_ROOT), "rev-parse", "--short=12", "HEAD")
    changed = _said("git", "-C", str(_ROOT), "status", "--porcelain", "-uno")
    return (head or "unknown") + ("+" if changed else "")


def _said(*command: str) -> str:
    """What a command prints; "" where it is missing or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def facts() -> dict[str, Any]:
    """Everything a record says about where it was made."""
    found: dict[str, Any] = {
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "architecture": platform.machine(),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "python": platform.python_version(),
        "python_compiler": platform.python_compiler(),
        "commit": commit(),
        "versions": versions(),
        "load": _load(),
    }
    try:
        from toolroll import _core
    except ImportError:
        found["isa"] = "toolroll is not installed"
    else:
        found["isa"] = _core.isa() if hasattr(_core, "isa") else "not known"
        found["compiler"] = getattr(_core, "compiler", None) or _compiler_of(_core.__file__)
        try:
            found["toolroll"] = importlib.metadata.version("toolroll")
        except importlib.metadata.PackageNotFoundError:
            found["toolroll"] = "from the source tree"
    return found


def _load() -> float | None:
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def _compiler_of(path: str | None) -> str:
    """GCC and Clang leave their name in the module they made; "not known" where it was stripped out."""
    if path is None:
        return "not known"
    found = re.search(rb"(GCC: \([^)]*\) [\d.]+|clang version [\d.]+)", Path(path).read_bytes())
    return found[1].decode() if found else "not known"


@cache
def read_bandwidth(size: int) -> float:
    """Bytes a second at which one thread reads ``size`` bytes again and again: the best of several ways.

    BLAS's dot product, numpy's maximum and the C library's memchr, each the best of many tries within 0.3 s.
    What is read again and again sits in the cache it fits into, as it does for a search that is repeated.
    """
    size = max(4096, min(size, 1 << 30) // 64 * 64)
    held = np.zeros(size, dtype=np.uint8)
    held[:] = 1  # touched: the pages are there
    floats = held.view(np.float32)
    longs = held.view(np.int64)
    raw = held.tobytes()
    ways: list[Callable[[], object]] = [
        lambda: floats @ floats,
        lambda: longs.max(),
        lambda: raw.find(b"\x00"),
    ]
    calls = max(1, min(200, (1 << 22) // size))  # one clock reading a few megabytes: its cost disappears
    best = float("inf")
    for way in ways:
        way()
        stop = time.perf_counter() + 0.3
        while True:
            start = time.perf_counter()
            for _ in range(calls):
                way()
            now = time.perf_counter()
            best = min(best, (now - start) / calls)
            if now > stop:
                break
    return size / best
