"""Histories as providers want them, ways to break them, and what the providers demand, said a second time."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import strategies as st

Messages = list[dict[str, Any]]
FORMS = ("openai", "openai_responses", "anthropic", "gemini")


def faults(messages: Messages, form: str) -> list[str]:
    """What the provider would refuse, by its documentation; empty for a list in order."""
    oracle = {
        "openai": _chat_faults,
        "openai_responses": _responses_faults,
        "anthropic": _anthropic_faults,
        "gemini": _gemini_faults,
    }[form]
    return oracle(messages)


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
    for item, follower in itertools.pairwise([*items, {}]):
        written = follower.get("role") == "assistant" or follower.get("type") in (
            "reasoning",
            "function_call",
        )
        if item.get("type") == "reasoning" and not written:
            found.append("reasoning is not followed by an item of the model")
    return found + ["calls are not answered"] * bool(open_calls)


def _gemini_faults(contents: Messages) -> list[str]:
    found = []
    before: Messages = [{"role": "nobody", "parts": []}, *contents]
    for left, content in itertools.pairwise([*before, {"role": "user", "parts": [{"text": "end"}]}]):
        parts = content.get("parts")
        if not parts or all(part.keys() == {"text"} and not part["text"].strip() for part in parts):
            found.append("a message is empty")
            continue
        called = _gemini_values(left, "functionCall", "function_call")
        answered = _gemini_values(content, "functionResponse", "function_response")
        if sorted(call["name"] for call in called) != sorted(answer["name"] for answer in answered):
            found.append("responses are not those of the calls before")
        ids = [call.get("id") for call in called], [answer.get("id") for answer in answered]
        if all(map(all, ids)) and sorted(ids[0]) != sorted(ids[1]):
            found.append("responses have other ids than the calls before")
        if _gemini_values(content, "functionCall", "function_call") and content["role"] != "model":
            found.append("the user calls a tool")
        if answered and content["role"] == "model":
            found.append("the model answers a call")
        if _gemini_values(content, "functionCall", "function_call"):
            if left["role"] == "nobody":
                found.append("the user is not first")
            if left["role"] == "model":
                found.append("a call does not follow the user")
    return found


def _gemini_values(content: dict[str, Any], *names: str) -> Messages:
    return [part[name] for part in content.get("parts") or () for name in names if name in part]


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
    style = draw(st.sampled_from(["camel", "snake", "no ids"]))
    count = 0
    messages: Messages = []
    if form not in ("anthropic", "gemini") and draw(st.booleans()):
        messages.append({"role": "system", "content": "Be brief."})
    for turn in range(draw(st.integers(0, 4))):
        messages.append(_text(form, "user", f"question {turn}"))
        for _ in range(draw(st.integers(0, 2))):
            ids = []
            for place in range(draw(st.integers(1, 3))):
                count += 1
                ids.append(f"call_{count if unique else place}")
            said = draw(st.booleans())
            messages += _round(form, ids, draw(st.permutations(ids)), said, style)
        messages.append(_text(form, "assistant", f"answer {turn}"))
    if messages and draw(st.booleans()) and form == "anthropic":
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
        if messages[-1]["role"] == "assistant":
            messages.append({"role": "user", "content": [image, {"type": "text", "text": "what is this?"}]})
    return messages


def _text(form: str, role: str, text: str) -> dict[str, Any]:
    if form == "gemini":
        return {"role": "model" if role == "assistant" else role, "parts": [{"text": text}]}
    return {"role": role, "content": text}


def _round(form: str, ids: list[str], answered: list[str], said: bool, style: str) -> Messages:
    if form == "gemini":
        return _gemini_round(ids, answered, said, style)
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
    if form == "openai_responses":
        reasoning: Messages = [{"type": "reasoning", "id": "rs_1", "summary": []}] if said else []
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


def _gemini_round(ids: list[str], answered: list[str], said: bool, style: str) -> Messages:
    calling, answering = ("functionCall", "functionResponse")
    if style == "snake":
        calling, answering = ("function_call", "function_response")
    # Without ids, calls of one name are told apart by their order.
    names = {one: f"f_{len(ids) if style == 'no ids' else one}" for one in ids}
    number = {one: {} if style == "no ids" else {"id": one} for one in ids}
    texts = [{"text": "Let me see."}] if said else []
    calls = [{calling: {**number[one], "name": names[one], "args": {}}} for one in ids]
    responses = [
        {answering: {**number[one], "name": names[one], "response": {"output": f"result {one}"}}}
        for one in answered
    ]
    return [{"role": "model", "parts": texts + calls}, {"role": "user", "parts": responses}]


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
        elif edit == "empty" and "parts" in message:
            messages[at] = {**message, "parts": draw(st.sampled_from([[], [{"text": " "}], [{}]]))}
        elif edit == "inside" and message.get("parts"):
            parts = list(message["parts"])
            part = parts.pop(draw(st.integers(0, len(parts) - 1)))
            if draw(st.booleans()):
                parts.insert(draw(st.integers(0, len(parts))), part)
                parts.insert(draw(st.integers(0, len(parts))), part)
            messages[at] = {**message, "parts": parts}
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
