"""The logs of a gateway: calls, and the servers' standard error. Each file has a limit.

A server's process writes to a pipe, not to the file, so the gateway limits what reaches the file. If a server
writes too fast, the gateway reads and discards the surplus, so that the process is not blocked for long.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal, TextIO

import anyio
import anyio.to_thread

from toolroll.gateway.budget import Budget
from toolroll.gateway.hooks import PlannedCall
from toolroll.gateway.places import private_folder


class BoundedFile:
    """A log file. At its limit it is renamed and replaces the older file: both take at most twice the limit.

    Several processes may append to it. Writes at the same moment may exceed the limit.
    """

    def __init__(self, path: Path, most: int) -> None:
        """most: bytes of the file. The older file has the name `NAME.1.SUFFIX`."""
        self.path, self._most = path, most
        self.older = path.with_suffix(f".1{path.suffix}")
        self._lock = threading.Lock()

    def append(self, data: bytes) -> None:
        """Appends the data, or its end if it is too long. If the disk fails, the data are lost."""
        data = data[-self._most :]
        with self._lock, suppress(OSError):
            if self._size() + len(data) > self._most:
                self._make_room()
            # It is opened for each write: a file that somebody else renamed or deleted is made again.
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
            file = os.open(self.path, flags, 0o600)
            try:
                os.write(file, data)
            finally:
                os.close(file)

    def _size(self) -> int:
        try:
            return os.path.getsize(self.path)
        except FileNotFoundError:
            return 0

    def _make_room(self) -> None:
        try:
            os.replace(self.path, self.older)
        except OSError:  # Windows renames no file that somebody has open
            os.truncate(self.path, 0)

    def text(self) -> str:
        """Returns the text of both files, older first."""
        found = ""
        for path in (self.older, self.path):
            with suppress(OSError):
                found += path.read_bytes().decode("utf-8", "replace")
        return found


LARGEST = 5_000_000  # bytes of the file; with the older one a server takes twice as many
KEPT, KEPT_PER_S = 2_000_000, 100_000  # bytes that are copied at once, and all the time
READS, READS_PER_S = 100, 100  # of pipes, at once and all the time; a process that writes more waits for them
_CHUNK = 65_536  # bytes of a read: all that a pipe holds
_END = 4_096  # bytes of the end that are kept whatever was left out
_QUIET_S = 1.0  # after which the end of the omitted bytes is written
_LAST_S = 0.5  # that the pipe of a process may stay open after it: its children may have it, too
_HAS_THREADS = sys.platform == "win32"  # whose event loops cannot wait for such pipes


class ServerLog:
    """The log of one server, for the processes of all its users."""

    def __init__(self, path: Path) -> None:
        self.file = BoundedFile(path, LARGEST)
        self._kept, self._reads = Budget(KEPT, KEPT_PER_S), Budget(READS, READS_PER_S)

    def tell(self, text: str) -> None:
        """Writes lines about the server. Waits for the disk."""
        data = text.encode("utf-8", "replace")
        private_folder(self.file.path.parent)
        if self._kept.take(len(data)):
            self.file.append(data)

    def new(self) -> ProcessLog:
        """Returns the log of a new process."""
        return ProcessLog(self.file, self._kept, self._reads)


class ProcessLog:
    """The log of one process.

    Attributes:
        end: the last bytes of its output.
    """

    def __init__(self, file: BoundedFile, kept: Budget, reads: Budget) -> None:
        """kept, reads: budgets of all processes of its server."""
        self._file, self._kept, self._reads = file, kept, reads
        self.end = b""
        self._left_out = 0

    @asynccontextmanager
    async def pipe(self) -> AsyncIterator[TextIO]:
        """Opens a file for a process. The caller closes it once the process has it, too."""
        private_folder(self._file.path.parent)
        source, target = os.pipe()
        try:
            with open(target, "w", encoding="utf-8", errors="replace") as file:
                async with anyio.create_task_group() as tasks:
                    is_done = anyio.Event()
                    tasks.start_soon(self._copy, source, is_done)
                    try:
                        yield file
                    finally:
                        file.close()
                        with anyio.move_on_after(_LAST_S):
                            await is_done.wait()
                        tasks.cancel_scope.cancel()
        finally:
            if _HAS_THREADS:  # a thread may still read from it, and Windows waits for that thread
                with anyio.CancelScope(shield=True), anyio.move_on_after(_LAST_S):
                    await anyio.to_thread.run_sync(os.close, source, abandon_on_cancel=True)
            else:
                os.close(source)

    async def _copy(self, source: int, is_done: anyio.Event) -> None:
        try:
            while True:
                data = None
                with anyio.move_on_after(_QUIET_S if self._left_out else float("inf")):
                    data = await _read(source)
                if data == b"":
                    return
                if data is not None:
                    await self.add(data)
                else:
                    await self._write(self._ending())
        finally:
            if self._left_out:
                self._file.append(self._ending())  # without waiting: this may have been cancelled
            is_done.set()

    async def add(self, data: bytes) -> None:
        """Copies bytes, or omits them."""
        self.end = (self.end + data)[-_END:]
        if self._kept.take(len(data)):
            await self._write(self._omission_note(self._left_out) + data)
        else:
            self._left_out += len(data)
        await anyio.sleep(self._reads.owe(1))

    async def _write(self, data: bytes) -> None:
        await anyio.to_thread.run_sync(self._file.append, data)

    def _ending(self) -> bytes:
        """Returns the end of the omitted bytes, with their number."""
        end = self.end[-self._left_out :]
        return self._omission_note(self._left_out - len(end)) + end

    def _omission_note(self, left_out: int) -> bytes:
        self._left_out = 0
        return f"\n[toolroll: {left_out:,} bytes left out]\n".encode() if left_out else b""


async def _read(source: int) -> bytes:
    """Reads the next bytes of a pipe; b"" at its end."""
    if _HAS_THREADS:
        limiter = anyio.CapacityLimiter(1)  # others wait for their servers for as long as they like
        return await anyio.to_thread.run_sync(
            partial(os.read, source, _CHUNK), abandon_on_cancel=True, limiter=limiter
        )
    await anyio.wait_readable(source)
    return os.read(source, _CHUNK)


_LARGEST = 10_000_000  # bytes of the file; then it becomes calls.1.jsonl
_LONGEST_ARGUMENTS = 10_000  # characters as JSON; of longer ones the beginning is written, as a text
_LONGEST = 300  # characters of any other value
_EVERY_S = 0.5
_ENCODED = json.JSONEncoder(ensure_ascii=False, default=str).encode  # `json.dumps` makes an encoder for each

# "succeeded" or "failed": the tool's result; "unavailable": the server did not answer; "refused": no call.
Ending = Literal["succeeded", "failed", "unavailable", "refused", "cancelled"]


class CallLog:
    """Appends calls to a file, in batches. If the disk fails, lines are lost, but no call fails."""

    def __init__(self, path: Path, arguments: bool) -> None:
        """arguments: whether to write the calls' arguments. Sensitive servers' are never written."""
        self.path, self._file, self._arguments = path, BoundedFile(path, _LARGEST), arguments
        self._entries: list[Mapping[str, Any]] = []
        self._has_entries = anyio.Event()

    async def run(self) -> None:
        """Writes calls to the file until it is cancelled."""
        while True:
            await self._has_entries.wait()
            await anyio.sleep(_EVERY_S)
            entries = self._taken()
            await anyio.to_thread.run_sync(self._append, entries)  # it waits for the disk

    def close(self) -> None:
        """Writes the rest."""
        self._append(self._taken())

    def write(self, call: PlannedCall, ending: Ending, began: float, error: str = "") -> None:
        """Adds a call, which is written within half a second. began: by the performance counter."""
        context = call.caller.context
        entry: dict[str, Any] = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            **{key: value[:_LONGEST] for key in ("org", "user", "page") if (value := getattr(context, key))},
            "client": call.caller.incoming.client[:_LONGEST],
            "server": call.server.name,
            "tool": call.tool.name,
            "ms": round(1_000 * (time.perf_counter() - began), 1),
            "ending": ending,
        }
        if error:
            entry["error"] = error[:_LONGEST]
        if self._arguments and not call.server.sensitive:
            text = _ENCODED(dict(call.arguments))  # now: hooks may change them in place
            is_long = len(text) > _LONGEST_ARGUMENTS
            entry["arguments"] = f"{text[:_LONGEST_ARGUMENTS]}…" if is_long else json.loads(text)
        self._entries.append(entry)
        self._has_entries.set()

    def _taken(self) -> list[Mapping[str, Any]]:
        entries, self._entries, self._has_entries = self._entries, [], anyio.Event()
        return entries

    def _append(self, entries: list[Mapping[str, Any]]) -> None:
        lines = (_ENCODED(entry).encode("utf-8", "replace") + b"\n" for entry in entries)
        self._file.append(b"".join(lines))
