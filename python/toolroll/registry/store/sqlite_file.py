"""SQLite's file, seen from outside: whether it is the one that was opened, and whether it may be written.

A connection holds the file that it opened, not its name: where a backup was put in its place, it would go on
reading the old one, and write into nothing.
"""

from __future__ import annotations

import os
from pathlib import Path

from toolroll.errors import StoreUnavailable
from toolroll.registry.store import schema
from toolroll.registry.store.url import Address

Identity = tuple[int, ...]


def find(address: Address, path: Path, create: bool) -> None:
    """Makes the file if there is none and it may be made.

    Raises:
        NotFound: there is none.
        StoreUnavailable: none can be there.
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
            "check that its folder exists, may be written, and that it is a file"
        ) from error


def identity(address: Address, path: Path) -> Identity:
    """Differs where a connection of before would read something else than one that is made now.

    Raises StoreUnavailable where the file has gone.
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
    # One that is taken as unchanging (`open_as`) is opened again when it did change.
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def may_write(path: Path) -> bool:
    """Whether this process may change the file, which needs the two beside it as well."""
    if not os.access(path, os.W_OK):
        return False
    beside = (path.with_name(path.name + end) for end in ("-wal", "-shm"))
    return os.access(path.parent, os.W_OK) or all(os.access(one, os.W_OK) for one in beside)


def has_log(path: Path) -> bool:
    """Whether changes stand beside the file that are not in it yet."""
    try:
        return os.stat(f"{path}-wal").st_size > 0
    except OSError:
        return False


def log_of(path: Path) -> Identity | None:
    """Which file they stand in, or will."""
    try:
        found = os.stat(f"{path}-wal")
    except OSError:
        return None
    return found.st_dev, found.st_ino


def open_as(path: Path) -> str:
    """The options of the URI to open it by."""
    if may_write(path):
        return "mode=rw"  # a file that was moved away is an error, not a new registry
    # Reading by the log takes files beside it, which cannot be made here. Without a log nobody writes, and
    # the file can be read as it stands.
    return "mode=ro" if has_log(path) else "mode=ro&immutable=1"


def is_full(path: Path) -> bool:
    """Whether its disk has no room at all, as far as the system says."""
    if not hasattr(os, "statvfs"):
        return False
    try:
        return os.statvfs(path.parent).f_bavail == 0
    except OSError:
        return False
