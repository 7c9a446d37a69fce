"""The signed description of a published catalog. A replica reads it before anything else.

The object is JSON: the number of its format, the manifest as text, and a signature of exactly that text. The
name of the manifest's object begins with its sequence number, so that a listing is in order.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from typing import Any

from toolroll._version import __version__
from toolroll.model.errors import Denied, InvalidInput, quoted
from toolroll.snapshots.keys import PublicKey, SigningKey, verify

FORMAT = 1  # the version of manifests; another one is refused before anything else is read
LONGEST = 100_000  # bytes of a manifest's object
_SHA = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True)
class Manifest:
    """A published catalog.

    Attributes:
        sequence: milliseconds since 1970 at publication, and above every earlier sequence.
        sha256, size: digest and bytes of the saved catalog, whose object is named by the digest.
        toolroll: the version that saved it; no other can load it.
        space: identity of the embedder; "" without one.
        tools: the number of tools.
        catalog_revision: digest of tools, toolkits, routes and embedder (`Catalog.revision`).
        source: digest of the folder that it was built from (`source_digest`); "" without a folder.
        registry_revision: the revision of its registry; None without one.
        published_at: in ISO 8601, for people.
    """

    name: str
    sequence: int
    sha256: str
    size: int
    toolroll: str
    space: str
    tools: int
    catalog_revision: str
    source: str
    registry_revision: int | None
    published_at: str

    @property
    def blob(self) -> str:
        """The name of the catalog's object."""
        return f"{self.sha256}.catalog"

    @property
    def object_name(self) -> str:
        """The name of the manifest's object."""
        return f"{self.sequence:016d}-{self.sha256[:16]}.json"

    @property
    def order(self) -> tuple[int, str]:
        """The sort key from older to newer; all replicas agree on it."""
        return self.sequence, self.sha256

    def to_dict(self) -> dict[str, Any]:
        """The fields for JSON."""
        return asdict(self)

    def refusal(self, space: str) -> str | None:
        """Why a process with this embedder cannot load it; None if it can."""
        if self.toolroll != __version__:
            return (
                f"it was saved by toolroll {self.toolroll}, this is {__version__}: "
                "publish it with this version"
            )
        if self.space != space:
            return f"it was built with the embedder {quoted(self.space)}, and the one here is {quoted(space)}"
        return None

    def signed(self, key: SigningKey) -> bytes:
        """The signed object to publish."""
        text = json.dumps(asdict(self), separators=(",", ":"), sort_keys=True)
        signature = base64.b64encode(key.sign(text.encode())).decode()
        wrapped = {"format": FORMAT, "manifest": text, "key": key.public.key_id, "signature": signature}
        return json.dumps(wrapped, indent=1).encode()

    @classmethod
    def read(cls, content: bytes, trusted: Iterable[PublicKey] | None) -> Manifest:
        """The manifest in an object. trusted: None reads it without verifying who signed it.

        Raises:
            InvalidInput: it is malformed, or of another format.
            Denied: no trusted key signed it.
        """
        try:
            wrapped = json.loads(content)
            if wrapped["format"] != FORMAT:
                raise InvalidInput(
                    f"the manifest has format {quoted(wrapped['format'])}, this version of toolroll reads "
                    f"{FORMAT}: publish and read with the same version"
                )
            text, signature = (
                wrapped["manifest"].encode(),
                base64.b64decode(wrapped["signature"], validate=True),
            )
            if trusted is not None:
                verify(text, wrapped["key"], signature, trusted)
            said = json.loads(text)
            found = cls(**{field.name: said[field.name] for field in fields(cls)})
            if not _is_sound(found):
                raise ValueError("a field has a wrong value")
        except (Denied, InvalidInput):
            raise
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise InvalidInput(f"the manifest cannot be read: {error}") from error
        return found


def _is_sound(found: Manifest) -> bool:
    texts = (found.name, found.sha256, found.toolroll, found.space, found.catalog_revision, found.source,
             found.published_at)  # fmt: skip
    numbers = (found.sequence, found.size, found.tools)
    revision = found.registry_revision
    return (
        all(isinstance(text, str) for text in texts)
        and all(type(number) is int and number >= 0 for number in numbers)
        and (revision is None or type(revision) is int)
        and _SHA.fullmatch(found.sha256) is not None
        and _NAME.fullmatch(found.name) is not None
    )


def checked_name(name: object) -> str:
    """The name of a published catalog. Raises InvalidInput if it is malformed."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidInput(
            f"name: is {quoted(name)}, must be 1 to 100 small letters, digits, dots, dashes and underscores"
        )
    return name
