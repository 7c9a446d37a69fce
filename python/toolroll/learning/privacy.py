"""What organisations have in common about shared tools, without what any one of them did.

The counts of the organisations are added up, each one's bounded, and noise is added to the sums. The unit of
privacy is an organisation: take away all that one of them did, and no result gets more or less probable than
by a factor of `exp(epsilon)`. Which organisations take part, how many they are and what the shared tools are
called is no secret here; what they did is, whether they did anything included. Each release costs its
epsilon: those of several add up.

The noise is of whole numbers and drawn exactly, since the low bits of floating-point noise give away what it
was added to (Mironov, "On Significance of the Least Significant Bits for Differential Privacy", CCS 2012). It
comes from the operating system, never from a seed: who knows the noise can take it off.

Of the noisy sums as much is told as they are worth: a rate that noise has blurred stands for fewer
observations than its counts say, and one that it has drowned for none.

Source: the Laplace mechanism, Dwork, McSherry, Nissim & Smith, TCC 2006; the discrete one and its exact
sampler, Ghosh, Roughgarden & Sundararajan, STOC 2009, and Canonne, Kamath & Steinke, NeurIPS 2020; data that
is zeroed out as the neighbouring one, Kairouz et al., ICML 2021; shrinkage, Efron & Morris, JASA 70, 1975.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from toolroll.errors import Denied, InvalidInput

LEAST_ORGANISATIONS = 20
MOST = 100  # counts of one organisation, over all tools and kinds
GREATEST_EPSILON = 10.0
_GRAIN = 16  # parts that a count is told in
_APART = 0.14  # tools' rates of success differ by about so much, as a standard deviation
_LIFTS_APART = 0.5  # and calls over expected ones by this
_USUAL = 0.85  # rate of success of a tool that nothing is known of

Below = Callable[[int], int]  # n → a whole number from 0 to n - 1, each as probable


class Counts(NamedTuple):
    """What is known of one tool.

    Attributes:
        successes, failures: of calls whose result is known.
        calls, expected: how often it was called, and how often similarity made one expect it to be.
    """

    successes: float
    failures: float
    calls: float
    expected: float


@dataclass(frozen=True, slots=True)
class Release:
    """What may be told.

    Attributes:
        counts: tool → as many observations as leave the doubt that the noise leaves; only tools of which more
            is known than that they are tools.
        organisations: how many took part.
        epsilon: what this release cost.
        most: the bound of each organisation's counts.
        noise: standard deviation of the noise in each sum.
    """

    counts: Mapping[str, Counts]
    organisations: int
    epsilon: float
    most: int
    noise: float


def release(
    contributions: Sequence[Mapping[str, Counts]],
    tools: Sequence[str],
    *,
    epsilon: float,
    most: int = MOST,
    below: Below = secrets.randbelow,
) -> Release:
    """Adds up, with noise.

    Args:
        contributions: one for each organisation that takes part, an empty one where it did nothing.
        tools: all shared tools, used or not; counts of other tools are left out.
        epsilon: the privacy that is spent: 1 is usual, less is more private.
        most: what one organisation may count at the most, all its counts taken together; one with more is
            scaled down.
        below: where the noise comes from; another source is for tests.

    Raises:
        Denied: fewer than `LEAST_ORGANISATIONS` take part.
        InvalidInput: a number is out of range, or a count no number of at least 0.
    """
    if isinstance(epsilon, bool) or not isinstance(epsilon, (int, float)):
        raise InvalidInput(f"epsilon: is {epsilon!r:.80}, must be a number")
    if not 0.001 <= epsilon <= GREATEST_EPSILON:
        raise InvalidInput(f"epsilon: is {epsilon}, must be from 0.001 to {GREATEST_EPSILON:g}")
    if isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= 1_000_000:
        raise InvalidInput(f"most: is {most!r:.80}, must be a whole number from 1 to 1,000,000")
    if len(contributions) < LEAST_ORGANISATIONS:
        raise Denied(
            f"sharing: {len(contributions)} organisations take part, "
            f"must be at least {LEAST_ORGANISATIONS}: among fewer, what one did shows"
        )
    sums = noisy_sums(contributions, tools, epsilon=epsilon, most=most, below=below)
    noise = math.sqrt(2) * float(noise_scale(epsilon, most)) / _GRAIN
    return Release(worth(sums, noise), len(contributions), float(epsilon), most, noise)


def noisy_sums(
    contributions: Sequence[Mapping[str, Counts]],
    tools: Sequence[str],
    *,
    epsilon: float,
    most: int,
    below: Below = secrets.randbelow,
) -> dict[str, Counts]:
    """Tool → sums over the organisations with noise, which may take them below 0."""
    names = sorted(set(tools))
    sums = [0] * (len(names) * len(Counts._fields))
    for contribution in contributions:
        for at, grains in enumerate(bounded(contribution, names, most)):
            sums[at] += grains
    scale, width = noise_scale(epsilon, most), len(Counts._fields)
    noisy = [(total + discrete_laplace(scale, below)) / _GRAIN for total in sums]
    return {name: Counts(*noisy[at * width : (at + 1) * width]) for at, name in enumerate(names)}


def worth(sums: Mapping[str, Counts], noise: float) -> dict[str, Counts]:
    """Tool → counts with the rates that the noisy sums make one expect, and their doubt.

    Rates are drawn towards that of all tools, the further the more noise there is in them. Reads nothing but
    what is noisy already, so it costs no privacy.
    """
    calls = sum(each.successes + each.failures for each in sums.values())
    unsure = 4 * noise * math.sqrt(2 * len(sums))
    usual = _USUAL if calls <= unsure else sum(each.successes for each in sums.values()) / calls
    usual = min(max(usual, 0.5), 0.98)
    expected = sum(each.expected for each in sums.values())
    usual_lift = 1.0 if expected <= unsure else sum(each.calls for each in sums.values()) / expected
    usual_lift = min(max(usual_lift, 0.2), 5.0)
    told = {}
    for name, each in sums.items():
        known = _drawn_in(
            each.successes,
            each.successes + each.failures,
            usual,
            _APART,
            noise * math.hypot(usual, 1 - usual),  # a failure in the part is one in the whole
        )
        if known is None:
            continue
        rate = min(max(known[0], 0.02), 0.98)
        observations = max(0.0, rate * (1 - rate) / known[1] - 1)  # of a Beta with this variance
        lifted = _drawn_in(
            each.calls, each.expected, usual_lift, _LIFTS_APART, noise * math.hypot(usual_lift, 1)
        )
        lift, exposures = 0.0, 0.0
        if lifted is not None:
            lift = max(lifted[0], 0.05)
            exposures = lift / lifted[1]  # of a Gamma
        told[name] = Counts(rate * observations, (1 - rate) * observations, lift * exposures, exposures)
    return told


def _drawn_in(
    part: float, whole: float, usual: float, apart: float, noise: float
) -> tuple[float, float] | None:
    """Rate and its variance, of a noisy part of a noisy whole; None where noise is most of it.

    usual, apart: mean and standard deviation of such rates. noise: that of part - usual * whole.
    """
    if whole <= 0:
        return None
    blur = (noise / whole) ** 2
    weight = apart**2 / (apart**2 + blur)
    if weight < 0.5:
        return None
    return usual + weight * (part / whole - usual), weight * blur


def bounded(contribution: Mapping[str, Counts], names: Sequence[str], most: int) -> list[int]:
    """An organisation's counts of these tools in grains, scaled down where they come to more than `most`.

    So to take them away changes the sums by `most * _GRAIN` at the most, whatever it did.
    """
    counts = [count for name in names for count in contribution.get(name, Counts(0, 0, 0, 0))]
    for count in counts:
        if not (isinstance(count, (int, float)) and 0 <= count < math.inf):
            raise InvalidInput(f"sharing: a count is {count!r:.80}, must be a number of at least 0")
    # exact from here on: rounding must not lift a sum above the bound
    exact = [Fraction(count) for count in counts]
    total = sum(exact)
    share = Fraction(most) / total if total > most else Fraction(1)
    return [math.floor(count * share * _GRAIN) for count in exact]


def noise_scale(epsilon: float, most: int) -> Fraction:
    """The scale of the noise in grains: what one organisation can change, over epsilon."""
    spent = Fraction(epsilon).limit_denominator(10**6)
    if spent > Fraction(epsilon):
        spent -= Fraction(1, 10**6)  # rounded down: never more than was said
    return Fraction(most * _GRAIN) / spent


def discrete_laplace(scale: Fraction, below: Below = secrets.randbelow) -> int:
    """A whole number x with probability proportional to exp(-|x| / scale), exactly."""
    top, bottom = scale.numerator, scale.denominator
    while True:
        rest = below(top)
        if not _happens(Fraction(rest, top), below):
            continue
        steps = 0
        while _happens(Fraction(1), below):
            steps += 1
        size = (rest + top * steps) // bottom
        is_negative = below(2) == 1
        if is_negative and size == 0:  # or 0 would come twice as often
            continue
        return -size if is_negative else size


def _happens(rate: Fraction, below: Below) -> bool:
    """True with probability exp(-rate), of a rate in [0, 1]: the sign of its series, term by term."""
    k = 1
    while below(rate.denominator * k) < rate.numerator:
        k += 1
    return k % 2 == 1
