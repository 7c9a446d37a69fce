"""A process that writes batches for the one that started it, so that the two share no interpreter lock.

The processes speak through two pipes. A message is its length and a value of `marshal`: first the address of
the database, then a batch at a time, each with its answer. The process ends when its input ends: with the one
that started it, however that ends, and after the batch that it has begun.
"""

from __future__ import annotations

import gc
import json
import logging
import marshal
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from toolroll.errors import InvalidInput, StoreUnavailable, ToolrollError
from toolroll.registry.events.batch_writer import BatchWriter, WrittenBatch
from toolroll.registry.store.database import Database

_LENGTH = struct.Struct("<Q")
_NICE = 5  # where there are too few processors for both, selections come first
_COLLECT_EVERY = 100_000  # new objects, most of which go by themselves: of one batch of events
_SOME = 1 << 20  # bytes in one call of the system
# Isolated, so that no file in the folder from which a service is started is taken for a module of ours.
_COMMAND = (
    "-I",
    "-c",
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from toolroll.registry.events.batch_writer_process import main; main()",
)
_log = logging.getLogger("toolroll")

_LogLine: TypeAlias = tuple[int, str]  # level and text


class BatchWriterProcess:
    """Does what `BatchWriter` does, in a process of its own.

    It starts with `start`, or with the first batch. If it ends early, the batch is not known to be written,
    and the next one starts another.
    """

    most_events = 1_024

    def __init__(self, url: str, window_s: float) -> None:
        """url: of the database, with its password. Starts nothing yet."""
        if not sys.executable:
            raise InvalidInput("writer: is 'process', which needs an interpreter to start; use 'thread'")
        self._url, self._window_s = url, window_s
        self._process: subprocess.Popen[bytes] | None = None
        self._is_closed = False

    def write(self, events: Sequence[bytes], records: Sequence[bytes], now: float | None) -> WrittenBatch:
        """As `BatchWriter.write`.

        Raises:
            StoreUnavailable: also if the process has ended.
        """
        process = self._started()
        try:
            _send(_input_of(process), (list(events), list(records), now))
            answer, lines = _receive(_output_of(process))
        except (EOFError, OSError, ValueError) as error:  # ValueError: it was closed meanwhile
            self._end(process)
            raise StoreUnavailable(
                f"the process that writes events has ended ({process.poll()}); the next batch starts another"
            ) from error
        for level, line in lines:
            _log.log(level, "%s", line)
        if isinstance(answer, str):
            raise StoreUnavailable(answer)
        return WrittenBatch(*answer)

    def start(self) -> None:
        """Starts the process, if the system lets it; else the first batch does."""
        with suppress(StoreUnavailable):
            self._started()

    def close(self, timeout_s: float) -> None:
        """Ends the process after its present batch; after that time at once."""
        self._is_closed = True
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, timeout_s))
        self._end(process)

    def abandon(self) -> None:
        """In the child of a fork: lets go of the process, which is the parent's."""
        process, self._process = self._process, None
        if process is not None:
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                pipe.close()
            process.returncode = 0  # nobody here waits for it

    def _started(self) -> subprocess.Popen[bytes]:
        if self._is_closed:
            raise StoreUnavailable("the process that writes events is closed")
        if self._process is not None:
            return self._process
        process = None
        try:
            process = subprocess.Popen(
                [sys.executable, *_COMMAND, json.dumps(sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
            )
            _send(_input_of(process), (self._url, self._window_s))
        except OSError as error:
            if process is not None:
                self._end(process)
            raise StoreUnavailable(f"the process that writes events cannot be started: {error}") from error
        self._process = process
        return process

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        self._process = None
        with suppress(OSError):
            process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()


def main() -> None:
    """Writes the batches that come through standard input, until it ends."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # they are sent to groups of processes; the other one says when
    if hasattr(os, "nice"):
        os.nice(_NICE)
    requests, answers = os.dup(0), os.dup(1)
    os.dup2(2, 1)  # whatever is printed is no answer
    gc.freeze()  # the modules live as long as the process
    gc.set_threshold(_COLLECT_EVERY, *gc.get_threshold()[1:])
    lines = _Lines()
    _log.addHandler(lines)
    _log.propagate = False
    with suppress(EOFError, OSError):  # the other process is gone
        url, window_s = _receive(requests)
        writer: BatchWriter | None = None
        with suppress(ToolrollError):  # the first batch says so
            writer = _writer_to(url, window_s)
        while True:
            batch = _receive(requests)
            try:
                writer = writer or _writer_to(url, window_s)
                answer: Any = tuple(writer.write(*batch))
            except ToolrollError as error:
                answer = str(error)
            _send(answers, (answer, lines.taken()))


def _writer_to(url: str, window_s: float) -> BatchWriter:
    return BatchWriter(Database.open(url, create=False, migrate=False), window_s)


class _Lines(logging.Handler):
    """Keeps log lines for the process that has the user's logging."""

    def __init__(self) -> None:
        super().__init__()
        self._lines = list[_LogLine]()

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append((record.levelno, record.getMessage()))

    def taken(self) -> list[_LogLine]:
        lines, self._lines = self._lines, []
        return lines


def _input_of(process: subprocess.Popen[bytes]) -> int:
    assert process.stdin is not None
    return process.stdin.fileno()


def _output_of(process: subprocess.Popen[bytes]) -> int:
    assert process.stdout is not None
    return process.stdout.fileno()


def _send(file: int, value: Any) -> None:
    """Writes a message. Raises OSError if the other process is gone."""
    data = marshal.dumps(value)
    rest = memoryview(_LENGTH.pack(len(data)) + data)
    while rest:
        rest = rest[os.write(file, rest[:_SOME]) :]


def _receive(file: int) -> Any:
    """Reads a message. Raises EOFError if the other process is gone."""
    (length,) = _LENGTH.unpack(_read(file, _LENGTH.size))
    return marshal.loads(_read(file, length))


def _read(file: int, length: int) -> bytes:
    parts = list[bytes]()
    while length:
        part = os.read(file, min(length, _SOME))
        if not part:
            raise EOFError
        parts.append(part)
        length -= len(part)
    return b"".join(parts)
