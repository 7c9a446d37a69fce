"""All that a `Toolroll` over a store does with events and outcomes, in one place.

Selections are noted, reports are checked and written to the journal, and what the store's outcomes teach is
kept current. The parts are `recorder`, `follower` and `receipts`.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, Literal, TypeAlias

from toolroll._threads import Full, Overdue, Workers
from toolroll.errors import InvalidInput, NotFound, StoreUnavailable
from toolroll.learning.exposure import Exposure, Shown
from toolroll.learning.memory import Recorded
from toolroll.learning.outcomes import NOT_SHOWN, Entry, Report
from toolroll.registry.events.event_row import SelectionOrigin
from toolroll.registry.events.follower import Follower, L, LearnedFactory
from toolroll.registry.events.journal import MOST_BYTES, Durable, Journal
from toolroll.registry.events.receipts import LIFETIME_S, Signer, is_receipt, message_secret, signer_of
from toolroll.registry.events.rows import MessageForm, Messages
from toolroll.registry.events.writer import EventWriter
from toolroll.registry.store.database import Database
from toolroll.registry.store.url import Address
from toolroll.selection.selection import Selection

LoggedMessages: TypeAlias = MessageForm | Literal["none"]

_KEY_S = 10.0  # for the keys of receipts
_KEYS_KNOWN_S = 300.0  # for which they are believed


@dataclass(frozen=True, slots=True)
class RecordingOptions:
    """What is written down, and where it waits until the store has it.

    Attributes:
        messages: whether the text of messages is "kept", "hashed" or "dropped"; "none": no events at all.
        journal: folder of the journal; None for the usual one, see `usual_journal`.
        durable: "process": what is acknowledged survives the end of the process; "disk": a power cut too.
        most_bytes: of the journal.
        lifetime_s: for how long after a selection its outcomes count, and its receipt is good.
    """

    messages: LoggedMessages = "kept"
    journal: Path | None = None
    durable: Durable = "process"
    most_bytes: int = MOST_BYTES
    lifetime_s: float = LIFETIME_S

    def __post_init__(self) -> None:
        if self.messages not in ("kept", "hashed", "dropped", "none"):
            raise InvalidInput(
                f"messages: is {self.messages!r:.80}, must be 'kept', 'hashed', 'dropped' or 'none'"
            )
        if self.durable not in ("process", "disk"):
            raise InvalidInput(f"durable: is {self.durable!r:.80}, must be 'process' or 'disk'")


def usual_journal(url: str) -> Path:
    """Where the journal of a store is, unless somebody says otherwise: beside a file, else with the user."""
    address = Address.of(url)
    if address.path is not None:
        return address.path.with_name(f"{address.path.name}.outcomes")
    given = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_STATE_HOME")
    try:
        below = ("AppData", "Local") if sys.platform == "win32" else (".local", "state")
        base = Path(given) if given else Path.home().joinpath(*below)
    except RuntimeError:  # a user without a home
        base = Path(tempfile.gettempdir())
    return base / "toolroll" / hashlib.sha256(address.text.encode()).hexdigest()[:16]


class Recording(Generic[L]):
    """Of one process and one store. Safe to share between threads; a child of a fork goes on by itself."""

    def __init__(
        self,
        database: Database,
        url: str,
        keeping: RecordingOptions,
        making: LearnedFactory[L],
        *,
        exposure_of: Callable[[Selection, str], Exposure],
        found_in: Callable[[Exposure, Iterable[str]], tuple[Shown, ...]],
        origin_of: Callable[[Selection], SelectionOrigin],
        poll_s: float = 0.5,
        organisations: int = 1_000,
    ) -> None:
        """Reads and writes nothing yet.

        exposure_of: what a selection showed, by who reports on it. found_in: those of the names that an
            organisation's catalog has, with their keys. standing_of: what a selection does not know of
            itself.
        """
        self._database, self._keeping = database, keeping
        self._given_exposure, self._found_in = exposure_of, found_in
        self._origin_of = origin_of
        self.learned: dict[str, L] = {}
        self.follower = Follower(database, making, self.learned, poll_s=poll_s, most=organisations)
        journal = Journal(
            keeping.journal or usual_journal(url), durable=keeping.durable, most_bytes=keeping.most_bytes
        )
        self.writer = EventWriter(
            database,
            journal,
            lambda selection: self._exposure_of(selection, selection.turn.context.user),
            messages=None if keeping.messages == "none" else self._messages,
            origin_of=self._origin,
            on_written=lambda seqs: self.follower.wake(),
            window_s=keeping.lifetime_s,
        )
        self._signing = threading.Lock()
        self._signer: Signer | None = None
        self._signer_at = 0.0
        self._workers = Workers(1, "toolroll-receipts")

    # The path of a selection: it waits for nothing.

    def note(self, selection: Selection) -> None:
        """Takes a selection."""
        context = selection.turn.context
        self.follower.ask(context.org, time.monotonic())
        self.writer.note(selection)

    # The path of a report.

    def record(
        self,
        picked: Selection | str,
        entries: tuple[Entry, ...],
        *,
        final: bool,
        reporter: str | None,
        org: str | None,
        now: float,
        found: tuple[Shown, ...] | None = None,
    ) -> Recorded:
        """Takes a report on a selection, a receipt or an event's id; see `RegistryRoll.record`.

        found: for a selection, the tools that were not shown and that the entries name.
        """
        exposure = self._what(picked, org, now, reporter)
        if found is None:
            names = [entry.name for entry in entries if entry.kind in NOT_SHOWN]
            shown = {tool.name for tool in exposure.shown}
            found = self._found_in(exposure, [name for name in names if name not in shown])
        report = Report(exposure.event_id, entries, found, final)
        return Recorded(exposure.event_id, self.writer.record(exposure, report, now))

    def _what(self, picked: Selection | str, org: str | None, now: float, said_by: str | None) -> Exposure:
        if isinstance(picked, Selection):
            reporter = picked.turn.context.user if said_by is None else said_by
            exposure = self.writer.known(picked.event_id, reporter) or self._exposure_of(picked, reporter)
            if org is not None and exposure.org != org:
                raise NotFound(f"event {exposure.event_id}: is another organisation's")
            return exposure
        if not isinstance(picked, str):
            raise InvalidInput(
                f"picked: is {type(picked).__name__}, must be the Selection, its receipt or its event id"
            )
        if is_receipt(picked):
            exposure = self.signer(picked).read(picked, now, org)
        else:
            exposure = self.writer.exposure(picked, org)
        return exposure if said_by is None else replace(exposure, reporter=said_by)

    # Receipts.

    def receipt(self, picked: Selection, reporter: str | None = None) -> str:
        """Signs what a selection showed."""
        exposure = self._exposure_of(picked, picked.turn.context.user if reporter is None else reporter)
        return self.signer().sign(exposure)

    def signer(self, receipt: str = "") -> Signer:
        """Who signs and reads receipts; reads the keys again for a receipt whose key is not known.

        Raises:
            StoreUnavailable: the keys are in the store, and it does not answer.
        """
        signer, age_s = self._signer, time.monotonic() - self._signer_at
        key_id = receipt.split(".")[1] if receipt.count(".") == 2 else ""
        is_known = signer is not None and (not key_id or key_id in signer.secrets)
        if signer is not None and is_known and age_s < _KEYS_KNOWN_S:
            return signer
        with self._signing:
            if self._signer is not None and not is_known and time.monotonic() - self._signer_at < 1.0:
                return self._signer  # somebody tries keys: that is no reason to ask the store each time
            try:
                self._signer = self._workers.run(
                    lambda: signer_of(self._database, self._keeping.lifetime_s), _KEY_S
                )
                self._signer_at = time.monotonic()
            except (StoreUnavailable, Overdue, Full) as error:
                if self._signer is None:
                    raise StoreUnavailable(f"receipts: their keys cannot be read: {error}") from error
            return self._signer

    # The rest.

    def flush(self, timeout_s: float) -> bool:
        """Whether all that came before is in the store and has been learnt from; waits for it so long."""
        is_there = self.writer.flush(timeout_s)
        if is_there:
            self.follower.follow()
        return is_there

    def health(self) -> dict[str, Any]:
        """How much waits, for how long, and what has failed."""
        return {**self.writer.health(), "learning": self.follower.health()}

    def close(self, timeout_s: float = 5.0) -> None:
        """Drains what it can in this time; the journal keeps the rest for the next process."""
        self.writer.close(timeout_s)
        self.follower.close()

    def _exposure_of(self, selection: Selection, reporter: str) -> Exposure:
        exposure = self._given_exposure(selection, reporter)
        if self._keeping.messages in ("dropped", "none"):  # a guess at the text could be held against it
            return replace(exposure, vector=None)
        return exposure

    def _origin(self, selection: Selection) -> SelectionOrigin:
        origin = self._origin_of(selection)
        learned = getattr(selection.turn, "learned", None)
        seq = 0 if learned is None else self.follower.seq_of(selection.turn.context.org, learned)
        return origin._replace(learned_revision=seq)

    def _messages(self) -> Messages:
        form = self._keeping.messages
        assert form != "none"
        return Messages(form, message_secret(self._database)) if form == "hashed" else Messages(form)
