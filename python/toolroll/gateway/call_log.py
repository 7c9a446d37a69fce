"""The log of calls: who called what, how long it took and how it ended; one JSON object a line."""

from __future__ import annotations

import copy
import json
import os
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import anyio
import anyio.to_thread

from toolroll.gateway.hooks import PlannedCall

_LARGEST = 10_000_000  # bytes of the file; then it becomes calls.1.jsonl
_LONGEST_ERROR = 300
_EVERY_S = 0.5
_ENCODED = json.JSONEncoder(ensure_ascii=False, default=str).encode  # `json.dumps` makes an encoder for each

# succeeded and failed are the tool's own word; unavailable: the server did not answer; refused: not made.
Ending = Literal["succeeded", "failed", "unavailable", "refused", "cancelled"]


class CallLog:
    """Appends calls to a file, many at once. A failing disk costs the log, not the call."""

    def __init__(self, path: Path, arguments: bool) -> None:
        """arguments: whether they are written, too; those of sensitive servers never are."""
        self.path, self._arguments = path, arguments
        self._entries: list[Mapping[str, Any]] = []
        self._has_entries = anyio.Event()
        self._lock = threading.Lock()
        self._file: int | None = None

    async def run(self) -> None:
        """Writes what is added, until this is cancelled."""
        while True:
            await self._has_entries.wait()
            await anyio.sleep(_EVERY_S)
            entries = self._taken()
            await anyio.to_thread.run_sync(self._append, entries)  # it waits for the disk

    def close(self) -> None:
        """Writes the rest and closes the file."""
        self._append(self._taken())
        with self._lock:
            self._close()

    def write(self, call: PlannedCall, ending: Ending, began: float, error: str = "") -> None:
        """Adds a call, which is in the file after half a second. began: of the performance counter."""
        context = call.caller.context
        entry: dict[str, Any] = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            **{key: value for key in ("org", "user", "page") if (value := getattr(context, key))},
            "client": call.caller.incoming.client,
            "server": call.server.name,
            "tool": call.tool.name,
            "ms": round(1_000 * (time.perf_counter() - began), 1),
            "ending": ending,
        }
        if error:
            entry["error"] = error[:_LONGEST_ERROR]
        if self._arguments and not call.server.sensitive:
            entry["arguments"] = copy.deepcopy(dict(call.arguments))  # hooks may change them in place
        self._entries.append(entry)
        self._has_entries.set()

    def _taken(self) -> list[Mapping[str, Any]]:
        entries, self._entries, self._has_entries = self._entries, [], anyio.Event()
        return entries

    def _append(self, entries: list[Mapping[str, Any]]) -> None:
        text = "".join(_ENCODED(entry) + "\n" for entry in entries)
        with self._lock, suppress(OSError):
            if self._file is not None and os.fstat(self._file).st_size > _LARGEST:
                self._close()
                os.replace(self.path, self.path.with_suffix(".1.jsonl"))
            if self._file is None:
                self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.write(self._file, text.encode("utf-8", "replace"))

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
