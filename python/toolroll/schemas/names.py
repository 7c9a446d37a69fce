"""Names that a provider allows, and the way back.

A name that a provider refuses is replaced by a readable stem and a short hash of the whole name: the same
name becomes the same one in every process and every turn, so a cached prompt stays valid.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from toolroll.errors import InvalidInput

_ALLOWED = {
    "openai": re.compile(r"[a-zA-Z0-9_-]{1,64}"),
    "anthropic": re.compile(r"[a-zA-Z0-9_-]{1,128}"),
    "gemini": re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}"),  # its SDK says 128, its API 64
    "mcp": re.compile(r"[a-zA-Z0-9_./-]{1,128}"),
}
_LENGTHS = {"openai": 64, "anthropic": 128, "gemini": 64, "mcp": 128}


def is_allowed(name: str, provider: str) -> bool:
    """Whether the provider takes this name as it is."""
    return _ALLOWED[provider].fullmatch(name) is not None


def provider_name(name: str, provider: str, digits: int = 8) -> str:
    """The name under which the provider is told of a tool: `name` itself wherever it is allowed.

    ``uber.ride`` becomes ``uber_ride_`` and `digits` hex digits of its SHA-256.
    """
    if is_allowed(name, provider):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:digits]
    stem = re.sub(r"[^a-zA-Z0-9]+", "_", name).strip("_")[: _LENGTHS[provider] - digits - 1]
    if not stem or stem[0].isdigit():
        stem = f"t_{stem}"[: _LENGTHS[provider] - digits - 1].rstrip("_")
    return f"{stem}_{digest}"


def provider_names(names: Iterable[str], provider: str) -> dict[str, str]:
    """Maps the provider's name of each tool back to the tool's own, in the order given.

    No two tools share one: a name that is allowed keeps itself, and one that must be replaced takes
    more digits of its hash until it meets nobody. Raises InvalidInput if a name is given twice.
    """
    names = list(names)
    if len(set(names)) != len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise InvalidInput(f"tool {twice!r} is given twice, must be sent once")
    taken = {name for name in names if is_allowed(name, provider)}
    back: dict[str, str] = {}
    for name in names:
        sent = name
        if name not in taken:
            sent = next(
                candidate
                for digits in range(8, 60)
                if (candidate := provider_name(name, provider, digits)) not in taken and candidate not in back
            )
        back[sent] = name
    return back
