"""microresolve (MIT or Apache-2.0, Rust core): lexical intents that learn from corrections.

A tool is an intent whose phrases are its name as words and its description. Building is quadratic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def build(tools: list[dict[str, Any]], embed: Any) -> Callable[[str, int], list[str]]:
    from microresolve import MicroResolve

    intents = MicroResolve().namespace("tools")
    for tool in tools:
        intents.add_intent(tool["name"], [tool["name"].replace("_", " "), tool["description"]])
    intents.update_namespace({"default_threshold": 0.0})

    def select(message: str, k: int) -> list[str]:
        result, trace = intents.resolve_with_trace(message)
        ranked = dict.fromkeys(intent.id for intent in result.intents)  # one to three; the rest follows
        others = sorted(trace.all_scores, key=lambda scored: -scored[1])
        ranked |= dict.fromkeys(name for name, score in others if score > 0)
        return list(ranked)[:k]

    return select
