"""The lines of standard input, read so that the process can end while it waits for one."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator

import anyio.to_thread

from toolroll.gateway.bounded_lines import LineDecoder

_AT_ONCE = 65_536  # bytes


class StandardInput:
    """What a client writes, as an asynchronous iterator of lines.

    The package `mcp` waits for the next line even after it was cancelled, and holds up the end.
    """

    async def __aiter__(self) -> AsyncIterator[str]:
        """The lines, without their ends. A thread that still reads is left behind: it holds no lock."""
        decoder, descriptor = LineDecoder("replace"), sys.stdin.fileno()
        while data := await anyio.to_thread.run_sync(os.read, descriptor, _AT_ONCE, abandon_on_cancel=True):
            for line in decoder.decode(data).split("\n")[:-1]:
                yield line
        if rest := decoder.decode(b"", final=True):
            yield rest
