"""Homes that start from a published catalog and follow it, and build their own where there is none."""

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
from toolroll.snapshots.replica import PublishedCatalogs, Wanted
from toolroll.snapshots.saved_source import SavedSource

_log = logging.getLogger("toolroll")

_LATER_S = 5.0  # how long a registry's change waits for a look, once the process has started
_AWAY_S = 60.0  # without a look after the location did not answer


class Origin:
    """Where the present catalog is from, and why it is not a published one if it is not.

    Attributes:
        manifest: of the published catalog in use; None for one that this process has built.
        problem: why no published catalog, or no newer one, is in use; None if all is well.
    """

    def __init__(self, published: PublishedCatalogs) -> None:
        """Nothing is in use yet."""
        if not isinstance(published, PublishedCatalogs):
            raise InvalidInput(
                f"published: is {quoted(published)}, must be PublishedCatalogs(location, trust=[…])"
            )
        self._published = published
        self.manifest: Manifest | None = None
        self.problem: str | None = None

    def failures(self) -> tuple[Failure, ...]:
        """For a health check."""
        return () if self.problem is None else (Failure("published", Unavailable(self.problem)),)

    def health(self) -> dict[str, Any]:
        """The location, the manifest in use or None, and what is wrong."""
        return {
            "location": str(self._published.shelf.folder),
            "in_use": None if self.manifest is None else self.manifest.to_dict(),
            "problem": self.problem,
        }

    def takes(self, manifest: Manifest) -> None:
        """A published catalog is in use."""
        self.manifest, self.problem = manifest, None

    def builds(self, error: Exception) -> None:
        """The present catalog was built here."""
        self.manifest, self.problem = None, f"{error}; this process built its own catalog"
        _log.warning("published catalogs: %s", self.problem)

    def keeps(self, error: Exception) -> None:
        """A newer one cannot be used: the present catalog stays."""
        problem = f"{error}; the present catalog stays in use"
        if self.problem is None:
            _log.warning("published catalogs: %s", problem)
            self.problem = problem


class PublishedHome(MemoryHome):
    """A catalog in this process that others have built. It is the home of `Toolroll.from_published`."""

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

        Args:
            published: where catalogs are published.
            builder: makes catalogs and pipelines.
            own: reads the definitions to build from; None if there are none.
            source: the digest of these; None takes whatever is published.
            open_file: opens a saved file with the caller's own rules.
            experiment: see `MemoryHome`.
            progress: of a build.

        Raises:
            Unavailable: no published catalog can be used, and there is nothing to build from.
        """
        self._published, self._own, self._open_file = published, own, open_file
        self._source = source
        self._space = "" if builder.embedder is None else builder.embedder.identity
        self._origin = Origin(published)
        self._wanted = self._wants()
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
            copy = published.fetch(self._wanted)
            assert copy is not None
            super().__init__(open_file(str(copy.path)), builder, **options)
            self._origin.takes(copy.manifest)
        except ToolrollError as error:
            super().__init__(self._built(error), builder, **options)
        self._worker.wake()

    def health(self) -> dict[str, Any]:
        """As in memory, and `published`: which catalog is in use, and why it is not a published one."""
        health, failures = super().health(), self._origin.failures()
        return {
            **health,
            "degraded": [*health["degraded"], *[failure.where for failure in failures]],
            "why": [*health["why"], *map(str, failures)],
            "published": self._origin.health(),
        }

    def refresh(self, tools: Iterable[Any] | None, progress: Progress | None) -> None:
        """Looks for a newer published catalog now; without one, builds again from the folder.

        Raises:
            InvalidInput: tools are given: those of published catalogs are their publisher's.
            Unavailable: the location does not answer, and there is nothing to build from.
        """
        if tools is not None:
            raise InvalidInput("refresh: this catalog is a published one; publish another")
        with self._taking:
            self._wanted = self._wants()
            self._look(progress)

    def close(self, timeout_s: float) -> None:
        """Stops looking for newer catalogs."""
        self._worker.request_stop()
        super().close(timeout_s)
        self._worker.stop(timeout_s)

    def _wants(self) -> Wanted:
        """Which catalogs fit the folder as it is now; until `refresh`, others are not looked for."""
        return Wanted(self._space, None if self._source is None else self._source())

    def _built(self, error: Exception) -> Definitions:
        """The definitions to build from, in place of a published catalog."""
        if self._own is None:
            raise Unavailable(f"{error}; and there is no folder to build from") from error
        self._origin.builds(error)
        return self._own()

    def _look(self, progress: Progress | None) -> None:
        """Takes the newest catalog that fits, if it is another than the one in use."""
        wanted, now = self._wanted, self._origin.manifest
        if now is not None and wanted.refusal(now) is not None:
            now = None  # the folder has changed
        try:
            copy = self._published.fetch(wanted, now)
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
        """Whether there is one by now for a process that built its own: it must not build every time."""
        try:
            return self._published.fetch(self._wanted) is not None
        except ToolrollError:
            return False

    def after_fork(self) -> None:
        """Has the child look for newer catalogs by itself."""
        super().after_fork()
        self._taking = threading.Lock()
        if not self.is_closed:
            self._worker.wake()


class PublishedFor:
    """Finds the published catalog of definitions that a process has read from a registry.

    It is asked when the shared catalog would be built whole, and matches by content: by the catalog's
    revision, which is a digest of the tools, toolkits, routes and embedder.
    """

    def __init__(self, published: PublishedCatalogs) -> None:
        """Looks nowhere yet."""
        self._published, self._origin = published, Origin(published)
        self._timeout_s = published.timeout_s  # of the next look
        self._look_at = 0.0  # monotonic

    def __call__(self, definitions: Definitions, builder: PipelineBuilder) -> SavedCatalog | None:
        """The catalog of these definitions; None if this process has to build it."""
        space = "" if builder.embedder is None else builder.embedder.identity
        timeout_s, self._timeout_s = self._timeout_s, min(_LATER_S, self._timeout_s)
        try:
            if time.monotonic() < self._look_at:
                raise Unavailable(f"{self._published.shelf.folder}: did not answer a moment ago")
            revision = revision_of_definitions(definitions, space, builder.options)
            copy = self._published.fetch(Wanted(space, catalog_revision=revision), timeout_s=timeout_s)
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
        """Why the last catalog was built here; nothing if it was found."""
        return self._origin.failures()

    def health(self) -> dict[str, Any]:
        """What is in use, and from where."""
        return self._origin.health()
