"""One tool whose text is written to be among the first five of everybody's messages.

`bench/quality/capture_texts.py` writes the texts. Some kinds are honest in form: an imitation of one subject, a
copy of some tools, and examples that are chosen for one place. They are found where the imitated tools are, and
nothing tells them from competitors, so these tests do not assert a bar for them (docs/retrieval.md has figures).
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from bench.quality.capture_texts import KINDS, NAME, Text, Writer

from tests.attacks import bounded
from tests.unit.bench.test_attack_model import ASKING, MESSAGES
from toolroll import Tool, Toolroll
from toolroll.catalog.tool_text import words
from toolroll.embedders.static import StaticEmbedder
from toolroll.lab.evaluation.dataset import read_dataset

IMITATING = {"copied", "one subject", "climbed", "spread examples"}
SHORT = ("stuffed", "promised", "copied examples", "short titles")  # the worst on the demonstration catalog
OFFICE = os.environ.get("TOOLROLL_CAPTURE_DATASET", "")  # a folder for `toolroll eval`: mcp-office


def read_by_the_author(tools: Sequence[Tool]) -> list[str]:
    """A thousand messages made from what the tools say."""
    said = [
        form.format(words(tool.name).lower() if at % 2 else tool.description.split(".")[0].lower()[:120])
        for tool in tools
        for at, form in enumerate(ASKING[:6])
    ]
    return [said[at] for at in np.random.default_rng(0).permutation(len(said))[:1_000]]


def captured(tools: Sequence[Tool], text: Text, asked: Sequence[str]) -> float:
    """The share of the messages that have the text's tool among the first five."""
    roll = Toolroll.from_tools([*tools, text.tool], embedder="static")
    return float(np.mean([text.tool.name in roll.select(message, k=5).names for message in asked]))


def worst(tools: Sequence[Tool], asked: Sequence[str], kinds: Sequence[str]) -> dict[str, float]:
    """By kind, the greatest share that any of its texts captures."""
    found: dict[str, float] = {}
    for text in Writer(tools, read_by_the_author(tools), StaticEmbedder()).texts(kinds):
        found[text.kind] = max(found.get(text.kind, 0), captured(tools, text, asked))
    return found


def test_no_text_captures_much_of_the_demonstration_catalogs_messages(demo):
    """7.3 % before, by 64 examples that other tools have: they passed as the tool's own messages.

    Now 3.6 %, by a promise to do everything (a message is 0.9 %). The goal is 3 %, an even share 2.3 %.
    """
    asked = [line["message"] for line in map(json.loads, MESSAGES.read_text().splitlines()) if line["gold"]]
    tools = [replace(tool, pinned=False) for tool in demo.catalog.tools]
    kinds = bounded(SHORT, [kind for kind in KINDS if kind not in IMITATING])
    found = worst(tools, asked, kinds)
    assert max(found.values()) <= 0.04, found


@pytest.mark.slow
@pytest.mark.skipif(not OFFICE, reason="TOOLROLL_CAPTURE_DATASET names no folder")
def test_no_text_captures_much_of_the_messages_of_746_real_tools():
    """6.2 % before, by the words that people say most; a copy of one tool 2.9 %, an imitation 4.2 %, as now."""
    dataset = read_dataset(Path(OFFICE))
    asked = [query.text for query in dataset.queries if query.gold]
    found = worst(dataset.definitions.tools, asked, [kind for kind in KINDS if kind not in IMITATING])
    assert max(found.values()) <= 0.022, found


def test_an_honest_new_tool_is_found_by_its_own_messages(demo):
    tools = [tool for tool in demo.catalog.tools if tool.toolkit != "weather"]
    honest = Tool(
        NAME,
        "The weather forecast of a place for the next days: temperature, rain, wind.",
        {"type": "object", "properties": {"place": {"type": "string"}, "days": {"type": "integer"}}},
        toolkit="sky",
        examples=("will it rain in Oslo tomorrow?", "how warm does it get on Sunday"),
    )
    roll = Toolroll.from_tools([*tools, honest], embedder="static")
    asked = (
        "do I need an umbrella on Friday, will it rain",
        "wind and temperature in Bergen for the weekend",
        "weather forecast for Lisbon next week",
    )
    assert all(NAME in roll.select(message, k=5).names[:3] for message in asked)
