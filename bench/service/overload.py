"""Sends several times the load that the service can answer, and looks at it afterwards.

With `--key-rate`, what is beyond is refused (429); without it, callers wait for their answers.
"""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import dataclass

import click

from bench.service.load import Load, closed_loop, open_loop
from bench.service.servers import DROPPED, MESSAGES, UNLIMITED, fill, metric, request, resident_bytes, serving

_CONNECTIONS = 256
_WINDOW_S, _WINDOWS = 1.0, 30  # in which the speed after the load is measured
_FULL = 0.8  # of the speed before, which bursts of a second reach on a machine that others use


@dataclass(frozen=True)
class Overload:
    """What came of a load beyond what the service can answer.

    Attributes:
        sustainable: requests a second that it answers before.
        load: the answers under load.
        recovered_s: seconds after the load until it answers as many again; None if it does not.
        grown_bytes: of its memory, from before the load to the end of it.
        dropped: events.
    """

    sustainable: float
    load: Load
    recovered_s: float | None
    grown_bytes: int
    dropped: int


def overload(seconds: float, factor: float = 4.0, key_rate: str = UNLIMITED) -> Overload:
    """Measures a service of its own. key_rate: its limit, which then is what it can sustain."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/tools.db"
        key = fill(url)
        requests = [
            request("/select", key, json.dumps({"message": message, "k": 7}).encode()) for message in MESSAGES
        ]
        with serving(url, key_rate=key_rate) as (port, pid):
            closed_loop(port, requests, connections=8, seconds=1.0)  # caches are filled
            usual = closed_loop(port, requests, connections=8, seconds=min(3.0, seconds)).rate
            before = resident_bytes(pid)
            load = open_loop(port, requests, connections=_CONNECTIONS, seconds=seconds, rate=factor * usual)
            ended, grown = time.perf_counter(), resident_bytes(pid) - before
            recovered = None
            for _ in range(_WINDOWS):
                now = closed_loop(port, requests, connections=8, seconds=_WINDOW_S)
                if now.rate >= _FULL * usual:
                    recovered = max(0.0, time.perf_counter() - ended - now.seconds)
                    break
            time.sleep(_WINDOW_S)  # until the key has requests again
            dropped = int(metric(port, key, DROPPED))
    return Overload(usual, load, recovered, grown, dropped)


@click.command()
@click.option("--seconds", default=60.0, show_default=True, help="Length of the load.")
@click.option("--factor", default=4.0, show_default=True, help="How many times what it can sustain.")
@click.option("--key-rate", default=UNLIMITED, show_default=True, help="Limit of the service.")
def main(seconds: float, factor: float, key_rate: str) -> None:
    """Prints what came of the requests, and how the service did afterwards."""
    found = overload(seconds, factor, key_rate)
    load = found.load
    statuses = ", ".join(f"{count:,} × {status}" for status, count in sorted(load.statuses.items()))
    p50, p99 = (load.at(share) * 1e3 for share in (0.5, 0.99))
    print(
        f"sustainable {found.sustainable:,.0f} a second; {factor:g} times that for {seconds:g} s: {statuses}"
    )
    print(f"{load.broken} broken, {load.unannounced} refused without Retry-After")
    print(f"answered {load.rate:,.0f} a second, p50 {p50:.0f} ms, p99 {p99:.0f} ms")
    print(f"memory grew by {found.grown_bytes / 1e6:.0f} MB; {found.dropped:,} events dropped")
    after = "no" if found.recovered_s is None else f"after {found.recovered_s:.1f} s"
    print(f"full speed again: {after}")


if __name__ == "__main__":
    main()
