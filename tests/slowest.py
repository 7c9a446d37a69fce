"""Shows the test files that take the most time: `python -m pytest -p tests.slowest`, with any other options.

The processor's time is that of the worker and of its processes that have ended: a busy machine does not change it much.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterator

import pytest

SHOWN = 30


def processor_s() -> float:
    """Seconds of the processor, of this process and of its children that have ended."""
    return sum(os.times()[:4])


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_LAST] = processor_s()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[pytest.TestReport]:
    """Notes what a test's setup, its call or its end took; pytest-xdist sends the note along with the report."""
    report: pytest.TestReport = yield
    now = processor_s()
    report.processor_s = now - item.config.stash[_LAST]  # type: ignore[attr-defined]
    item.config.stash[_LAST] = now
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    cases, spent = Counter[str](), defaultdict(lambda: [0.0, 0.0])
    for report in (each for found in terminalreporter.stats.values() for each in found):
        if (own_s := getattr(report, "processor_s", None)) is not None:
            file = report.nodeid.split("::")[0]
            cases[file] += report.when == "call"
            spent[file][0] += own_s
            spent[file][1] += report.duration
    terminalreporter.section("slowest files: seconds of the processor, seconds, cases")
    for file in sorted(spent, key=lambda file: -spent[file][0])[:SHOWN]:
        own_s, all_s = spent[file]
        terminalreporter.write_line(f"{own_s:8.1f} {all_s:8.1f} {cases[file]:5}  {file}")


_LAST = pytest.StashKey[float]()
