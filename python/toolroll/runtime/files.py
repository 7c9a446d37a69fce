"""Writes the files of commands, each whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from toolroll.model.errors import InvalidInput

_LONGEST = 300  # characters of a path in a message


def check_writable(path: str | os.PathLike[str]) -> None:
    """Checks before a long run whether its result can be written.

    Raises InvalidInput if the path is a folder, or its folder is missing or may not be written.
    """
    target = _target(path)
    if os.path.isdir(target):
        raise InvalidInput(f"{_shown(path)}: is a folder, must be a file")
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise InvalidInput(f"{_shown(path)}: its folder {folder} does not exist")
    if not os.access(target if _is_special(target) else folder, os.W_OK):
        raise InvalidInput(f"{_shown(path)}: cannot be written: permission denied")


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[str]:
    """A path to write to. The new file replaces the old one in one step, unless something is raised.

    Pipes and devices are written in place.

    Raises InvalidInput if it cannot be written.
    """
    target = _target(path)
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
    except (OSError, UnicodeEncodeError) as error:  # a name that is no Unicode is no name to some libraries
        reason = getattr(error, "strerror", None) or error
        raise InvalidInput(f"{_shown(path)}: cannot be written: {reason}") from error


def replace_file(path: str | os.PathLike[str], content: bytes) -> None:
    """Replaces the file by the content in one step; pipes and devices are written in place.

    Raises InvalidInput if it cannot be written.
    """
    with replacing(path) as fresh, open(fresh, "wb") as stream:
        stream.write(content)


def _target(path: str | os.PathLike[str]) -> str:
    """The path without links: a link stays, and the file behind it is replaced."""
    try:
        return os.path.realpath(path)
    except ValueError as error:  # NUL in it
        raise InvalidInput(f"{_shown(path)}: cannot be written: {error}") from error


def _shown(path: str | os.PathLike[str]) -> str:
    """The path in a message."""
    text = os.fspath(path)
    return text if text.isprintable() and len(text) <= _LONGEST else f"{text!r:.{_LONGEST}}"


def _is_special(target: str) -> bool:
    return os.path.exists(target) and not os.path.isfile(target)
