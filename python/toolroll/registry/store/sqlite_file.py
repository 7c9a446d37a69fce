"""The SQLite file in the file system: its identity, and whether it can be written.

A connection keeps its open file even if the name now belongs to another file. If a backup replaced the file,
the connection would still read the old file, and its writes would be lost.
"""

from __future__ import annotations

import os
from pathlib import Path

from toolroll.model.errors import StoreUnavailable
from toolroll.registry.store import schema
from toolroll.registry.store.url import Address

Identity = tuple[int, ...]


def find(address: Address, path: Path, create: bool) -> None:
    """Checks that the file exists; with `create`, creates a missing one.

    Raises NotFound if it does not exist, and StoreUnavailable if it cannot be opened or created.
    """
    try:
        if path.is_file():
            return
        if not create and not path.exists():
            raise schema.no_registry(address)
        path.open("ab").close()
    except OSError as error:
        raise StoreUnavailable(
            f"{address.text}: cannot be opened: {error.strerror}; "
            "check that its folder exists and may be written, and that it is a file"
        ) from error


def identity(address: Address, path: Path) -> Identity:
    """A value that changes if a new connection would open other data than an old one.

    Raises StoreUnavailable if the file does not exist.
    """
    try:
        found = os.stat(path)
    except OSError as error:
        raise StoreUnavailable(
            f"{address.text}: cannot be opened ({error.strerror}): it was deleted or moved away; "
            "put it back, or restore it from a backup"
        ) from error
    if may_write(path) or has_log(path):
        return found.st_dev, found.st_ino
    # A file opened as immutable (`open_as`) must be opened again if it changes.
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def files(address: Address, path: Path) -> tuple[Identity, Identity | None]:
    """The identities of the file and of its log."""
    return identity(address, path), log_of(path)


def may_write(path: Path) -> bool:
    """Whether this process may write the file and the two log files beside it."""
    if not os.access(path, os.W_OK):
        return False
    beside = (path.with_name(path.name + end) for end in ("-wal", "-shm"))
    return os.access(path.parent, os.W_OK) or all(os.access(one, os.W_OK) for one in beside)


def has_log(path: Path) -> bool:
    """Whether the write-ahead log has changes that the file lacks."""
    try:
        return os.stat(f"{path}-wal").st_size > 0
    except OSError:
        return False


def log_of(path: Path) -> Identity | None:
    """The identity of the write-ahead log, or None."""
    try:
        found = os.stat(f"{path}-wal")
    except OSError:
        return None
    return found.st_dev, found.st_ino


def open_as(path: Path) -> str:
    """The options in the URI that opens the file."""
    if may_write(path):
        return "mode=rw"  # a missing file is an error, not a new registry
    # Reading with a log needs files beside it, which this process cannot create. Without a log nobody writes
    # the file, so it can be read as immutable.
    return "mode=ro" if has_log(path) else "mode=ro&immutable=1"


def is_full(path: Path) -> bool:
    """Whether the system reports a full disk."""
    if not hasattr(os, "statvfs"):
        return False
    try:
        return os.statvfs(path.parent).f_bavail == 0
    except OSError:
        return False
