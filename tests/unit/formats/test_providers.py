"""Providers of installed packages: found by name only, refused with the package's name, asked last."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from toolroll.adapters.provider_requests.forms import error_body, form_of
from toolroll.adapters.provider_requests.provider_request import ProviderRequest
from toolroll.adapters.provider_requests.tool_texts import KnownToolTexts
from toolroll.formats import providers
from toolroll.formats.providers import MOST_TOOLS, PROVIDERS, Provider, find_provider, provider_of
from toolroll.formats.schemas import provider_name
from toolroll.formats.sources.dicts import as_tool
from toolroll.model.errors import InvalidInput
from toolroll.runtime import plugins


class Distribution:
    name = "their-package"


class Point:
    dist = Distribution()
    value = "theirs:OBJECT"

    def __init__(self, name: str, offered: object) -> None:
        self.name = name
        self.offered = offered

    def load(self) -> Any:
        if isinstance(self.offered, Exception):
            raise self.offered
        return self.offered


@pytest.fixture
def offers(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, object]]:
    found: dict[str, object] = {}
    caches = (providers._installed_names, providers._installed, providers.installed_providers, provider_name)
    for cache in caches:
        cache.cache_clear()
    points = lambda group: [Point(name, one) for name, one in found.items()]  # noqa: E731
    monkeypatch.setattr(plugins, "_points", points)
    yield found
    for cache in caches:
        cache.cache_clear()


def test_nothing_is_looked_up_for_a_provider_of_ours(offers, monkeypatch):
    monkeypatch.setattr(plugins, "_points", lambda group: pytest.fail("looked up"))
    assert all(provider_of(name) is PROVIDERS[name] and MOST_TOOLS[name] != 0 for name in PROVIDERS)
    assert as_tool({"name": "a", "description": "b", "parameters": {}}).name == "a"


def test_a_provider_is_found_by_its_name(offers):
    offers["theirs"] = replace(PROVIDERS["openai"], name="theirs", most_tools=7)
    assert provider_of("theirs") is offers["theirs"] and MOST_TOOLS["theirs"] == 7
    assert find_provider("nobody") is None and MOST_TOOLS["nobody"] is None
    with pytest.raises(InvalidInput, match=r"provider is 'nobody', must be one of openai, .*, mcp, theirs"):
        provider_of("nobody")


@pytest.mark.parametrize(
    ("offered", "said"),
    [
        (object(), "package their-package offers <object .* has no name and no write and no name_pattern"),
        (Provider, "their-package offers .*; must be a toolroll.formats.providers.Provider"),
        (PROVIDERS["openai"], "their-package offers a provider of the name 'openai', must be the same"),
        (OSError("away"), "theirs:OBJECT of package their-package cannot be imported: OSError: away"),
    ],
    ids=["an object", "a class", "another name", "an error"],
)
def test_a_package_that_offers_something_else_is_named_and_costs_no_selection(offers, offered, said):
    offers["theirs"] = offered
    with pytest.raises(InvalidInput, match=said):
        provider_of("theirs")
    assert MOST_TOOLS["theirs"] is None and providers.installed_providers() == ()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": ""}, "name is '', must be a text"),
        ({"write": "x"}, "write is 'x', must be a function"),
        ({"name_pattern": "x"}, "name_pattern is 'x', must be a compiled pattern"),
        ({"longest_name": 8}, "longest_name is 8, must be 24 or more"),
    ],
)
def test_a_wrong_attribute_is_named(changes, said):
    with pytest.raises(InvalidInput, match=re.escape(said)):
        replace(PROVIDERS["openai"], **changes)


def test_a_definition_in_no_form_of_ours_is_read_by_the_package_that_knows_it(offers):
    item = {"name": "a", "description": "b", "inputs": {"c": "text"}}
    assert as_tool(item).parameters is None
    schema = {"type": "object", "properties": {"c": {"type": "string"}}}
    read = lambda one: {"name": one["name"], "parameters": schema} if "inputs" in one else None  # noqa: E731
    offers["theirs"] = replace(PROVIDERS["openai"], name="theirs", read=read)
    providers._installed_names.cache_clear()
    providers.installed_providers.cache_clear()
    tool = as_tool(item)
    assert tool.parameters == schema and tool.original is item
    assert as_tool({**item, "parameters": {}}).parameters == {}


def test_the_drop_in_reads_the_requests_of_an_installed_provider(offers):
    form = replace(PROVIDERS["openai"].requests[0], provider="theirs", path=re.compile(r"/their/chat\Z"))
    offers["theirs"] = replace(PROVIDERS["openai"], name="theirs", requests=(form,), error=None)
    assert form_of("POST", "/their/chat") is form and form_of("POST", "/other/chat") is None
    body = b'{"messages": [], "tools": [{"type": "function", "function": {"name": "a"}}]}'
    request = ProviderRequest.read(body, form, KnownToolTexts())
    assert request is not None and request.restricted_to(["a"]).count(b"allowed_tools") == 2
    assert json.loads(error_body(form, 502, "x"))["error"]["code"] == "toolroll"
