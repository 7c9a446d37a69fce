"""The log of calls: who called what, how long it took and how it ended; one JSON object a line."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import anyio
import anyio.to_thread

from toolroll.gateway.bounded_file import BoundedFile
from toolroll.gateway.hooks import PlannedCall

_LARGEST = 10_000_000  # bytes of the file; then it becomes calls.1.jsonl
_LONGEST_ARGUMENTS = 10_000  # characters as JSON; of longer ones the beginning is written, as a text
_LONGEST = 300  # characters of any other value
_EVERY_S = 0.5
_ENCODED = json.JSONEncoder(ensure_ascii=False, default=str).encode  # `json.dumps` makes an encoder for each

# succeeded and failed are the tool's own word; unavailable: the server did not answer; refused: not made.
Ending = Literal["succeeded", "failed", "unavailable", "refused", "cancelled"]


class CallLog:
    """Appends calls to a file, many at once. A failing disk costs the log, not the call."""

    def __init__(self, path: Path, arguments: bool) -> None:
        """arguments: whether they are written, too; those of sensitive servers never are."""
        self.path, self._file, self._arguments = path, BoundedFile(path, _LARGEST), arguments
        self._entries: list[Mapping[str, Any]] = []
        self._has_entries = anyio.Event()

    async def run(self) -> None:
        """Writes what is added, until this is cancelled."""
        while True:
            await self._has_entries.wait()
            await anyio.sleep(_EVERY_S)
            entries = self._taken()
            await anyio.to_thread.run_sync(self._append, entries)  # it waits for the disk

    def close(self) -> None:
        """Writes the rest."""
        self._append(self._taken())

    def write(self, call: PlannedCall, ending: Ending, began: float, error: str = "") -> None:
        """Adds a call, which is in the file after half a second. began: of the performance counter."""
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
