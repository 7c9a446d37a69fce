"""Adds what is wanted whatever the message says: core tools, and what a conversation holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from toolroll.candidates import NO_ROWS, Candidates, Rows
from toolroll.context import Turn
from toolroll.conversation import Conversation, Retention


@dataclass(frozen=True, slots=True, eq=False)
class Additions:
    """Soft. Admits core tools in front of what was found; those that a hard stage removed stay out.

    In a conversation the tools that were loaded come behind them, then those called in the last turns, newest
    first; with everything loaded, all the rest behind what was found.

    Attributes:
        base: rows of base toolkits.
        pinned: rows of pinned tools, heaviest first.
        names: tool name → row.
        retention: how long tools that were called stay.
    """

    base: Rows
    pinned: Rows
    names: Mapping[str, int]
    retention: Retention

    def __call__(self, candidates: Candidates, turn: Turn) -> Candidates:
        if (conversation := turn.conversation) is not None:
            if conversation.is_whole:
                candidates = _everything(candidates)
            candidates = candidates.admit(
                sticky_rows(conversation, self.names, self.retention), "session.called"
            )
            candidates = candidates.admit(loaded_rows(conversation, self.names), "session.loaded")
        if len(self.base):
            candidates = candidates.admit(self.base, "base")
        if len(self.pinned):
            candidates = candidates.admit(self.pinned, "pinned")
        return candidates


def loaded_rows(conversation: Conversation, names: Mapping[str, int]) -> Rows:
    """Rows of the tools that are loaded, in the order they were."""
    return _rows([one.name for one in conversation.loaded], names)


def sticky_rows(conversation: Conversation, names: Mapping[str, int], retention: Retention) -> Rows:
    """Rows of the tools called in the last turns, newest first."""
    return _rows(conversation.sticky(retention), names)


def _rows(wanted: list[str] | tuple[str, ...], names: Mapping[str, int]) -> Rows:
    if not wanted:
        return NO_ROWS
    return np.array([names[name] for name in wanted if name in names], np.int32)


def _everything(candidates: Candidates) -> Candidates:
    """All that is allowed, what was not found behind what was."""
    found = len(candidates.rows)
    candidates = candidates.admit(candidates.allowed.rows(), "session.fallback")
    if candidates.pool is not None or len(candidates.rows) == found:
        return candidates
    behind = len(candidates.rows) - found
    return candidates.reorder(np.roll(np.arange(len(candidates.rows)), -behind), "session.fallback")
