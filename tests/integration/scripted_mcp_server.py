"""An MCP server over stdio in a few lines, which behaves as well or as badly as its argument says. It imports little, so it starts fast."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

GIVEN = sys.argv[1] if len(sys.argv) > 1 else "{}"
if GIVEN.startswith("@"):  # a file
    with open(GIVEN[1:]) as behaviour:
        GIVEN = behaviour.read()
BEHAVIOUR: dict[str, Any] = json.loads(GIVEN)
LOCK = threading.Lock()
ANSWERS: dict[str, Any] = {}
ANSWERED = threading.Condition()
CANCELLED: list[Any] = []
SUBSCRIBED: list[str] = []
TOOLS: list[Any] = BEHAVIOUR.get("tools", [])
RUNNING: list[Any] = []
MOST_RUNNING = 0


def send(message: dict[str, Any]) -> None:
    with LOCK:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def text(words: str, is_error: bool = False) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}], "isError": is_error}


def write_errors(seconds: float) -> None:
    """Floods standard error, and ends with words that matter."""
    until, line = time.monotonic() + seconds, b"e" * 99 + b"\n"
    while time.monotonic() < until:
        os.write(2, line * 10_000)
    os.write(2, b"no licence\n")
    os._exit(3)


def notify_for(seconds: float, message: dict[str, Any]) -> None:
    """Floods standard output with one message, in large writes as an attacker would."""
    until = time.monotonic() + seconds
    lines = (json.dumps({"jsonrpc": "2.0", **message}) + "\n") * 500
    while time.monotonic() < until:
        with LOCK:
            sys.stdout.write(lines)
            sys.stdout.flush()


def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
    own_id = f"q{len(ANSWERS)}"
    send({"id": own_id, "method": method, "params": params})
    with ANSWERED:
        ANSWERED.wait_for(lambda: own_id in ANSWERS, 20)
    return ANSWERS.get(own_id, {})


def call(request_id: Any, params: dict[str, Any]) -> dict[str, Any] | None:
    name, arguments = params["name"], params.get("arguments") or {}
    if name == "crash":
        os._exit(3)
    if name == "hang":
        return None
    if name == "slow":
        global MOST_RUNNING
        RUNNING.append(request_id)
        MOST_RUNNING = max(MOST_RUNNING, len(RUNNING))
        time.sleep(arguments["s"])
        RUNNING.remove(request_id)
        return text("done")
    if name == "most_running":
        return text(str(MOST_RUNNING))
    if arguments.get("text") in BEHAVIOUR.get("fails_with", ()):
        return text("it cannot be done", True)
    if name == "fail":
        return text("it went wrong", True)
    if name == "long":
        return text("abcdefghij" * arguments["tens"])
    if name == "variables":
        return text(json.dumps(dict(os.environ)))
    if name == "pid":
        return text(str(os.getpid()))
    if name == "folder":
        return text(os.getcwd())
    if name == "cancelled":
        return text(json.dumps(CANCELLED))
    if name == "progress":
        token = params["_meta"]["progressToken"]
        for step in (1, 2):
            send(
                {
                    "method": "notifications/progress",
                    "params": {"progressToken": token, "progress": step, "total": 2},
                }
            )
        return text("done")
    if name == "ask_user":
        schema = {"type": "object", "properties": {"colour": {"type": "string"}}}
        return text(
            json.dumps(ask("elicitation/create", {"message": "Which colour?", "requestedSchema": schema}))
        )
    if name == "ask_model":
        messages = [{"role": "user", "content": {"type": "text", "text": "hello"}}]
        return text(json.dumps(ask("sampling/createMessage", {"messages": messages, "maxTokens": 10})))
    if name == "ask_often":
        schema = {"type": "object", "properties": {"token": {"type": "string"}}}
        asked: list[dict[str, Any]] = []
        for _ in range(arguments["times"]):
            asked.append(
                ask("elicitation/create", {"message": arguments["message"], "requestedSchema": schema})
            )
            messages = [{"role": "user", "content": {"type": "text", "text": arguments["message"]}}]
            asked.append(ask("sampling/createMessage", {"messages": messages, "maxTokens": 10}))
        return text(json.dumps([each["code"] for each in asked if "code" in each]))
    if name == "flood_errors":
        threading.Thread(target=write_errors, args=(arguments["s"],), daemon=True).start()
        return text("flooding")
    if name == "flood":
        flood = arguments["s"], arguments["message"]
        threading.Thread(target=notify_for, args=flood, daemon=True).start()
        return text("flooding")
    if name == "subscribed":
        return text(json.dumps(SUBSCRIBED))
    if name == "touch":
        if arguments["uri"] in SUBSCRIBED:
            send({"method": "notifications/resources/updated", "params": {"uri": arguments["uri"]}})
        return text("touched")
    if name == "become":
        TOOLS[:] = arguments.get("tools", TOOLS)
        BEHAVIOUR.update(
            {kind: arguments[kind] for kind in ("prompts", "resources", "templates") if kind in arguments}
        )
        if not arguments.get("silently"):
            send({"method": "notifications/tools/list_changed"})
        return text("changed")
    return text(f"{name} {json.dumps(arguments, sort_keys=True)}")


def answer(message: dict[str, Any]) -> None:
    method, params, request_id = message.get("method"), message.get("params") or {}, message.get("id")
    result: dict[str, Any] | None = {}
    if method == "initialize":
        if BEHAVIOUR.get("hangs"):
            return
        time.sleep(BEHAVIOUR.get("start_s", 0))
        capabilities: dict[str, Any] = {"tools": {"listChanged": True}}
        capabilities |= {kind: {} for kind in ("prompts", "resources", "completions") if kind in BEHAVIOUR}
        if "resources" in BEHAVIOUR:
            capabilities["resources"] = {"subscribe": True}
        result = {
            "protocolVersion": BEHAVIOUR.get("version", params["protocolVersion"]),
            "capabilities": capabilities,
            "serverInfo": {"name": "scripted", "version": "1"},
        }
    elif method == "tools/list" and "raw_tools" in BEHAVIOUR:  # what json.dumps does not write
        line = f'{{"jsonrpc": "2.0", "id": {request_id}, "result": {{"tools": [{BEHAVIOUR["raw_tools"]}]}}}}'
        with LOCK:
            print(line, flush=True)
        return
    elif method == "tools/list":
        result = {"tools": TOOLS}
        if BEHAVIOUR.get("endless"):
            result["nextCursor"] = str(time.monotonic())
    elif method == "tools/call":
        result = call(request_id, params)
    elif method == "prompts/list":
        result = {"prompts": BEHAVIOUR["prompts"]}
    elif method == "prompts/get":
        result = {"messages": [{"role": "user", "content": {"type": "text", "text": json.dumps(params)}}]}
    elif method == "resources/list":
        result = {"resources": BEHAVIOUR["resources"]}
    elif method == "resources/templates/list":
        result = {"resourceTemplates": BEHAVIOUR.get("templates", [])}
    elif method == "resources/read":
        result = {"contents": [{"uri": params["uri"], "text": BEHAVIOUR.get("text", "content")}]}
    elif method == "resources/subscribe":
        SUBSCRIBED.append(params["uri"])
    elif method == "resources/unsubscribe":
        SUBSCRIBED.remove(params["uri"])
    elif method == "completion/complete":
        result = {"completion": {"values": [params["ref"].get("name", ""), params["argument"]["value"]]}}
    elif method != "ping":
        return send({"id": request_id, "error": {"code": -32601, "message": "Method not found"}})
    if result is not None:
        send({"id": request_id, "result": result})


def main() -> None:
    if BEHAVIOUR.get("marker"):  # counts the starts
        with open(BEHAVIOUR["marker"], "a") as stream:
            stream.write(f"{os.getpid()}\n")
    if BEHAVIOUR.get("dies"):
        sys.exit("no licence")
    for _ in range(BEHAVIOUR.get("babble", 0)):
        print("Loading model weights...", flush=False)
    while BEHAVIOUR.get("endless_line"):
        sys.stdout.write("x" * 1_000_000)
    for line in sys.stdin:
        message = json.loads(line)
        if "method" not in message:
            with ANSWERED:
                ANSWERS[message["id"]] = message.get("result", message.get("error"))
                ANSWERED.notify_all()
        elif message["method"] == "notifications/cancelled":
            CANCELLED.append(message["params"]["requestId"])
        elif message.get("params", {}).get("name") == "deafen":  # reads nothing any more, and goes on running
            os.close(0)
            send({"id": message["id"], "result": text("deaf")})
            time.sleep(60)
        elif message["method"] == "notifications/initialized":
            for number in range(BEHAVIOUR.get("flood", 0)):
                send({"method": "notifications/message", "params": {"level": "info", "data": number}})
        elif "id" in message:
            threading.Thread(target=answer, args=(message,), daemon=True).start()


main()
