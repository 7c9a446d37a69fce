"""The keeper as its own process, so that it does not compete with a service's selections.

The service writes the registry's address and settings to the keeper's input and leaves it open. The input
ends with the service, in whatever way the service ends, and the keeper then stops.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress

from toolroll.model.errors import InvalidInput, ToolrollError
from toolroll.registry.keeper.keeper import EVENTS_S, Keeper
from toolroll.registry.store.database import Database
from toolroll.runtime import gil as _gil

_NICE = 5  # with too few processors, selections come first
_AGAIN_S = 1.0  # before the next start, and between two attempts to open the registry
_END_S = 5.0  # for the last batch
# Isolated, so that no file in the service's working folder is taken for a module of ours.
_COMMAND = (
    "-I",
    "-c",
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from toolroll.registry.keeper.process import main; main()",
)
_log = logging.getLogger("toolroll")


class KeeperProcess:
    """Runs a keeper's process, and restarts it if it ends early."""

    def __init__(self, url: str, events_s: float | None = EVENTS_S) -> None:
        """url: with the password, which no list of processes shows. Starts nothing yet."""
        if not sys.executable:
            raise InvalidInput("keeper: is 'process', which needs an interpreter to start; use 'thread'")
        self._line = json.dumps({"url": url, "events_s": events_s}).encode() + b"\n"
        self._pid, self._closing = os.getpid(), threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, name="toolroll-keeper", daemon=True)

    def start(self) -> None:
        """Starts the process."""
        self._thread.start()

    def hurry(self) -> None:
        """Does nothing: the process looks at the inbox by itself."""

    def close(self, timeout_s: float) -> None:
        """Ends the process after its running batch, or when this time is over."""
        if self._pid != os.getpid():  # in the child of a fork: it is the parent's
            return
        self._closing.set()
        process = self._process
        if process is None:
            return
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.close()
        try:
            process.wait(max(0.0, timeout_s))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._thread.join(1.0)

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                with subprocess.Popen(
                    [sys.executable, *_COMMAND, json.dumps(sys.path)], stdin=subprocess.PIPE
                ) as process:
                    self._process = process
                    assert process.stdin is not None
                    with suppress(OSError):
                        process.stdin.write(self._line)
                        process.stdin.flush()
                    if self._closing.is_set():
                        process.stdin.close()
                    status = process.wait()
                if not self._closing.is_set():
                    _log.warning("keeper: its process has ended (%s); another one is started", status)
            except OSError as error:
                _log.warning("keeper: its process cannot be started: %s", error)
            self._closing.wait(_AGAIN_S)


def keep(url: str, is_ending: threading.Event, events_s: float | None = EVENTS_S) -> None:
    """Runs a keeper until the event is set; waits while the registry does not answer."""
    last = ""
    while True:
        try:
            database = Database.open(url, create=False, migrate=False)
            break
        except ToolrollError as error:
            if str(error) != last:  # not once a second
                last = str(error)
                _log.warning("keeper: %s", last)
            if is_ending.wait(_AGAIN_S):
                return
    keeper = Keeper(database, events_s=events_s)
    keeper.start()
    is_ending.wait()
    keeper.drain(_END_S)
    keeper.close(_END_S)
    database.close()


def main() -> None:
    """Runs a keeper for the registry in the first line of standard input, until that input ends."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # they reach the whole group; the service decides
    if hasattr(os, "nice"):
        os.nice(_NICE)
    gc.freeze()  # the modules live as long as the process
    _gil.is_shared = False
    settings, is_ending = json.loads(sys.stdin.buffer.readline() or b"{}"), threading.Event()
    if not settings:
        return

    def wait() -> None:
        sys.stdin.buffer.read()
        is_ending.set()

    threading.Thread(target=wait, daemon=True).start()
    keep(settings["url"], is_ending, settings["events_s"])
