"""Laws of a caller's own steps: whatever they return or raise, no denied tool is selected."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.test_stages import pipeline_of, turns
from tests.strategies import definitions, parameters
from tests.table import each_row
from toolroll import Context, InvalidInput, Profile, Rule, StepTurn, Tool, Toolroll
from toolroll.selection.steps import own_steps

TOOLS = tuple(
    Tool(f"{kind}_{at}", f"{word} at home", toolkit=kind)
    for kind in ("eu", "us")
    for at, word in enumerate(("rain", "mail", "song", "note") * 3)
)
WHOLE = Profile(pass_through_tools=0, learning=None)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Steps that fail are logged with a traceback."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


class Region:
    """Keeps the tools of the user's region."""

    name = "region"

    def narrow(self, allowed, turn):
        return [tool.name for tool in allowed.definitions if tool.toolkit == turn.context.page]


class Backwards:
    """Turns the order round."""

    def rerank(self, tools, scores, turn):
        return range(len(tools))


class Any_:
    """Returns these values, and raises one that is an exception."""

    def __init__(self, name: str, narrowed: Any, reranked: Any) -> None:
        self.name, self.narrowed, self.reranked = name, narrowed, reranked

    def narrow(self, allowed, turn):
        return self._answer(self.narrowed, allowed)

    def rerank(self, tools, scores, turn):
        scores[:] = 7.0  # a copy
        return self._answer(self.reranked, tools)

    def _answer(self, answer, known):
        if isinstance(answer, Exception):
            raise answer
        return answer(known) if callable(answer) else answer


def answers() -> st.SearchStrategy[Any]:
    """What a step may return by mistake, or on purpose."""
    names = st.lists(st.sampled_from([*(f"tool_{at}" for at in range(8)), "unheard_of"]), max_size=9)
    numbers = st.lists(st.floats(width=32) | st.integers(-9, 9), max_size=9)
    aligned = st.sampled_from((1.0, 0.0, -3.0)).map(lambda number: lambda known: [number] * len(known))
    wrong = st.sampled_from((None, "tool_1", 7, b"x", {}, object(), [None], [["a"]], RuntimeError("no")))
    return names | names.map(frozenset) | numbers | aligned | wrong | st.just(lambda known: known)


@given(
    definitions(), parameters(), turns(), st.lists(st.tuples(answers(), answers()), max_size=3), st.booleans()
)
def test_no_step_selects_a_tool_that_is_denied_or_that_the_core_did_not_consider(
    definitions_, parameters_, turn, given_, is_search
):
    plain = pipeline_of(definitions_, parameters_)
    steps = own_steps([Any_(f"s{at}", *pair) for at, pair in enumerate(given_)])
    turn = replace(turn, is_search=is_search)
    picked = replace(plain, steps=steps).decide(turn)
    alone = plain.decide(turn)
    assert set(picked.rows.tolist()) <= set(alone.candidates.allowed.rows().tolist())
    assert picked.candidates.allowed == alone.candidates.allowed
    assert len(set(picked.names)) == len(picked.names)
    assert set(picked.degraded) <= {f"step {step.name}" for step in steps}
    if turn.max_tools is not None and not turn.context.required:
        assert len(picked) <= turn.max_tools
    picked.explain(), picked.log_lines(), picked.to_dict()


@given(definitions(), parameters(), turns())
def test_a_step_that_fails_or_keeps_all_changes_nothing(definitions_, parameters_, turn):
    plain = pipeline_of(definitions_, parameters_)
    failing = Any_("failing", RuntimeError("no"), ValueError("no"))
    keeping = Any_("keeping", lambda known: known, None)
    picked = replace(plain, steps=own_steps([failing, keeping])).decide(turn)
    alone = plain.decide(turn)
    assert picked.names == alone.names
    assert picked.candidates.scores.tolist() == alone.candidates.scores.tolist()
    assert picked.steps() == alone.steps()
    assert set(picked.degraded) <= {"step failing"}


