"""Who asks, and for what: everything a decision may depend on besides the catalog.

A `Context` is what the caller says. A `Turn` is what the engine makes of one call: the decision reads
a turn and a catalog and nothing else, so the same two give the same selection again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Vector: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Context:
    """Who asks, from where, with which limits.

    Attributes:
        org: organisation; tools and rules of others are out of reach.
        user, roles, tier, page: attributes that policy and page rules may read.
        settings: settings that have a value (a mapping, or just their names); only presence is read.
        provider: whose limits apply: "openai", "anthropic", "gemini", "mcp" or "" for none.
        session: conversation the turn belongs to.
        required: names of tools that are the selection; retrieval is not asked.
        exclude: names of tools that must not be selected.
        everything: skips the settings test, for clients that get every toolkit (MCP). Nothing else.
    """

    org: str = ""
    user: str = ""
    roles: tuple[str, ...] = ()
    tier: str = ""
    page: str = ""
    settings: Mapping[str, object] | Collection[str] = field(default=(), repr=False)  # may hold secrets
    provider: str = ""
    session: str = ""
    required: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    everything: bool = False

    def has_setting(self, key: str) -> bool:
        """Whether the setting is there and, where its value is known, not empty."""
        if isinstance(self.settings, Mapping):
            return self.settings.get(key) not in (None, "")
        return key in self.settings


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """One call, gathered: all a decision needs.

    Attributes:
        text: the message as stages read it: valid Unicode, of bounded length.
        vector: float32[dim], unit length; None where there is no embedding.
        k: how many tools retrieval may add; None leaves it to the profile.
        max_tools: how many tools at the most, core tools included; None leaves it to the provider.
        budget_tokens: how many tokens the selected schemas may cost; None for no budget.
        sent: names already in the conversation's tool list, in their order.
        seed: of every random draw of this turn.
    """

    text: str
    context: Context
    vector: Vector | None = None
    k: int | None = None
    max_tools: int | None = None
    budget_tokens: int | None = None
    sent: tuple[str, ...] = ()
    seed: int = 0
