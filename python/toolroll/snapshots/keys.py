"""Signs manifests, so that a replica uses only catalogs of publishers that its operator trusts.

Ed25519: a replica holds only public keys, so an attacker on a replica cannot publish. Private keys are PEM
files as `openssl genpkey -algorithm ed25519` writes them. A public key is a line of text, `ed25519:BASE64`.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike

from toolroll.model.errors import Denied, InvalidInput, NotFound, quoted
from toolroll.runtime.extras import needs_extra

with needs_extra("published catalogs", "published"):
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_PREFIX = "ed25519:"
_CONTEXT = b"toolroll published catalog\0"  # a signature of ours means nothing anywhere else


@dataclass(frozen=True, slots=True)
class PublicKey:
    """The public key of a trusted publisher.

    Attributes:
        text: `ed25519:BASE64`.
    """

    text: str

    def __post_init__(self) -> None:
        self._key()

    @property
    def key_id(self) -> str:
        """Names the key in a manifest."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]

    def verifies(self, content: bytes, signature: bytes) -> bool:
        """Whether the holder of the private key signed this content."""
        try:
            self._key().verify(signature, _CONTEXT + content)
        except InvalidSignature:
            return False
        return True

    def _key(self) -> Ed25519PublicKey:
        try:
            if not self.text.startswith(_PREFIX):
                raise ValueError(f"does not begin with {_PREFIX}")
            raw = base64.b64decode(self.text[len(_PREFIX) :], validate=True)
            return Ed25519PublicKey.from_public_bytes(raw)
        except (ValueError, AttributeError, TypeError) as error:
            raise InvalidInput(
                f"trust: {quoted(self.text)} is no public key, must be {_PREFIX}BASE64 as "
                f"`toolroll catalogs key` prints it: {error}"
            ) from error


@dataclass(frozen=True, slots=True)
class SigningKey:
    """The private key of a publisher."""

    _key: Ed25519PrivateKey

    @classmethod
    def generate(cls, path: str | PathLike[str]) -> SigningKey:
        """Makes a key and writes it to a file that only its owner can read.

        Raises InvalidInput if the file exists, or cannot be written.
        """
        key = Ed25519PrivateKey.generate()
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        try:
            with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
                file.write(pem)
        except FileExistsError as error:
            raise InvalidInput(f"{os.fspath(path)!r:.300}: is there; a key is never overwritten") from error
        except (OSError, ValueError) as error:
            raise InvalidInput(f"{os.fspath(path)!r:.300}: cannot be written: {error}") from error
        return cls(key)

    @classmethod
    def read(cls, path: str | PathLike[str]) -> SigningKey:
        """Reads a PEM file.

        Raises NotFound if there is no such file, or InvalidInput if it is no private key of this kind.
        """
        name = f"{os.fspath(path)!r:.300}"
        try:
            with open(path, "rb") as file:
                key = serialization.load_pem_private_key(file.read(100_000), password=None)
        except FileNotFoundError as error:
            raise NotFound(f"key {name}: no such file; `toolroll catalogs key FILE` makes one") from error
        except (OSError, ValueError, TypeError) as error:
            raise InvalidInput(f"key {name}: is no private key in PEM: {error}") from error
        if not isinstance(key, Ed25519PrivateKey):
            raise InvalidInput(f"key {name}: is of another kind, must be Ed25519")
        return cls(key)

    @property
    def public(self) -> PublicKey:
        """The key that replicas trust."""
        raw = self._key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
        return PublicKey(_PREFIX + base64.b64encode(raw).decode())

    def sign(self, content: bytes) -> bytes:
        """The signature."""
        return self._key.sign(_CONTEXT + content)


def public_keys(trust: Iterable[str | PathLike[str]]) -> tuple[PublicKey, ...]:
    """The keys in these texts, or in the files of that name: a key a line, `#` begins a comment.

    Raises:
        InvalidInput: a key is malformed, or there is none at all.
        NotFound: there is no such file.
    """
    if isinstance(trust, (str, os.PathLike)):
        trust = (trust,)
    if not isinstance(trust, Iterable):
        raise InvalidInput(f"trust: is {quoted(trust)}, must be a list of public keys or of files of them")
    found: list[PublicKey] = []
    for each in trust:
        if isinstance(each, str) and each.startswith(_PREFIX):
            found.append(PublicKey(each))
            continue
        try:
            with open(each, encoding="utf-8") as file:
                lines = [line.partition("#")[0].strip() for line in file.read(100_000).splitlines()]
        except FileNotFoundError as error:
            raise NotFound(f"trust: {each!r:.200} is neither a key ({_PREFIX}…) nor a file") from error
        except (OSError, TypeError, ValueError) as error:
            raise InvalidInput(f"trust: {each!r:.200} cannot be read: {error}") from error
        found += [PublicKey(line) for line in lines if line]
    if not found:
        raise InvalidInput("trust: names no public key; an unsigned catalog is never mapped")
    return tuple(dict.fromkeys(found))


def verify(content: bytes, key_id: str, signature: bytes, trusted: Iterable[PublicKey]) -> PublicKey:
    """The trusted key that signed this content. Raises Denied if none of them did."""
    for key in trusted:
        if key.key_id == key_id:
            if key.verifies(content, signature):
                return key
            raise Denied(f"its signature by the key {key_id} is wrong: it was changed after it was signed")
    raise Denied(f"it was signed by the key {quoted(key_id)}, which is not trusted")
