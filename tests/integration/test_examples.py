"""The examples print what stands beside them, and lose nothing under load."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_conversation_of_ten_turns_goes_as_its_transcript_says():
    played = subprocess.run(
        [sys.executable, "-X", "utf8", str(EXAMPLES / "conversation.py")],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=240,
    )
    assert played.stderr == ""
    assert played.stdout.splitlines() == (EXAMPLES / "conversation.txt").read_text("utf-8").splitlines()


def test_a_chat_gateway_over_two_workers_loses_no_turn_and_no_outcome():
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    loaded = subprocess.run(
        [sys.executable, str(EXAMPLES / "load_chat_gateway.py"), "--conversations", "4", "--turns", "2"],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=240,
    )
    assert loaded.returncode == 0, loaded.stderr
    figures = json.loads(loaded.stdout)
    assert figures["turns"] == figures["right_tool_ran"] == figures["outcomes_recorded"] == 8
    assert figures["ran_unsent"] == 0 and figures["tools_sent"] <= 12
