"""What holds for every delivery, whatever the tools are called and whatever was selected."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.formats.schemas.test_provider_names import ANY as NAMES
from tests.unit.formats.schemas.test_strict_schema import PARAMETERS
from toolroll import Context, Profile, Rule, Tool, Toolroll
from toolroll.formats.meta_tools import META_TOOLS
from toolroll.formats.providers import PROVIDERS
from toolroll.formats.schemas import provider_name
from toolroll.model.errors import Denied, InvalidDefinition, NotFound

META = tuple(tool.name for tool in META_TOOLS)
CAN = [(provider, how) for provider in PROVIDERS for how in PROVIDERS[provider].hows]


@st.composite
def rolls(draw):
    """A small catalog with odd names and schemas, some tools pinned, some denied to everybody: no rule can name '*'."""
    names = draw(
        st.lists((NAMES | st.sampled_from(META)).filter(lambda name: name != "*"), unique=True, max_size=6)
    )
    tools = [
        Tool(
            name,
            draw(st.sampled_from(["mail", "rain"])),
            draw(st.none() | PARAMETERS),
            pinned=draw(st.booleans()),
        )
        for name in names
    ]
    denied = draw(st.sets(st.sampled_from(names))) if names else set()
    rules = [
        Rule(f"r{i}", "deny", "org", {"org": "acme"}, tool=name) for i, name in enumerate(sorted(denied))
    ]
    profile = Profile(pass_through_tools=draw(st.sampled_from([0, 10])))
    return Toolroll.from_tools(tools, rules=rules, profile=profile, embedder="none"), denied


def listed(request: dict[str, Any]) -> list[dict[str, Any]]:
    tools = request.get("tools", [])
    return tools[0]["function_declarations"] if tools and "function_declarations" in tools[0] else tools


def names_in(value: Any) -> set[str]:
    """Every value of a key that names a tool in a choice."""
    if isinstance(value, list):
        return {name for part in value for name in (names_in(part) if not isinstance(part, str) else {part})}
    if isinstance(value, dict):
        return {name for key, part in value.items() for name in ({part} if key == "name" else names_in(part))}
    return set()


@pytest.mark.slow
@pytest.mark.parametrize(("provider", "how"), CAN)
@settings(max_examples=40)
@given(
    rolls(),
    st.sampled_from(["mail", "rain", ""]),
    st.booleans(),
    st.sampled_from([(), META_TOOLS]),
    st.data(),
)
def test_every_delivery_can_be_sent_and_leads_back(provider, how, world, message, must_call, meta, data):
    try:
        roll, denied = world
    except InvalidDefinition:
        return
    picked = roll.select(message, Context(org="acme"), k=2)
    strict = data.draw(st.booleans()) and PROVIDERS[provider].takes_strict
    delivery = picked.deliver(
        provider, how, meta_tools=meta, must_call=must_call and provider != "mcp", strict=strict
    )
    tools = listed(delivery.request)
    bare = [tool.get("function", tool) for tool in tools if tool.get("type") != "tool_search"]
    sent = [tool["name"] for tool in bare]

    json.dumps(delivery.request)
    assert len(set(sent)) == len(sent) and all(PROVIDERS[provider].allows(name) for name in sent)
    assert delivery.request.get("tools") != []
    assert not tools or not all(tool.get("defer_loading") for tool in tools)
    assert ("tool_choice" in delivery.request or "tool_config" in delivery.request) <= bool(tools)
    restricted = names_in(delivery.request.get("tool_choice", [])) | names_in(
        delivery.request.get("tool_config", {})
    )
    assert restricted - {"NONE", "ANY", "VALIDATED"} <= set(sent)

    for name in sent:
        own = delivery.own_name(name)
        assert provider_name(own, provider) == name
        if own in delivery.allowed:
            assert delivery.check(name).name == own
        else:
            with pytest.raises(Denied):
                delivery.check(name)
    assert not denied & {*delivery.allowed} - set(META)
    for name in denied - set(META):
        if provider_name(name, provider) not in sent:
            with pytest.raises(NotFound):
                delivery.own_name(provider_name(name, provider))
    if how in ("replace", "allow"):
        assert delivery.allowed == ({*picked.names} - {*delivery.left_out}) | {tool.name for tool in meta}
    again = picked.deliver(
        provider, how, meta_tools=meta, must_call=must_call and provider != "mcp", strict=strict
    )
    assert json.dumps(again.request) == json.dumps(delivery.request)
