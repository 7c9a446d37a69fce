"""Everything that a `Toolroll` over a store does with events and outcomes.

Selections are logged, reports are checked and written to the journal, and the learnt statistics follow the
store. The parts are `EventWriter`, `Follower` and `Signer`.
"""

from __future__ import annotations

import hashlib
import math
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from toolroll._core import Learned
from toolroll._threads import CallPool, Full, Overdue, survive_forks
from toolroll.embedder import Embedder
from toolroll.errors import InvalidInput, NotFound, StoreUnavailable
from toolroll.learning.effects import Change
from toolroll.learning.exposure import Exposure, ShownTool
from toolroll.learning.outcomes import NOT_SHOWN, Entry, Report
from toolroll.learning.record_result import RecordResult, pending_of
from toolroll.learning.reporters import stored_reporter
from toolroll.registry.events.event_row import SelectionOrigin
from toolroll.registry.events.follower import Follower
from toolroll.registry.events.journal import Journal
from toolroll.registry.events.receipts import Signer, is_receipt, message_secret, signer_of
from toolroll.registry.events.rows import Messages
from toolroll.registry.events.writer import EventWriter
from toolroll.registry.options import Recording
from toolroll.registry.store.database import Database, is_storable
from toolroll.registry.store.url import Address
from toolroll.selection.selection import Selection

_KEY_S = 5.0  # for reading the keys of receipts
_KEYS_KNOWN_S = 300.0  # until the keys are read again
_ASK_EVERY_S = 1.0  # for the key of a receipt that is unknown
_RETRY_S = 5.0  # between two attempts to read the keys in the background


def usual_journal(url: str) -> Path:
    """The default folder of a store's journal: beside a SQLite file, else in the user's state folder."""
    address = Address.of(url)
    if address.path is not None:
        return address.path.with_name(f"{address.path.name}.outcomes")
    configured = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_STATE_HOME")
    try:
        below = ("AppData", "Local") if sys.platform == "win32" else (".local", "state")
        base = Path(configured) if configured else Path.home().joinpath(*below)
    except RuntimeError:  # a user without a home
        base = Path(tempfile.gettempdir())
    return base / "toolroll" / hashlib.sha256(address.text.encode()).hexdigest()[:16]


def check_journal(journal: Path) -> None:
    """Tries whether outcomes can be written to this folder. Leaves nothing behind.

    Raises:
        InvalidInput: names the folder, and the one that cannot be written if that is above it.
    """
    existing = journal
    try:
        existing = next(path for path in (journal.absolute(), *journal.absolute().parents) if path.exists())
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        below = "" if existing == journal.absolute() else f": {existing}"
        raise InvalidInput(
            f"journal {journal}{below}: outcomes cannot be written there: {error.strerror}; set `journal` to "
            "a folder that can be written, on a volume where containers are replaced"
        ) from error


