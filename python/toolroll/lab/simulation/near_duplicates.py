"""Near-duplicates of tools in other words: no text tells how well a tool works."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from toolroll.model.tools import Tool

_MAKERS = (
    "Aldra", "Bexley", "Corvane", "Dunmore", "Elstrom", "Fenwick", "Galtier", "Hollin", "Istra", "Jorvik",
)  # fmt: skip
_SYNONYMS = {
    "find": "look up", "finds": "looks up", "search": "look", "searches": "looks", "get": "fetch",
    "gets": "fetches", "create": "make", "creates": "makes", "show": "display", "shows": "displays",
    "provide": "offer", "provides": "offers", "help": "assist", "helps": "assists", "list": "enumerate",
    "lists": "enumerates", "send": "deliver", "sends": "delivers", "delete": "remove",
    "deletes": "removes", "update": "change", "updates": "changes", "information": "details",
    "data": "figures", "latest": "newest", "your": "the user's", "discover": "come across",
    "analyze": "examine", "generate": "produce", "generates": "produces", "access": "reach",
    "various": "several", "easily": "quickly", "tool": "service",
}  # fmt: skip


def near_duplicates(tools: Sequence[Tool], owners: Sequence[int], random: np.random.Generator) -> list[Tool]:
    """Near-duplicates by other makers: another name, a tenth of the words gone, some replaced."""
    taken = {tool.name for tool in tools}
    made = []
    for owner in owners:
        tool = tools[owner]
        maker = next(
            maker
            for maker in (_MAKERS[place] for place in random.permutation(len(_MAKERS)))
            if f"{tool.name}_{maker.lower()}" not in taken
        )
        taken.add(name := f"{tool.name}_{maker.lower()}")
        sentences = [_reworded(sentence, random) for sentence in tool.description.split(". ")]
        random.shuffle(sentences)
        description = ". ".join([*filter(None, sentences), f"By {maker}"])
        made.append(
            replace(tool, name=name, description=description, original=None, tool_id="", pinned=False)
        )
    return made


def _reworded(sentence: str, random: np.random.Generator) -> str:
    words = []
    for word in sentence.rstrip(".").split():
        if random.random() >= 0.1:
            words.append(_SYNONYMS.get(word.lower(), word) if random.random() < 0.7 else word)
    return " ".join(words)
