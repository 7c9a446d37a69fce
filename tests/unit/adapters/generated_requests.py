"""Requests to providers, drawn from a seed: text around a list of tools, and the text of each tool."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any

from toolroll.adapters.provider_requests import RequestForm
from toolroll.formats.providers import PROVIDERS
from toolroll.lab.evaluation import workloads

OPENAI, OPENAI_RESPONSES, ANTHROPIC, GEMINI = (
    PROVIDERS[name].requests[0] for name in ("openai", "openai_responses", "anthropic", "gemini")
)

FORMS = (OPENAI, OPENAI_RESPONSES, ANTHROPIC, GEMINI)
POOL = workloads.tools(60)
HOSTED = {
    "openai": [],
    "openai_responses": [{"type": "web_search"}, {"type": "mcp", "server_label": "x", "server_url": "u"}],
    "anthropic": [{"type": "web_search_20250305", "name": "web_search"}],
    "gemini": [{"googleSearch": {}}],
}
_TEXTS = ("naïve 날씨", 'a "quoted" \\ line\n', "\U0001f600", "plain", "", '"tools": [1]', "\u2028")


@dataclass(frozen=True)
class Generated:
    """A request.

    Attributes:
        before, behind: text around the items of the list.
        items: text of each item; of Gemini's functions, of each declaration.
        names: of the functions, one for each item; "" for a hosted one.
    """

    form: RequestForm
    before: str
    behind: str
    items: list[str]
    names: list[str]

    @property
    def body(self) -> bytes:
        return (self.before + ",".join(self.items) + self.behind).encode()


def generated(seed: int) -> Generated:
    draw = random.Random(seed)
    form = draw.choice(FORMS)
    tools = draw.sample(POOL, draw.randint(1, 40))
    items = [(tool["name"], _written(draw, _tool(form, tool, draw))) for tool in tools]
    if form is not GEMINI:
        items += [("", _written(draw, one)) for one in HOSTED[form.provider] if draw.random() < 0.4]
        draw.shuffle(items)
    members: list[tuple[str, str | None]] = [
        (draw.choice(form.messages), _written(draw, _messages(form, draw))),
        ("tools", None),
    ]
    for name in ("model", "stream", "metadata", "temperature", "x" * draw.randint(1, 9)):
        if draw.random() < 0.6:
            members.append((name, _written(draw, _anything(draw))))
    draw.shuffle(members)
    before, behind, is_before = _space(draw) + "{", "}" + _space(draw), True
    for at, (name, value) in enumerate(members):
        key = f"{',' if at else ''}{_space(draw)}{_key(draw, name)}{_space(draw)}:{_space(draw)}"
        if value is None:
            before, is_before, rest = before + key + "[", False, "]" + _space(draw)
            if form is GEMINI:
                hosted = "," + _written(draw, HOSTED["gemini"][0]) if draw.random() < 0.4 else ""
                before += '{"functionDeclarations"' + _space(draw) + ": ["
                rest = "]}" + hosted + rest
            behind = rest + behind
        elif is_before:
            before += key + value + _space(draw)
        else:
            end = "}" + behind.rpartition("}")[2]
            behind = behind[: -len(end)] + key + value + _space(draw) + end
    return Generated(form, before, behind, [text for _, text in items], [name for name, _ in items])


def _tool(form: RequestForm, tool: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    described = {"name": tool["name"], "description": tool["description"] + draw.choice(_TEXTS)}
    schema = {"type": "object", "properties": {draw.choice(("a", "ü")): {"type": "string", "minLength": 0}}}
    if form is OPENAI:
        return {"type": "function", "function": {**described, "parameters": schema}}
    if form is OPENAI_RESPONSES:
        return {"type": "function", **described, "parameters": schema, "strict": False}
    return {**described, "input_schema" if form is ANTHROPIC else "parameters": schema}


def _messages(form: RequestForm, draw: random.Random) -> list[dict[str, Any]]:
    """A conversation that ends with a message of the user."""
    said = []
    for at in range(2 * draw.randint(0, 3) + 1):
        server, verb, *noun = draw.choice(POOL)["name"].split("_")
        text = f"{verb} the {' '.join(noun)} in {server}, {draw.choice(_TEXTS)}"
        if form is GEMINI:
            said.append({"role": "model" if at % 2 else "user", "parts": [{"text": text}]})
        else:
            said.append({"role": "assistant" if at % 2 else "user", "content": text})
    return said


def _anything(draw: random.Random) -> Any:
    return draw.choice(
        [
            None,
            True,
            0,
            -1.5e-7,
            10**30,
            draw.choice(_TEXTS),
            [],
            {},
            [{"tools": [{"name": "x"}]}],
            {"tools": []},
        ]
    )


def _written(draw: random.Random, value: Any) -> str:
    """The value as one of many writers would write it."""
    how: dict[str, Any] = {"ensure_ascii": draw.random() < 0.5}
    if draw.random() < 0.3:
        how["indent"] = draw.choice([1, 2, "\t"])
    elif draw.random() < 0.5:
        how["separators"] = (",", ":")
    return json.dumps(value, **how)


def _key(draw: random.Random, name: str) -> str:
    if draw.random() < 0.1:
        return '"' + "".join(f"\\u{ord(letter):04x}" for letter in name) + '"'
    return json.dumps(name)


def _space(draw: random.Random) -> str:
    return draw.choice(["", "", " ", "\n", "\t\r\n "])
