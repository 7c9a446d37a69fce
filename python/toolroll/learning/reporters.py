"""The reporters of outcomes: the application itself, an identified user, or an unnamed caller.

Each identified user is independent evidence. Unnamed callers of one channel, such as all users of a service
key or of a gateway without identity, are one reporter, whatever names they give: such names cost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from toolroll.model.identity import NONE, key, reporter_key

_MARK = "~"  # an unnamed caller is stored behind one, a user whose name begins with it behind two
_WINDOW_S = 3_600.0


@dataclass(frozen=True, slots=True)
class UnnamedCaller:
    """A caller without an identity.

    Attributes:
        channel: shared by all callers of one channel, such as "key 1a2b".
    """

    channel: str


Reporter: TypeAlias = "str | UnnamedCaller"


class ReporterKeys(NamedTuple):
    """The keys of a reporter in the statistics.

    Attributes:
        reliability: for successes and failures.
        intent: for calls.
    """

    reliability: int
    intent: int


NOBODY = ReporterKeys(NONE, NONE)  # the application's own keys


def stored_reporter(reporter: Reporter) -> str:
    """The reporter in the form that outcomes store; "" for the application itself."""
    if isinstance(reporter, UnnamedCaller):
        return f"{_MARK} {reporter.channel}"
    return f"{_MARK}{reporter}" if reporter.startswith(_MARK) else reporter


def user_of(stored: str) -> str:
    """The user with this stored form."""
    return stored[len(_MARK) :] if stored.startswith(2 * _MARK) else stored


def reporter_keys(stored: str, at: float) -> ReporterKeys:
    """The keys of a stored reporter for an outcome of this time, in seconds since the epoch.

    A call by an unnamed caller is evidence at once. For successes and failures, each hour of a channel is one
    reporter: a burst of failures counts once, and a lasting break is found within hours.
    """
    if stored.startswith(f"{_MARK} "):
        return ReporterKeys(key("reporter", stored, str(int(at // _WINDOW_S))), NONE)
    known = reporter_key(stored)
    return ReporterKeys(known, known)
