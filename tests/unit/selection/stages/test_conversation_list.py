"""The list of a conversation, held against what it promises, over random conversations."""

from __future__ import annotations

import math
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolroll import Context, Profile, Tool, Toolkit, Toolroll
from toolroll.model.conversation import Conversation
from toolroll.sessions.state import ConversationState

VERBS = ("send", "read", "move", "play", "open", "list", "find", "stop")
THINGS = ("mail", "song", "file", "event", "light", "note")
TOOLS = [Tool(f"{verb}_{thing}", f"{verb} a {thing}", toolkit=thing) for thing in THINGS for verb in VERBS]
CORE = [Tool("ask", "asks", toolkit="base"), Tool("help", "helps", pinned=True)]
K = 4


@cache
def roll(growth: float, affinity: float = 0.2) -> Toolroll:
    return Toolroll.from_tools(
        [*TOOLS, *CORE],
        toolkits=[Toolkit("base", base=True)],
        embedder="none",
        profile=Profile(learning=None, growth=growth, affinity=affinity),
    )


Turn = st.tuples(
    st.sampled_from([f"{verb} the {thing}" for verb in VERBS for thing in THINGS]),
    st.lists(st.sampled_from([tool.name for tool in TOOLS]), max_size=2),  # loaded
    st.lists(st.integers(0, 40), max_size=2),  # called, by place
    st.integers(1, 3),  # turns later
)


@settings(max_examples=60)
@given(st.lists(Turn, min_size=1, max_size=9), st.sampled_from((0.0, 1.0, 3.0)))
def test_a_list_is_what_it_promises_to_be(turns, growth):
    session = roll(growth).session("any", learns=False)
    session._live.state = ConversationState(Conversation())
    retention = session._live.retention
    number = 0
    for message, loaded, called, later in turns:
        number += later
        before = session.conversation.listed
        held = set(session.conversation.at(number, retention).held(retention))
        names = session.select(message, K, turn=number).names
        assert len(set(names)) == len(names)
        assert {"ask", "help"} | held <= set(names)
        # what was sent and stays is where it was, and in front of all that is new
        stayed = [name for name in before if name in names]
        assert list(names[: len(stayed)]) == stayed
        new = [name for name in names if name not in before]
        retrieved = [name for name in names if name not in held and name not in ("ask", "help")]
        if growth and before:
            fresh = [name for name in new if name not in held]
            assert len(fresh) <= round(K * retention.newcomers)
            assert len(retrieved) <= max(math.ceil(K * growth), K)
            gone = [name for name in before if name not in names]
            could_stay = len(retrieved) + len(gone)
            assert not gone or could_stay > math.ceil(K * growth)  # only a full list lets go
        if not growth:
            assert len(retrieved) <= K
        # what the message alone would have selected first is there
        if best := roll(growth).select(message, k=1).names[2:]:
            assert set(best) <= set(names)
        session.load(loaded) if loaded else None
        session.used([names[at] for at in called if at < len(names)])


@settings(max_examples=40)
@given(st.lists(Turn, min_size=1, max_size=6), st.integers(0, 12), st.integers(0, 600))
def test_limit_and_budget_hold_in_every_turn(turns, most, budget):
    session = roll(3.0).session("bound", learns=False)
    session._live.state = ConversationState(Conversation())
    for number, (message, loaded, called, _) in enumerate(turns, 1):
        picked = session.select(message, K, turn=number, max_tools=most, budget_tokens=budget)
        assert len(picked) <= most
        assert picked.tokens.selected <= budget
        session.load(loaded) if loaded else None
        session.used([picked.names[at] for at in called if at < len(picked)])


@pytest.mark.parametrize("excluded", ["send_mail", "ask"])
def test_what_a_hard_stage_removes_is_not_brought_back(excluded):
    session = roll(3.0).session(f"out-{excluded}", Context(user="ann"), learns=False)
    assert excluded in session.select("send the mail", K)
    session.load("send_mail")
    session.used(["send_mail"])
    session.context = Context(user="ann", session=session.context.session, exclude=(excluded,))
    assert excluded not in session.select("send the mail", K)
    session.fallback()
    assert excluded not in session.selection


def test_explanations_say_what_a_conversation_kept():
    session = roll(3.0, 0.0).session("told", learns=False)
    first = session.select("send the mail", K)
    session.load("play_song")
    session.used(["send_mail"])
    picked = session.select("list the note", K)
    assert "loaded" in picked.explain("play_song")
    assert "called before" in picked.explain("send_mail")
    assert "sent before" in picked.explain(first.names[-1])
    dropped = [name for name in roll(3.0, 0.0).select("list the note", k=K).names if name not in picked]
    assert dropped and "cut: new" in picked.explain(dropped[0])
