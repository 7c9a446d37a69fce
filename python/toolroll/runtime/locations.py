"""A folder anywhere that `fsspec` reaches: on this machine, S3, Google Cloud Storage, Azure and others.

Objects are written whole or not at all, as far as the storage permits: an object store shows an object once
its upload is complete, and elsewhere we write beside the file and rename. Each reader checks its object.
Needs fsspec, which several extras bring, so each importer names its own. The storage's package, such as s3fs,
is the caller's choice.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import IO, Any

from fsspec.core import url_to_fs
from fsspec.registry import known_implementations

from toolroll.model.errors import InvalidInput, NotFound, ToolrollError, Unavailable

# Protocols under which an object appears whole: neither folders nor a rename are needed.
_OBJECT_STORES = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oss", "memory"})
# s3:bucket, which would be a folder of that name on this machine; not a chain such as simplecache::s3://…
_ALMOST_URL = re.compile(r"([a-z][a-z0-9+]+):(?!//|:)")
_PART = ".part"  # the end of the name of a file that is being written


@dataclass(frozen=True, slots=True)
class Location:
    """A folder. Safe to share between threads and forks, because each use connects by itself.

    Attributes:
        url: such as s3://bucket/folder, or a path on this machine.
        options: for the storage's package, such as `key` and `client_kwargs` of s3fs.
    """

    url: str
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)  # may hold secrets

    def __post_init__(self) -> None:
        if not isinstance(self.url, (str, os.PathLike)) or not os.fspath(self.url):
            raise InvalidInput(f"location: is {self.url!r:.80}, must be a folder or a URL such as s3://…")
        url = os.fspath(self.url)
        almost = _ALMOST_URL.match(url)
        if almost and almost[1] in known_implementations and almost[1] not in ("file", "local"):
            raise InvalidInput(f"location: is {url!r:.300}, must begin with {almost[1]}:// to be a URL")
        object.__setattr__(self, "url", url.rstrip("/") or "/")

    @classmethod
    def of(cls, place: str | os.PathLike[str], options: Mapping[str, Any] | None = None) -> Location:
        """The location that a caller names. Raises InvalidInput if it is neither a path nor a URL."""
        return cls(os.fspath(place) if isinstance(place, os.PathLike) else place, options or {})

    def __str__(self) -> str:
        return self.url

    def below(self, *names: str) -> Location:
        """The folder of these names in this one."""
        return Location("/".join((self.url, *names)), self.options)

    def read(self, name: str, most: int) -> bytes:
        """The content of an object.

        Raises:
            NotFound: there is no such object.
            InvalidInput: it has more than `most` bytes.
            Unavailable: the storage does not answer.
        """
        with self.reading(name) as stream:
            content: bytes = stream.read(most + 1)
        if len(content) > most:
            raise InvalidInput(f"{self.url}/{name}: has more than {most:,} bytes")
        return content

    @contextmanager
    def reading(self, name: str) -> Iterator[IO[bytes]]:
        """A stream of an object; errors as of `read`."""
        with self._connected(name) as (files, path), files.open(path, "rb") as stream:
            yield stream

    def write(self, name: str, content: bytes) -> None:
        """Writes an object.

        Raises InvalidInput if the folder cannot exist, or Unavailable if the storage does not accept the
        object.
        """
        with self._connected(name, writes=True) as (files, path), _whole(files, path) as target:
            files.pipe_file(target, content)

    def upload(self, source: str, name: str) -> None:
        """Copies a file of this machine to an object; errors as of `write`."""
        with self._connected(name, writes=True) as (files, path), _whole(files, path) as target:
            files.put_file(source, target)

    def size(self, name: str) -> int | None:
        """The size of an object; None if it does not exist."""
        with self._connected(name) as (files, path):
            try:
                return int(files.info(path)["size"])
            except FileNotFoundError:
                return None

    def names(self) -> list[str]:
        """The names of the objects directly in this folder, ascending; empty if there is no folder."""
        return sorted(self._listed("file"))

    def folders(self) -> list[str]:
        """The names of the folders directly in this one, ascending."""
        return sorted(self._listed("directory"))

    def _listed(self, kind: str) -> Iterator[str]:
        with self._connected("") as (files, path):
            try:
                found = files.ls(path, detail=True)
            except FileNotFoundError:
                return
        for entry in found:
            name = entry["name"].rstrip("/").rpartition("/")[2]
            if entry["type"] == kind and name:
                yield name

    def storage(self) -> Any:
        """The file system of fsspec, for a package that reads by itself."""
        with self._connected("") as (files, _):
            return files

    def found(self, ending: str) -> tuple[str, list[str]]:
        """The storage's own path of this folder or file, and the paths of its objects with this ending."""
        with self._connected("") as (files, path):
            return path, sorted(name for name in files.find(path) if name.endswith(ending))

    def modified(self, name: str) -> datetime | None:
        """The time when an object was written, by the storage's clock; None if there is no object."""
        with self._connected(name) as (files, path):
            try:
                at: datetime = files.modified(path)
            except FileNotFoundError:
                return None
        return at.replace(tzinfo=timezone.utc) if at.tzinfo is None else at

    def delete(self, name: str) -> None:
        """Deletes an object, if there is one."""
        with self._connected(name) as (files, path), suppress(FileNotFoundError):
            files.rm_file(path)

    @contextmanager
    def _connected(self, name: str, *, writes: bool = False) -> Iterator[tuple[Any, str]]:
        """The file system and the path of an object in it.

        Raises:
            NotFound, Unavailable, InvalidInput: translate the errors of the storage's package.
        """
        place = f"{self.url}/{name}" if name else self.url
        try:
            files, path = url_to_fs(place, **self.options)
            files.invalidate_cache()  # listings may be stale, because other processes write here, too
            yield files, path
        except FileNotFoundError as error:
            if writes:
                raise InvalidInput(f"{place}: cannot be written: {error}") from error
            raise NotFound(f"{place}: there is no such object") from error
        except ImportError as error:  # the message of fsspec names the package for a protocol
            raise InvalidInput(f"{place}: {error}") from error
        except ToolrollError:
            raise
        except ValueError as error:  # an unknown protocol
            raise InvalidInput(f"{place}: {error}") from error
        except Exception as error:  # botocore, aiohttp, gcsfs, … have no error in common
            raise Unavailable(f"{place}: {str(error) or type(error).__name__}", retry_after_s=5.0) from error


@contextmanager
def _whole(files: Any, path: str) -> Iterator[str]:
    """A path to write to, so that no reader sees half of an object."""
    protocols = {files.protocol} if isinstance(files.protocol, str) else set(files.protocol)
    if protocols & _OBJECT_STORES:
        yield path
        return
    files.makedirs(path.rpartition("/")[0], exist_ok=True)
    part = f"{path}.{uuid.uuid4().hex}{_PART}"
    try:
        yield part
        if "file" in protocols:
            with open(part, "rb+") as stream:
                os.fsync(stream.fileno())
            os.replace(part, path)
        else:
            files.mv(part, path)
    except BaseException:
        with suppress(Exception):
            files.rm_file(part)
        raise


def is_part(name: str) -> bool:
    """Whether the name belongs to an unfinished file."""
    return name.endswith(_PART)
