"""A process that reports outcomes until it is done or killed; run as a script by test_outcomes_survive.py.

Reads from its standard input the numbers of the reports that are left, says on its standard output which were
acknowledged.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from functools import partial
from pathlib import Path

from tests.integration.outcomes import exposure
from toolroll.learning.exposure import Exposure
from toolroll.learning.outcomes import Entry, Report
from toolroll.registry.events import writer as module
from toolroll.registry.events.batch_writer_process import BatchWriterProcess
from toolroll.registry.events.journal import Journal
from toolroll.registry.events.receipts import LIFETIME_S
from toolroll.registry.events.writer import EventWriter
from toolroll.registry.store.database import Database

THREADS = 4
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


def main(url: str, folder: str, begun: float, written_by: str) -> None:
    numbers = [int(number) for number in sys.stdin.readline().split()]
    module._ADOPT_EVERY_S = 0.5  # type: ignore[misc]
    database = Database.open(url, create=False, migrate=False)
    recorder = EventWriter(
        database,
        Journal(Path(folder)),
        lambda selection: 1 / 0,  # type: ignore[arg-type,return-value]
        messages=None,
        batches=partial(BatchWriterProcess, url, LIFETIME_S) if written_by == "process" else None,
    )

    def work(part: list[int]) -> None:
        for number in part:
            recorder.record(*event(number, begun))
            os.write(1, b"%d\n" % number)
            time.sleep(0.01)  # long enough to be killed in the middle

    threads = [threading.Thread(target=work, args=(numbers[at::THREADS],)) for at in range(THREADS)]
    os.write(1, b"ready\n")
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorder.close(30)
    database.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4])
