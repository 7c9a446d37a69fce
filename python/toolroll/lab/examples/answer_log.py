"""The file of a model's answers. Each is on disk before the next one is read, so none is paid for twice."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from toolroll.embedders.cached import default_folder
from toolroll.lab.examples.prompt import VERSION, Wanted, tool_data
from toolroll.lab.examples.reply import Answer, texts_in
from toolroll.model.errors import InvalidInput


class AnswerLog:
    """The answers of a model for tools, a line each.

    An answer belongs to what was asked: the tool's texts, the model, the language and the seed. A line that
    cannot be read, such as the last one of a killed process, counts as missing.

    Attributes:
        path: the file.
    """

    def __init__(self, path: str | os.PathLike[str], *, model: str, language: str, seed: int) -> None:
        """Reads the file, if there is one.

        Raises:
            InvalidInput: it cannot be read.
        """
        self.path = Path(path)
        self._asked_of = {"version": VERSION, "model": model, "language": language, "seed": seed}
        self._found: dict[str, tuple[int, Answer]] = {}
        try:
            content = self.path.read_bytes() if self.path.exists() else b""
        except OSError as error:
            raise InvalidInput(f"{self.path}: cannot be read: {error.strerror}") from error
        self._is_torn = bool(content) and not content.endswith(b"\n")
        for line in content.split(b"\n"):
            with suppress(ValueError, RecursionError, KeyError, TypeError):
                row = json.loads(line)
                answer = Answer(texts_in(row["messages"]), texts_in(row["near_misses"]))
                if answer.messages:
                    self._found[str(row["key"])] = int(row["asked"]), answer

    def get(self, wanted: Wanted) -> Answer | None:
        """The answer for a tool that was asked for at least as many messages."""
        asked, answer = self._found.get(self._key(wanted), (0, None))
        return answer if asked >= wanted.messages else None

    def add(self, wanted: Wanted, answer: Answer) -> None:
        """Appends an answer, and returns when it is on disk.

        Raises:
            InvalidInput: the file cannot be written.
        """
        key = self._key(wanted)
        row: dict[str, Any] = {
            "key": key,
            "tool": wanted.tool.name,
            "asked": wanted.messages,
            "messages": answer.messages,
            "near_misses": answer.near_misses,
        }
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
            with open(os.open(self.path, flags, 0o600), "ab") as stream:
                stream.write(b"\n" * self._is_torn + json.dumps(row).encode() + b"\n")
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            raise InvalidInput(f"{self.path}: cannot be written: {error.strerror}") from error
        self._is_torn = False
        self._found[key] = wanted.messages, answer

    def _key(self, wanted: Wanted) -> str:
        asked = json.dumps({**self._asked_of, "tool": tool_data(wanted.tool)}, sort_keys=True)
        return hashlib.sha256(asked.encode("utf-8", "replace")).hexdigest()[:32]


def default_path(source: str) -> Path:
    """The file for a folder or a registry: in the folder of caches, named by a hash of the source.

    Raises:
        InvalidInput: there is no folder of caches.
    """
    digest = hashlib.sha256(source.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    try:
        return default_folder() / f"examples-{digest}.jsonl"
    except RuntimeError as error:  # the user has no home
        raise InvalidInput(f"answers: {error}; name the file with --answers") from error
