"""A process that is killed; run as a script by test_outcomes_survive.py.

As a host it reads from its standard input the numbers of the reports that are left, and says on its standard
output which were acknowledged; as a keeping host it has a keeper in a thread, too. As a shipper or a keeper it
works until it is killed.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import NoReturn

from tests.integration.outcomes import exposure
from tests.integration.recorder import Recorder
from toolroll.learning.exposure import Exposure
from toolroll.learning.outcomes import Entry, Report
from toolroll.registry.events import lease
from toolroll.registry.events.receipts import LIFETIME_S
from toolroll.registry.keeper.keeper import Keeper
from toolroll.registry.store.database import Database
from toolroll.selection.selection import Selection

THREADS = 4
PAUSE_S = float(os.environ.get("TOOLROLL_PAUSE_S", "0.01"))
ORGS = ("acme", "umbrella", "")
TOOLS = 40
KINDS = ("succeeded", "succeeded", "failed", "called", "corrected")


def event(number: int, begun: float) -> tuple[Exposure, Report]:
    """The event of that number, and what is said of it: the same in every process."""
    names = [f"tool_{(number * 7 + step * 3) % TOOLS}" for step in range(5)]
    is_too_late = number % 20 == 1
    shown = exposure(
        f"event{number:08d}",
        *names,
        org=ORGS[number % 3],
        at=begun - number * 0.5 - (2 * LIFETIME_S if is_too_late else 0),
        reporter=f"user{number}" if number % 2 else "",
        page=f"page{number % 4}",
    )
    entries = (Entry(names[number % 5], KINDS[number % 11 % 5]),) if number % 7 else ()
    return shown, Report(shown.event_id, entries)  # type: ignore[arg-type]


def no_selection(_: Selection) -> NoReturn:
    raise AssertionError("nothing is selected here")


def main(role: str, url: str, outbox: str, begun: float) -> None:
    lease.LEASE_S, lease.RENEW_S = 1.0, 0.3  # type: ignore[misc]
    database = Database.open(url, create=False, migrate=False)
    if role == "keeper":
        Keeper(database).start()
    keeps, is_host = role == "keeping host", role.endswith("host")
    recorder = Recorder(database, Path(outbox), no_selection, messages=None, keeps=keeps, most_bytes=2**28)
    if is_host:
        report_all(recorder, begun)
        recorder.close(30)
        database.close()
        return
    if role == "shipper":
        recorder.shipper.start()
    os.write(1, b"ready\n")
    sys.stdin.read()


def report_all(recorder: Recorder, begun: float) -> None:
    numbers = [int(number) for number in sys.stdin.readline().split()]

    def work(part: list[int]) -> None:
        for number in part:
            recorder.record(*event(number, begun))
            os.write(1, b"%d\n" % number)
            if number % 16 < 4:  # bursts leave much in the outbox; the pauses let it be killed in the middle
                time.sleep(4 * PAUSE_S)

    threads = [threading.Thread(target=work, args=(numbers[at::THREADS],)) for at in range(THREADS)]
    os.write(1, b"ready\n")
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]))
