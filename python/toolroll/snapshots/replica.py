"""A replica's side: finds the newest catalog that fits, copies it into a folder of this machine, verifies it.

All processes of the machine share the folder, and with it one copy in memory. Nothing is mapped before its
signature and digest are verified. The folder must belong to the user alone: anyone who can write into it can
change a mapped catalog.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from toolroll._version import __version__
from toolroll.embedders.cached import default_folder
from toolroll.model.errors import Denied, InvalidInput, NotFound, Unavailable
from toolroll.runtime.extras import needs_extra
from toolroll.runtime.files import replace_file
from toolroll.runtime.threads import CallPool, Full, Overdue
from toolroll.snapshots.keys import public_keys
from toolroll.snapshots.manifest import Manifest, checked_name
from toolroll.snapshots.publisher import sha256_of
from toolroll.snapshots.shelf import Shelf

with needs_extra("published catalogs", "published"):
    from toolroll.runtime.locations import Location
try:
    import fcntl
except ImportError:  # Windows: each process fetches for itself
    fcntl = None  # type: ignore[assignment]

_log = logging.getLogger("toolroll")
_BLOCK = 4 << 20
_KEPT = 2  # copies of one name: the one in use, and the one before, which others may just open
_ATTEMPTS = 3  # fetches, if catalogs are pruned after their manifests were read

_BAD_S = 600.0  # until a catalog with a wrong digest is fetched again


@dataclass(frozen=True, slots=True)
class Requirements:
    """The catalogs that a process can use.

    Attributes:
        space: identity of its embedder; "" without one.
        source: digest of its own folder of tools; None without a folder, which accepts any catalog.
        catalog_revision: the revision of its definitions; None accepts any.
    """

    space: str
    source: str | None = None
    catalog_revision: str | None = None

    def refusal(self, manifest: Manifest) -> str | None:
        """Why this process cannot use a catalog; None if it can."""
        if self.source is not None and manifest.source != self.source:
            return "it was built from other tools than those here"
        if self.catalog_revision is not None and manifest.catalog_revision != self.catalog_revision:
            return "it was built from other tools than those here"
        return manifest.refusal(self.space)

    @property
    def key(self) -> str:
        """Names the catalog that processes with these requirements used last; others may want older ones."""
        text = repr((__version__, self.space, self.source, self.catalog_revision))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


@dataclass(frozen=True)
class PublishedCatalogs:
    """Where a process finds catalogs that others have built.

    Attributes:
        location: the folder or URL of `toolroll catalogs build --to`.
        name: of the catalog in the location.
        trust: public keys, or files of them: a catalog that none of them signed is never mapped.
        cache: the folder of this machine for copies; None for one in the user's cache folder.
        poll_s: seconds between two looks for a newer catalog.
        timeout_s: seconds that a start waits for the location before it builds.
        options: for the storage's package, such as `key` and `client_kwargs` of s3fs.
        shelf: the catalogs in the location.
        folder: the folder of this machine with the copies of this name.
    """

    location: str | PathLike[str]
    name: str = "main"
    trust: Iterable[str | PathLike[str]] = ()
    cache: str | PathLike[str] | None = None
    poll_s: float = 30.0
    timeout_s: float = 60.0
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    shelf: Shelf = field(init=False, repr=False, compare=False)
    folder: Path = field(init=False, repr=False, compare=False)
    _bad: dict[Manifest, tuple[float, str]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )
    # A storage that hangs must not stop a start.
    _calls: CallPool = field(
        init=False, repr=False, compare=False, default_factory=lambda: CallPool(2, "toolroll-published")
    )

    def __post_init__(self) -> None:
        checked_name(self.name)
        for name, least in (("poll_s", 0.05), ("timeout_s", 0.1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= 86_400:
                raise InvalidInput(f"{name}: is {value!r:.80}, must be from {least} to 86400 seconds")
        if self.cache is not None and not isinstance(self.cache, (str, PathLike)):
            raise InvalidInput(f"cache: is {self.cache!r:.80}, must be a folder of this machine, or None")
        location = Location.of(self.location, self.options)
        folder = default_folder().with_name("catalogs") if self.cache is None else Path(self.cache)
        object.__setattr__(self, "shelf", Shelf(location, self.name, public_keys(self.trust)))
        object.__setattr__(self, "folder", folder.absolute() / self.name)

    def fetch(
        self, required: Requirements, newer_than: Manifest | None = None, timeout_s: float | None = None
    ) -> Copy | None:
        """The newest published catalog that a process can use, as a file of this machine.

        newer_than: the one in use; the result is None if no newer one fits. timeout_s: replaces the timeout
        of a start.

        Raises:
            NotFound: none is published, or none fits; the message says why.
            Denied, InvalidInput: no trusted key signed it, or it is damaged or of another format.
            Unavailable: the location does not answer in time.
        """
        try:
            return self._calls.run(lambda: self._fetch(required, newer_than), timeout_s or self.timeout_s)
        except (Overdue, Full) as error:
            raise Unavailable(f"{self.shelf.folder}: {error}") from error

    def _fetch(self, required: Requirements, newer_than: Manifest | None) -> Copy | None:
        used = self.folder / f"used-{required.key}.json"
        least = _last_used(used) if newer_than is None else newer_than.order
        for attempt in range(_ATTEMPTS):
            manifest = self._chosen(required, least, newer_than is not None)
            if manifest is None:
                return None
            try:
                path = self._copied(manifest)
            except NotFound:
                if attempt == _ATTEMPTS - 1:
                    raise
                continue
            except Denied as error:
                self._bad[manifest] = time.monotonic(), str(error)
                raise
            _note_used(used, manifest)
            return Copy(manifest, path)
        raise AssertionError("the last attempt returns or raises")

    def _chosen(self, required: Requirements, least: tuple[int, str], is_poll: bool) -> Manifest | None:
        """The newest manifest that fits, from `least` on; None for a poll that finds none newer."""
        problems: list[str] = []
        newest: Manifest | None = None
        try:
            newest = self.shelf.newest()
        except (Denied, InvalidInput) as error:
            problems.append(str(error))
        if newest is not None and newest.order >= least:
            if is_poll and newest.order == least:
                return None
            if self._refusal(required, newest) is None:
                return newest
        for manifest in self.shelf.every(problems):
            if manifest.order < least or (is_poll and manifest.order == least):
                if not is_poll:
                    problems.append(f"{manifest.object_name} is older than the one that was used here before")
                break
            refusal = self._refusal(required, manifest)
            if refusal is None:
                return manifest
            problems.append(f"{manifest.object_name}: {refusal}")
        if is_poll and not problems:
            return None
        why = "; ".join(problems[:3]) or "nothing is published there"
        which = "no newer catalog" if is_poll else "no catalog"  # the present one may stay in use
        raise NotFound(f"{self.shelf.folder}: {which} for this process: {why}")

    def _refusal(self, required: Requirements, manifest: Manifest) -> str | None:
        at, message = self._bad.get(manifest, (0.0, ""))
        if message and time.monotonic() - at < _BAD_S:
            return message
        return required.refusal(manifest)

    # The copy of this machine.

    def _copied(self, manifest: Manifest) -> Path:
        path = self.folder / manifest.blob
        with self._alone(manifest):
            if path.exists():
                if path.stat().st_size == manifest.size and sha256_of(path) == manifest.sha256:
                    return path
                _log.warning("%s: is damaged, and fetched again", path)
            self._download(manifest, path)
        self._drop_old(path)
        return path

    def _download(self, manifest: Manifest, path: Path) -> None:
        fresh = path.with_name(f"{path.name}.{os.getpid()}.{time.monotonic_ns()}.part")
        digest, left = hashlib.sha256(), manifest.size
        try:
            with self.shelf.catalogs.reading(manifest.blob) as stream, _file(fresh) as file:
                while block := stream.read(min(_BLOCK, left + 1)):
                    left -= len(block)
                    if left < 0:
                        break
                    digest.update(block)
                    _written(file, block)
                os.fsync(file.fileno())
            if left or digest.hexdigest() != manifest.sha256:
                raise Denied(
                    f"{self.shelf.catalogs}/{manifest.blob}: is not the catalog that was signed: its digest "
                    "or its size is another; it was changed, or its upload was cut"
                )
            os.replace(fresh, path)
        finally:
            with suppress(OSError):
                fresh.unlink()

    @contextmanager
    def _alone(self, manifest: Manifest) -> Iterator[None]:
        """Lets one process of this machine fetch; the others wait, and then find the copy."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = open(self.folder / f"{manifest.sha256}.lock", "wb")  # noqa: SIM115
        except OSError as error:
            raise InvalidInput(
                f"cache {os.fspath(self.folder)!r:.300}: cannot be written: {error}"
            ) from error
        with lock:
            deadline = time.monotonic() + self.timeout_s / 2  # the limit of a wait for a fetch that hangs
            while fcntl is not None and time.monotonic() < deadline:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError:
                    time.sleep(0.02)
            yield

    def _drop_old(self, newest: Path) -> None:
        """Deletes all but the last copies. A process that has one mapped keeps it."""
        with suppress(OSError):
            found = sorted(self.folder.glob("*.catalog"), key=lambda one: one.stat().st_mtime, reverse=True)
            for old in [one for one in found if one != newest][_KEPT - 1 :]:
                old.unlink()
                old.with_suffix(".lock").unlink(missing_ok=True)


# The order of the last one in use: somebody who can write to the location may put an old one back.


def _last_used(path: Path) -> tuple[int, str]:
    try:
        said = json.loads(path.read_text("utf-8"))
        return int(said["sequence"]), str(said["sha256"])
    except (OSError, ValueError, LookupError, TypeError):
        return 0, ""


def _note_used(path: Path, manifest: Manifest) -> None:
    if manifest.order > _last_used(path):
        said = {"sequence": manifest.sequence, "sha256": manifest.sha256}
        with suppress(InvalidInput):
            replace_file(path, json.dumps(said).encode())


@dataclass(frozen=True, slots=True)
class Copy:
    """A verified file of this machine."""

    manifest: Manifest
    path: Path


@contextmanager
def _file(path: Path) -> Iterator[Any]:
    try:
        file = open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb", 0)  # noqa: SIM115
    except OSError as error:
        raise InvalidInput(f"cache {os.fspath(path.parent)!r:.300}: cannot be written: {error}") from error
    with file:
        yield file


def _written(file: Any, block: bytes) -> None:
    try:
        view = memoryview(block)
        while view:
            view = view[file.write(view) :]
    except OSError as error:
        raise InvalidInput(f"cache: the copy cannot be written: {error}") from error
