"""A `Toolroll` that follows a registry. `Toolroll.open` makes it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import TracebackType
from typing import Any, NoReturn

from toolroll.assembly import Assembly, Progress
from toolroll.catalog import Catalog
from toolroll.errors import InvalidInput
from toolroll.example_bank import ExampleBank
from toolroll.refresh import Pace, Refresher
from toolroll.registry.vectors import StoredEmbedder
from toolroll.roll import Toolroll
from toolroll.selection import Selection
from toolroll.store.database import Database


class RegistryRoll(Toolroll):
    """A catalog that follows a registry: shared tools, and each organisation's own beside them.

    Close it, or use it in a `with`. Safe to share between threads; a child of a fork follows by itself.
    """

    def __init__(self, url: str, assembly: Assembly, pace: Pace, progress: Progress | None) -> None:
        """Reads the registry, builds the shared catalog and begins to follow."""
        database = Database.open(url, create=False, migrate=False)
        embedder = assembly.embedder
        if embedder is not None and not embedder.is_instant:  # one that is instant is faster than a database
            assembly = replace(assembly, embedder=StoredEmbedder(embedder, database))
        try:
            self._refresher = Refresher(database, assembly, pace, progress)
        except BaseException:
            database.close()
            raise
        self._engine = self._refresher.engine
        self._refresher.start()

    def refresh(self, tools: Iterable[Any] | None = None, *, progress: Progress | None = None) -> Catalog:
        """Reads and builds what is new in the registry now, instead of within a second.

        Raises:
            StoreUnavailable: the registry cannot be read; the last good catalog goes on serving.
            InvalidDefinition: what is in it makes no catalog; likewise.
            InvalidInput: tools are given: those of a registry are written there.
        """
        if tools is not None:
            raise InvalidInput("refresh: this catalog follows a registry, write the tools there")
        self._refresher.refresh(progress)
        return self.catalog

    def prepare(self, orgs: Iterable[str] | None = None, *, progress: Progress | None = None) -> None:
        """Builds the catalogs of these organisations, or of all, and waits for it.

        Without it they are built one after another in the background, those that ask first; until an
        organisation's is there, the shared tools serve it and `degraded` names "organisation".
        progress: called with (organisations built, in all).
        """
        self._refresher.prepare(None if orgs is None else frozenset(orgs), progress)

    def invalidate_settings(self) -> None:
        """Reads the stored settings now: for a change that was not made through the registry.

        Raises:
            StoreUnavailable: the registry cannot be read.
        """
        self._refresher.invalidate_settings()

    def health(self) -> dict[str, Any]:
        """What a readiness probe asks: revision, age in seconds, organisations, and what has failed."""
        serving, replica = self._engine.serving, self._refresher.replica
        failures = (*serving.failures(""), *serving.shared.standing)
        return {
            "revision": replica.revision,
            "catalog_revision": serving.shared.catalog.revision,
            "tools": len(serving.shared.catalog),
            "age_s": round(self._refresher.age_s, 3),
            "organisations": {
                "ready": len(serving.own.keys() - serving.awaited),
                "waiting": len(serving.awaited),
                "failing": sorted(serving.lasting.keys() - {""}),
            },
            "degraded": [str(failure) for failure in failures],
        }

    def close(self) -> None:
        """Stops following the registry and lets go of it; what serves goes on serving."""
        self._refresher.close()

    def __enter__(self) -> RegistryRoll:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # What use teaches belongs to one organisation; over a shared catalog it would reach the others.

    def grow(self, picked: Selection, message: str, succeeded: Iterable[str], *, source: str) -> int:
        """Not for a registry: write the examples into the tools."""
        self._no_growing()

    def apply_grown(self, *, progress: Progress | None = None) -> Catalog:
        """Not for a registry."""
        self._no_growing()

    def forget(self, *, tool: str | None = None, source: str | None = None) -> int:
        """Not for a registry."""
        self._no_growing()

    @property
    def grown(self) -> ExampleBank:
        """Not for a registry."""
        self._no_growing()

    @grown.setter
    def grown(self, bank: ExampleBank) -> None:
        self._no_growing()

    def _no_growing(self) -> NoReturn:
        raise InvalidInput(
            "grown examples: a registry is shared by organisations, and what one of them says must not reach "
            "another; write examples into the tools (`toolroll registry update NAME --set examples=…`)"
        )


def pace_of(poll_s: float, settings_s: float, organisations: int, listens: bool) -> Pace:
    """The options of `Toolroll.open`, checked.

    Raises:
        InvalidInput: one is out of range.
    """
    for name, value, least in (("poll_s", poll_s, 0.05), ("settings_s", settings_s, 0.0)):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= 3_600:
            raise InvalidInput(f"{name}: is {value!r:.80}, must be from {least} to 3600 seconds")
    if isinstance(organisations, bool) or not isinstance(organisations, int) or organisations < 1:
        raise InvalidInput(f"organisations: is {organisations!r:.80}, must be a whole number of at least 1")
    if not isinstance(listens, bool):
        raise InvalidInput(f"listens: is {listens!r:.80}, must be True or False")
    return Pace(poll_s, settings_s, organisations, listens)
