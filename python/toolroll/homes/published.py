"""Homes that start from a published catalog and follow it, or build their own if none can be used."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from toolroll.catalog.catalog import revision_of_definitions
from toolroll.catalog.saved import SavedCatalog
from toolroll.homes.memory import MemoryHome
from toolroll.learning.experiments import Experiment
from toolroll.model.errors import Failure, InvalidInput, ToolrollError, Unavailable, quoted
from toolroll.model.tools import Definitions
from toolroll.runtime.threads import Worker
from toolroll.selection.pipeline_builder import PipelineBuilder, Progress
from toolroll.snapshots.manifest import Manifest
from toolroll.snapshots.replica import PublishedCatalogs, Requirements
from toolroll.snapshots.saved_source import SavedSource

_log = logging.getLogger("toolroll")

_LATER_S = 5.0  # how long a registry's change waits for a look, once the process has started
_AWAY_S = 60.0  # without a look after the location did not answer


class Origin:
    """The origin of the present catalog.

    Attributes:
        manifest: the published catalog in use; None for a catalog that this process has built.
        problem: why no published catalog, or no newer one, is in use; None if all is well.
    """

    def __init__(self, published: PublishedCatalogs) -> None:
        """Starts without a catalog."""
        if not isinstance(published, PublishedCatalogs):
            raise InvalidInput(
                f"published: is {quoted(published)}, must be PublishedCatalogs(location, trust=[…])"
            )
        self._published = published
        self.manifest: Manifest | None = None
        self.problem: str | None = None

    def failures(self) -> tuple[Failure, ...]:
        """The failures for a health check."""
        return () if self.problem is None else (Failure("published", Unavailable(self.problem)),)

    def health(self) -> dict[str, Any]:
        """The location, the manifest in use or None, and the problem."""
        return {
            "location": str(self._published.shelf.folder),
            "in_use": None if self.manifest is None else self.manifest.to_dict(),
            "problem": self.problem,
        }

    def takes(self, manifest: Manifest) -> None:
        """Records that a published catalog is in use."""
        self.manifest, self.problem = manifest, None

    def builds(self, error: Exception) -> None:
        """Records that this process has built the present catalog."""
        self.manifest, self.problem = None, f"{error}; this process built its own catalog"
        _log.warning("published catalogs: %s", self.problem)

    def keeps(self, error: Exception) -> None:
        """Records that a newer catalog cannot be used, so the present one stays."""
        problem = f"{error}; the present catalog stays in use"
        if self.problem is None:
            _log.warning("published catalogs: %s", problem)
            self.problem = problem


class PublishedHome(MemoryHome):
    """Selects from a catalog that another process has built: the home of `Toolroll.from_published`."""

    def __init__(
        self,
        published: PublishedCatalogs,
        builder: PipelineBuilder,
        *,
        own: Callable[[], Definitions] | None,
        source: Callable[[], str] | None,
        open_file: Callable[[str], SavedSource],
        experiment: Experiment | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Maps the newest published catalog that fits, or builds one.

        own: reads the definitions to build from; None if there are none. source: their digest; None
        accepts any published catalog. open_file: opens a saved file with the caller's own rules.

        Raises Unavailable if no published catalog can be used, and there is nothing to build from.
        """
        self._published, self._own, self._open_file = published, own, open_file
        self._source = source
        self._space = "" if builder.embedder is None else builder.embedder.identity
        self._origin = Origin(published)
        self._required = self._requirements()
        self._taking = threading.Lock()
        self._worker = Worker(
            self._poll,
            "toolroll-published",
            subject="published catalogs",
            retry_s=(published.poll_s, published.poll_s),
            holds_forks=False,
        )
        options: dict[str, Any] = {"read": self._reread, "experiment": experiment, "progress": progress}
        try:
            copy = published.fetch(self._required)
            assert copy is not None
            super().__init__(open_file(str(copy.path)), builder, **options)
            self._origin.takes(copy.manifest)
        except ToolrollError as error:
            super().__init__(self._built(error), builder, **options)
        self._worker.wake()

    def health(self) -> dict[str, Any]:
        """The health of a home in memory, and `published`: the catalog in use and its problem."""
        health, failures = super().health(), self._origin.failures()
        return {
            **health,
            "degraded": [*health["degraded"], *[failure.where for failure in failures]],
            "why": [*health["why"], *map(str, failures)],
            "published": self._origin.health(),
        }

    def refresh(self, tools: Iterable[Any] | None, progress: Progress | None) -> None:
        """Looks for a newer published catalog now. If there is none, builds again from the folder.

        Raises:
            InvalidInput: tools were passed: only a publisher changes the tools of a published catalog.
            Unavailable: the location does not answer, and there is nothing to build from.
        """
        if tools is not None:
            raise InvalidInput("refresh: this catalog is a published one; publish another")
        with self._taking:
            self._required = self._requirements()
            self._look(progress)

    def close(self, timeout_s: float) -> None:
        """Stops looking for newer catalogs."""
        self._worker.request_stop()
        super().close(timeout_s)
        self._worker.stop(timeout_s)

    def _requirements(self) -> Requirements:
        """The requirements on a catalog for the folder in its present state. They hold until `refresh`."""
        return Requirements(self._space, None if self._source is None else self._source())

    def _built(self, error: Exception) -> Definitions:
        """The definitions to build from if no published catalog can be used."""
        if self._own is None:
            raise Unavailable(f"{error}; and there is no folder to build from") from error
        self._origin.builds(error)
        return self._own()

    def _look(self, progress: Progress | None) -> None:
        """Takes the newest catalog that fits, unless it is in use already."""
        required, now = self._required, self._origin.manifest
        if now is not None and required.refusal(now) is not None:
            now = None  # the folder has changed
        try:
            copy = self._published.fetch(required, now)
            if copy is None:
                self._origin.problem = None
                return
            self._next: Definitions | SavedSource = self._open_file(str(copy.path))
            super().refresh(None, progress)
            self._origin.takes(copy.manifest)
        except ToolrollError as error:
            if now is not None or self._own is None:
                self._origin.keeps(error)
                return
            self._next = self._own()
            super().refresh(None, progress)
            if self._origin.problem is None:
                self._origin.builds(error)

    def _reread(self, tools: Iterable[Any] | None) -> Definitions | SavedSource:
        return self._next

    def _poll(self) -> float:
        with self._taking:
            if self._origin.manifest is not None or self._is_published():
                self._look(None)
        return self._published.poll_s

    def _is_published(self) -> bool:
        """Whether a published catalog fits; if not, a look must not build again."""
        try:
            return self._published.fetch(self._required) is not None
        except ToolrollError:
            return False

    def after_fork(self) -> None:
        super().after_fork()
        self._taking = threading.Lock()
        if not self.is_closed:
            self._worker.wake()


