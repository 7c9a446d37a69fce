"""A simulated model that calls one of the shown tools, with the weaknesses of real models.

If a correct tool is shown, it calls one, with a bias for early places and for some tools. Otherwise it may
call a wrong but similar tool, search for another, or give up. Reports of a call are not always true.

Source: position and taste as in BiasBusters (arXiv 2510.00307), ICLR 2026.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from toolroll.lab.simulation.worlds import Reals, World

CALLS_RIGHT = 0.9  # probability if a correct tool is shown
CALLS_WRONG = 0.05  # although one is shown
CALLS_WRONG_ALONE, SEARCHES = 0.35, 0.4  # if none is shown; otherwise it gives up
FINDS = 0.8  # probability that a search finds a correct tool
_LOOKS_RIGHT = 0.05  # temperature of similarity in the choice of a wrong tool

Outcome = Literal["called", "wanted", "corrected"]


@dataclass(frozen=True, slots=True)
class ModelAction:
    """The model's action, as reported.

    Attributes:
        tool: the called tool; -1 for none.
        outcome: "called" for a shown tool, "wanted" for a found one, "corrected" for a mistake.
        times: how often the report is sent; 0 if it is lost.
    """

    tool: int = -1
    outcome: Outcome = "called"
    succeeded: bool = False
    times: int = 1


def shares(world: World, message: int, shown: Sequence[int]) -> list[float]:
    """Each shown tool's share of correct calls. The sum is 1, or 0 if no tool is correct."""
    right = world.right[message]
    position, taste = world.scenario.position, world.taste
    weights = [
        math.exp(taste[tool] - position * place) if tool in right else 0.0 for place, tool in enumerate(shown)
    ]
    total = sum(weights)
    return [weight / total for weight in weights] if total else weights


def respond(world: World, at: int, shown: Sequence[int]) -> ModelAction:
    """The model's action with these tools at message `at`, from the world's random numbers."""
    chance = world.chance[at].tolist()
    message = int(world.message[at])
    by_right = shares(world, message, shown)
    has_right = any(by_right)
    right = CALLS_RIGHT if has_right else 0.0
    wrong = right + (CALLS_WRONG if has_right else CALLS_WRONG_ALONE)
    tool, outcome, is_right = -1, "called", True
    if chance[0] < right:
        tool = shown[_drawn(by_right, chance[1])]
    elif chance[0] < wrong:
        by_wrong = _wrong_shares(world, message, shown)
        if any(by_wrong):
            tool, is_right = shown[_drawn(by_wrong, chance[1])], False
    elif not has_right and chance[0] < wrong + SEARCHES and chance[2] < FINDS:
        there = sorted(found for found in world.right[message] if world.is_there(at, found))
        if there:
            liked = [math.exp(world.taste[found]) for found in there]
            tool, outcome = there[_drawn(liked, chance[1])], "wanted"
    times = 0 if chance[6] < world.scenario.lost else 2 if chance[7] < world.scenario.doubled else 1
    if tool < 0:
        return ModelAction(times=times)
    ran = chance[3] < float(world.works(at, tool))
    if ran and not is_right and chance[4] < world.scenario.corrected:
        return ModelAction(tool, "corrected", True, times)
    if ran:
        succeeded = not is_right or chance[5] >= world.scenario.false_failing
    else:
        succeeded = is_right and chance[5] >= world.scenario.seen_failing
    return ModelAction(tool, outcome, succeeded, times)  # type: ignore[arg-type]


def oracle(world: World) -> Reals:
    """float64[T]: the success of showing only the best correct tool that has arrived."""
    best = np.zeros(len(world))
    for at, message in enumerate(world.message.tolist()):
        there = [tool for tool in world.right[message] if world.is_there(at, tool)]
        best[at] = CALLS_RIGHT * max(float(chance) for chance in world.works(at, np.array(there)))
    return best


def _wrong_shares(world: World, message: int, shown: Sequence[int]) -> list[float]:
    """Each shown tool's share of wrong calls, not normalised."""
    right, likeness = world.right[message], world.likeness[message]
    nats = [
        -math.inf if tool in right else likeness[tool] / _LOOKS_RIGHT - world.scenario.position * place
        for place, tool in enumerate(shown)
    ]
    most = max(nats, default=-math.inf)
    return [0.0 if most == -math.inf else math.exp(each - most) for each in nats]


def _drawn(weights: Sequence[float], chance: float) -> int:
    """The index that a uniform random number selects by weight."""
    left = chance * sum(weights)
    for place, weight in enumerate(weights):
        left -= weight
        if left < 0:
            return place
    return max(place for place, weight in enumerate(weights) if weight)
