"""What was answered to each query, one JSON object a line, for whoever wants to score or compare it.

{"id": "q1", "ranked": ["best", "next"], "score": 0.93, "abstain": false}
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from toolroll.errors import InvalidInput
from toolroll.evaluation.dataset import Query
from toolroll.evaluation.metrics import Answer


def write_run(path: str | os.PathLike[str], queries: Sequence[Query], answers: Sequence[Answer]) -> None:
    """Writes the file whole or leaves what was there.

    Raises:
        InvalidInput: it cannot be written.
    """
    lines = "".join(
        json.dumps(
            {
                "id": query.id,
                "ranked": answer.ranked,
                "score": answer.confidence,
                "abstain": answer.abstained,
            },
            ensure_ascii=False,
        )
        + "\n"
        for query, answer in zip(queries, answers, strict=True)
    )
    replace_file(path, lines.encode())


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


def replace_file(path: str | os.PathLike[str], content: bytes) -> None:
    """Puts the content in the file's place in one step; pipes and devices are written to as they are.

    Raises:
        InvalidInput: it cannot be written.
    """
    target = os.path.realpath(path)  # a link stays, what it points to is replaced
    try:
        if _is_special(target):
            with open(target, "wb") as stream:
                stream.write(content)
            return
        fresh = f"{target}.{os.getpid()}.tmp"
        try:
            with open(fresh, "xb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(fresh, target)
        except BaseException:
            if os.path.exists(fresh):
                os.unlink(fresh)
            raise
    except OSError as error:
        raise InvalidInput(f"{os.fspath(path)}: cannot be written: {error.strerror}") from error


def _is_special(target: str) -> bool:
    return os.path.exists(target) and not os.path.isfile(target)
