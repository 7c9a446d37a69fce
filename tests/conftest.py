"""What every test may ask for, and which tests run when: see tests/README.md."""

from __future__ import annotations

import atexit
import gc
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import settings

from tests import sentinel, server_of_run, stale_core
from toolroll import Toolroll, _core
from toolroll.selection import environment_names

sentinel.install()
# Vectors and outboxes of tests are no business of the user's. Workers and child processes share the folders.
for place in ("TOOLROLL_CACHE", "XDG_STATE_HOME"):
    if tempfile.gettempdir() not in os.environ.get(place, ""):
        os.environ[place] = tempfile.mkdtemp(prefix="toolroll-")
        atexit.register(shutil.rmtree, os.environ[place], ignore_errors=True)

# SQLite waits for a disk at each commit. pytest deletes the folders of tests that pass.
os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(server_of_run.server_root()))

if folder := server_of_run.name_folder():
    begun_by = os.getpid()
    atexit.register(lambda: server_of_run.end_server(folder) if os.getpid() == begun_by else None)

# What a script starts with "&" ignores interrupts, and so would the processes that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long the long tier runs is said by variables that only tests read.
environment_names.warned.update(os.environ)

# Property tests are the same on every run, except those of the long profile; those of the gate by --hypothesis-seed.
settings.register_profile("quick", deadline=None, derandomize=True, max_examples=25)
settings.register_profile("gate", deadline=None, database=None, max_examples=25)
settings.register_profile("long", deadline=None, max_examples=5_000)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "quick")
settings.load_profile(PROFILE)

# Optional packages that are not part of [test-all]: they weigh gigabytes, bring a hundred others, or cannot be
# installed beside those that are (tools/test_adapters.py has an environment for each).
TOO_LARGE = (
    *(
        "sentence_transformers",
        "torch",
        "llama_index",
        "smolagents",
        "fastmcp",
        "litellm",
        "haystack",
        "google.adk",
        "ray",
    ),
    *("strands", "agent_framework", "semantic_kernel", "crewai", "agno"),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--all-packages", action="store_true", help="fail if a test is skipped because a package is missing"
    )
    parser.addoption(
        "--passed-in",
        metavar="FILE",
        help="leave out the tests that passed in the run of this --junitxml; property tests run again",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Tests of a core that was built before its sources changed would say nothing about them."""
    if problem := stale_core.complaint(
        Path(environment_names.__file__), Path(_core.__file__), config.rootpath
    ):
        raise pytest.UsageError(problem)


@pytest.hookimpl(tryfirst=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """One file runs without workers: starting them takes longer than most files."""
    files = [argument for argument in config.args if argument.split("::")[0].endswith(".py")]
    return 0 if len(files) == len(config.args) == 1 else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks the tests that need PostgreSQL `db`; `slow` stands at the tests themselves."""
    if file := config.getoption("--passed-in"):
        leave_out(config, items, passed_in(file))
    for item in items:
        parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
        server = {"postgresql", "postgresql_template", "guarded"} & set(getattr(item, "fixturenames", ()))
        if server or "postgresql" in [value for value in parameters if isinstance(value, str)]:
            item.add_marker(pytest.mark.db)
        if PROFILE == "quick":
            limit_examples(item)


def own_settings(item: pytest.Item) -> tuple[object, settings | None]:
    """The function of a test, and its settings if it is a property test."""
    test = getattr(getattr(item, "obj", None), "__func__", getattr(item, "obj", None))
    return test, getattr(test, "_hypothesis_internal_use_settings", None)


def limit_examples(item: pytest.Item) -> None:
    """Takes examples off a property test that asks for more than the profile allows."""
    test, own = own_settings(item)
    allowed = settings.default.max_examples
    if own is not None and own.max_examples > allowed:
        test._hypothesis_internal_use_settings = settings(own, max_examples=allowed)


def passed_in(file: str) -> set[tuple[str, str]]:
    """(module, name) of the tests that passed, from a file that --junitxml wrote."""
    cases = ElementTree.parse(file).iter("testcase")
    return {(case.get("classname", ""), case.get("name", "")) for case in cases if not len(case)}


def leave_out(config: pytest.Config, items: list[pytest.Item], passed: set[tuple[str, str]]) -> None:
    """Deselects tests that passed before, but for those that draw other examples now."""
    left_out, rest = [], []
    for item in items:
        module = item.nodeid.split("::")[0].removesuffix(".py").replace("/", ".")
        is_done = (module, item.name) in passed and own_settings(item)[1] is None
        (left_out if is_done else rest).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = rest


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol() -> Iterator[bool | None]:
    sentinel.reports()  # of the collection, or of a thread of an earlier test that ended late
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[object]:
    result = yield
    if found := sentinel.reports():
        pytest.fail(f"the test reached out of its folder or machine: {found[:5]}")
    return result


def pytest_collection_finish() -> None:
    """Keeps the collector of garbage off the modules: `time_messages` collects before it measures."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.getoption("--all-packages") and missing(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.getoption("--all-packages"):
        for reason in missing(config):
            terminalreporter.write_line(f"--all-packages: skipped: {reason}", red=True)


def missing(config: pytest.Config) -> list[str]:
    """Why tests were skipped for a package that [test-all] has."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    found = set()
    for report in reporter.stats.get("skipped", ()) if reporter else ():
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        package = re.search(r"could not import '([\w.]+)'", reason)
        if package and not f"{package[1]}.".startswith(tuple(f"{name}." for name in TOO_LARGE)):
            found.add(reason)
    return sorted(found)


@pytest.fixture(scope="session")
def demo() -> Toolroll:
    """The demonstration catalog with the offline embedder."""
    return Toolroll.demo()
