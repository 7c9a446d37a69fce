"""Paths of the gateway's configuration and state."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import platformdirs

from toolroll.gateway.options import GatewayOptions
from toolroll.gateway.server_spec import prefix_of

DEFAULT_CONFIGURATION = "mcp.json"


def default_configuration() -> Path:
    """Returns the file that `import` writes, and that is read if no file is named."""
    return Path(platformdirs.user_config_dir("toolroll", appauthor=False)) / DEFAULT_CONFIGURATION


def state_folder(configuration: Path) -> Path:
    """Returns the folder for registry and logs of a configuration file. Each file has its own."""
    path = configuration.resolve()
    digest = hashlib.sha256(str(path).encode("utf-8", "surrogatepass")).hexdigest()[:8]
    base = Path(platformdirs.user_state_dir("toolroll", appauthor=False))
    return base / "gateway" / f"{path.parent.name[:30] or 'root'}-{path.stem[:30]}-{digest}"


def private_folder(path: Path) -> Path:
    """Makes a folder and missing folders above it. Only their owner may enter them.

    If the folder exists and belongs to this user, access by others is removed.
    """
    for each in (*reversed(path.parents), path):
        if not each.is_dir():
            each.mkdir(0o700, exist_ok=True)
    if os.name == "posix":
        found = path.stat()
        if found.st_uid == os.geteuid() and found.st_mode & 0o077:
            path.chmod(0o700)
    return path


def log_file(state: Path, server: str) -> Path:
    """Returns the file for the standard error of a server's processes."""
    return state / "logs" / f"{prefix_of(server)}.log"


def registry_url(options: GatewayOptions, state: Path) -> str:
    """Returns the URL of the registry: from the options, or by default a file in the folder."""
    return options.catalog or f"sqlite:///{state / 'registry.db'}"
