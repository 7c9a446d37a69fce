"""The examples print what stands beside them."""

from __future__ import annotations

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
