"""Reads a model's answer: any text, of which nothing is believed but bounded lists of strings."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from toolroll.formats import strict_json
from toolroll.formats.strict_json import NotJson

MOST_TEXTS = 64  # of each kind, of one tool
LONGEST_READ = 2_000  # characters of a text; longer ones are cut, and then refused for their length
MOST_STARTS = 50  # braces at which a JSON object is looked for
LONGEST_REPLY = 1_000_000  # characters

_THOUGHT = "</think>"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model wrote for one tool, as it came."""

    messages: tuple[str, ...]
    near_misses: tuple[str, ...] = ()


def read_reply(text: str, names: Collection[str]) -> dict[str, Answer]:
    """The answers for those of these tools that have at least one message; the rest of the reply is ignored.

    Text before or behind the JSON object is tolerated: a model's thoughts, or the marks of a code block.
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
                    found[name] = Answer(messages, texts_in(item.get("near_misses")))
        return found
    return {}


def _objects(text: str) -> Iterator[Mapping[str, Any]]:
    """The JSON objects in a text, one behind the other."""
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
    """The strings of a list, so many and so long as an answer may have; () for anything else."""
    if not isinstance(value, list):
        return ()
    return tuple(text[:LONGEST_READ] for text in value[:MOST_TEXTS] if isinstance(text, str))
