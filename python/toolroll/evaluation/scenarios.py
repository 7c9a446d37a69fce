"""What simulated worlds are like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scenario:
    """What a world is like; as it stands, the one called main.

    Attributes:
        duplicates: whether tools have near-duplicates.
        equal: every tool works equally well everywhere: about reliability there is nothing to learn.
        breaks: whether tools break halfway. repaired: when half of them work again, as a share of the time.
        own_topic: share of a page's messages that come from its topic.
        groups: whether the application declares which tools are interchangeable.
        position: nats by which each place further down makes the model choose a tool less.
        taste: standard deviation of the model's liking for one tool or another, in nats.
        seen_failing: share of the failures that are reported as such; the others look like successes.
        false_failing: share of the successes that are reported as failures.
        corrected: share of the calls of a wrong tool, where it ran, that the user notices.
        lost, doubled: shares of the reports. delay: how many messages later a report arrives.
    """

    duplicates: bool = True
    equal: bool = False
    breaks: bool = True
    repaired: float = 0.8
    own_topic: float = 0.7
    groups: bool = False
    position: float = 0.35
    taste: float = 0.5
    seen_failing: float = 0.9
    false_failing: float = 0.02
    corrected: float = 0.5
    lost: float = 0.0
    doubled: float = 0.0
    delay: int = 0


SCENARIOS: Mapping[str, Scenario] = {
    "main": Scenario(),
    "null": Scenario(duplicates=False, equal=True, breaks=False),
    "channel": Scenario(lost=0.1, doubled=0.2, delay=50),
    "break": Scenario(repaired=1.0),
    "groups": Scenario(groups=True),
    "no-topics": Scenario(own_topic=0.0),
    "no-position": Scenario(position=0.0),
    "first-listed": Scenario(position=1.0),
    "noisy": Scenario(corrected=0.0, seen_failing=0.6, false_failing=0.05),
}
