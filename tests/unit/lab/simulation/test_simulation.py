"""That worlds are what they are said to be, and that what is measured in them is true."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.table import each_row
from toolroll.lab.evaluation.dataset import Dataset, Query
from toolroll.lab.simulation.player import NOBODY, Trajectory, play
from toolroll.lab.simulation.report import Target, curves_of, table, to_json
from toolroll.lab.simulation.simulated_model import CALLS_RIGHT, ModelAction, oracle, respond, shares
from toolroll.lab.simulation.simulation import Estimate, Plan, play_world, simulate
from toolroll.lab.simulation.source_data import SourceData
from toolroll.lab.simulation.world_metrics import SurvivalTime, measure, median_time
from toolroll.lab.simulation.worlds import CONTEXTS, SCENARIOS, Scenario, World
from toolroll.model.errors import InvalidInput
from toolroll.model.tools import Definitions, Tool

pytestmark = pytest.mark.slow

WORDS = ("rain", "mail", "song", "bank", "train", "soup", "code", "door", "tree", "ball", "lamp", "boat")
TOOLS = tuple(
    Tool(f"{word}_tool", f"Does everything about {word}. For people who like {word}.") for word in WORDS
)
ASKS = (
    "what about {}",
    "please see to my {}",
    "{} again",
    "tell me of the {} next door",
    "any {} today",
    "no {}",
)
QUERIES = tuple(
    Query(f"{word}-{at}", ask.format(word), (f"{word}_tool",))
    for word in WORDS
    for at, ask in enumerate(ASKS)
)
MATERIAL = SourceData.of(Dataset("small", Definitions(TOOLS), QUERIES))
LENGTH = 400


def world(scenario: Scenario = SCENARIOS["main"], seed: int = 1, length: int = LENGTH) -> World:
    return World.draw(MATERIAL, scenario, seed, length)


class Always:
    """Shows the same tools whatever is asked."""

    def __init__(self, *tools: int) -> None:
        self.tools = tools
        self.heard: list[tuple[int, ModelAction]] = []

    def arrive(self, at: int) -> None:
        pass

    def select(self, at: int) -> tuple[int, ...]:
        return self.tools

    def report(self, at: int, act: ModelAction) -> None:
        self.heard.append((at, act))


def test_a_world_is_a_function_of_its_seed() -> None:
    one, same, other = world(seed=3), world(seed=3), world(seed=4)
    assert one.tools == same.tools and one.right == same.right
    for name in ("message", "context", "user", "chance", "reliable", "breaks", "repairs", "taste"):
        assert np.array_equal(getattr(one, name), getattr(same, name))
    assert not np.array_equal(one.message, other.message)


def test_a_clone_reads_differently_and_may_stand_in_for_its_tool() -> None:
    drawn = world()
    clones = range(len(TOOLS), len(drawn.tools))
    assert len(clones) >= 4 and len({tool.name for tool in drawn.tools}) == len(drawn.tools)
    for place in clones:
        owner = int(drawn.family[place])
        assert drawn.tools[place].description != TOOLS[owner].description
        assert drawn.tools[place].name.startswith(TOOLS[owner].name)
        mine = [message for message, one in enumerate(MATERIAL.right) if owner in one]
        assert all(place in drawn.right[message] for message in mine)


def test_one_member_of_a_family_works_well_and_the_others_do_not() -> None:
    drawn = world(replace(SCENARIOS["main"], breaks=False))
    families = {int(owner) for owner in drawn.family[len(TOOLS) : drawn.first]}
    late = {int(owner) for owner in drawn.family[drawn.first :]}
    for owner in families - late:
        members = np.flatnonzero(drawn.family == owner)
        typical = np.sort(np.median(drawn.reliable[:, members], axis=0))
        assert typical[-1] > 0.8 > 0.75 > typical[-2]


def test_in_the_null_world_all_tools_work_equally_well_for_good() -> None:
    drawn = world(SCENARIOS["null"])
    assert len(drawn.tools) == len(TOOLS) and drawn.first == len(TOOLS)
    assert (drawn.reliable == 0.95).all() and (drawn.breaks == LENGTH).all()


def test_what_breaks_hardly_works_until_it_is_repaired() -> None:
    drawn = world()
    broken = np.flatnonzero(drawn.breaks < LENGTH)
    assert len(broken) >= 2 and (drawn.repairs[broken] < LENGTH).any()
    for tool in broken.tolist():
        at = np.arange(LENGTH)
        hardly = drawn.works(at, tool) == 0.03
        assert np.array_equal(hardly, (at >= drawn.breaks[tool]) & (at < drawn.repairs[tool]))


def test_messages_of_a_tool_do_not_come_again_while_there_are_others() -> None:
    drawn = world(length=60)
    owners = np.array([one[0] for one in MATERIAL.right])[drawn.message]
    for owner in np.unique(owners):
        mine = drawn.message[owners == owner][: len(ASKS)]
        assert len(set(mine.tolist())) == len(mine)


def test_the_halves_of_a_folder_share_no_message_and_no_dialog() -> None:
    queries = tuple(
        replace(query, context={"dialog": query.text.split()[-1]}) if at % 2 else query
        for at, query in enumerate(QUERIES)
    )
    dataset = Dataset("small", Definitions(TOOLS), queries)
    parts = {half: SourceData.of(dataset, half) for half in ("judge", "tune", "all")}
    ids = {half: {query.id for query in part.messages} for half, part in parts.items()}
    assert ids["judge"] | ids["tune"] == ids["all"] and not ids["judge"] & ids["tune"]
    dialogs = [
        {query.context["dialog"] for query in parts[half].messages if query.context}
        for half in ("judge", "tune")
    ]
    assert not dialogs[0] & dialogs[1]


def test_the_demonstration_catalog_is_asked_its_own_examples_and_does_not_know_them() -> None:
    material = SourceData.read(None)
    assert len(material.messages) > 200
    assert not any(tool.examples for tool in material.definitions.tools)


def test_a_folder_of_too_few_messages_is_refused() -> None:
    with pytest.raises(InvalidInput, match="2 tools have a message"):
        SourceData.of(Dataset("tiny", Definitions(TOOLS), QUERIES[: 2 * len(ASKS)]))


def test_the_model_calls_as_often_as_it_is_said_to() -> None:
    drawn = world(replace(SCENARIOS["main"], position=0.0, taste=0.0), length=4_000)
    everything = range(len(TOOLS))
    calls = [respond(drawn, at, everything) for at in range(4_000)]
    right = sum(one.tool in drawn.right[message] for one, message in zip(calls, drawn.message, strict=True))
    assert right / 4_000 == pytest.approx(CALLS_RIGHT, abs=5 * math.sqrt(0.9 * 0.1 / 4_000))
    nothing = [respond(drawn, at, ()) for at in range(4_000)]
    assert all(one.outcome == "wanted" or one.tool < 0 for one in nothing)
    found = sum(one.tool >= 0 for one in nothing)
    assert found / 4_000 == pytest.approx(0.4 * 0.8, abs=5 * math.sqrt(0.32 * 0.68 / 4_000))


def test_tools_further_up_are_called_more_where_position_counts() -> None:
    drawn = world(replace(SCENARIOS["main"], position=0.7, taste=0.0))
    message = next(at for at, right in enumerate(drawn.right) if len(right) > 1)
    first, second = sorted(drawn.right[message])[:2]
    there = shares(drawn, message, (first, second))
    assert there == pytest.approx(shares(drawn, message, (second, first)))
    assert there[0] / there[1] == pytest.approx(math.exp(0.7)) and sum(there) == pytest.approx(1)


def test_a_report_that_is_lost_never_comes_and_one_that_is_late_comes_late() -> None:
    scenario = replace(SCENARIOS["channel"], lost=0.3, doubled=0.3, delay=7)
    drawn, player = world(scenario), Always(0, 1, 2)
    play(drawn, player)
    heard = [at for at, _ in player.heard]
    assert heard == sorted(heard) and max(heard) < LENGTH - 7
    lost = LENGTH - 7 - len(set(heard))
    doubled = len(heard) - len(set(heard))
    assert lost / LENGTH == pytest.approx(0.3, abs=0.12) and doubled / LENGTH == pytest.approx(0.21, abs=0.1)


def test_success_is_what_the_world_expects_of_what_was_shown() -> None:
    drawn = world(replace(SCENARIOS["main"], position=0.0, taste=0.0))
    course = play(drawn, Always(*range(len(TOOLS))))
    found = measure(drawn, course, course, oracle(drawn))
    own = np.array([MATERIAL.right[message][0] for message in drawn.message])
    expected = 90 * drawn.works(np.arange(LENGTH), own).mean()  # the clones are not shown
    assert found.values["success"] == pytest.approx(expected)
    assert found.values["recall"] == 100 and found.values["lost"] == 0
    assert found.values["regret"] == pytest.approx(oracle(drawn).sum() - LENGTH * expected / 100)
    assert found.regret[-1] == pytest.approx(found.values["regret"])


def test_no_policy_beats_the_oracle() -> None:
    drawn = world()
    best = oracle(drawn)
    for tools in ((0, 1, 2), tuple(range(len(drawn.tools)))):
        course = play(drawn, Always(*tools))
        assert measure(drawn, course, course, best).values["regret"] >= 0
    assert (best <= CALLS_RIGHT).all()


def test_what_static_shows_and_another_does_not_is_lost() -> None:
    drawn = world()
    static, other = play(drawn, Always(*range(12))), play(drawn, Always(*range(6)))
    found = measure(drawn, other, static, oracle(drawn))
    assert found.values["lost"] == pytest.approx(100 - found.values["recall"])


def shown_when(drawn: World, tool: int, is_shown: np.ndarray) -> Trajectory:
    """A course in which the tool is shown at these messages, and called whenever it may be."""
    shown = np.where(is_shown, tool, NOBODY).astype(np.int32)[:, None]
    asked = np.array([tool in drawn.right[message] for message in drawn.message])
    return Trajectory(shown, np.where(is_shown & asked, tool, NOBODY), 0.0, 0.0)


def test_a_broken_tool_is_out_after_as_many_calls_as_it_had_until_then() -> None:
    drawn = world(length=3_000)
    tool = int(np.flatnonzero((drawn.breaks < 3_000) & (drawn.repairs < 3_000))[0])
    asked = np.flatnonzero([tool in drawn.right[message] for message in drawn.message])
    since = asked[(asked >= drawn.breaks[tool]) & (asked < drawn.repairs[tool])]
    later = asked[asked >= drawn.repairs[tool]]
    is_shown = np.ones(3_000, np.bool_)
    is_shown[since[4] : later[3]] = False
    course = shown_when(drawn, tool, is_shown)
    found = measure(drawn, course, course, oracle(drawn))
    assert SurvivalTime(4.0, True) in found.out and SurvivalTime(3.0, True) in found.back


def test_a_median_counts_those_watched_in_vain_for_as_long_as_they_were() -> None:
    over = [SurvivalTime(float(steps), True) for steps in (1, 2, 3, 4, 5)]
    assert median_time(over) == 3
    assert median_time([*over, *[SurvivalTime(0.0, False)] * 20]) == 3  # seen for no step: they say nothing
    assert median_time([*over, *[SurvivalTime(9.0, False)] * 5]) == 5
    assert median_time([*over, *[SurvivalTime(9.0, False)] * 6]) == math.inf
    assert median_time([]) == math.inf


def test_an_estimate_has_the_interval_of_students_t() -> None:
    found = Estimate.of([1.0, 2.0, 4.0])
    assert found.mean == pytest.approx(7 / 3)
    assert found.half_width == pytest.approx(4.302653 * np.std([1, 2, 4], ddof=1) / math.sqrt(3), rel=1e-6)
    assert math.isnan(Estimate.of([1.0]).half_width)


@each_row(
    ("wrong", "said"),
    [
        ({"scenarios": ("sunny",)}, "scenario 'sunny': unknown; known are main"),
        ({"policies": ("best",)}, "policy 'best': unknown"),
        ({"worlds": 0}, "worlds: is 0, must be at least 1"),
        ({"messages": 99}, "messages: is 99, must be at least 100"),
    ],
)
def test_a_plan_says_what_is_wrong_with_it(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        Plan(**wrong)  # type: ignore[arg-type]


def test_static_selection_learns_nothing_and_ours_does() -> None:
    plan = Plan(messages=600, k=2, policies=("static", "default"))
    found = play_world(plan, MATERIAL, "main", 1)
    assert found["static"].values["lost"] == 0
    assert found["default"].values["regret"] < found["static"].values["regret"]


def test_the_same_plan_gives_the_same_figures() -> None:
    plan = Plan(messages=200, k=2, policies=("default",))
    one, same = (play_world(plan, MATERIAL, "channel", 5)["default"].values for _ in range(2))
    clocks = {"select_us", "record_us"}
    assert {name: one[name] for name in one.keys() - clocks} == {
        name: same[name] for name in same.keys() - clocks
    }


def test_processes_do_not_change_the_result() -> None:
    plan = Plan(messages=100, worlds=2, policies=("static", "thompson"))
    one, two = simulate(plan, 1), simulate(plan, 2)
    for policy in ("static", "thompson"):
        assert one.values("main", policy, "success") == two.values("main", policy, "success")


def test_a_report_says_what_was_played_and_the_targets_it_is_given() -> None:
    found = simulate(Plan(messages=120, worlds=2, scenarios=("main", "null", "channel")))
    target = Target("success of anybody", "main", 1.0, 2.0, 3.0, bar=1.5, at_most=False)
    text = table(found, [target])
    for word in ("demo", "static", "learned", "default", "main", "null", "channel", "± is a 95 % interval"):
        assert word in text
    assert "success of anybody  main      2      1 to 3         ≥ 1.5     close" in text
    assert "success of anybody" not in table(found)
    values = to_json(found)
    assert values["scenarios"]["main"]["static"]["regret"]["mean"] > 0
    assert {"success", "recall", "regret"} < set(curves_of(found.played["main"]["default"]))


def test_contexts_are_tiers_on_pages() -> None:
    drawn = world()
    assert set(drawn.context.tolist()) <= set(range(CONTEXTS))
    asked = [drawn.context_of(at) for at in range(50)]
    assert {context.tier for context in asked} <= {"free", "team", "enterprise"}
    tiers = {context.user: context.tier for context in asked}
    assert all(tiers[context.user] == context.tier for context in asked)  # a user has one tier
