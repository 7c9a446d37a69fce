"""Fails the test that reaches out: connections beyond this machine, and files outside of temporary folders.

An audit hook sees what Python code of this process does, in whatever thread. It does not see child processes,
nor what C libraries such as libpq open themselves. A connection is refused; a file is only reported, since the
tests of the hook's cost and of full disks would otherwise meet another error.
"""

from __future__ import annotations

import ipaddress
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# What pytest, hypothesis, the interpreter and matplotlib write by themselves.
OWN = (ROOT / ".pytest_cache", ROOT / ".hypothesis", ROOT / ".ruff_cache")
FONTS = tuple(Path.home() / place / "matplotlib" for place in (".config", ".cache", ".matplotlib"))
DEVICES = ("/dev/", "/proc/self/")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC


class ReachedOut(OSError):
    """The code under test did what no test may do."""


_OURS, _OWN = f"{ROOT}{os.sep}", tuple(map(str, OWN))
_reports: list[str] = []
_roots: list[str] = []


def install() -> None:
    """Watches from now on. A hook cannot be removed, so this is called once."""
    for place in (tempfile.gettempdir(), *map(str, FONTS)):
        _roots.extend({os.path.abspath(place), os.path.realpath(place)})
    sys.addaudithook(_hook)


def reports() -> list[str]:
    """What was seen since the last call."""
    found = _reports.copy()
    _reports.clear()
    return found


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    watch = _WATCHED.get(event)
    if watch is not None:
        watch(*arguments)


def _connect(_: object, address: object) -> None:
    if isinstance(address, tuple):  # others are sockets of this machine, by their paths
        _look_up(address[0])


def _look_up(host: object, *_: object) -> None:
    name = host.decode("ascii", "replace") if isinstance(host, bytes) else host
    if name in (None, "", "localhost") or not isinstance(name, str):
        return
    try:
        is_here = ipaddress.ip_address(name.partition("%")[0]).is_loopback or name in ("0.0.0.0", "::")
    except ValueError:
        is_here = False
    if not is_here:
        _reports.append(f"connection to {name}")
        raise ReachedOut(f"connection to {name}: tests reach nothing outside of this machine")


def _open(path: object, mode: object, flags: object) -> None:
    if isinstance(mode, str):
        is_writing = any(letter in mode for letter in "wax+")
    else:
        is_writing = isinstance(flags, int) and bool(flags & _WRITING)
    if is_writing:
        _write(path)


def _database(path: object, *_: object) -> None:
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    if isinstance(path, str) and path not in ("", ":memory:"):
        _write(path.removeprefix("file:").partition("?")[0])


def _change(path: object, *others: object) -> None:
    if others[-1] == -1:  # else the path is below an open folder, which was opened by its own path
        _write(path)


def _rename(_: object, path: object, *others: object) -> None:
    _change(path, *others)


def _write(path: object) -> None:
    if isinstance(path, int):  # an open file
        return
    try:
        name = os.path.abspath(os.fsdecode(path))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return
    if name.startswith(DEVICES) or "__pycache__" in name:
        return
    if not _is_allowed(name) and not _is_allowed(os.path.realpath(name)):
        _reports.append(f"wrote {name}")


def _is_allowed(name: str) -> bool:
    if name.startswith(_OURS):  # wherever the checkout is, in a temporary folder too
        return name.startswith(_OWN)
    return name.startswith(tuple(_roots))


_WATCHED: dict[str, Callable[..., None]] = {
    "socket.connect": _connect,
    "socket.sendto": _connect,
    "socket.getaddrinfo": _look_up,
    "socket.gethostbyname": _look_up,
    "open": _open,
    "os.mkdir": _change,
    "os.remove": _change,
    "os.rmdir": _change,
    "os.rename": _rename,
    "sqlite3.connect": _database,
}
