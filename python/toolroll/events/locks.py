"""A file that says that its process is alive: locked for as long as that is, whatever ends it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import IO

if sys.platform == "win32":  # pragma: no cover
    import msvcrt

    def _lock(file: IO[bytes]) -> None:
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(file: IO[bytes]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def claim(path: Path) -> IO[bytes]:
    """Makes a file that is locked from its first moment under this name."""
    # Under its own name from the start, another could lock it before its owner does.
    making = path.with_name(f"{path.name}.{os.getpid()}.new")
    file = making.open("wb")
    try:
        _lock(file)
        if sys.platform == "win32":  # pragma: no cover - what is open has to keep its name
            file.close()
            file = path.open("wb")
            _lock(file)
            making.unlink()
        else:
            making.rename(path)
    except BaseException:
        file.close()
        making.unlink(missing_ok=True)
        raise
    return file


def adopt(path: Path) -> IO[bytes] | None:
    """The file, locked, if its owner is gone; None while there is one, or once it has been cleared away."""
    try:
        file = path.open("r+b")
    except FileNotFoundError:
        return None
    try:
        _lock(file)
    except OSError:
        file.close()
        return None
    if not path.exists():  # another has adopted it and cleared it away meanwhile
        file.close()
        return None
    return file
