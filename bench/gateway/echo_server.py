"""An MCP server that answers at once: `echo_server.py NUMBER_OF_TOOLS SECONDS_BEFORE_THE_FIRST_ANSWER`."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

_SCHEMA = {"type": "object", "properties": {"text": {"type": "string", "description": "Any text."}}}


def answer(method: str, params: dict[str, Any], tools: int) -> dict[str, Any]:
    """The result of a request."""
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "echo", "version": "1"},
        }
    if method == "tools/list":
        each = [(f"tool_{number}", f"Repeats a text in way {number}.") for number in range(tools)]
        return {"tools": [{"name": name, "description": told, "inputSchema": _SCHEMA} for name, told in each]}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": params["arguments"].get("text", "")}]}
    return {}


def main(tools: int, wait_s: float) -> None:
    """Serves standard input and output."""
    time.sleep(wait_s)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            result = answer(message["method"], message.get("params") or {}, tools)
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
