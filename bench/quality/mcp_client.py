"""Asks an MCP server over stdio for its tools, and keeps the answer as it came."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

MOST_LINE = 64 << 20  # bytes of an answer
PROTOCOL = "2025-06-18"


class ServerFailed(Exception):
    """A server was not installed, ended, or did not answer in time."""


def last_line(text: str) -> str:
    """The reason that a program gave, as far as its last line says it."""
    return next((line.strip()[:200] for line in reversed(text.splitlines()) if line.strip()), "no message")


async def answer(
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    seconds: float,
) -> bytes:
    """The server's answer to tools/list, as it came; for an answer in pages, the tools of all pages.

    folder: the server's working folder and home.
    """
    home = {"HOME": str(folder), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    with (folder / "stderr").open("w+b") as errors:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            env={**home, **environment},
            cwd=folder,
            limit=MOST_LINE,
            start_new_session=True,
        )
        try:
            return await asyncio.wait_for(_talk(process), seconds)
        except (asyncio.TimeoutError, ConnectionError, EOFError, ValueError) as error:
            errors.seek(0)
            said = last_line(errors.read().decode("utf-8", "replace"))
            why = f"no answer in {seconds:g} s" if isinstance(error, asyncio.TimeoutError) else str(error)
            raise ServerFailed(f"{why}; its last line: {said}") from None
        finally:
            # The server may have started others (a browser, a shell), which are in its group.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


async def _talk(process: asyncio.subprocess.Process) -> bytes:
    about = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
    await _ask(process, 0, "initialize", about)
    await _send(process, {"method": "notifications/initialized"})
    tools: list[Any] = []
    cursor: dict[str, str] = {}
    page = 0
    while True:
        page += 1
        line, result = await _ask(process, page, "tools/list", cursor)
        if not isinstance(result.get("tools"), list):
            raise ValueError("its answer has no tools")
        tools += result["tools"]
        if not result.get("nextCursor"):
            return line if page == 1 else json.dumps({"tools": tools}, ensure_ascii=False).encode()
        cursor = {"cursor": result["nextCursor"]}


async def _send(process: asyncio.subprocess.Process, message: Mapping[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    await process.stdin.drain()


async def _ask(
    process: asyncio.subprocess.Process, number: int, method: str, params: Mapping[str, Any]
) -> tuple[bytes, dict[str, Any]]:
    """The line of the reply, and its result. Other lines (logs, notifications) are skipped."""
    assert process.stdout is not None
    await _send(process, {"id": number, "method": method, "params": params})
    while line := await process.stdout.readline():
        try:
            reply = json.loads(line)
        except ValueError:
            continue
        if not isinstance(reply, dict) or reply.get("id") != number:
            continue
        if "method" in reply:  # the server's own request, whose numbers are its own
            continue
        if isinstance(reply.get("result"), dict):
            return line, reply["result"]
        raise ValueError(f"{method} was refused: {str(reply.get('error'))[:200]}")
    raise EOFError("it ended")