def roll_of(*steps: Any, profile: Profile = WHOLE) -> Toolroll:
    return Toolroll.from_tools(TOOLS, embedder="none", profile=profile, steps=steps)


def test_narrow_leaves_tools_out_before_the_core_ranks():
    roll = roll_of(Region())
    picked = roll.select("rain at home", Context(page="us"), k=3)
    assert len(picked) == 3 and all(name.startswith("us_") for name in picked.names)
    assert "12 removed: left out by step region" in picked.explain()
    assert "left out by step region" in picked.explain("eu_0")
    assert roll.visible(Context(page="us")).get("eu_0") is not None  # a step is no policy


def test_rerank_decides_which_tools_are_among_the_first_k():
    plain, picked = (roll.select("rain at home", k=3) for roll in (roll_of(), roll_of(Backwards())))
    assert picked.names != plain.names and len(picked) == 3
    found = plain.candidates.retrieved.rows.tolist()
    assert picked.rows.tolist() == found[::-1][:3]
    score = plain.candidates.retrieved.scores[-1]
    assert f"Backwards +{19 - score:.2f}" in picked.explain(picked.names[0])


def test_the_addends_of_an_explanation_sum_to_the_score():
    class Recent:
        name = "recent_first"

        def rerank(self, tools, scores, turn):
            return [score + 0.2 * (tool.name == "eu_1") for tool, score in zip(tools, scores, strict=True)]

    class Same:
        def rerank(self, tools, scores, turn):
            return list(scores)

    class None_:
        def rerank(self, tools, scores, turn):
            return [score - score * (tool.name == "eu_2") for tool, score in zip(tools, scores, strict=True)]

    picked = roll_of(Recent(), Same(), None_()).select("rain mail song at home", k=4)
    assert "Same" not in picked.explain() and "step Same" not in [one.reason for one in picked.steps()]
    for account in picked.accounts():
        if account.name in ("eu_0", "eu_1", "eu_2"):
            addends = [float(reason.split()[-1]) for reason in account.reasons if "." in reason]
            assert sum(addends) == pytest.approx(account.score, abs=0.011 * len(addends))
            assert ("recent_first +0.20" in account.reasons) == (account.name == "eu_1")
            assert (account.score == 0) == (account.name == "eu_2")


def test_rerank_sees_as_many_tools_as_the_profile_says_and_at_least_k():
    seen = []

    class Counts:
        def rerank(self, tools, scores, turn):
            seen.append(len(tools))

    for profile, k in ((WHOLE, 3), (WHOLE, 22), (WHOLE.with_(candidates=9), 3)):
        roll_of(Counts(), profile=profile).select("rain mail song note at home", k=k)
    assert seen == [20, 22, 9]


def test_names_that_no_tool_has_are_a_failure_and_an_empty_list_is_none():
    roll = roll_of(Any_("wrong", ["Rain", "Mail"], None))
    picked = roll.select("rain at home", k=3)
    assert len(picked) == 3 and picked.degraded == ("step wrong",)
    assert "narrow: holds 'Rain' and no name of a tool" in picked.explain()
    assert roll_of(Any_("one", {"Rain", "eu_0"}, None)).select("rain", k=3).names == ("eu_0",)
    picked = roll_of(Any_("empty", [], None)).select("rain at home")
    assert picked.names == () and picked.degraded == ()


def test_a_step_that_returns_complex_scores_or_a_single_name_has_failed():
    for step, told in (
        (
            Any_("s", lambda known: known, lambda tools: np.ones(len(tools), complex)),
            "must hold real numbers",
        ),
        (Any_("s", "eu_0", None), "narrow: the result is 'eu_0', must be a list, tuple or set of names"),
    ):
        picked = roll_of(step).select("rain at home", k=3)
        assert len(picked) == 3 and told in picked.explain()


