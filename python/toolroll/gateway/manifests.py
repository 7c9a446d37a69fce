"""Reads a folder of manifests: each MCP server describes itself in a file.

A manifest is `FOLDER/*/manifest.json`, or the section "toolroll" of `FOLDER/*/package.json`: `name`,
`transport`, `port` or `url`, `command`, `args`, `role`, `sensitive`, `timeout_s`. A Node package needs no
command: the program that its `main` names is started. `NAME_MCP_ENABLED=false` switches a server off.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from toolroll.gateway.configuration import SECTION
from toolroll.gateway.document import Document
from toolroll.gateway.server_spec import ServerSpec
from toolroll.model.errors import NotFound

_HOST = "127.0.0.1"


class _Manifest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=64)
    transport: Literal["stdio", "http", "sse"] = "stdio"
    port: int | None = Field(None, ge=1, le=65_535)
    url: str = ""
    headers: dict[str, str] = Field(default_factory=dict)
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    role: Literal["", "guardian", "channel"] = ""
    sensitive: bool = False
    instance: Literal["user", "shared"] = "user"
    timeout_s: float = Field(60.0, gt=0, le=86_400)


def read_manifests(folder: Path) -> Iterator[ServerSpec]:
    """Yields the servers of a folder, in the order of its sub-folders.

    Raises:
        NotFound: there is no such folder.
        InvalidDefinition: a manifest is wrong; with file, line and key.
    """
    if not folder.is_dir():
        raise NotFound(f"manifests {str(folder)!r}: no such folder")
    for below in sorted(each for each in folder.iterdir() if each.is_dir()):
        own, package = below / "manifest.json", below / "package.json"
        if own.is_file():
            yield _spec(Document.of(own), (), below, "")
        elif package.is_file() and SECTION in (document := Document.of(package)).value:
            yield _spec(document, (SECTION,), below, document.value.get("main"))


def _spec(document: Document, path: tuple[str, ...], folder: Path, main: Any) -> ServerSpec:
    manifest = document.model(_Manifest, path)
    command, args, url = manifest.command, manifest.args, manifest.url
    if manifest.transport == "stdio" and not command:
        if not main or not isinstance(main, str):
            document.fail(path, f"server {manifest.name!r} needs a command")
        command, args = "node", (main, *args)
    if manifest.transport != "stdio" and not url:
        if manifest.port is None:
            document.fail(path, f"server {manifest.name!r} needs a port or a url")
        url = f"http://{_HOST}:{manifest.port}/{'sse' if manifest.transport == 'sse' else 'mcp'}"
    return ServerSpec(
        manifest.name,
        manifest.transport,
        command,
        args,
        manifest.env,
        cwd=str(folder),
        url=url,
        headers=manifest.headers,
        role=manifest.role,
        sensitive=manifest.sensitive,
        instance=manifest.instance,
        timeout_s=manifest.timeout_s,
        place=f"{document.file}:{document.line(path)}",
    )
