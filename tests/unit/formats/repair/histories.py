"""Histories as providers want them, ways to break them, and what the providers demand, said a second time."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import strategies as st

Messages = list[dict[str, Any]]
FORMS = ("openai", "responses", "anthropic")


def faults(messages: Messages, form: str) -> list[str]:
    """What the provider would refuse, by its documentation; empty for a list in order."""
    return {"openai": _chat_faults, "responses": _responses_faults, "anthropic": _anthropic_faults}[form](
        messages
    )


def _chat_faults(messages: Messages) -> list[str]:
    found = []
    open_calls: list[str] = []
    for message in messages:
        if message.get("role") == "tool":
            if message.get("tool_call_id") not in open_calls:
                found.append("a result follows no call of its id")
            else:
                open_calls.remove(message["tool_call_id"])
            continue
        if open_calls:
            found.append("calls are not answered at once")
        open_calls = []
        if "tool_calls" in message and message["role"] == "assistant":
            ids = [call.get("id") for call in message["tool_calls"]]
            if not ids or not all(ids) or len(set(ids)) < len(ids):
                found.append("ids of calls are empty or given twice")
            open_calls = ids
        elif message["role"] in ("user", "assistant") and not message.get("content"):
            found.append("a message is empty")
    return found + ["calls are not answered"] * bool(open_calls)


def _responses_faults(items: Messages) -> list[str]:
    found = []
    open_calls: list[str] = []
    for item in items:
        if item.get("type") == "function_call":
            if item["call_id"] in open_calls:
                found.append("a call is made twice before it is answered")
            open_calls.append(item["call_id"])
        elif item.get("type") == "function_call_output":
            if item["call_id"] not in open_calls:
                found.append("an output follows no call of its id")
            else:
                open_calls.remove(item["call_id"])
        elif item.get("role") in ("user", "assistant") and not item.get("content"):
            found.append("a message is empty")
    return found + ["calls are not answered"] * bool(open_calls)


def _anthropic_faults(messages: Messages) -> list[str]:
    found = []
    turns = [message for message in messages if message["role"] != "system"]
    roles = [message["role"] for message in turns]
    if roles[:1] not in ([], ["user"]):
        found.append("the user is not first")
    if any(left == right for left, right in itertools.pairwise(roles)):
        found.append("roles do not alternate")
    asked: list[str] = []
    for message in [*turns, {"role": "user", "content": "end"}]:
        content = message["content"]
        content = [{"type": "text", "text": content}] if isinstance(content, str) else content
        kinds = [block.get("type") for block in content]
        answered = [block["tool_use_id"] for block in content if block.get("type") == "tool_result"]
        if sorted(answered) != sorted(asked):
            found.append("results are not those of the calls before")
        if "tool_result" in kinds[len(answered) :]:
            found.append("results do not come first")
        asked = [block["id"] for block in content if block.get("type") == "tool_use"]
        if asked and message["role"] != "assistant":
            found.append("the user calls a tool")
        if len(set(asked)) < len(asked):
            found.append("ids of calls are given twice")
        if not content or any(block.get("type") == "text" and not block["text"].strip() for block in content):
            found.append("a text is empty")
    return found


@st.composite
def valid(draw: Any, form: str) -> Messages:
    """A conversation of turns with none, one or several rounds of calls; ids may come again in later turns."""
    unique = draw(st.booleans())
    count = 0
    messages: Messages = []
    if form != "anthropic" and draw(st.booleans()):
        messages.append({"role": "system", "content": "Be brief."})
    for turn in range(draw(st.integers(0, 4))):
        messages.append({"role": "user", "content": f"question {turn}"})
        for _ in range(draw(st.integers(0, 2))):
            ids = []
            for place in range(draw(st.integers(1, 3))):
                count += 1
                ids.append(f"call_{count if unique else place}")
            said = draw(st.booleans())
            messages += _round(form, ids, draw(st.permutations(ids)), said)
        messages.append({"role": "assistant", "content": f"answer {turn}"})
    if messages and draw(st.booleans()) and form == "anthropic":
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
        if messages[-1]["role"] == "assistant":
            messages.append({"role": "user", "content": [image, {"type": "text", "text": "what is this?"}]})
    return messages


def _round(form: str, ids: list[str], answered: list[str], said: bool) -> Messages:
    if form == "openai":
        calls = [
            {"id": one, "type": "function", "function": {"name": f"f_{one}", "arguments": "{}"}}
            for one in ids
        ]
        called: dict[str, Any] = {
            "role": "assistant",
            "content": "Let me see." if said else None,
            "tool_calls": calls,
        }
        return [called] + [
            {"role": "tool", "tool_call_id": one, "content": f"result {one}"} for one in answered
        ]
    if form == "responses":
        reasoning = [{"type": "reasoning", "id": "rs_1", "summary": []}] if said else []
        items = [
            {"type": "function_call", "call_id": one, "name": f"f_{one}", "arguments": "{}"} for one in ids
        ]
        outputs = [
            {"type": "function_call_output", "call_id": one, "output": f"result {one}"} for one in answered
        ]
        return reasoning + items + outputs
    texts = [{"type": "text", "text": "Let me see."}] if said else []
    uses = [{"type": "tool_use", "id": one, "name": f"f_{one}", "input": {}} for one in ids]
    blocks = [{"type": "tool_result", "tool_use_id": one, "content": f"result {one}"} for one in answered]
    also = [{"type": "text", "text": "and hurry"}] if said else []
    return [{"role": "assistant", "content": texts + uses}, {"role": "user", "content": blocks + also}]


@st.composite
def broken(draw: Any, form: str) -> Messages:
    """A valid history after some edits: messages dropped, doubled, moved, emptied, blocks taken apart."""
    messages = draw(valid(form))
    for _ in range(draw(st.integers(1, 4))):
        if not messages:
            break
        at = draw(st.integers(0, len(messages) - 1))
        to = draw(st.integers(0, len(messages)))
        edit = draw(st.sampled_from(["drop", "double", "move", "empty", "cut", "inside", "id"]))
        message = messages[at]
        if edit == "drop":
            messages.pop(at)
        elif edit == "double":
            messages.insert(to, message)
        elif edit == "move":
            messages.pop(at)
            messages.insert(to, message)
        elif edit == "cut":
            messages = messages[at:]
        elif edit == "empty" and "content" in message and message["role"] != "tool":
            messages[at] = {
                **message,
                "content": draw(st.sampled_from(["", None, [], [{"type": "text", "text": " "}]])),
            }
        elif edit == "inside" and isinstance(message.get("content"), list) and message["content"]:
            content = list(message["content"])
            block = content.pop(draw(st.integers(0, len(content) - 1)))
            if draw(st.booleans()):
                content.insert(draw(st.integers(0, len(content))), block)
                content.insert(draw(st.integers(0, len(content))), block)
            messages[at] = {**message, "content": content}
        elif edit == "inside" and message.get("tool_calls"):
            calls = list(message["tool_calls"])
            calls.pop(draw(st.integers(0, len(calls) - 1)))
            messages[at] = {**message, "tool_calls": calls}
        elif edit == "id":
            for key in ("tool_call_id", "call_id"):
                if key in message:
                    messages[at] = {**message, key: draw(st.sampled_from(["", None, "call_0", "call_9"]))}
    return messages
