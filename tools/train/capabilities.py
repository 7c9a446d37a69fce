"""Reads the bank: what software does, and how people ask for it. `bank/README.md` describes the files.

A target is the text that stands for a capability beside its messages. Encoders see it in the shapes that
tools have: the object and the action as words before a description.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BANK = Path(__file__).with_name("bank")


@dataclass(frozen=True, slots=True)
class Capability:
    """One thing that software does.

    Attributes:
        id: dotted words: field, object, action.
        descriptions: as documentation says it.
        messages: as people ask for it.
    """

    id: str
    descriptions: tuple[str, ...]
    messages: tuple[str, ...]

    @property
    def words(self) -> str:
        """The id as words: "calendar event update"."""
        return self.id.replace(".", " ").replace("_", " ").replace("-", " ")

    @property
    def name(self) -> str:
        """The id as a tool is named: "update event"."""
        field, *rest = self.id.split(".")
        *objects, action = rest or [field]
        return " ".join((action, *(objects or [field]))).replace("_", " ").replace("-", " ")

    @property
    def object(self) -> str:
        """The id without its action; capabilities that share it are siblings."""
        return self.id.rpartition(".")[0]


def read_bank(folder: Path = BANK, *, more: bool = False) -> tuple[Capability, ...]:
    """All capabilities of the folder's files, by file name and line; `more` adds those of its folder `more`."""
    return tuple(capability for _, _, capability in lines(folder, more=more))


def lines(folder: Path, *, more: bool = False) -> Iterator[tuple[str, int, Capability]]:
    """File, line and capability.

    Raises:
        ValueError: with file and line, if a line does not hold exactly the three fields.
    """
    files = [*folder.glob("*.jsonl"), *(folder.glob("more/*.jsonl") if more else ())]
    for file in sorted(files, key=lambda file: file.relative_to(folder).as_posix()):
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
            place = f"{file.name}:{number}"
            try:
                record = json.loads(line)
            except ValueError as error:
                raise ValueError(f"{place}: {error}") from error
            if not isinstance(record, dict) or record.keys() != {"id", "descriptions", "messages"}:
                raise ValueError(f"{place}: must hold id, descriptions and messages, and nothing else")
            if not isinstance(record["id"], str):
                raise ValueError(f"{place}: id is {record['id']!r:.80}, must be a string")
            for field in ("descriptions", "messages"):
                if not _are_texts(record[field]):
                    raise ValueError(f"{place}: {field} must be a list of texts that are not empty")
            yield (
                file.name,
                number,
                Capability(record["id"], tuple(record["descriptions"]), tuple(record["messages"])),
            )


def describe(bank: Sequence[Capability]) -> dict[str, Any]:
    """Size and SHA-256 of a bank, for the description of a model that was trained on it."""
    records = [(one.id, one.descriptions, one.messages) for one in bank]
    return {
        "capabilities": len(bank),
        "messages": sum(len(one.messages) for one in bank),
        "sha256": hashlib.sha256(json.dumps(records).encode()).hexdigest(),
    }


def siblings(capabilities: Sequence[Capability]) -> list[list[int]]:
    """The places of the capabilities of each object that has several."""
    groups: dict[str, list[int]] = {}
    for place, capability in enumerate(capabilities):
        groups.setdefault(capability.object, []).append(place)
    return [group for group in groups.values() if len(group) > 1]


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) and text.strip() for text in value)
