"""Users' sign-ins at MCP servers: tokens and registrations, encrypted in files.

The key is in the system's keyring, or the configuration refers to it. Without the key, the files are
unreadable.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.fernet import Fernet, InvalidToken

from toolroll.gateway.configuration import Configuration
from toolroll.gateway.places import private_folder
from toolroll.gateway.references import resolved
from toolroll.gateway.server_spec import ServerSpec
from toolroll.model.errors import InvalidInput
from toolroll.runtime.files import replace_file

_SERVICE, _USER = "toolroll", "gateway-tokens"  # in the keyring
SHORTEST_KEY = 32  # characters
LARGEST = 64_000  # bytes of a record
MOST_BYTES = 50_000_000  # of all records; the oldest make room


class TokenStore:
    """Keeps a JSON object for each server and user. Several processes may write: the last one wins."""

    def __init__(self, folder: Path, key: str, environ: Mapping[str, str], configuration: Path) -> None:
        """key: a reference to the key; "" for the keyring. configuration: its folder.

        The key is read at its first use, so a gateway without sign-ins needs no keyring.
        """
        self._folder, self._reference = folder, key
        self._environ, self._configuration = environ, configuration
        self._cipher: Fernet | None = None

    def read(self, server: str, user: str) -> dict[str, Any]:
        """Returns the record; {} if there is none, or if it was encrypted with another key.

        Raises:
            InvalidInput: there is no key.
        """
        path = self._path(server, user)
        if not path.is_file():
            return {}
        try:
            found = json.loads(self._fernet().decrypt(path.read_bytes()))
        except (OSError, ValueError, InvalidToken):
            return {}
        return found if isinstance(found, dict) else {}

    def write(self, server: str, user: str, record: Mapping[str, Any]) -> None:
        """Replaces the record.

        Raises:
            InvalidInput: there is no key, or the record is too large.
        """
        plain = json.dumps(record).encode()
        if len(plain) > LARGEST:
            raise InvalidInput(
                f"server {server!r}: its sign-in brought {len(plain):,} bytes, may bring {LARGEST:,}"
            )
        content = self._fernet().encrypt(plain)
        private_folder(self._folder)
        path = self._path(server, user)
        self._make_room(path, len(content))
        if not path.exists():
            path.touch(0o600)
        replace_file(path, content)

    def _make_room(self, path: Path, size: int) -> None:
        """Deletes the oldest other records until this size fits."""
        others: list[tuple[int, int, Path]] = []
        for each in self._folder.glob("*.token"):
            with suppress(OSError):  # another process may have made room
                others.append((each.stat().st_mtime_ns, each.stat().st_size, each))
        others = sorted(other for other in others if other[2] != path)
        size += sum(each_size for _, each_size, _ in others)
        for _, each_size, each in others:
            if size <= MOST_BYTES:
                return
            each.unlink(missing_ok=True)
            size -= each_size

    def _path(self, server: str, user: str) -> Path:
        digest = hashlib.sha256(f"{server}\0{user}".encode("utf-8", "surrogatepass")).hexdigest()
        return self._folder / f"{digest[:32]}.token"

    def _fernet(self) -> Fernet:
        if self._cipher is None:
            key = (
                resolved(self._reference, self._environ, self._configuration)
                if self._reference
                else _keyring_key()
            )
            if len(key) < SHORTEST_KEY:
                raise InvalidInput(f"tokens_key: has {len(key)} characters, must have {SHORTEST_KEY}")
            digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
            self._cipher = Fernet(base64.urlsafe_b64encode(digest))
        return self._cipher


def _keyring_key() -> str:
    """Returns the key in the system's keyring; makes one at the first use."""
    import keyring
    from keyring.errors import KeyringError

    try:
        found = keyring.get_password(_SERVICE, _USER)
        if found is None:
            keyring.set_password(_SERVICE, _USER, secrets.token_urlsafe(32))
            found = keyring.get_password(_SERVICE, _USER)
    except KeyringError as error:
        raise InvalidInput(
            "tokens cannot be encrypted: this system has no keyring; set tokens_key in the section "
            f'"toolroll", such as "${{env:TOKENS_KEY}}" ({error})'
        ) from error
    return found or ""


@dataclass(frozen=True, slots=True)
class ServerAccount:
    """The sign-in of a user, or of all users, at a server.

    Attributes:
        user: "" for the account that all users share.
        url: the server's.
        origins: addresses that the configuration allows for the server's sign-in.
    """

    server: str
    user: str
    url: str
    store: TokenStore
    origins: tuple[str, ...] = ()

    def record(self) -> dict[str, Any]:
        """Returns the stored record."""
        return self.store.read(self.server, self.user)

    @property
    def has_tokens(self) -> bool:
        """Whether somebody has signed in."""
        return bool(self.record().get("tokens"))

    def update(self, **values: Any) -> None:
        """Replaces parts of the record."""
        self.store.write(self.server, self.user, {**self.record(), **values})


@dataclass(frozen=True, slots=True)
class ServerAccounts:
    """The accounts of a configuration's servers. URLs may have references to `environ` and `folder`."""

    store: TokenStore
    environ: Mapping[str, str]
    folder: Path

    @classmethod
    def of_configuration(cls, configuration: Configuration, state: Path) -> ServerAccounts:
        """state: the folder of the gateway's state."""
        environ, folder = os.environ, configuration.folder
        store = TokenStore(state / "tokens", configuration.options.tokens_key, environ, folder)
        return cls(store, environ, folder)

    def of(self, spec: ServerSpec, user: str) -> ServerAccount | None:
        """Returns the account of a user ("" for all users); None for a server without sign-in or URL."""
        if spec.transport in ("stdio", "openapi"):
            return None
        try:
            url = resolved(spec.url, self.environ, self.folder)
            return ServerAccount(spec.name, user, url, self.store, spec.sign_in_origins)
        except InvalidInput:
            return None  # its connection says so
