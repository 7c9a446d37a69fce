"""The limits of each provider: number of tools, allowed names, ways of delivery.

Conversion, the cap and delivery read this one table. The numbers come from the providers' references and
error messages; a limit that a provider does not state is None.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from toolroll.model.errors import InvalidInput, quoted

How = Literal["replace", "allow", "defer", "meta-tools"]
HOWS: tuple[How, ...] = get_args(How)


@dataclass(frozen=True, slots=True)
class Provider:
    """One provider, or one of its interfaces.

    Attributes:
        name: as callers write it.
        most_tools: how many tools one request may have; None if no limit is stated.
        most_deferred: how many of them may be deferred, beyond those that count for `most_tools`.
        name_pattern: of allowed tool names.
        longest_name: in characters.
        takes_strict: whether it has OpenAI's strict mode.
        hows: the ways in which a selection can be delivered.
    """

    name: str
    most_tools: int | None
    most_deferred: int | None
    name_pattern: re.Pattern[str]
    longest_name: int
    takes_strict: bool
    hows: tuple[How, ...]

    def allows(self, name: str) -> bool:
        """Whether a tool may have this name."""
        return self.name_pattern.fullmatch(name) is not None


_OPENAI_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")

PROVIDERS: Mapping[str, Provider] = {
    provider.name: provider
    for provider in (
        Provider("openai", 128, 0, _OPENAI_NAME, 64, True, ("replace", "allow", "meta-tools")),
        Provider(
            "openai_responses", 128, 0, _OPENAI_NAME, 64, True, ("replace", "allow", "defer", "meta-tools")
        ),
        Provider(
            "anthropic",
            None,
            10_000,  # the corpus of its own tool search; far more than a request should carry
            re.compile(r"[a-zA-Z0-9_-]{1,128}"),
            128,
            False,
            ("replace", "defer", "meta-tools"),
        ),
        Provider(
            "gemini",
            512,  # "At most 512 function declarations can be specified"; the reference of Vertex AI says 128
            0,
            re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}"),  # its SDK says 128, its API 64
            64,
            False,
            ("replace", "allow", "meta-tools"),
        ),
        Provider(
            "mcp", None, 0, re.compile(r"[a-zA-Z0-9_./-]{1,128}"), 128, False, ("replace", "meta-tools")
        ),
    )
}

# How many tools one request may have, for providers that state it.
MOST_TOOLS: Mapping[str, int] = {
    name: provider.most_tools for name, provider in PROVIDERS.items() if provider.most_tools is not None
}


def provider_of(name: str) -> Provider:
    """The provider of this name; raises InvalidInput for an unknown one."""
    try:
        return PROVIDERS[name]
    except (KeyError, TypeError):
        raise InvalidInput(f"provider is {quoted(name)}, must be one of {', '.join(PROVIDERS)}") from None
