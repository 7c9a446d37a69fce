"""Measures POST /select over loopback, with one worker, beside the same framework's empty endpoint.

Sides take turns. The service has keys, limits and metrics as in production, and the demonstration catalog.
All events are logged; those that were dropped are counted.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field

import click

from bench.service.load import Load, closed_loop, open_loop
from bench.service.servers import DROPPED, MESSAGES, fill, free_port, metric, request, running, serving


@dataclass(eq=False)
class Side:
    """A server, and what was measured of it.

    Attributes:
        goal: requests a second that it should answer.
        paced: at half of the goal.
    """

    name: str
    port: int
    path: str
    key: str
    goal: float
    rates: list[float] = field(default_factory=list)
    paced: Load = field(default_factory=Load)

    def requests(self) -> list[bytes]:
        bodies = [json.dumps({"message": message, "k": 7}).encode() for message in MESSAGES]
        return [request(self.path, self.key, body) for body in bodies]


@click.command()
@click.option("--rounds", default=3, show_default=True, help="Turns of each side.")
@click.option("--seconds", default=4.0, show_default=True, help="Length of a burst.")
@click.option("--connections", default=8, show_default=True)
def main(rounds: int, seconds: float, connections: int) -> None:
    """Prints requests a second, and latencies at half of the goal: 2,500 with names, 1,500 with schemas."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        url, empty = f"sqlite:///{folder}/tools.db", free_port()
        key = fill(url)
        stack.enter_context(running(empty, "-m", "bench.service.empty", str(empty)))
        port, _ = stack.enter_context(serving(url))
        sides = [
            Side("empty endpoint", empty, "/select", "", 2_500),
            Side("names", port, "/select", key, 2_500),
            Side("schemas of OpenAI", port, "/select?schemas=openai", key, 1_500),
        ]
        for side in sides:
            side.paced = open_loop(
                side.port,
                side.requests(),
                connections=connections,
                seconds=seconds,
                rate=side.goal / 2,
            )
        dropped = metric(port, key, DROPPED)
        for _ in range(rounds):
            for side in sides:
                load = closed_loop(side.port, side.requests(), connections=connections, seconds=seconds)
                side.rates.append(load.rate)
        for side in sides:
            assert not side.paced.broken and set(side.paced.statuses) == {200}
            middle, best = statistics.median(side.rates), max(side.rates)
            p50, p99 = (side.paced.at(share) * 1e3 for share in (0.5, 0.99))
            print(
                f"{side.name:30} {middle:8,.0f} a second (best {best:,.0f}); "
                f"at {side.goal / 2:,.0f} a second p50 {p50:.2f} ms, p99 {p99:.2f} ms"
            )
        print(
            f"events dropped: {dropped:,.0f} at half of the goals, "
            f"{metric(port, key, DROPPED) - dropped:,.0f} at full speed"
        )


if __name__ == "__main__":
    main()
