"""Names of statistics: 64-bit keys of tools, contexts and reporters, the same in every process for good."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from toolroll.tools import Tool

NONE = 0  # no group, no reporter


def key(*parts: str) -> int:
    """A key for these words in this order; never `NONE`.

    Of their length-prefixed encoding, so ("ab", "c") and ("a", "bc") differ. Two of a million keys are equal
    by chance in one of 37 million catalogs.
    """
    digest = blake2b(digest_size=8)
    for part in parts:
        text = part.encode("utf-8", "surrogatepass")
        digest.update(len(text).to_bytes(4, "little"))
        digest.update(text)
    return int.from_bytes(digest.digest(), "little") or 1


class Scopes(NamedTuple):
    """Where counts belong, from the widest to the narrowest: each level is the prior of the next.

    Attributes:
        everywhere: the whole organisation.
        page: one page.
        leaf: one tier on one page with one category of message.
        plain: seed 4's context key, "tier:page:general".
    """

    everywhere: int
    page: int
    leaf: int
    plain: int


@lru_cache(maxsize=4_096)
def scopes(page: str, tier: str, category: str) -> Scopes:
    """The keys of a context."""
    return Scopes(
        key("everywhere"),
        key("page", page),
        key("leaf", tier, page, category),
        key("plain", plain_key(tier, page)),
    )


def plain_key(tier: str, page: str) -> str:
    """The context key as seed 4 writes it."""
    return f"{tier}:{page}:general"


class ToolKey(NamedTuple):
    """Which statistics belong to a tool.

    Attributes:
        arm: of its name. Whether it works belongs to this, whatever its text.
        intent: of its name and text. What it is called for belongs to this: a changed text begins anew.
        group: of the tools that it is interchangeable with, which share what they are called for; `NONE` for
            none.
    """

    arm: int
    intent: int
    group: int


def tool_key(tool: Tool) -> ToolKey:
    """The keys of a tool. Its text is its prose: a change of parameters or examples is no new beginning."""
    prose = (tool.description, tool.summary, tool.when_to_use, *tool.tags)
    group = key("group", tool.interchangeable) if tool.interchangeable else NONE
    return ToolKey(key("arm", tool.name), key("intent", tool.name, *prose), group)


def reporter_key(reporter: str) -> int:
    """The key of who reports; `NONE` for the application itself."""
    return key("reporter", reporter) if reporter else NONE
