"""The log of a server: what its processes write to standard error, copied by us within limits.

A process gets a pipe and not the file, so that it cannot write more than we copy. What comes faster is read
and left out, so that no process waits for long because it says much.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TextIO

import anyio
import anyio.to_thread

from toolroll.gateway.bounded_file import BoundedFile
from toolroll.gateway.budget import Budget
from toolroll.gateway.places import private_folder

LARGEST = 5_000_000  # bytes of the file; with the older one a server takes twice as many
KEPT, KEPT_PER_S = 2_000_000, 100_000  # bytes that are copied at once, and all the time
READS, READS_PER_S = 100, 100  # of pipes, at once and all the time; a process that writes more waits for them
_CHUNK = 65_536  # bytes of a read: all that a pipe holds
_END = 4_096  # bytes of the end that are kept whatever was left out
_QUIET_S = 1.0  # after which the end of what was left out is written
_LAST_S = 0.5  # that the pipe of a process may stay open after it: its children may have it, too
_HAS_THREADS = sys.platform == "win32"  # whose event loops cannot wait for such pipes


class ServerLog:
    """The log of one server, for the processes of all its users.

    Attributes:
        file: it is written to.
    """

    def __init__(self, path: Path) -> None:
        self.file = BoundedFile(path, LARGEST)
        self._kept, self._reads = Budget(KEPT, KEPT_PER_S), Budget(READS, READS_PER_S)

    def tell(self, text: str) -> None:
        """Writes lines of our own about the server. Waits for the disk."""
        data = text.encode("utf-8", "replace")
        private_folder(self.file.path.parent)
        if self._kept.take(len(data)):
            self.file.append(data)

    def new(self) -> ProcessLog:
        """The log of a process that is started now."""
        return ProcessLog(self.file, self._kept, self._reads)


class ProcessLog:
    """What one process writes.

    Attributes:
        end: the last bytes that it wrote.
    """

    def __init__(self, file: BoundedFile, kept: Budget, reads: Budget) -> None:
        """kept, reads: of all processes of its server."""
        self._file, self._kept, self._reads = file, kept, reads
        self.end = b""
        self._left_out = 0

    @asynccontextmanager
    async def pipe(self) -> AsyncIterator[TextIO]:
        """A file for a process, whose user closes it once the process has it, too."""
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
        """Copies bytes, or leaves them out."""
        self.end = (self.end + data)[-_END:]
        if self._kept.take(len(data)):
            await self._write(self._told(self._left_out) + data)
        else:
            self._left_out += len(data)
        await anyio.sleep(self._reads.owe(1))

    async def _write(self, data: bytes) -> None:
        await anyio.to_thread.run_sync(self._file.append, data)

    def _ending(self) -> bytes:
        """The end of what was left out."""
        end = self.end[-self._left_out :]
        return self._told(self._left_out - len(end)) + end

    def _told(self, left_out: int) -> bytes:
        self._left_out = 0
        return f"\n[toolroll: {left_out:,} bytes left out]\n".encode() if left_out else b""


async def _read(source: int) -> bytes:
    """The next bytes of a pipe; none at its end."""
    if _HAS_THREADS:
        limiter = anyio.CapacityLimiter(1)  # others wait for their servers for as long as they like
        return await anyio.to_thread.run_sync(
            partial(os.read, source, _CHUNK), abandon_on_cancel=True, limiter=limiter
        )
    await anyio.wait_readable(source)
    return os.read(source, _CHUNK)
