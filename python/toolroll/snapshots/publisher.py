"""Publishes catalogs, and deletes old ones."""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from os import PathLike
from typing import Any

from toolroll._version import __version__
from toolroll.catalog.catalog import Catalog
from toolroll.formats.sources.folder import files_of
from toolroll.model.errors import InvalidInput, Unavailable
from toolroll.selection.effective_policy import PolicySource
from toolroll.snapshots.keys import SigningKey
from toolroll.snapshots.manifest import LONGEST, Manifest
from toolroll.snapshots.saved_source import save_catalog
from toolroll.snapshots.shelf import NEWEST, Shelf

GRACE = timedelta(hours=1)  # an upload takes less: a catalog younger than that may wait for its manifest
_BLOCK = 1 << 20


def sha256_of(path: str | PathLike[str]) -> str:
    """The digest of a file."""
    digest = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def source_digest(path: str | PathLike[str], on_bad_tool: str | None = None) -> str:
    """The digest of the names and bytes of the files that `Toolroll.from_folder` reads.

    A start from a published catalog computes it instead of parsing the files, which takes far longer.
    """
    name = os.fspath(path)
    digest = hashlib.sha256(f"{on_bad_tool}\0".encode())
    files = list(files_of(name)) if os.path.isdir(name) else [name]
    for file in files:
        digest.update(f"{os.path.basename(file)}\0{sha256_of(file)}\0".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def publish(
    shelf: Shelf,
    key: SigningKey,
    catalog: Catalog,
    policy: PolicySource,
    *,
    source: str = "",
    registry_revision: int | None = None,
) -> tuple[Manifest, bool]:
    """Saves a catalog and publishes it as the newest. Returns its manifest, and whether it is new.

    Any number of publishers may do so at the same time: the last manifest in order is the newest, for all
    replicas alike.

    Raises:
        InvalidInput: the catalog cannot be saved.
        Unavailable: the location does not accept it. Earlier catalogs are unaffected.
    """
    with tempfile.TemporaryDirectory(prefix="toolroll-publish-") as folder:
        path = os.path.join(folder, "catalog")
        save_catalog(catalog, policy, path)
        made = Manifest(
            shelf.name,
            0,
            sha256_of(path),
            os.path.getsize(path),
            __version__,
            catalog.space,
            len(catalog),
            catalog.revision,
            source,
            registry_revision,
            "",
        )
        return publish_file(shelf, key, path, made)


def publish_file(shelf: Shelf, key: SigningKey, path: str, made: Manifest) -> tuple[Manifest, bool]:
    """Publishes a saved file. made: its manifest without a sequence."""
    newest = next(shelf.every(), None)
    if (
        newest is not None
        and replace(made, sequence=newest.sequence, published_at=newest.published_at) == newest
        and shelf.catalogs.size(newest.blob) == newest.size
    ):
        _point(shelf)
        return newest, False
    # Always uploaded: an old one of the same content may be pruned in this moment.
    shelf.catalogs.upload(path, made.blob)
    if shelf.catalogs.size(made.blob) != made.size:
        raise Unavailable(f"{shelf.catalogs}/{made.blob}: does not have the size of what was uploaded")
    now = datetime.now(timezone.utc)
    after = 0 if newest is None else newest.sequence + 1
    made = replace(
        made,
        sequence=max(int(now.timestamp() * 1_000), after),
        published_at=now.isoformat(timespec="seconds"),
    )
    shelf.manifests.write(made.object_name, made.signed(key))
    _point(shelf)
    return made, True


def _point(shelf: Shelf) -> None:
    """Writes `newest.json` so that it names the newest manifest.

    Another publisher may write it meanwhile. Each publisher reads the list after its own manifest is in it,
    and again after writing, so the last write names the newest.
    """
    written: Manifest | None = None
    while (newest := next(shelf.every(), None)) is not None and newest != written:
        shelf.folder.write(NEWEST, shelf.manifests.read(newest.object_name, LONGEST))
        written = newest


@dataclass(frozen=True, slots=True)
class PruneResult:
    """The result of `prune`.

    Attributes:
        manifests: names of deleted manifests.
        catalogs: names of deleted catalogs, including catalogs without a manifest and unfinished uploads.
        kept: how many manifests are left.
    """

    manifests: tuple[str, ...]
    catalogs: tuple[str, ...]
    kept: int

    def to_dict(self) -> dict[str, Any]:
        """The fields for JSON."""
        return {"manifests": [*self.manifests], "catalogs": [*self.catalogs], "kept": self.kept}


def prune(shelf: Shelf, *, keep: int, now: datetime | None = None, dry_run: bool = False) -> PruneResult:
    """Deletes all but the newest manifests, and the catalogs that no kept manifest names.

    Replicas map their own copies, so none loses a catalog in use; a replica that is fetching a deleted one
    takes the newest instead. Objects of the last hour stay: their publishers may not be done.

    Raises InvalidInput if `keep` is below 1, or Unavailable if the location does not answer.
    """
    if keep < 1:
        raise InvalidInput(f"keep: is {keep}, must be at least 1: the newest catalog stays")
    now = datetime.now(timezone.utc) if now is None else now
    gone: list[str] = []
    manifests = list(shelf.every())
    kept = manifests[:keep]
    for manifest in manifests[keep:]:
        if _is_old(shelf.manifests.modified(manifest.object_name), now):
            gone.append(manifest.object_name)
            if not dry_run:
                shelf.manifests.delete(manifest.object_name)
        else:
            kept.append(manifest)
    candidates = [
        name
        for name in shelf.catalogs.names()
        if name not in {each.blob for each in kept} and _is_old(shelf.catalogs.modified(name), now)
    ]
    named = {each.blob for each in shelf.every()} if not dry_run else {each.blob for each in kept}
    blobs = [name for name in candidates if name not in named]
    if not dry_run:
        for name in blobs:
            shelf.catalogs.delete(name)
    return PruneResult(tuple(gone), tuple(blobs), len(kept))


def _is_old(written: datetime | None, now: datetime) -> bool:
    return written is not None and now - written >= GRACE
