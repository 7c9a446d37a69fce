"""Reviews prompts and resources of servers, and decides which server a resource belongs to.

The registry reviews tools; `ReviewedOffers` reviews the rest. The first list of a server is believed. Items
that it adds or rewrites later wait: a new prompt is not shown, a rewritten prompt and resources are shown
without their texts. A file for each server has digests of the approved items.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolroll.gateway.configuration import Configuration
from toolroll.gateway.listing import Listing
from toolroll.gateway.places import private_folder
from toolroll.gateway.protocol import Json
from toolroll.gateway.server_spec import Review, prefix_of
from toolroll.model.errors import InvalidInput, NotFound
from toolroll.runtime.files import replace_file

_log = logging.getLogger("toolroll.gateway")

_LARGEST = 4_000_000  # bytes of a server's record; further items wait
_LARGEST_WAITING = 1_000_000  # bytes of the items that a server's reviewer sees
_DIGITS = 32  # of a digest
_KINDS = ("prompts", "resources", "templates")
_PLAIN = re.compile("[?#]")
_TIME = re.compile(r"[0-9][0-9T:.+Z-]{3,39}")
_NAME = re.compile("[A-Za-z0-9_.-]{1,64}")
_ADDRESS = re.compile("[!-~]{1,2000}")
_TYPE = re.compile(r"[A-Za-z0-9.+-]{1,60}/[A-Za-z0-9.+-]{1,60}")

Record = dict[str, dict[str, str]]  # kind → name or URI → digest of the approved item
Waiting = dict[str, dict[str, Json]]  # kind → name or URI → item, as the server sent it


@dataclass(frozen=True, slots=True)
class ResourceClaims:
    """The resources that a server lists.

    Attributes:
        uris: URIs, and the server's templates.
        starts: the fixed beginnings of the templates. A template that begins with a variable has none.
    """

    uris: frozenset[str] = frozenset()
    starts: tuple[str, ...] = ()

    @classmethod
    def of(cls, resources: Collection[str], templates: Collection[str]) -> ResourceClaims:
        """Makes the claims from URIs and templates."""
        starts = {template.partition("{")[0] for template in templates}
        return cls(frozenset((*resources, *templates)), tuple(sorted(starts - {""})))

    def may_be(self, uri: str) -> bool:
        """Whether the URI may belong to a template, or equals a listed URI but for its query or fragment."""
        if uri.startswith(self.starts):
            return True
        return ("?" in uri or "#" in uri) and _PLAIN.split(uri, maxsplit=1)[0] in self.uris


@dataclass(frozen=True, slots=True)
class ServerOffers:
    """The prompts and resources of a server that clients are shown.

    Attributes:
        prompts, resources, templates: as in `Listing`, without texts that wait.
        approved, later: the approved resources, and the resources not yet reviewed.
        held: descriptions of the items that wait for approval.
    """

    prompts: Mapping[str, Json] = field(default_factory=dict)
    resources: Mapping[str, Json] = field(default_factory=dict)
    templates: Mapping[str, Json] = field(default_factory=dict)
    approved: ResourceClaims = ResourceClaims()
    later: ResourceClaims = ResourceClaims()
    held: tuple[str, ...] = ()


class ReviewedOffers:
    """The offers of all servers of a gateway. Its methods read and write files.

    Attributes:
        offered: by server. Before a server sends its lists, it has the resources approved earlier.
    """

    def __init__(self, folder: Path, reviews: Mapping[str, Review]) -> None:
        """folder: for the records. reviews: by server."""
        self._folder, self._reviews = folder, reviews
        self._read_at = {server: _changed_at(self._path(server)) for server in reviews}
        self.offered = {server: ServerOffers() for server in reviews}
        for server in reviews:
            if record := self._record(server):  # a resource stays its server's while that one is away
                self.offered[server] = ServerOffers(
                    approved=ResourceClaims.of(record["resources"], record["templates"])
                )

    @classmethod
    def of_configuration(cls, configuration: Configuration, state: Path) -> ReviewedOffers:
        """state: the folder of the gateway's state."""
        default = configuration.options.review
        reviews = {name: spec.review or default for name, spec in configuration.servers.items()}
        return cls(state / "offers", reviews)

    def take_over(self, server: str, listing: Listing) -> None:
        """Updates the offers of a server from its list."""
        found = {"prompts": listing.prompts, "resources": listing.resources, "templates": listing.templates}
        review, record = self._reviews[server], self._record(server)
        if review == "auto":
            claims = ResourceClaims.of(listing.resources, listing.templates)
            shown = (listing.prompts, listing.resources, listing.templates)
            self.offered[server] = ServerOffers(*shown, approved=claims)
            return
        if record is None:
            record = {kind: {} for kind in _KINDS}
            if review == "changed" and (listing.tools or any(found.values())):
                record = _recorded(found)
                self._write(self._path(server), record)
                self._read_at[server] = _changed_at(self._path(server))
        waiting: Waiting = {
            kind: {
                name: item
                for name, item in found[kind].items()
                if record[kind].get(name) != _digest(kind, item)
            }
            for kind in _KINDS
        }
        kept = {kind: dict(found[kind]) for kind in _KINDS}
        for kind, items in waiting.items():
            for name, item in items.items():
                is_new = name not in record[kind]
                if is_new and (kind == "prompts" or not _ADDRESS.fullmatch(name)):
                    del kept[kind][name]
                else:
                    kept[kind][name] = without_texts(item)
        known = [found[kind].keys() & record[kind].keys() for kind in _KINDS]
        new = [found[kind].keys() - record[kind].keys() for kind in _KINDS]
        self.offered[server] = ServerOffers(
            kept["prompts"],
            kept["resources"],
            kept["templates"],
            approved=ResourceClaims.of(known[1], known[2]),
            later=ResourceClaims.of(new[1], new[2]),
            held=tuple(f"{kind[:-1]} {name[:200]!a}" for kind in _KINDS for name in waiting[kind]),
        )
        if any(waiting.values()):
            _log.warning(
                "server %r: %d prompts and resources wait for approval, see `toolroll mcp approve %s`",
                server, len(self.offered[server].held), server,
            )  # fmt: skip
        if any(waiting.values()) or self._waiting_path(server).exists():
            self._write(self._waiting_path(server), _within(waiting))

    def is_changed(self, server: str) -> bool:
        """Whether somebody has approved an item since the last call."""
        before, self._read_at[server] = self._read_at[server], _changed_at(self._path(server))
        return self._read_at[server] != before

    def waiting(self, server: str) -> Waiting:
        """Returns the waiting items, in the server's latest form."""
        return self._read(self._waiting_path(server)) or {kind: {} for kind in _KINDS}

    def approve(self, server: str, waiting: Waiting) -> None:
        """Approves these items of a server.

        Raises:
            NotFound: there are none.
            InvalidInput: the record cannot be written, or is full.
        """
        record = self._record(server) or {kind: {} for kind in _KINDS}
        if not any(waiting.values()):
            raise NotFound(f"server {server!r}: no prompt or resource waits for approval")
        for kind in _KINDS:
            record[kind] |= {name: _digest(kind, item) for name, item in waiting[kind].items()}
        content = json.dumps(record).encode()
        if len(content) > 2 * _LARGEST:
            raise InvalidInput(
                f"{self._path(server)}: is full; remove it, and the next list is the first one"
            )
        replace_file(self._path(server), content)
        self._waiting_path(server).unlink(missing_ok=True)

    def _record(self, server: str) -> Record | None:
        """Returns the approved items of a server; None if it has listed nothing yet."""
        return self._read(self._path(server))

    def _path(self, server: str) -> Path:
        return self._folder / f"{prefix_of(server)}.json"

    def _waiting_path(self, server: str) -> Path:
        return self._folder / f"{prefix_of(server)}.waiting.json"

    def _read(self, path: Path) -> dict[str, dict[str, Any]] | None:
        """Returns a file's content by kind; None without a file. In a damaged file nothing is approved."""
        try:
            found = json.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            found = None
        kinds = found if isinstance(found, dict) else {}
        return {kind: value if isinstance(value := kinds.get(kind), dict) else {} for kind in _KINDS}

    def _write(self, path: Path, value: Any) -> None:
        try:
            private_folder(self._folder)
            replace_file(path, json.dumps(value).encode())
        except (OSError, InvalidInput) as error:  # a full disk costs the record, not the list
            _log.warning("%s cannot be written: %s", path, error)


