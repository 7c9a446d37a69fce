"""A provider's prompt cache compares bytes: what is sent for a tool is the same in every process and turn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import toolroll
from tests.table import each_row
from toolroll import Toolroll
from toolroll.formats.providers import PROVIDERS

ROOT = Path(__file__).parents[3]
SENT = """
import hashlib, json
from toolroll import Toolroll
from toolroll.formats.meta_tools import meta_schemas
from toolroll.formats.providers import PROVIDERS

def book(name: str, when: "list[str]", kind: str = "table") -> bool:
    '''Books a table.'''
    return True

schema = {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [
    {"type": "object", "properties": {k: {"const": k} for k in "zyx"}, "required": ["z", "y"]},
    {"type": "object", "properties": {k: {"type": ["string", "null"]} for k in "xyz"}, "required": ["y"]},
]}}}
odd = [book, {"name": "math.add", "parameters": schema}, {"name": "날씨 조회", "inputSchema": schema, "annotations": {"b": 1, "a": 2}}]
lines = []
for roll in (Toolroll.demo(), Toolroll.from_tools(odd)):
    picked = roll.select("If it rains tomorrow, plan an indoor workout", k=7)
    for name, provider in PROVIDERS.items():
        strict = provider.takes_strict
        lines += [picked.schemas(name, strict=strict), sorted(map(str, picked.conversion_losses(name, strict=strict)))]
        for how in provider.hows:
            if how == "allow" and provider.most_tools < 200 and len(picked.catalog) > 128:
                continue
            delivery = picked.deliver(name, how, strict=strict)
            lines += [delivery.request, sorted(delivery.allowed)]
lines += [meta_schemas(name) for name in PROVIDERS]
for line in lines:
    print(hashlib.sha256(json.dumps(line, ensure_ascii=False).encode()).hexdigest())
"""


@pytest.mark.slow
def test_every_process_sends_the_same_bytes():
    def run(seed: str) -> str:
        path = os.pathsep.join([str(Path(toolroll.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path, "PYTHONUTF8": "1"}
        done = subprocess.run(
            [sys.executable, "-c", SENT],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        return done.stdout

    first = run("0")
    assert len(first.splitlines()) > 50
    assert run("1") == first and run("4242") == first


@each_row("provider", PROVIDERS)
def test_a_tool_is_the_same_bytes_on_every_turn_it_is_sent(demo, provider):
    seen: dict[str, str] = {}
    for message in (
        "will it rain",
        "book a table and play music",
        "send mail to Bob",
        "will it rain in Oslo",
    ):
        for form in ({}, {"strict": True}) if PROVIDERS[provider].takes_strict else ({},):
            schemas = demo.select(message, k=7).schemas(provider, **form)
            for schema in schemas[0]["function_declarations"] if provider == "gemini" else schemas:
                name = f"{form}{schema.get('function', schema)['name']}"
                text = json.dumps(schema)
                assert seen.setdefault(name, text) == text
    assert len(seen) > 15


def test_the_list_stays_the_same_while_the_selection_changes():
    roll = Toolroll.demo()
    for provider, how in (
        ("gemini", "allow"),
        ("anthropic", "defer"),
        ("openai_responses", "defer"),
        ("openai", "meta-tools"),
    ):
        lists = {
            json.dumps(roll.select(text, k=5).deliver(provider, how).request["tools"])
            for text in ("will it rain", "play music", "send mail to Bob", "zzz")
        }
        assert len(lists) == 1
