"""One organisation sends several times what the service can answer, while another sends a little.

Both come with the key of one backend. It prints what the quiet one gets alone, beside the other, and beside
as many requests of the platform, which no limit of organisations counts for.
"""

from __future__ import annotations

import json
import tempfile
import threading
from dataclasses import dataclass

import click

from bench.service.load import Load, closed_loop, open_loop
from bench.service.servers import MESSAGES, fill, metric, request, serving

_CONNECTIONS = 128
_QUIET_A_SECOND = 20.0


@dataclass(frozen=True)
class Fairness:
    """What came of the requests of two organisations.

    Attributes:
        sustainable: requests a second that the service answers to one of them.
        alone, beside: of the quiet one, without the other and with it.
        noisy: of the other.
        refusals: that the service has counted for a share.
    """

    sustainable: float
    alone: Load
    beside: Load
    noisy: Load
    refusals: float


def fairness(seconds: float, factor: float = 4.0, noisy_org: str = "noisy") -> Fairness:
    """Measures a service of its own. factor: of what it can answer, that the noisy organisation sends.

    noisy_org: its name; "" for the platform.
    """
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/tools.db"
        key = fill(url)

        def requests(org: str) -> list[bytes]:
            bodies = ({"message": message, "k": 7, "context": {"org": org}} for message in MESSAGES)
            return [request("/select", key, json.dumps(body).encode()) for body in bodies]

        def quiet(port: int) -> Load:
            return open_loop(port, requests("quiet"), connections=2, seconds=seconds, rate=_QUIET_A_SECOND)

        with serving(url, org_rate="1000000/second") as (port, _):
            usual = closed_loop(port, requests(noisy_org), connections=8, seconds=min(2.0, seconds)).rate
            alone, noise = quiet(port), list[Load]()
            noisy = threading.Thread(
                target=lambda: noise.append(
                    open_loop(
                        port,
                        requests(noisy_org),
                        connections=_CONNECTIONS,
                        seconds=seconds + 1,
                        rate=factor * usual,
                    )
                )
            )
            noisy.start()
            beside = quiet(port)
            noisy.join()
            refusals = metric(port, key, 'toolroll_organisation_refusals_total{limit="share"}')
    return Fairness(usual, alone, beside, noise[0], refusals)


@click.command()
@click.option("--seconds", default=10.0, help="of each phase")
@click.option("--factor", default=4.0, help="of what the service can answer")
def main(seconds: float, factor: float) -> None:
    """Prints the latencies of the quiet organisation, and what became of the other's requests."""
    found, unlimited = fairness(seconds, factor), fairness(seconds, factor, "")
    print(f"the service answers {found.sustainable:,.0f} requests a second")
    phases = (
        ("alone", found.alone),
        ("beside the noisy one", found.beside),
        ("beside as many without limits", unlimited.beside),
    )
    for phase, load in phases:
        ms = [round(load.at(share) * 1e3, 1) for share in (0.5, 0.99)]
        print(f"quiet, {phase}: {dict(load.statuses)}, p50 {ms[0]} ms, p99 {ms[1]} ms")
    print(f"noisy: {dict(found.noisy.statuses)}, {found.noisy.rate:,.0f} a second answered")


if __name__ == "__main__":
    main()
