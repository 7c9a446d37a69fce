"""The client that asks MCP servers for their tools."""

from __future__ import annotations

import asyncio
import fcntl
import sys

import pytest
from bench.quality.mcp_client import ServerFailed, answer

# Replies to each request with the next of LINES; {id} is the request's number.
SERVER = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    if request["method"] == "notifications/initialized":
        ready = True
    elif request["method"] == "initialize":
        print('{"jsonrpc": "2.0", "id": 0, "result": {}}', flush=True)
    elif ready:
        page = int(request["params"].get("cursor", "0"))
        print(LINES[page].replace("{id}", str(request["id"])), flush=True)
"""


def asked(tmp_path, *lines: str, program: str = SERVER, seconds: float = 10) -> bytes:
    script = tmp_path / "server.py"
    script.write_text(f"LINES = {list(lines)!r}\n{program}", "utf-8")
    return asyncio.run(answer([sys.executable, "-I", str(script)], {"KEY": "none"}, tmp_path, seconds))


def test_an_answer_is_kept_as_it_came(tmp_path):
    line = '{"id":{id},  "jsonrpc":"2.0","result":{"tools":[{"name":"\\u0061","name":"b"}]}}'
    assert asked(tmp_path, line) == line.replace("{id}", "1").encode() + b"\n"


@pytest.mark.slow
def test_the_tools_of_all_pages_are_joined(tmp_path):
    pages = [
        '{"jsonrpc": "2.0", "id": {id}, "result": {"tools": [{"name": "a"}], "nextCursor": "1"}}',
        '{"jsonrpc": "2.0", "id": {id}, "result": {"tools": [{"name": "é"}]}}',
    ]
    assert asked(tmp_path, *pages) == '{"tools": [{"name": "a"}, {"name": "é"}]}'.encode()


def test_logs_notifications_and_requests_of_the_server_are_no_answer(tmp_path):
    reply = '{"jsonrpc": "2.0", "id": {id}, "result": {"tools": []}}'
    others = '{"method": "notifications/message"}\n{"id": {id}, "method": "ping"}\n[]\n7'
    found = asked(tmp_path, f"Starting on stdio\n{others}\n{reply}")
    assert found == reply.replace("{id}", "1").encode() + b"\n"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"id": {id}, "error": {"code": -1, "message": "no key"}}', "tools/list was refused: .*no key"),
        ('{"id": {id}, "result": {}}', "no tools"),
    ],
)
def test_a_refusal_is_a_failure_with_its_reason(tmp_path, line, reason):
    with pytest.raises(ServerFailed, match=reason):
        asked(tmp_path, line)


def test_a_server_that_ends_fails_with_the_last_line_that_it_printed(tmp_path):
    with pytest.raises(ServerFailed, match="API key is missing"):
        asked(tmp_path, program="raise SystemExit('Usage\\nAPI key is missing')")


def test_a_server_gets_no_variable_of_ours_but_the_path(tmp_path, monkeypatch):
    monkeypatch.setenv("OWN_SECRET", "1")
    program = "import os, sys; sys.exit(' '.join(sorted(os.environ)))"
    with pytest.raises(ServerFailed, match="HOME KEY LANG( LC_CTYPE)? PATH$"):
        asked(tmp_path, program=program)


def test_a_silent_server_fails_in_time(tmp_path):
    with pytest.raises(ServerFailed, match=r"no answer in 0\.1 s"):
        asked(tmp_path, program="import time; time.sleep(60)", seconds=0.1)


def test_the_programs_that_a_server_started_are_killed_too(tmp_path):
    child = (
        "import fcntl, subprocess, sys\n"
        "lock = open('lock', 'w')\n"
        "fcntl.flock(lock, fcntl.LOCK_EX)\n"
        "waits = [sys.executable, '-c', 'import time; time.sleep(600)']\n"
        "subprocess.Popen(waits, pass_fds=[lock.fileno()])\n"
    )
    asked(tmp_path, '{"id": {id}, "result": {"tools": []}}', program=child + SERVER)
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(
            lock, fcntl.LOCK_EX
        )  # waits for as long as the child lives: the test's time limit ends it
