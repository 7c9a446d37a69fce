"""No input can start a process or run code: the package has no call that could."""

from __future__ import annotations

import re
from pathlib import Path

import toolroll

SOURCES = Path(toolroll.__file__).parent
ALLOWED = {
    # They read what the same process has written: a list in memory for a copy or for its digest, an event.
    ("selection/tool_lists.py", "marshal.loads"),
    # It starts a function of its own in another process, and reads what that has written to their pipe.
    ("registry/keeper/process.py", "subprocess"),
}
CALL = re.compile(
    r"(?<![\w.])(eval|exec|compile|__import__)\(|\bsubprocess\b|\bos\.(system|popen|exec\w+|spawn\w+|posix_spawn)\b"
    r"|\b(pickle|marshal|shelve|dill|joblib)\.(loads?|Unpickler)\b|yaml\.(load|unsafe_load)\("
)


def test_no_source_file_starts_a_process_or_runs_code_from_data():
    found = {
        (path.relative_to(SOURCES).as_posix(), match.group())
        for path in SOURCES.rglob("*.py")
        for match in CALL.finditer(path.read_text("utf-8"))
    }
    assert found == ALLOWED
