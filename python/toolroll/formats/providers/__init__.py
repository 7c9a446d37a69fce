"""The providers: one value for each interface, and the lookup by name."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import lru_cache

from toolroll.formats.providers.anthropic import ANTHROPIC
from toolroll.formats.providers.form import Form
from toolroll.formats.providers.gemini import GEMINI
from toolroll.formats.providers.history_form import HistoryForm
from toolroll.formats.providers.mcp import MCP
from toolroll.formats.providers.openai import OPENAI, OPENAI_RESPONSES
from toolroll.formats.providers.provider import HOWS, How, Provider, ToolSearch
from toolroll.formats.providers.references import Notes
from toolroll.formats.providers.request_form import RequestForm
from toolroll.model.errors import InvalidInput, quoted
from toolroll.runtime.plugins import known_names, offered_by, plugin, plugin_names

__all__ = [
    "HOWS",
    "MOST_TOOLS",
    "PROVIDERS",
    "Form",
    "HistoryForm",
    "How",
    "Notes",
    "Provider",
    "RequestForm",
    "ToolSearch",
    "find_provider",
    "installed_providers",
    "names_with",
    "provider_of",
]

GROUP = "toolroll.providers"  # the group of entry points

PROVIDERS: Mapping[str, Provider] = {
    provider.name: provider for provider in (OPENAI, OPENAI_RESPONSES, ANTHROPIC, GEMINI, MCP)
}

_log = logging.getLogger(__name__)


def provider_of(name: str) -> Provider:
    """The provider of this name, ours or an installed package's.

    Raises:
        InvalidInput: there is none, or a package offers something else under the name.
    """
    if (found := find_provider(name)) is None:
        known = ", ".join(known_names(GROUP, PROVIDERS))
        raise InvalidInput(f"provider is {quoted(name)}, must be one of {known}")
    return found


def find_provider(name: object) -> Provider | None:
    """`provider_of`, or None for an unknown name."""
    try:
        return PROVIDERS[name]  # type: ignore[index]
    except (KeyError, TypeError):
        is_installed = isinstance(name, str) and name != "" and name in _installed_names()
        return _installed(name) if is_installed else None


@lru_cache(maxsize=1)
def installed_providers() -> tuple[Provider, ...]:
    """The providers of installed packages, by name. One that cannot be used is logged and left out."""
    found = []
    for name in sorted(_installed_names().difference(PROVIDERS)):
        try:
            found.append(_installed(name))
        except InvalidInput as error:
            _log.warning("%s", error)
    return tuple(found)


def names_with(has: Callable[[Provider], bool]) -> list[str]:
    """The names of the providers for which `has` is true, for an error message."""
    return [one.name for one in (*PROVIDERS.values(), *installed_providers()) if has(one)]


@lru_cache(maxsize=1)  # reads every installed package, and a context may name any provider
def _installed_names() -> frozenset[str]:
    return frozenset(plugin_names(GROUP))


@lru_cache(maxsize=64)
def _installed(name: str) -> Provider:
    found = plugin(GROUP, name)
    if not isinstance(found, Provider):
        missing = [key for key in ("name", "write", "name_pattern") if not hasattr(found, key)]
        lacks = f", which has no {' and no '.join(missing)}" if missing else ""
        raise InvalidInput(
            f"{GROUP} {quoted(name)}: package {offered_by(GROUP, name)} offers {quoted(found)}{lacks}; "
            "must be a toolroll.formats.providers.Provider"
        )
    if found.name != name:
        raise InvalidInput(
            f"{GROUP} {quoted(name)}: package {offered_by(GROUP, name)} offers a provider of the name "
            f"{quoted(found.name)}, must be the same as the entry point's"
        )
    return found


class _MostTools(dict[str, "int | None"]):
    """Provider → how many tools one request may have; None if unknown or not stated."""

    def __missing__(self, name: str) -> int | None:
        try:
            provider = find_provider(name)
        except InvalidInput:  # the error is for whoever asks for the provider's form; a selection goes on
            return None
        return None if provider is None else provider.most_tools


MOST_TOOLS: Mapping[str, int | None] = _MostTools(
    {"": None, **{name: provider.most_tools for name, provider in PROVIDERS.items()}}
)
