"""Differentially private statistics of shared tools, over all organisations.

The counts of each organisation are bounded and added up, and noise is added to the sums. The unit of privacy
is an organisation: without everything that one of them did, the probability of any result changes by at most
a factor of `exp(epsilon)`. The list of organisations and the names of the shared tools are public. Everything
that an organisation did is protected, and whether it did anything at all. The epsilons of several releases
add up.

The noise is discrete and sampled exactly, since the low bits of floating-point noise reveal the value below
it (Mironov, "On Significance of the Least Significant Bits for Differential Privacy", CCS 2012). Its
randomness comes from the operating system, never from a seed: anyone who knows the noise can subtract it.

The released counts account for the noise: a noisy rate stands for fewer observations than its counts, and one
that is mostly noise is not released.

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

from toolroll.model.errors import Denied, InvalidInput, quoted

LEAST_ORGANISATIONS = 20
MOST = 100  # the most counts of one organisation, over all tools and kinds
GREATEST_EPSILON = 10.0
_GRAIN = 16  # noise is added in 1/16 of a count
_APART = 0.14  # standard deviation of success rates between tools
_LIFTS_APART = 0.5  # and of calls over predicted calls
_USUAL = 0.85  # success rate of an unknown tool

Below = Callable[[int], int]  # n → a whole number from 0 to n - 1, each as probable


class ToolCounts(NamedTuple):
    """The counts of one tool.

    Attributes:
        successes, failures: of calls whose result is known.
        calls, expected: how often it was called, and how often similarity alone predicts it.
    """

    successes: float
    failures: float
    calls: float
    expected: float


@dataclass(frozen=True, slots=True)
class Release:
    """The result of a release.

    Attributes:
        counts: tool → counts with the same uncertainty as the noisy rates; only tools whose rates are more
            than noise.
        organisations: the number that took part.
        epsilon: the cost of this release.
        most: the bound of each organisation's counts.
        noise: standard deviation of the noise in each sum.
    """

    counts: Mapping[str, ToolCounts]
    organisations: int
    epsilon: float
    most: int
    noise: float


def release(
    contributions: Sequence[Mapping[str, ToolCounts]],
    tools: Sequence[str],
    *,
    epsilon: float,
    most: int = MOST,
    below: Below = secrets.randbelow,
) -> Release:
    """Sums the contributions with noise.

    Args:
        contributions: one for each organisation, empty for one that did nothing.
        tools: all shared tools, used or not; counts of other tools are ignored.
        epsilon: the privacy budget to spend: 1 is usual, less is more private.
        most: the highest total of one organisation's counts; a higher one is scaled down.
        below: the source of randomness: returns a whole number below its argument.

    Raises:
        Denied: fewer than `LEAST_ORGANISATIONS` take part.
        InvalidInput: a number is out of range, or a count is negative or not a number.
    """
    if isinstance(epsilon, bool) or not isinstance(epsilon, (int, float)):
        raise InvalidInput(f"epsilon: is {quoted(epsilon)}, must be a number")
    if not 0.001 <= epsilon <= GREATEST_EPSILON:
        raise InvalidInput(f"epsilon: is {epsilon}, must be from 0.001 to {GREATEST_EPSILON:g}")
    if isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= 1_000_000:
        raise InvalidInput(f"most: is {quoted(most)}, must be a whole number from 1 to 1,000,000")
    if len(contributions) < LEAST_ORGANISATIONS:
        raise Denied(
            f"sharing: {len(contributions)} organisations take part, "
            f"must be at least {LEAST_ORGANISATIONS}: among fewer, a single one would show"
        )
    sums = noisy_sums(contributions, tools, epsilon=epsilon, most=most, below=below)
    noise = math.sqrt(2) * float(noise_scale(epsilon, most)) / _GRAIN
    return Release(denoised(sums, noise), len(contributions), float(epsilon), most, noise)


def noisy_sums(
    contributions: Sequence[Mapping[str, ToolCounts]],
    tools: Sequence[str],
    *,
    epsilon: float,
    most: int,
    below: Below = secrets.randbelow,
) -> dict[str, ToolCounts]:
    """Tool → sums over the organisations, with noise; they may be below 0."""
    names = sorted(set(tools))
    places, sums = {name: at for at, name in enumerate(names)}, [0] * (len(names) * len(ToolCounts._fields))
    for contribution in contributions:
        for at, grains in _bounded(contribution, places, most):
            sums[at] += grains
    scale, width = noise_scale(epsilon, most), len(ToolCounts._fields)
    noisy = [(total + discrete_laplace(scale, below)) / _GRAIN for total in sums]
    return {name: ToolCounts(*noisy[at * width : (at + 1) * width]) for at, name in enumerate(names)}


def denoised(sums: Mapping[str, ToolCounts], noise: float) -> dict[str, ToolCounts]:
    """Tool → counts with the expected rates under the noisy sums, and their uncertainty.

    Rates shrink towards the mean of all tools, the more the noisier they are. Only noisy values are read, so
    this costs no privacy.
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
        known = _shrunk(
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
        lifted = _shrunk(
            each.calls, each.expected, usual_lift, _LIFTS_APART, noise * math.hypot(usual_lift, 1)
        )
        lift, exposures = 0.0, 0.0
        if lifted is not None:
            lift = max(lifted[0], 0.05)
            exposures = lift / lifted[1]  # of a Gamma
        told[name] = ToolCounts(rate * observations, (1 - rate) * observations, lift * exposures, exposures)
    return told


def _shrunk(
    part: float, whole: float, usual: float, apart: float, noise: float
) -> tuple[float, float] | None:
    """A rate and its variance, from a noisy part of a noisy whole; None if it is mostly noise.

    usual, apart: mean and standard deviation of all rates. noise: standard deviation of part - usual * whole.
    """
    if whole <= 0:
        return None
    blur = (noise / whole) ** 2
    weight = apart**2 / (apart**2 + blur)
    if weight < 0.5:
        return None
    return usual + weight * (part / whole - usual), weight * blur


def _bounded(
    contribution: Mapping[str, ToolCounts], places: Mapping[str, int], most: int
) -> list[tuple[int, int]]:
    """An organisation's counts of its tools in grains, each with its place.

    If their total is above `most`, they are scaled down, so one organisation changes the sums by at most
    `most * _GRAIN`.
    """
    width = len(ToolCounts._fields)
    counts = [
        (places[name] * width + at, count)
        for name, mine in contribution.items()
        if name in places
        for at, count in enumerate(mine)
    ]
    for _, count in counts:
        if not (isinstance(count, (int, float)) and 0 <= count < math.inf):
            raise InvalidInput(f"sharing: a count is {quoted(count)}, must be a number of at least 0")
    # `fsum` is off by far less than a grain, and whole grains exceed the bound by a grain or not at all.
    if math.fsum(count for _, count in counts) <= most:
        return [(at, math.floor(count * _GRAIN)) for at, count in counts if count]  # times 16 is exact
    # Exact from here on, in whole numbers of one fraction: rounding must not lift a sum above the bound.
    ratios = [(at, *count.as_integer_ratio()) for at, count in counts]
    fraction = max(bottom for _, _, bottom in ratios)  # powers of two
    whole = [(at, top * (fraction // bottom)) for at, top, bottom in ratios]
    total = sum(count for _, count in whole)
    return [(at, count * most * _GRAIN // total) for at, count in whole]


def noise_scale(epsilon: float, most: int) -> Fraction:
    """The scale of the noise in grains: the most that one organisation can change, over epsilon."""
    spent = Fraction(epsilon).limit_denominator(10**6)
    if spent > Fraction(epsilon):
        spent -= Fraction(1, 10**6)  # rounded down, never up
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
    """True with probability exp(-rate), for a rate in [0, 1], by the alternating series of exp."""
    k = 1
    while below(rate.denominator * k) < rate.numerator:
        k += 1
    return k % 2 == 1
