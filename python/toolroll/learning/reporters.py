"""Who reports: the application itself, a user whom somebody has identified, or an unnamed caller.

Each identified user is evidence of their own. Unnamed callers of one channel, such as all who use a service
key or a gateway without identity, are one reporter, whatever names they give: names cost nothing there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from toolroll.model.identity import NONE, key, reporter_key

_MARK = "~"  # an unnamed caller is stored behind one, a user whose name begins with it behind two
_WINDOW_S = 3_600.0


@dataclass(frozen=True, slots=True)
class UnnamedCaller:
    """A caller whom nobody has identified.

    Attributes:
        channel: what the caller shares with all others of the same channel, such as "key 1a2b".
    """

    channel: str


Reporter: TypeAlias = "str | UnnamedCaller"


class ReporterKeys(NamedTuple):
    """The keys of a reporter in the statistics.

    Attributes:
        reliability: of outcomes that say whether a tool works.
        intent: of calls, which say what a tool is wanted for.
    """

    reliability: int
    intent: int


NOBODY = ReporterKeys(NONE, NONE)  # of the application itself


def stored_reporter(reporter: Reporter) -> str:
    """The reporter as outcomes are stored with it; "" for the application itself."""
    if isinstance(reporter, UnnamedCaller):
        return f"{_MARK} {reporter.channel}"
    return f"{_MARK}{reporter}" if reporter.startswith(_MARK) else reporter


def user_of(stored: str) -> str:
    """The user who is stored under this name."""
    return stored[len(_MARK) :] if stored.startswith(2 * _MARK) else stored


def reporter_keys(stored: str, at: float) -> ReporterKeys:
    """The keys of a stored reporter for an outcome of this time, in seconds since the epoch.

    An unnamed caller says at once what a tool is wanted for. As for whether it works, each hour of a channel
    is one reporter: a burst of failures is evidence of one, and a break that lasts is found within hours.
    """
    if stored.startswith(f"{_MARK} "):
        return ReporterKeys(key("reporter", stored, str(int(at // _WINDOW_S))), NONE)
    known = reporter_key(stored)
    return ReporterKeys(known, known)
