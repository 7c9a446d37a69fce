"""Names that a provider allows, and the way back to a tool's own name.

A name that a provider rejects is sent as a readable stem, two underscores and a short hash of the whole name.
The sent name depends on the tool's own name alone, not on the process, the turn or the other tools: otherwise
a new tool could rename a tool that a conversation already knows, and invalidate its cached prompt. A name
that looks like a replaced one is itself replaced and is never read as a tool's own, so no tool can take the
name under which another one is sent.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

from toolroll.formats.providers import PROVIDERS, provider_of
from toolroll.model.errors import InvalidInput

_DIGITS = 16  # hexadecimal digits of the hash: a second name for 64 bits of SHA-256 is hard to find
_REPLACED = re.compile(rf"__[0-9a-f]{{{_DIGITS},}}\Z")
_MOST_DIGITS = 40


def is_allowed(name: str, provider: str) -> bool:
    """Whether this name is sent to the provider unchanged."""
    return provider_of(provider).allows(name) and not is_replaced(name)


def is_replaced(name: str) -> bool:
    """Whether this looks like a name that replaces a tool's own."""
    return _REPLACED.search(name) is not None


@lru_cache(maxsize=8_192)  # each turn asks again for the names of the tools it sends
def provider_name(name: str, provider: str, digits: int = _DIGITS) -> str:
    """The name that a provider is sent for a tool: `name` itself wherever it is allowed.

    ``uber.ride`` becomes ``uber_ride__`` and `digits` hex digits of its SHA-256.
    """
    if is_allowed(name, provider):
        return name
    room = provider_of(provider).longest_name - digits - 2
    digest = _hash(name)[:digits]
    stem = re.sub(r"[^a-zA-Z0-9]+", "_", name).strip("_")[:room].rstrip("_")
    if not stem or stem[0].isdigit():
        stem = f"t_{stem}"[:room].rstrip("_")
    return f"{stem}__{digest}"


def said_name(name: str) -> str:
    """The name of a tool in a message to the model: its own, unless that looks like a replaced one."""
    return provider_name(name, "openai") if is_replaced(name) else name


def own_name_of(sent: str, names: Iterable[str]) -> str | None:
    """Which of these tools is sent under this replaced name; None if none is.

    A tool whose own name this is was sent under another one, so it never matches. O(names), one hash each.
    """
    digest = sent.rpartition("__")[2]
    if not is_replaced(sent) or len(digest) not in (_DIGITS, _MOST_DIGITS):
        return None
    found = [
        name
        for name in dict.fromkeys(names)
        if _hash(name).startswith(digest)
        and any(provider_name(name, provider, len(digest)) == sent for provider in PROVIDERS)
    ]
    return found[0] if len(found) == 1 else None


def _hash(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def provider_names(names: Iterable[str], provider: str) -> dict[str, str]:
    """Sent name → own name of each tool, in the order given.

    Sent names are unique: if two hashes collide, which takes intent, both tools get more digits while they
    are in one list. Raises InvalidInput for a duplicate name.
    """
    provider_of(provider)
    names = list(names)
    if len(set(names)) != len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise InvalidInput(f"tool {twice!r} is given twice, must be sent once")
    sent = [provider_name(name, provider) for name in names]
    if len(set(sent)) != len(sent):
        met = Counter(sent)
        sent = [
            short if met[short] == 1 else provider_name(name, provider, _MOST_DIGITS)
            for name, short in zip(names, sent, strict=True)
        ]
    return dict(zip(sent, names, strict=True))
