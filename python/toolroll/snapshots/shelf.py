"""The published catalogs of one name in a location.

    NAME/newest.json                 the newest manifest: a small read tells whether there is a new one
    NAME/manifests/SEQUENCE-SHA.json every manifest that is kept
    NAME/catalogs/SHA256.catalog     the saved catalogs, by their content

A manifest is written after its catalog, and `newest.json` after both, so an interrupted publisher leaves no
incomplete catalog. Manifests and catalogs never change. `newest.json` is a hint: the order of the manifests
decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from toolroll.model.errors import Denied, InvalidInput, NotFound
from toolroll.runtime.extras import needs_extra
from toolroll.snapshots.keys import PublicKey
from toolroll.snapshots.manifest import LONGEST, Manifest

with needs_extra("published catalogs", "published"):
    from toolroll.runtime.locations import Location, is_part

NEWEST = "newest.json"


@dataclass(frozen=True, slots=True)
class Shelf:
    """The published catalogs of one name, and their manifests.

    Attributes:
        location: the folder of all names.
        name: the name of these catalogs.
        trusted: keys whose signatures count; None reads manifests without verifying them, to list or prune.
    """

    location: Location
    name: str
    trusted: tuple[PublicKey, ...] | None

    @property
    def folder(self) -> Location:
        """The folder of `newest.json`."""
        return self.location.below(self.name)

    @property
    def manifests(self) -> Location:
        """The folder of manifests."""
        return self.location.below(self.name, "manifests")

    @property
    def catalogs(self) -> Location:
        """The folder of saved catalogs."""
        return self.location.below(self.name, "catalogs")

    def newest(self) -> Manifest | None:
        """The manifest in `newest.json`; None if there is none.

        Raises:
            InvalidInput, Denied, Unavailable: it is malformed, no trusted key signed it, or it cannot be
                read.
        """
        try:
            return self._read(self.folder, NEWEST)
        except NotFound:
            return None

    def every(self, problems: list[str] | None = None) -> Iterator[Manifest]:
        """All readable manifests, newest first. problems: a sentence is added for each unreadable one."""
        for name in reversed(self.manifests.names()):
            if not name.endswith(".json") or is_part(name):
                continue
            try:
                yield self._read(self.manifests, name)
            except NotFound:  # pruned since it was listed
                continue
            except (InvalidInput, Denied) as error:
                if problems is not None:
                    problems.append(str(error))

    def _read(self, folder: Location, name: str) -> Manifest:
        try:
            found = Manifest.read(folder.read(name, LONGEST), self.trusted)
        except (InvalidInput, Denied) as error:
            raise type(error)(f"{folder}/{name}: {error}") from error
        if found.name != self.name:  # a signed one that somebody copied here
            raise Denied(f"{folder}/{name}: is of the catalog {found.name!r}, not of {self.name!r}")
        return found
