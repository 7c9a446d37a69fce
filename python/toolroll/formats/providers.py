"""What each provider takes: how many tools, which names, which ways of delivery.

One table, read by the conversion of names and schemas, by the cap and by delivery. The figures are the
providers' own, from their references and error messages; a limit that a provider doesn't state is None.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from toolroll.errors import InvalidInput

How = Literal["replace", "allow", "defer", "meta-tools"]
HOWS: tuple[How, ...] = get_args(How)


@dataclass(frozen=True, slots=True)
class Provider:
    """One form of request.

    Attributes:
        name: what callers say.
        most_tools: how many tools one request may carry; None where no limit is stated.
        most_deferred: how many of them may be deferred, beyond those that count for `most_tools`.
        name_pattern: what a tool may be called.
        longest_name: in characters.
        takes_strict: whether it has OpenAI's strict mode.
        hows: the ways in which a selection can reach its model.
    """

    name: str
    most_tools: int | None
    most_deferred: int | None
    name_pattern: re.Pattern[str]
    longest_name: int
    takes_strict: bool
    hows: tuple[How, ...]

    def allows(self, name: str) -> bool:
        """Whether a tool may be called this."""
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
            512,
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

# How many tools one request may carry, where the provider says so.
MOST_TOOLS: Mapping[str, int] = {
    name: provider.most_tools for name, provider in PROVIDERS.items() if provider.most_tools is not None
}


def provider_of(name: str) -> Provider:
    """The provider of this name; raises InvalidInput for an unknown one."""
    try:
        return PROVIDERS[name]
    except (KeyError, TypeError):
        raise InvalidInput(f"provider is {name!r:.80}, must be one of {', '.join(PROVIDERS)}") from None
