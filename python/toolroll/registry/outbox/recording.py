"""Events and outcomes of a `Toolroll` over a store: records and ships them, and reads new statistics.

The parts are `Shipper`, `Follower` and `Signer`. One thread ships and follows; another builds catalogs, so
that new statistics do not wait for a build.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from toolroll._core import Learned
from toolroll.learning.effects import OutcomeChange
from toolroll.learning.exposure import Exposure, ShownTool
from toolroll.learning.outcomes import NOT_SHOWN, Entry, Report
from toolroll.learning.record_result import RecordResult, pending_of
from toolroll.learning.reporters import stored_reporter
from toolroll.model.embedder import Embedder
from toolroll.model.errors import InvalidInput, NotFound, StoreUnavailable
from toolroll.registry.events.event_row import SelectionOrigin
from toolroll.registry.events.follower import Follower
from toolroll.registry.events.receipts import Signer, is_receipt, message_secret, signer_of
from toolroll.registry.events.rows import Messages
from toolroll.registry.options import Recording
from toolroll.registry.outbox.outbox import Outbox, usual_outbox
from toolroll.registry.outbox.shipper import Shipper
from toolroll.registry.store.database import Database, is_storable
from toolroll.registry.store.url import Address
from toolroll.selection.selection import Selection

_KEYS_KNOWN_S = 300.0  # until the keys are read again
_ASK_EVERY_S = 1.0  # for the key of a receipt that is unknown
_RETRY_S = 5.0  # between two attempts to read the keys in the background


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
        waiting_in: Callable[[Exposure, Sequence[OutcomeChange]], frozenset[str]],
        on_shipped: Callable[[], None] = lambda: None,
        poll_s: float = 0.5,
        organisations: int = 1_000,
    ) -> None:
        """Writes nothing yet.

        embedder: of the vectors to use. exposure_of: (selection, reporter) → exposure. found_in: (exposure,
            names) → tools in the catalog of its organisation. origin_of: selection → its origin. waiting_in:
            changes → the tools whose estimates need more reporters. on_shipped: called after records have
            reached the inbox.
        """
        self._database, self._options = database, options
        self._full_exposure_of, self._found_in = exposure_of, found_in
        self._origin_of, self._waiting_in = origin_of, waiting_in
        self.learned: dict[str, Learned] = {}
        self.follower = Follower(database, embedder, self.learned, poll_s=poll_s, most=organisations)
        file = usual_outbox(url) if options.outbox is None else Path(options.outbox)
        if (registry := Address.of(url).path) is not None and file == registry.absolute():
            raise InvalidInput(f"outbox: is {file}, the registry's own file, must be another one")
        self.shipper = Shipper(
            database,
            Outbox(file, durable=options.durable),
            lambda selection: self._exposure_of(selection, _user_of(selection)),
            messages=None if options.messages == "none" else self._messages,
            origin_of=self._origin,
            on_shipped=on_shipped,
            also=self.follower.step,
            is_synced=options.durable == "disk",
        )
        self._signer: Signer | None = None
        self._signer_at = self._asked_at = -math.inf  # when the keys were read, and asked for; monotonic

    # Selections call this: it must not wait.

    def note(self, selection: Selection) -> None:
        """Logs a selection."""
        org = selection.turn.context.org
        if is_storable(org):  # else it has no outcomes, and a query for them would fail for all others
            self.follower.ask(org, time.monotonic())
        self.shipper.note(selection)

    def learn_soon(self) -> None:
        """Lets the thread read new statistics soon. Returns at once."""
        self.follower.due()
        self.shipper.wake()

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

        found: for a selection, the reported tools that were not shown.
        """
        exposure = self._exposure(picked, org, now, reporter)
        if found is None:
            names = [entry.name for entry in entries if entry.kind in NOT_SHOWN]
            shown = {tool.name for tool in exposure.shown}
            # Policy applies to the user of the selection, not to the reporter.
            found = self._found_in(exposure, [name for name in names if name not in shown])
        if reporter is not None:
            exposure = replace(exposure, reporter=reporter)
        report = Report(exposure.event_id, entries, found, final)
        changes = self.shipper.record(exposure, report, now).changes
        pending = pending_of(report, changes, self._waiting_in(exposure, changes))
        return RecordResult(exposure.event_id, len(changes), exposure.org, pending)

    def _exposure(
        self, picked: Selection | Exposure | str, org: str | None, now: float, reporter: str | None
    ) -> Exposure:
        if isinstance(picked, Exposure):
            return picked
        if isinstance(picked, Selection):
            reporter = _user_of(picked) if reporter is None else reporter
            known = self.shipper.known(picked.event_id, reporter)
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
        return self.shipper.exposure(picked, org)

    # Receipts.

    def receipt(self, picked: Selection) -> str:
        """A receipt for a selection."""
        return self.signer().sign(self._exposure_of(picked, _user_of(picked)))

    def signer(self, receipt: str = "") -> Signer:
        """The signer of receipts. Waits for the store if the key of the receipt, or any key, is unknown.

        Raises:
            StoreUnavailable: the keys have not been read yet, and the store does not answer.
        """
        signer = self._signer
        key_id = receipt.split(".")[1] if receipt.count(".") == 2 else ""
        if signer is not None and (not key_id or key_id in signer.secrets):
            return signer
        if signer is not None and time.monotonic() - self._asked_at < _ASK_EVERY_S:
            return signer  # forged receipts must not cause a query each
        try:
            return self._read_keys()
        except StoreUnavailable:
            if signer is None:
                raise
            return signer

    def renew_keys(self) -> None:
        """Reads the keys of receipts if they are unknown or old. Waits for the store. Never fails."""
        asked_s, age_s = (time.monotonic() - at for at in (self._asked_at, self._signer_at))
        if age_s >= _KEYS_KNOWN_S and asked_s >= _RETRY_S:
            with suppress(StoreUnavailable):
                self._read_keys()

    def _read_keys(self) -> Signer:
        self._asked_at = time.monotonic()
        try:
            signer = signer_of(self._database)
        except StoreUnavailable as error:
            raise StoreUnavailable(f"receipts: their keys cannot be read: {error}") from error
        self._signer, self._signer_at = signer, time.monotonic()
        return signer

    # The rest.

    def flush(self, timeout_s: float, hurry: Callable[[], None]) -> bool:
        """Waits until all events and reports so far are counted. Returns whether they are.

        hurry: makes a keeper in this process count now.
        """
        is_there = self.shipper.flush(timeout_s, hurry)
        if is_there:
            self.follower.follow()
        return is_there

    def health(self) -> dict[str, Any]:
        """The waiting records, the age of the oldest, and the last errors."""
        return {
            **self.shipper.health(),
            "learning": self.follower.health(),
            "signs_receipts": self._signer is not None,
        }

    def drain(self, timeout_s: float) -> None:
        """Takes no more events, ships as much as it can in this time, then stops soon."""
        self.shipper.drain(timeout_s)
        self.follower.request_stop()

    def close(self, timeout_s: float = 5.0) -> None:
        """Ends the thread within this time; the outbox keeps unshipped records."""
        self.shipper.close(timeout_s)

    def _exposure_of(self, selection: Selection, reporter: str) -> Exposure:
        exposure = self._full_exposure_of(selection, reporter)
        if self._options.messages in ("dropped", "none"):  # a vector would confirm a guess at the text
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
    """The user of a selection, who is the reporter of its outcomes."""
    return stored_reporter(selection.turn.context.user)
