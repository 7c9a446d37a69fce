from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import conversations
from tests.table import each_row
from toolroll.model.conversation import (
    MOST_LOADED,
    Conversation,
    LoadedTool,
    Retention,
    turn_number,
)
from toolroll.model.errors import InvalidInput

KEPT = Retention()
TOOLS = ("mail", "post", "book", "call", "note")


def spoken(turns: int) -> list[dict[str, object]]:
    """So many whole turns of talk."""
    return [{"role": role, "content": "…"} for _ in range(turns) for role in ("user", "assistant")]


@each_row("turns", range(6))
def test_the_number_of_a_turn_is_half_the_messages_rounded_up(turns):
    done = spoken(turns)
    assert turn_number(done) == (len(done) + 1) // 2 == turns
    asked = [*done, {"role": "user", "content": "and now?"}]
    assert turn_number(asked) == (len(asked) + 1) // 2 == turns + 1


def test_calls_results_and_system_prompts_begin_no_turn():
    openai = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is on today?"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
        {"role": "tool", "tool_call_id": "1", "content": "nothing"},
        {"role": "assistant", "content": "Nothing."},
        {"role": "user", "content": "And tomorrow?"},
    ]
    anthropic = [
        {"role": "user", "content": "What is on today?"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "list", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "nothing"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Nothing."}]},
        {"role": "user", "content": [{"type": "text", "text": "And tomorrow?"}]},
    ]
    assert turn_number(openai) == turn_number(anthropic) == 2


def test_a_loaded_tool_goes_when_it_was_idle_for_more_than_five_turns():
    loaded = Conversation().at(2, KEPT).load(["mail"])
    still = loaded.at(8, KEPT)  # turns 3 to 7 went by without it
    assert [one.name for one in still.loaded] == ["mail"]
    assert loaded.idle(8, KEPT) == ()
    assert loaded.at(9, KEPT).loaded == ()
    assert loaded.idle(9, KEPT) == ("mail",)


def test_being_called_keeps_a_loaded_tool():
    used = Conversation().at(1, KEPT).load(["mail", "post"]).at(5, KEPT).use(["mail"])
    assert [one.name for one in used.at(9, KEPT).loaded] == ["mail"]
    assert used.at(12, KEPT).loaded == ()


def test_how_long_a_tool_may_be_idle_is_a_parameter():
    loaded = Conversation().at(1, KEPT).load(["mail"])
    assert loaded.at(2, Retention(idle_turns=0)).loaded != ()
    assert loaded.at(3, Retention(idle_turns=0)).loaded == ()


def test_a_fallback_holds_for_its_turn_only():
    whole = Conversation().at(3, KEPT).fallback()
    assert whole.is_whole
    assert not whole.at(4, KEPT).is_whole
    assert not whole.at(4, KEPT).at(3, KEPT).is_whole  # counted otherwise: not that turn again


def test_what_was_called_sticks_newest_first_for_three_turns_and_eight_tools():
    now = Conversation()
    for turn, names in enumerate((["a", "b"], ["c"], ["d", "a"]), 1):
        now = now.at(turn, KEPT).use(names)
    assert now.at(4, KEPT).sticky(KEPT) == ("a", "d", "c", "b")
    assert now.at(5, KEPT).sticky(KEPT) == ("a", "d", "c")
    assert now.at(7, KEPT).sticky(KEPT) == ()
    many = Conversation().at(1, KEPT).use([f"t{i}" for i in range(20)])
    assert many.at(2, KEPT).sticky(KEPT) == tuple(f"t{i}" for i in range(19, 11, -1))


def test_core_tools_do_not_stick():
    assert Conversation().at(1, KEPT).use(["ask", "mail"], core={"ask"}).sticky(KEPT) == ("mail",)


def test_unloading_takes_a_tool_out_of_everything():
    now = Conversation().at(1, KEPT).load(["mail", "post"]).use(["mail"]).sent(["mail", "post"], {"mail"})
    after = now.unload({"mail"})
    assert (after.loaded, after.sticky(KEPT), after.listed) == ((LoadedTool("post", 1, 1),), (), ("post",))


def test_more_tools_than_a_conversation_holds_are_refused_and_nothing_changes():
    with pytest.raises(InvalidInput, match=f"at most {MOST_LOADED}"):
        Conversation().load([f"t{i}" for i in range(MOST_LOADED + 1)])


def test_where_turns_are_counted_anew_everything_keeps_its_age():
    now = Conversation().at(20, KEPT).load(["mail"]).use(["post"]).at(22, KEPT)
    cut = now.at(5, KEPT)
    assert cut.sticky(KEPT) == ("post",)
    assert [one.name for one in cut.at(9, KEPT).loaded] == ["mail"]
    assert cut.at(10, KEPT).loaded == ()


def test_of_a_turn_with_everything_loaded_the_list_before_it_is_kept():
    before = Conversation().at(1, KEPT).sent(["mail"], {"mail"})
    assert before.at(2, KEPT).fallback().sent(["mail", *TOOLS], set(TOOLS)).listed == ("mail",)


@given(conversations())
def test_a_record_brings_the_conversation_back(conversation):
    assert Conversation.from_record(json.loads(json.dumps(conversation.to_record()))) == conversation


@each_row(
    "change",
    [
        {"form": 2},
        {"turn": "1"},
        {"turn": True},
        {"loaded": [["mail", 1]]},
        {"called": 7},
        {"listed": [None]},
        {"listed": ["mail"]},
        {"found": [""]},
    ],
)
def test_a_record_that_is_none_of_ours_is_refused(change):
    with pytest.raises(InvalidInput, match="record"):
        Conversation.from_record(Conversation().to_record() | change)


@each_row("record", [None, 3, [], "x", {}])
def test_no_other_value_passes_for_a_record(record):
    with pytest.raises(InvalidInput):
        Conversation.from_record(record)


Step = st.one_of(
    st.tuples(st.just("turn"), st.integers(1, 3)),
    st.tuples(st.sampled_from(("load", "unload", "use")), st.lists(st.sampled_from(TOOLS), max_size=3)),
)


@given(st.lists(Step, max_size=30))
def test_what_is_held_is_what_a_diary_of_everything_says(steps):
    """The oracle keeps all that ever happened and looks through it."""
    now, turn = Conversation().at(1, KEPT), 1
    loads: dict[str, int] = {}
    calls: list[tuple[int, str]] = []
    for kind, what in steps:
        if kind == "turn":
            for _ in range(what):
                turn += 1
                now = now.at(turn, KEPT)
                for name in list(loads):
                    last = max([loads[name], *(at for at, called in calls if called == name)])
                    if turn - 1 - last > KEPT.idle_turns:
                        del loads[name]
        elif kind == "load":
            now = now.load(what)
            loads |= dict.fromkeys(what, turn)
        elif kind == "unload":
            now = now.unload(what)
            loads = {name: at for name, at in loads.items() if name not in what}
            calls = [(at, name) for at, name in calls if name not in what]
        else:
            now = now.use(what)
            calls += [(turn, name) for name in what]
    assert {one.name for one in now.loaded} == set(loads)
    recent = [name for at, name in reversed(calls) if turn - at <= KEPT.sticky_turns]
    assert now.sticky(KEPT) == tuple(dict.fromkeys(recent))[: KEPT.sticky_tools]


def test_a_record_with_long_names_is_made_to_fit_and_keeps_what_is_loaded():
    names = [f"{'🙂' * 120}{at}" for at in range(128)]
    now = Conversation().at(1, KEPT).load(names).find(names).use(names[:9]).sent(names, names)
    assert len(json.dumps(now.to_record())) > 400_000
    for most in (400_000, 65_536, 10_000, 4_000):
        record = now.fitting(most)
        assert len(json.dumps(record)) <= most
        fitted = Conversation.from_record(record)
        assert fitted.turn == 1 and fitted.loaded == now.loaded[: len(fitted.loaded)] and fitted.loaded
    small = Conversation().at(1, KEPT).load(["mail"])
    assert small.fitting(65_536) == small.to_record()


def test_a_record_of_somebody_elses_making_is_bounded():
    hostile = Conversation(3).to_record() | {
        "loaded": [["mail", 10**6, 10**6]] * 300,
        "called": [[10**6, ["a"] * 500]] * 500,
        "listed": ["x"] * 5_000,
        "picked": [10**6] * 5_000,
        "found": ["y"] * 500,
    }
    read = Conversation.from_record(hostile)
    assert len(read.loaded) <= MOST_LOADED and len(read.listed) <= 1_024 and len(read.found) <= 64
    assert all(turn <= 3 for turn, _ in read.called) and read.loaded[0] == LoadedTool("mail", 3, 3)
    assert read.at(10, KEPT).loaded == () and read.at(7, KEPT).sticky(KEPT) == ()


@each_row("name", ["\ud800", "x" * 5_000])
@each_row("where", ["found", "listed"])
def test_a_name_that_cannot_be_kept_is_no_name(name, where):
    with pytest.raises(InvalidInput):
        Conversation.from_record(
            Conversation().to_record() | {where: [name], "picked": [0] * (where == "listed")}
        )


@each_row("change", [{"form": [[[]]] * 9}, {"turn": 10**400}, {"turn": 2**31}, {"heard": "x"}])
def test_nothing_in_a_record_breaks_who_reads_it(change):
    with pytest.raises(InvalidInput):
        Conversation.from_record(Conversation().to_record() | change)
