"""Loads `chat_gateway.py`: conversations of several turns, at the same time, over two workers.

    python examples/load_chat_gateway.py --conversations 40 --turns 5 --clients 4

The model is a script on loopback. For each message it calls the tool that the message needs, and one that was
not sent. Each message has a connection of its own, so any worker may take it. The status is 1 if
a turn was lost, a tool that was not sent was run, or an outcome was not recorded.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import sqlalchemy as sa

import toolroll
from toolroll.formats.sources.folder import read_folder
from toolroll.registry.registry import Registry
from toolroll.registry.store.database import Database

# A message, and the tool that it needs.
NEEDS = {
    "What's on my calendar tomorrow?": "list_events",
    "Email Hanna that we meet in the park": "send_email",
    "Which files did I change this week?": "find_files",
    "Show me the history of changes to the code": "git_log",
    "Will it rain in Oslo on Sunday? And how is the air?": "get_air_quality",
}
HERE = Path(__file__).parent


class Model(BaseHTTPRequestHandler):
    """A provider of chat completions that plays a model."""

    protocol_version = "HTTP/1.1"
    sent: ClassVar[Counter[str]] = Counter()
    known: ClassVar[list[str]] = []  # names of all tools

    def do_POST(self) -> None:
        """Calls the tool that the message needs, then answers."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        names = [tool["function"]["name"] for tool in body.get("tools", ())]
        last = body["messages"][-1]
        need = NEEDS.get(last.get("content") or "", "") if last["role"] == "user" else ""
        if need:
            Model.sent["turns"] += 1
            Model.sent["tools"] += len(names)
            Model.sent["right"] += need in names
        unsent = next(name for name in Model.known if name not in (need, *names))
        wanted = [need, unsent] if need else []
        content = json.dumps({"choices": [{"message": _message(wanted)}]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def _message(names: list[str]) -> dict[str, Any]:
    calls = [
        {"id": f"call_{at}", "type": "function", "function": {"name": name, "arguments": "{}"}}
        for at, name in enumerate(names)
    ]
    return (
        {"role": "assistant", "content": None, "tool_calls": calls}
        if calls
        else {
            "role": "assistant",
            "content": "That is all.",
        }
    )


def converse(url: str, number: int, turns: int) -> list[dict[str, Any]]:
    """One conversation. Returns what each turn took and who answered."""
    messages: list[dict[str, Any]] = []
    rows = []
    for turn in range(turns):
        said = list(NEEDS)[(number + turn) % len(NEEDS)]
        messages.append({"role": "user", "content": said})
        body = {"user": f"user-{number}", "conversation": "c", "messages": messages}
        asked = urllib.request.Request(
            f"{url}/chat", json.dumps(body).encode(), {"content-type": "application/json"}
        )
        began = time.perf_counter()
        with urllib.request.urlopen(asked, timeout=60) as reply:  # a connection of its own, to any worker
            answer = json.load(reply)
        messages += answer["messages"]
        results = [one["content"] for one in answer["messages"] if one["role"] == "tool"]
        rows.append(
            {
                "ms": 1e3 * (time.perf_counter() - began),
                "worker": answer["worker"],
                "ran": sum(text.endswith("is done") for text in results),
                "ran_unsent": sum(text.endswith("is done") for text in results[1:]),
                "is_right": bool(results) and results[0].startswith(f"{NEEDS[said]}("),
            }
        )
    return rows


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for(url: str, gateway: subprocess.Popen[bytes]) -> None:
    """Until the gateway answers."""
    for _ in range(600):
        try:
            urllib.request.urlopen(f"{url}/openapi.json", timeout=5).close()
        except OSError:
            if gateway.poll() is not None:
                raise SystemExit("the gateway ended before it answered") from None
            time.sleep(0.1)
        else:
            return
    raise SystemExit("the gateway did not answer within a minute")


def main() -> int:
    """Starts the model and the gateway, plays the conversations, and prints what happened as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--conversations", type=int, default=40)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    model = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    model.daemon_threads = True
    threading.Thread(target=model.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        tools_url = f"sqlite:///{Path(folder) / 'tools.db'}"
        database = Database.open(tools_url, create=True, migrate=True)
        demo = read_folder(Path(toolroll.__file__).with_name("demo") / "toolkits")
        Registry(database, actor="example").import_(demo)
        Model.known[:] = [tool.name for tool in demo.tools]
        database.close()
        port = free_port()
        command = ["uvicorn", "chat_gateway:app", "--port", str(port), "--log-level", "warning"]
        gateway = subprocess.Popen(
            [sys.executable, "-m", *command, "--workers", str(given.workers)],
            cwd=HERE,
            env=os.environ | {"TOOLS_URL": tools_url, "MODEL_URL": f"http://127.0.0.1:{model.server_port}"},
        )
        try:
            url = f"http://127.0.0.1:{port}"
            wait_for(url, gateway)
            began = time.perf_counter()
            with ThreadPoolExecutor(given.clients) as clients:
                played = clients.map(lambda n: converse(url, n, given.turns), range(given.conversations))
                rows = [row for conversation in played for row in conversation]
            seconds = time.perf_counter() - began
        finally:
            gateway.terminate()  # each worker writes what it has learnt
            gateway.wait(30)
        engine = sa.create_engine(tools_url)
        with engine.connect() as connection:
            reports = sa.text("SELECT COUNT(*) FROM selection_events, json_each(selection_events.called)")
            recorded = connection.execute(reports).scalar_one()
        engine.dispose()
    times = sorted(row["ms"] for row in rows)
    figures = {
        "turns": len(rows),
        "turns_a_second": round(len(rows) / seconds, 1),
        "p50_ms": round(statistics.median(times), 1),
        "p95_ms": round(times[int(0.95 * (len(times) - 1))], 1),
        "workers": len({row["worker"] for row in rows}),
        "tools_sent": round(Model.sent["tools"] / max(1, Model.sent["turns"]), 1),
        "right_tool_sent": Model.sent["right"],
        "right_tool_ran": sum(row["is_right"] for row in rows),
        "ran_unsent": sum(row["ran_unsent"] for row in rows),
        "calls_ran": sum(row["ran"] for row in rows),
        "outcomes_recorded": recorded,
    }
    print(json.dumps(figures, indent=2))
    lost = given.conversations * given.turns - len(rows)
    return int(bool(lost or figures["ran_unsent"] or recorded != figures["calls_ran"]))


if __name__ == "__main__":
    sys.exit(main())
