"""Names that a provider allows, and the way back.

A name that a provider refuses is sent as a readable stem, two underscores and a short hash of the whole
name. What a tool is sent as depends on its own name and on nothing else: not on the process, the turn or
the other tools in the list. Otherwise a newcomer could change the name of a tool that a conversation
already knows, and with it the cached prompt. So that no tool can take the name that another one is sent
under, a name that looks like a replaced one is itself replaced, and never read as a tool's own.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

from toolroll.errors import InvalidInput
from toolroll.formats.providers import PROVIDERS, provider_of

_DIGITS = 16  # of the hash, in hexadecimal: nobody finds a second name for 64 bits of SHA-256
_REPLACED = re.compile(rf"__[0-9a-f]{{{_DIGITS},}}\Z")
_MOST_DIGITS = 40


def is_allowed(name: str, provider: str) -> bool:
    """Whether the provider is sent this name as it is."""
    return provider_of(provider).allows(name) and not is_replaced(name)


def is_replaced(name: str) -> bool:
    """Whether this looks like a name that a tool was sent under in place of its own."""
    return _REPLACED.search(name) is not None


@lru_cache(maxsize=8_192)  # each turn asks again for the names of the tools it sends
def provider_name(name: str, provider: str, digits: int = _DIGITS) -> str:
    """The name under which the provider is told of a tool: `name` itself wherever it is allowed.

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
    """How a model is told of a tool in words: by its own name, unless that looks like a replaced one."""
    return provider_name(name, "openai") if is_replaced(name) else name


def own_name_of(sent: str, names: Iterable[str]) -> str | None:
    """Which of these tools a provider was told of under this name, not its own; None where none was.

    A tool whose own name this is was not sent under it, and is never meant. O(names), one hash each.
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
    """Maps the provider's name of each tool back to the tool's own, in the order given.

    No two tools share one: should two hashes meet, which takes somebody's intent, both tools take more
    digits for as long as they are in one list. Raises InvalidInput if a name is given twice.
    """
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
