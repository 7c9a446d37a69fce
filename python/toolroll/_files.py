"""Files that a command writes: whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from toolroll.errors import InvalidInput


def check_writable(path: str | os.PathLike[str]) -> None:
    """Says before a long run what would go wrong after it.

    Raises:
        InvalidInput: the path is a folder, or its folder is missing or closed to us.
    """
    target = os.path.realpath(path)
    if os.path.isdir(target):
        raise InvalidInput(f"{os.fspath(path)}: is a folder, must be a file")
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise InvalidInput(f"{os.fspath(path)}: its folder {folder} does not exist")
    if not os.access(target if _is_special(target) else folder, os.W_OK):
        raise InvalidInput(f"{os.fspath(path)}: cannot be written: permission denied")


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[str]:
    """What to write to: it takes the file's place in one step, unless something is raised.

    Pipes and devices are written to as they are.

    Raises:
        InvalidInput: it cannot be written.
    """
    target = os.path.realpath(path)  # a link stays, what it points to is replaced
    try:
        if _is_special(target):
            yield target
            return
        fresh = f"{target}.{os.getpid()}.tmp"
        open(fresh, "xb").close()
        try:
            if os.path.exists(target):
                shutil.copymode(target, fresh)  # a file that only its owner reads stays so
            yield fresh
            with open(fresh, "rb+") as stream:
                os.fsync(stream.fileno())
            os.replace(fresh, target)
        except BaseException:
            if os.path.exists(fresh):
                os.unlink(fresh)
            raise
    except OSError as error:
        raise InvalidInput(f"{os.fspath(path)}: cannot be written: {error.strerror or error}") from error


def replace_file(path: str | os.PathLike[str], content: bytes) -> None:
    """Puts the content in the file's place in one step; pipes and devices are written to as they are.

    Raises:
        InvalidInput: it cannot be written.
    """
    with replacing(path) as fresh, open(fresh, "wb") as stream:
        stream.write(content)


def _is_special(target: str) -> bool:
    return os.path.exists(target) and not os.path.isfile(target)
