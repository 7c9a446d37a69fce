"""A log file with an upper limit, which counts when something is written."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path


class BoundedFile:
    """A file that is appended to. At its limit it is renamed, and the one that had that name before is gone.

    So it takes at most twice its limit on disk. Several processes may append to it: the limit is that of the
    file and not of a process, and they can exceed it by what they write at the same moment.
    """

    def __init__(self, path: Path, most: int) -> None:
        """most: bytes of the file. The older file is `NAME.1.SUFFIX`."""
        self.path, self._most = path, most
        self.older = path.with_suffix(f".1{path.suffix}")
        self._lock = threading.Lock()

    def append(self, data: bytes) -> None:
        """Appends the data; of more than the limit, only its end. A disk that fails costs the data alone."""
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
        """All that is left of what was written, the oldest first."""
        found = ""
        for path in (self.older, self.path):
            with suppress(OSError):
                found += path.read_bytes().decode("utf-8", "replace")
        return found