def owners(offered: Mapping[str, ServerOffers], uri: str) -> list[str]:
    """Returns the servers with the best claim to a URI. If there are several, no request may go to them.

    A listed URI comes before a template, and an approved claim before an unreviewed one. An unreviewed URI
    counts as a template, since either server could be hostile.
    """
    listed = [server for server, each in offered.items() if uri in each.approved.uris]
    if listed:
        return listed
    alike = [
        server for server, each in offered.items() if each.approved.may_be(uri) or uri in each.later.uris
    ]
    return alike or [server for server, each in offered.items() if each.later.may_be(uri)]


def _changed_at(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _recorded(found: Mapping[str, Mapping[str, Json]]) -> Record:
    """Makes the record of a server's first list, up to the size limit."""
    record: Record = {kind: {} for kind in _KINDS}
    size = 0
    for kind in _KINDS:
        for name, item in found[kind].items():
            size += len(json.dumps(name)) + _DIGITS + 6
            if size <= _LARGEST:
                record[kind][name] = _digest(kind, item)
    return record


def _digest(kind: str, item: Json) -> str:
    """A digest of all that a reader may see of an item, without fields that change with its content."""
    stable = dict(item)
    if kind == "resources":
        if type(stable.get("size")) is int:
            del stable["size"]
        notes = stable.get("annotations")
        if isinstance(notes, dict) and _TIME.fullmatch(str(notes.get("lastModified"))):
            stable["annotations"] = {key: value for key, value in notes.items() if key != "lastModified"}
    try:
        text = json.dumps(stable, sort_keys=True)
    except (ValueError, TypeError, RecursionError):
        return secrets.token_hex(_DIGITS // 2)  # an item without digest cannot be approved
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def without_texts(item: Json) -> Json:
    """Strips a prompt, resource or template to the fields that a client needs to use it."""
    if "uriTemplate" in item:
        return {"uriTemplate": item["uriTemplate"], "name": item["uriTemplate"]}
    if "uri" not in item:
        given = item.get("arguments")
        named = [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []
        arguments = [
            {"name": each["name"], "required": each.get("required") is True}
            for each in named
            if _NAME.fullmatch(str(each.get("name")))
        ]
        return {"name": item["name"], "arguments": arguments}
    shown: Json = {"uri": item["uri"], "name": item["uri"]}
    if type(item.get("size")) is int:
        shown["size"] = item["size"]
    if _TYPE.fullmatch(str(item.get("mimeType"))):
        shown["mimeType"] = item["mimeType"]
    return shown


def _within(waiting: Waiting) -> Waiting:
    """Returns as many of the items as fit into a file."""
    size, kept = 0, {kind: dict[str, Json]() for kind in _KINDS}
    for kind, items in waiting.items():
        for name, item in items.items():
            size += len(json.dumps({name: item}))
            if size > _LARGEST_WAITING:
                return kept
            kept[kind][name] = item
    return kept
