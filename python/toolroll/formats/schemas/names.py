"""Names that a provider allows, and the way back to a tool's own name.

A name that a provider rejects is sent as a readable stem, two underscores and a short hash of the whole name.
The sent name depends on the tool's own name alone, not on the process, the turn or the other tools: otherwise
a new tool could rename a tool that a conversation already knows, and invalidate its cached prompt. A name
that looks like a replaced one is itself replaced, and is never read as a tool's own. So no tool can take
the sent name of another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

from toolroll.formats.providers import PROVIDERS, installed_providers, provider_of
from toolroll.formats.providers.provider import DIGITS, is_replaced, name_hash
from toolroll.model.errors import InvalidInput

_MOST_DIGITS = 40


@lru_cache(maxsize=8_192)  # each turn asks again for the names of the tools it sends
def provider_name(name: str, provider: str, digits: int = DIGITS) -> str:
    """The name to send for a tool: `name` itself wherever the provider allows it."""
    return provider_of(provider).sent_name(name, digits)


def said_name(name: str) -> str:
    """A tool's name in a message to the model: its own name, unless that looks like a replaced one."""
    return provider_name(name, "openai") if is_replaced(name) else name


def own_name_of(sent: str, names: Iterable[str]) -> str | None:
    """The own name of the tool with this replaced name; None if no tool of `names` has it.

    A tool whose own name is `sent` never matches: it was sent under another name. O(names), one hash each.
    """
    digest = sent.rpartition("__")[2]
    if not is_replaced(sent) or len(digest) not in (DIGITS, _MOST_DIGITS):
        return None
    providers = (*PROVIDERS, *(provider.name for provider in installed_providers()))
    found = [
        name
        for name in dict.fromkeys(names)
        if name_hash(name).startswith(digest)
        and any(provider_name(name, provider, len(digest)) == sent for provider in providers)
    ]
    return found[0] if len(found) == 1 else None


def provider_names(names: Iterable[str], provider: str) -> dict[str, str]:
    """Sent name → own name, in the order of `names`.

    Sent names are unique: if two hashes collide, which does not happen by chance, both get more digits in
    this list. Raises InvalidInput for a duplicate name.
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
