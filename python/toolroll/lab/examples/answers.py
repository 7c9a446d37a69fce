"""Reads a model's answers from its reply, and keeps them in a file.

A reply is any text; only bounded lists of strings are taken from it. Each answer is on disk before the next
request, so that no answer is paid for twice.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolroll.embedders.cached import default_folder
from toolroll.formats import strict_json
from toolroll.formats.strict_json import NotJson
from toolroll.lab.examples.prompt import VERSION, ToolRequest, tool_data
from toolroll.model.errors import InvalidInput


class AnswerLog:
    """The answers of a model for tools, a line each.

    An answer belongs to a request: the tool's texts, model, language and seed. An unreadable line, such as
    the last one of a killed process, counts as missing.
    """

    def __init__(self, path: str | os.PathLike[str], *, model: str, language: str, seed: int) -> None:
        """Reads the file, if there is one. Raises InvalidInput."""
        self.path = Path(path)
        self._asked_of = {"version": VERSION, "model": model, "language": language, "seed": seed}
        self._found: dict[str, tuple[int, ModelAnswer]] = {}
        try:
            content = self.path.read_bytes() if self.path.exists() else b""
        except OSError as error:
            raise InvalidInput(f"{self.path}: cannot be read: {error.strerror}") from error
        self._is_torn = bool(content) and not content.endswith(b"\n")
        for line in content.split(b"\n"):
            with suppress(ValueError, RecursionError, KeyError, TypeError):
                row = json.loads(line)
                answer = ModelAnswer(texts_in(row["messages"]), texts_in(row["near_misses"]))
                if answer.messages:
                    self._found[str(row["key"])] = int(row["asked"]), answer

    def get(self, wanted: ToolRequest) -> ModelAnswer | None:
        """The logged answer to a request for at least as many messages."""
        asked, answer = self._found.get(self._key(wanted), (0, None))
        return answer if asked >= wanted.messages else None

    def add(self, wanted: ToolRequest, answer: ModelAnswer) -> None:
        """Appends an answer, and returns when it is on disk. Raises InvalidInput."""
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

    def _key(self, wanted: ToolRequest) -> str:
        asked = json.dumps({**self._asked_of, "tool": tool_data(wanted.tool)}, sort_keys=True)
        return hashlib.sha256(asked.encode("utf-8", "replace")).hexdigest()[:32]


def default_path(source: str) -> Path:
    """The usual file for a folder or a registry. Raises InvalidInput if there is no folder for caches."""
    digest = hashlib.sha256(source.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    try:
        return default_folder() / f"examples-{digest}.jsonl"
    except RuntimeError as error:  # the user has no home
        raise InvalidInput(f"answers: {error}; name the file with --answers") from error


MOST_TEXTS = 64  # of each kind, of one tool
LONGEST_READ = 2_000  # characters of a text; longer ones are cut, and then refused for their length
MOST_STARTS = 50  # braces at which a JSON object is looked for
LONGEST_REPLY = 1_000_000  # characters

_THOUGHT = "</think>"


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """A model's unchecked answer for one tool."""

    messages: tuple[str, ...]
    near_misses: tuple[str, ...] = ()


def read_reply(text: str, names: Collection[str]) -> dict[str, ModelAnswer]:
    """The answers for these tools, if they have messages; ignores the rest of the reply.

    Tolerates text around the JSON object, such as a model's thoughts or the marks of a code block.
    """
    for value in _objects(text[:LONGEST_REPLY].rpartition(_THOUGHT)[2]):
        tools = value.get("tools")
        if not isinstance(tools, list):
            continue
        found = {}
        for item in tools:
            name = item.get("name") if isinstance(item, Mapping) else None
            if isinstance(name, str) and name in names and name not in found:
                messages = texts_in(item.get("messages"))
                if messages:
                    found[name] = ModelAnswer(messages, texts_in(item.get("near_misses")))
        return found
    return {}


def _objects(text: str) -> Iterator[Mapping[str, Any]]:
    """The JSON objects in a text, in order."""
    at = 0
    for _ in range(MOST_STARTS):
        at = text.find("{", at)
        if at < 0:
            return
        try:
            value, at = strict_json.read_at(text, at)
        except NotJson:
            at += 1
            continue
        if isinstance(value, Mapping):
            yield value


def texts_in(value: Any) -> tuple[str, ...]:
    """The strings of a list, bounded in number and length; () for anything else."""
    if not isinstance(value, list):
        return ()
    return tuple(text[:LONGEST_READ] for text in value[:MOST_TEXTS] if isinstance(text, str))