class Recorder:
    """Events and outcomes of one process and one store. Safe to share between threads and forks."""

    def __init__(
        self,
        database: Database,
        url: str,
        options: Recording,
        embedder: Embedder | None,
        *,
        exposure_of: Callable[[Selection, str], Exposure],
        found_in: Callable[[Exposure, Iterable[str]], tuple[ShownTool, ...]],
        origin_of: Callable[[Selection], SelectionOrigin],
        waiting_in: Callable[[Exposure, Sequence[Change]], frozenset[str]],
        poll_s: float = 0.5,
        organisations: int = 1_000,
    ) -> None:
        """Writes nothing yet.

        embedder: whose vectors count. exposure_of: what a selection showed, given the reporter. found_in: the
            tools of these names in the catalog of the exposure's organisation. origin_of: what the selection
            itself does not know about its origin. waiting_in: the tools of these changes whose estimates wait
            for further reporters.
        """
        self._database, self._options = database, options
        self._full_exposure_of, self._found_in = exposure_of, found_in
        self._origin_of, self._waiting_in = origin_of, waiting_in
        self.learned: dict[str, Learned] = {}
        self.follower = Follower(database, embedder, self.learned, poll_s=poll_s, most=organisations)
        folder = usual_journal(url) if options.outbox is None else Path(options.outbox)
        self.writer = EventWriter(
            database,
            Journal(folder, durable=options.durable),
            lambda selection: self._exposure_of(selection, _user_of(selection)),
            messages=None if options.messages == "none" else self._messages,
            origin_of=self._origin,
            on_written=lambda seqs: self.follower.wake(),
            events_s=options.events_s,
        )
        self._signer: Signer | None = None
        self._signer_at = self._asked_at = -math.inf  # when the keys were read, and asked for; monotonic
        self._pool = CallPool(1, "toolroll-receipts")
        self._reset()
        survive_forks(self, lambda recording: (), Recorder._reset)

    def _reset(self) -> None:
        self._signing = threading.Lock()

    # Selections call this: it must not wait.

    def note(self, selection: Selection) -> None:
        """Logs a selection."""
        org = selection.turn.context.org
        if is_storable(org):  # else it has no outcomes, and a query for them would fail for all others
            self.follower.ask(org, time.monotonic())
        self.writer.note(selection)

    # Reports.

    def record(
        self,
        picked: Selection | Exposure | str,
        entries: tuple[Entry, ...],
        *,
        final: bool,
        reporter: str | None,
        org: str | None,
        now: float,
        found: tuple[ShownTool, ...] | None = None,
    ) -> RecordResult:
        """Takes a report on a selection, a receipt or an event's id; see `Toolroll.record`.

        found: for a selection, the tools in the entries that were not shown.
        """
        exposure = self._exposure(picked, org, now, reporter)
        if found is None:
            names = [entry.name for entry in entries if entry.kind in NOT_SHOWN]
            shown = {tool.name for tool in exposure.shown}
            # Policy asks for the user who was shown the tools, whoever reports.
            found = self._found_in(exposure, [name for name in names if name not in shown])
        if reporter is not None:
            exposure = replace(exposure, reporter=reporter)
        report = Report(exposure.event_id, entries, found, final)
        selection = picked if isinstance(picked, Selection) else None
        changes = self.writer.record(exposure, report, now, selection).changes
        pending = pending_of(report, changes, self._waiting_in(exposure, changes))
        return RecordResult(exposure.event_id, len(changes), exposure.org, pending)

    def _exposure(
        self, picked: Selection | Exposure | str, org: str | None, now: float, reporter: str | None
    ) -> Exposure:
        if isinstance(picked, Exposure):
            return picked
        if isinstance(picked, Selection):
            reporter = _user_of(picked) if reporter is None else reporter
            known = self.writer.known(picked.event_id, reporter)
            if known is None or tuple([tool.name for tool in known.shown]) != picked.shown:
                known = self._exposure_of(picked, reporter)  # it was delivered since
            exposure = known
            if org is not None and exposure.org != org:
                raise NotFound(f"event {exposure.event_id}: belongs to another organisation")
            return exposure
        if not isinstance(picked, str):
            raise InvalidInput(
                f"picked: is {type(picked).__name__}, must be the Selection, its receipt or its event id"
            )
        if is_receipt(picked):
            return self.signer(picked).read(picked, now, org)
        return self.writer.exposure(picked, org)

    # Receipts.

    def receipt(self, picked: Selection) -> str:
        """A receipt for a selection."""
        return self.signer().sign(self._exposure_of(picked, _user_of(picked)))

    def signer(self, receipt: str = "") -> Signer:
        """The signer of receipts. Waits for the store if no key is known, or not that of the receipt.

        Raises:
            StoreUnavailable: the keys have not been read yet, and the store does not answer.
        """
        signer = self._signer
        key_id = receipt.split(".")[1] if receipt.count(".") == 2 else ""
        if signer is not None and (not key_id or key_id in signer.secrets):
            return signer
        with self._signing:
            if self._signer is not None and time.monotonic() - self._asked_at < _ASK_EVERY_S:
                return self._signer  # forged receipts must not cause a query each
            try:
                return self._read_keys()
            except StoreUnavailable:
                if self._signer is None:
                    raise
                return self._signer

    def renew_keys(self) -> None:
        """Reads the keys of receipts if they are unknown or old. Waits for the store.

        A failure is not an error: the next call tries again.
        """
        asked_s, age_s = (time.monotonic() - at for at in (self._asked_at, self._signer_at))
        if age_s >= _KEYS_KNOWN_S and asked_s >= _RETRY_S:
            with suppress(StoreUnavailable):
                self._read_keys()

    def _read_keys(self) -> Signer:
        self._asked_at = time.monotonic()
        try:
            signer = self._pool.run(lambda: signer_of(self._database), _KEY_S)
        except (StoreUnavailable, Overdue, Full) as error:
            raise StoreUnavailable(f"receipts: their keys cannot be read: {error}") from error
        self._signer, self._signer_at = signer, time.monotonic()
        return signer

    # The rest.

    def flush(self, timeout_s: float) -> bool:
        """Whether all events and reports so far are in the store and in the statistics; waits that long."""
        is_there = self.writer.flush(timeout_s)
        if is_there:
            self.follower.follow()
        return is_there

    def health(self) -> dict[str, Any]:
        """How much waits, for how long, and the last errors."""
        return {
            **self.writer.health(),
            "learning": self.follower.health(),
            "signs_receipts": self._signer is not None,
        }

    def drain(self, timeout_s: float) -> None:
        """Takes no more events and writes what it can in this time; then stops soon."""
        self.writer.drain(timeout_s)
        self.follower.request_stop()

    def close(self, timeout_s: float = 5.0) -> None:
        """Writes what it can in this time; the journal keeps the rest for the next process."""
        deadline = time.monotonic() + timeout_s
        self.writer.close(timeout_s)
        self.follower.close(deadline - time.monotonic())
        self._pool.stop(deadline - time.monotonic())

    def _exposure_of(self, selection: Selection, reporter: str) -> Exposure:
        exposure = self._full_exposure_of(selection, reporter)
        if self._options.messages in (
            "dropped",
            "none",
        ):  # a guess at the text could be checked against its vector
            return replace(exposure, vector=None)
        return exposure

    def _origin(self, selection: Selection) -> SelectionOrigin:
        origin = self._origin_of(selection)
        learned = selection.turn.learned
        seq = 0 if learned is None else self.follower.seq_of(selection.turn.context.org, learned)
        return origin._replace(learned_revision=seq)

    def _messages(self) -> Messages:
        form = self._options.messages
        assert form != "none"
        return Messages(form, message_secret(self._database)) if form == "hashed" else Messages(form)


def _user_of(selection: Selection) -> str:
    """The user of a selection, as the reporter of its outcomes."""
    return stored_reporter(selection.turn.context.user)