def test_a_reranked_zero_counts_as_any_other_score():
    class Zero:
        def rerank(self, tools, scores, turn):
            return np.zeros(len(tools))

    assert len(roll_of(Zero()).select("rain at home", k=3)) == 3
    filling = WHOLE.with_(routes="fill", no_hit=("us",))
    plain, zero = (roll_of(*steps, profile=filling).select("rain", k=2) for steps in ((), (Zero(),)))
    assert set(zero.names) == set(plain.names)


def test_core_tools_are_neither_reranked_nor_lost():
    seen = []

    class Seen:
        def rerank(self, tools, scores, turn):
            seen.extend(tool.name for tool in tools)
            return -scores

    tools = [*TOOLS, Tool("rain_pin", "rain at home", pinned=True)]
    roll = Toolroll.from_tools(tools, embedder="none", profile=WHOLE, steps=[Seen()])
    assert roll.select("rain at home", k=3).names[0] == "rain_pin" and "rain_pin" not in seen


def test_a_small_catalog_that_is_handed_on_whole_runs_steps_too():
    class ByName:
        def rerank(self, tools, scores, turn):
            return [float(tool.name[-1]) for tool in tools]

    roll = Toolroll.from_tools(TOOLS[:4], embedder="none", steps=[ByName()])
    assert roll.select("mail").names == ("eu_3", "eu_2", "eu_1", "eu_0")


def test_required_tools_and_everything_run_no_step():
    roll = roll_of(Region())
    assert roll.select("rain", Context(page="us", required=("eu_0",))).names == ("eu_0",)
    assert len(roll.select("rain", Context(page="us", everything=True))) == len(TOOLS)


def test_a_step_sees_the_turn():
    seen: list[StepTurn] = []

    class Seen:
        def narrow(self, allowed, turn):
            seen.append(turn)
            return allowed

    context = Context(user="ann", session="s")
    picked = roll_of(Seen()).select("rain at home", context, k=3, history=["play a song"])
    assert seen == [StepTurn("rain at home", context, ("play a song",), 3, picked.turn.seed)]


def test_steps_stay_after_a_refresh_and_for_lists_variants_and_previews():
    roll = roll_of(Region())
    here = Context(page="us")
    roll.refresh([*TOOLS, Tool("new", "rain")])
    assert all(name.startswith("us_") for name in roll.select("rain at home", here).names)
    assert "step region" in roll.preview("rain", here, profile="merged").explain()
    listed = roll.with_tools([{"name": "other", "description": "rain", "input_schema": {}}])
    assert listed.select("rain", here).names == ()


def test_a_rule_holds_whatever_a_step_wants():
    denied = Rule("no rain", "deny", "user", {"user": "bob"}, tool="eu_0")

    class Wants:
        def narrow(self, allowed, turn):
            return ["eu_0", "eu_1"]

    roll = Toolroll.from_tools(TOOLS, embedder="none", rules=[denied], profile=WHOLE, steps=[Wants()])
    assert roll.select("rain mail at home", Context(user="bob")).names == ("eu_1",)


@each_row(
    ("step", "told"),
    [
        (object(), "must be an object with a method narrow or rerank"),
        (Region, "Region'> is a class, must be an instance of it"),
        (7, "must be an object with a method"),
        (None, "must be an object with a method"),
        *((type("Named", (Region,), {"name": name})(), "printable") for name in (7, "a\nb", "\x1b[31mred")),
    ],
)
def test_what_is_no_step_is_refused(step, told):
    with pytest.raises(InvalidInput, match=f"steps: .*{told}"):
        roll_of(step)


def test_a_coroutine_and_a_name_that_is_taken_are_refused():
    class Later:
        async def rerank(self, tools, scores, turn):
            return scores

    with pytest.raises(InvalidInput, match="plain method"):
        roll_of(Later())
    with pytest.raises(InvalidInput, match="no other step"):
        roll_of(Region(), Region())
