"""A/B tests of profiles: a hash assigns each user, session or organisation its variant.

The variant is the same in every process, and nothing is stored. `registry/analytics/comparison.py` compares
the outcomes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, get_args

from toolroll.model.argument_checks import LONE_SURROGATE, is_unicode
from toolroll.model.context import Context
from toolroll.model.errors import InvalidInput, quoted
from toolroll.model.identity import key

Unit = Literal["user", "session", "org"]
UNITS: tuple[str, ...] = get_args(Unit)

_LONGEST = 100
_WHOLE = 2**64


@dataclass(frozen=True, slots=True)
class Experiment:
    """The variants of an A/B test and the assignment of units to them.

    Attributes:
        name: another name assigns units independently.
        variants: name → share. The first is the control. Shares add up to 1.
        unit: "user", "session" or "org": each one always gets the same variant.
        salt: another salt assigns units independently under the same name.
    """

    name: str
    variants: Mapping[str, float]
    unit: Unit = "user"
    salt: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not 0 < len(self.name) <= _LONGEST:
            raise InvalidInput(f"experiment: name is {quoted(self.name)}, must have 1 to {_LONGEST} letters")
        where = f"experiment {self.name!r}"
        if not is_unicode(self.name):
            raise InvalidInput(f"{where}: name {LONE_SURROGATE}")
        if not isinstance(self.unit, str) or self.unit not in UNITS:
            raise InvalidInput(f"{where}: unit is {quoted(self.unit)}, must be one of {', '.join(UNITS)}")
        if not isinstance(self.salt, str):
            raise InvalidInput(f"{where}: salt is {quoted(self.salt)}, must be text")
        if not is_unicode(self.salt):
            raise InvalidInput(f"{where}: salt {quoted(self.salt)} {LONE_SURROGATE}")
        if not isinstance(self.variants, Mapping) or len(self.variants) < 2:
            raise InvalidInput(f"{where}: needs at least two variants, each with its share")
        for name, share in self.variants.items():
            if not isinstance(name, str) or not 0 < len(name) <= _LONGEST:
                raise InvalidInput(f"{where}: variant {quoted(name)} must have 1 to {_LONGEST} letters")
            if not is_unicode(name):
                raise InvalidInput(f"{where}: variant {name!r} {LONE_SURROGATE}")
            if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share < 1:
                raise InvalidInput(f"{where}: share of {name!r} is {quoted(share)}, must be between 0 and 1")
        total = math.fsum(self.variants.values())
        if abs(total - 1) > 1e-9:
            raise InvalidInput(f"{where}: shares add up to {total:.6g}, must be 1")
        object.__setattr__(self, "variants", MappingProxyType(dict(self.variants)))

    @property
    def control(self) -> str:
        """The variant that the others are compared with."""
        return next(iter(self.variants))

    def assign(self, unit: str) -> str | None:
        """The variant of a unit; None for "": a turn without a unit is in no experiment."""
        if not unit:
            return None
        draw, below = key("experiment", self.name, self.salt, unit), 0.0
        for name, share in self.variants.items():
            below += share
            if draw < below * _WHOLE:
                return name
        return name  # after an error of rounding

    def variant(self, context: Context) -> str:
        """The variant for a context; "" if it names no unit. Users and sessions belong to their org."""
        unit = getattr(context, self.unit)
        if not unit:
            return ""
        return self.assign(unit if self.unit == "org" else f"{len(context.org)}:{context.org}{unit}") or ""

    def __reduce__(self) -> tuple[Any, ...]:  # a mapping proxy cannot be pickled
        return Experiment, (self.name, dict(self.variants), self.unit, self.salt)
