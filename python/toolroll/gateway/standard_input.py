"""The lines of standard input, read so that the process can end while it waits for one."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import suppress

import anyio
import anyio.to_thread

from toolroll.gateway.bounded_lines import LineDecoder

_AT_ONCE = 65_536  # bytes


class StandardInput:
    """What a client writes, as an asynchronous iterator of lines.

    The package `mcp` waits for the next line even after it was cancelled, and holds up the end.
    """

    async def __aiter__(self) -> AsyncIterator[str]:
        """The lines, without their ends."""
        decoder, descriptor = LineDecoder("replace"), sys.stdin.fileno()
        while data := await _read(descriptor):
            for line in decoder.decode(data).split("\n")[:-1]:
                yield line
        if rest := decoder.decode(b"", final=True):
            yield rest


async def _read(descriptor: int) -> bytes:
    """The next bytes; none at the end.

    The process cannot end while a thread reads, so the thread gets what there is already; but on Windows,
    where only sockets can be waited for.
    """
    if sys.platform != "win32":
        with suppress(PermissionError):  # a file, which never makes a reader wait
            await anyio.wait_readable(descriptor)
            return os.read(descriptor, _AT_ONCE)
    return await anyio.to_thread.run_sync(os.read, descriptor, _AT_ONCE, abandon_on_cancel=True)
