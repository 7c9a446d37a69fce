"""The log of calls: who called what, how long it took and how it ended; one JSON object a line."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from toolroll.gateway.hooks import PlannedCall

_LARGEST = 10_000_000  # bytes of the file; then it becomes calls.1.jsonl
_LONGEST_ERROR = 300

# succeeded and failed are the tool's own word; unavailable: the server did not answer; refused: not made.
Ending = Literal["succeeded", "failed", "unavailable", "refused", "cancelled"]


class CallLog:
    """Appends calls to a file. A failing disk costs the log, not the call."""

    def __init__(self, path: Path, arguments: bool) -> None:
        """arguments: whether they are written, too; those of sensitive servers never are."""
        self.path, self._arguments = path, arguments
        self._lock = threading.Lock()
        self._file: int | None = None

    def write(self, call: PlannedCall, ending: Ending, began: float, error: str = "") -> None:
        """Adds a call. began: of the performance counter."""
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
            entry["arguments"] = call.arguments
        self._append(entry)

    def _append(self, entry: Mapping[str, Any]) -> None:
        line = json.dumps(entry, ensure_ascii=False, default=str) + "\n"
        with self._lock, suppress(OSError):
            if self._file is not None and os.fstat(self._file).st_size > _LARGEST:
                self.close()
                os.replace(self.path, self.path.with_suffix(".1.jsonl"))
            if self._file is None:
                self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.write(self._file, line.encode("utf-8", "replace"))

    def close(self) -> None:
        """Closes the file; a later call opens it again."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