class PublishedFor:
    """Finds the published catalog of definitions that a process has read from a registry.

    A process calls it before it builds the whole shared catalog. It compares the catalog's revision,
    which is a digest of the tools, toolkits, routes and embedder.
    """

    def __init__(self, published: PublishedCatalogs) -> None:
        """Does not connect yet."""
        self._published, self._origin = published, Origin(published)
        self._timeout_s = published.timeout_s  # the limit for the next look
        self._look_at = 0.0  # monotonic

    def __call__(self, definitions: Definitions, builder: PipelineBuilder) -> SavedCatalog | None:
        """The catalog of these definitions; None if this process has to build it."""
        space = "" if builder.embedder is None else builder.embedder.identity
        timeout_s, self._timeout_s = self._timeout_s, min(_LATER_S, self._timeout_s)
        try:
            if time.monotonic() < self._look_at:
                raise Unavailable(f"{self._published.shelf.folder}: did not answer a moment ago")
            revision = revision_of_definitions(definitions, space, builder.options)
            copy = self._published.fetch(Requirements(space, catalog_revision=revision), timeout_s=timeout_s)
            assert copy is not None
            saved = SavedCatalog.open(copy.path)
            saved.check(builder.embedder, builder.options)
        except ToolrollError as error:
            if isinstance(error, Unavailable) and time.monotonic() >= self._look_at:
                self._look_at = time.monotonic() + _AWAY_S
            self._origin.builds(error)
            return None
        self._origin.takes(copy.manifest)
        return saved

    def failures(self) -> tuple[Failure, ...]:
        """Why the last catalog was built here; empty if it was found."""
        return self._origin.failures()

    def health(self) -> dict[str, Any]:
        """The catalog in use and its location."""
        return self._origin.health()
