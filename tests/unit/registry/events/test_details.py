"""Events packed and read back: nothing is lost, and little space is taken."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np

from toolroll.learning.exposure import ShownTool
from toolroll.model.identity import ToolKey, key, pack_key
from toolroll.registry.events.columns import CandidateColumns
from toolroll.registry.events.details import EventReader, packed_event, tools_of
from toolroll.registry.events.logged_tools import LoggedTool

STAGES = ("read", "embed", "visibility", "availability", "page", "routes", "retrieval", "learning", "total")


def usual_event(rng: np.random.Generator, candidates: int = 40, shown: int = 12) -> dict[str, Any]:
    """An event as a selection from a few hundred tools makes it, after some outcomes."""
    names = [f"some_toolkit_does_thing_{at}" for at in rng.permutation(214)[:candidates].tolist()]
    tools = [LoggedTool(name, key("arm", name), key("intent", name), 0) for name in names]
    scores = np.sort(rng.uniform(0.1, 0.9, candidates))[::-1].astype(np.float32)
    means = (scores + rng.normal(0, 0.015, candidates)).astype(np.float32)
    spreads = np.full(candidates, 0.0152, np.float32)
    chances = np.clip(rng.normal(0.3, 0.5, candidates), 0, 1).astype(np.float32)
    drawn = np.stack([scores, means, spreads, np.ones(candidates, np.float32), chances])
    vector = rng.normal(0, 1 / 16, 256).astype("<f2")
    return {
        "event_id": "f" * 24,
        "context": {"user": "user-17", "roles": ["admin"], "settings": [], "provider": "openai"},
        "limits": {"k": 8, "max_tools": None, "sent": [], "conversation": None, "earlier": []},
        "timings": {stage: round(float(rng.uniform(0, 300)), 3) for stage in STAGES},
        "candidates": CandidateColumns(
            names, b"".join(pack_key(ToolKey(*tool[1:])) for tool in tools), *drawn
        ),
        "shown": [
            ShownTool(tool.name, ToolKey(*tool[1:]), round(float(rng.uniform()), 6)) for tool in tools[:shown]
        ],
        "vector": vector.tobytes(),
    }


def lists_of(event: dict[str, Any]) -> list[list[Any]]:
    return [list(row) for row in event["candidates"].rows()]


def read_back(row: dict[str, Any], number_of: dict[LoggedTool, int]) -> SimpleNamespace:
    reader = EventReader(None)  # type: ignore[arg-type]
    reader._tools._known = {number: tool for tool, number in number_of.items()}
    return reader([row])[0]


def test_an_event_comes_back_bit_for_bit_from_a_quarter_of_the_bytes() -> None:
    rng = np.random.default_rng(3)
    for candidates, shown in ((40, 12), (64, 20), (1, 0), (0, 0)):
        event = usual_event(rng, candidates, shown)
        number_of = {tool: number for number, tool in enumerate(dict.fromkeys(tools_of(event)), 1)}
        row = packed_event(event, number_of)
        back = read_back(row, number_of)
        assert back.candidates == lists_of(event)
        for name in ("context", "limits", "timings", "shown", "vector"):
            assert getattr(back, name) == event[name], name
        if candidates > 1:
            plain = {name: event[name] for name in ("context", "limits", "timings")}
            plain["candidates"] = lists_of(event)
            plain["shown"] = [tool.to_record() for tool in event["shown"]]
            assert 4 * len(row["details"]) < len(json.dumps(plain)) + len(event["vector"])


def test_an_event_without_draw_and_vector_comes_back_with_nothing_in_their_place() -> None:
    event = usual_event(np.random.default_rng(4), 3, 2)
    event["candidates"] = CandidateColumns(*event["candidates"][:3])
    event["vector"] = None
    number_of = {tool: 2**31 + number for number, tool in enumerate(dict.fromkeys(tools_of(event)))}
    back = read_back(packed_event(event, number_of), number_of)
    assert back.candidates == lists_of(event) and back.vector is None
