"""A selection is empty only where policy, the caller or `on_no_tool="empty"` says so."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.strategies import contexts, definitions
from toolroll import Context, Toolroll
from toolroll.embedders.hashing import HashingEmbedder
from toolroll.model.tools import Definitions
from toolroll.selection.profiles import PROFILES

UNKNOWN = (
    "显示我的联系人",
    "アドレス帳",
    "مرحبا",
    "😀🎉",
    "",
    "   ",
    "\n\t",
    "?!…",
    "\u200b",
    "ζζζ",
    "hi",
    "7",
)
EMBEDDERS = ("hashing", "none", "raising", "zeros", "away from the start")


class Fickle(HashingEmbedder):
    """Works until it is told otherwise."""

    mode = "hashing"

    def embed_query(self, text):
        if self.mode == "raising":
            raise RuntimeError("the embedder is away")
        return np.zeros(self.dim, np.float32) if self.mode == "zeros" else super().embed_query(text)


def roll_of(definitions_: Definitions, profile: str, kind: str, **changes: object) -> Toolroll:
    """kind: what the embedder does with messages; "away from the start": with tools, too."""
    embedder = Fickle(64)
    if kind == "away from the start":
        embedder.mode = "raising"
    parameters = PROFILES[profile].with_(**changes)
    chosen = "none" if kind == "none" else embedder
    roll = Toolroll.from_definitions(definitions_, profile=parameters, embedder=chosen)
    embedder.mode = "raising" if kind == "away from the start" else kind
    return roll


def said() -> st.SearchStrategy[str]:
    return st.sampled_from(UNKNOWN) | st.text(max_size=20)


def profiles() -> st.SearchStrategy[str]:
    return st.sampled_from(list(PROFILES))


def kinds() -> st.SearchStrategy[str]:
    return st.sampled_from(EMBEDDERS)


def asking() -> st.SearchStrategy[Context]:
    return contexts().filter(lambda context: not context.required)


@pytest.mark.slow
@pytest.mark.parametrize("profile", PROFILES)
@given(kinds(), definitions(), asking(), said(), st.none() | st.integers(1, 9), st.none() | st.integers(1, 9))
def test_where_the_caller_may_have_a_tool_a_selection_has_one(
    profile, kind, definitions_, context, message, k, max_tools
):
    roll = roll_of(definitions_, profile, kind)
    picked = roll.select(message, context, k, max_tools=max_tools)
    assume(picked.candidates.allowed)
    assert picked.names
    if picked.candidates.fallback is not None:
        assert not picked.has_match
        assert not picked.confidence or picked.candidates.retrieved.scores.any()


@given(profiles(), kinds(), definitions(), asking(), st.lists(said(), min_size=1, max_size=3), st.booleans())
def test_each_turn_of_a_conversation_has_a_tool_too(
    profile, kind, definitions_, context, messages, is_called
):
    roll = roll_of(definitions_, profile, kind)
    session = roll.session("one", context)
    for message in messages:
        picked = session.select(message)
        assume(picked.candidates.allowed)
        assert picked.names
        if is_called:
            session.used(picked.names[:1])
        session.end_turn()


@given(profiles(), definitions(), asking(), said())
def test_where_the_profile_says_so_nothing_stands_in_for_a_match(profile, definitions_, context, message):
    roll = roll_of(definitions_, profile, "zeros", on_no_tool="empty", lexical=0.0)
    picked = roll.select(message, context)
    assert picked.candidates.fallback is None


@given(profiles(), definitions(), asking(), said(), st.integers(0, 3))
def test_everything_is_all_that_policy_and_status_leave(profile, definitions_, context, message, k):
    roll = roll_of(definitions_, profile, "hashing")
    everything = Context(
        org=context.org, user=context.user, roles=context.roles, tier=context.tier, page=context.page,
        exclude=context.exclude, only=context.only, everything=True,
    )  # fmt: skip
    picked = roll.select(message, everything, k)
    assert set(picked.rows.tolist()) == set(picked.candidates.allowed.rows().tolist())
    assert set(picked.names) == {
        tool.name for tool in roll.catalog.tools if roll.why(tool.name, everything).visible
    }
    assert len(roll.select(message, everything, k, max_tools=2)) == min(2, len(picked))
