"""The tools of all servers in one registry: a server is a plugin with one toolkit."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

import anyio
import anyio.to_thread

from toolroll import Registry, Toolroll, ToolrollError
from toolroll.gateway.listing import Listing
from toolroll.gateway.protocol import Json
from toolroll.gateway.server_spec import ServerSpec
from toolroll.gateway.tool_names import ToolNames
from toolroll.model.context import Context
from toolroll.registry.editing.records import Review
from toolroll.selection.visible import VisibleTools

_log = logging.getLogger("toolroll.gateway")

SENSITIVE = "sensitive"  # the annotation of tools of sensitive servers
_WAITING: tuple[Review, ...] = ("pending", "changed")
_MOST_TOLD = 20  # names in a line of the log
_LONGEST_DESCRIPTION = 8_000  # characters; more is an essay or an attack


@dataclass(frozen=True, slots=True)
class ToolServer:
    """The server of a tool.

    Attributes:
        tool: the server's own name of the tool.
        is_for_app: whether the server declares it for a user interface and not for a model.
    """

    server: str
    tool: str
    is_for_app: bool


class ToolCatalog:
    """The catalog of a gateway.

    Attributes:
        roll: selects from the registry, and follows it.
        routes: listed name → server, for all servers that have sent their lists.
        held: server → its tools that wait for approval.
        unroutable, for_apps: names of tools without a server in this process, and of tools for a user
            interface.
    """

    def __init__(
        self,
        roll: Toolroll,
        registry: Registry,
        names: ToolNames,
        review: Literal["auto", "changed", "all"],
        tags: bool,
    ) -> None:
        """tags: whether descriptions begin with the server's name."""
        self.roll, self.routes = roll, dict[str, ToolServer]()
        self.unroutable: tuple[str, ...] = ()
        self.for_apps: tuple[str, ...] = ()
        self.held: dict[str, tuple[str, ...]] = {}
        self.registry, self._names, self._review, self._tags = registry, names, review, tags
        self._writing = anyio.Lock()
        self._seen: tuple[object, int] | None = None
        self._revision = 0

    async def take_over(self, spec: ServerSpec, listing: Listing) -> None:
        """Makes the registry's tools of a server equal to its list.

        Raises:
            ToolrollError: the registry refuses the list; its former tools stay.
        """
        names = self._names.of_server(spec.name, listing.tools)
        items = [self._item(spec, listed, listing.tools[own]) for listed, own in names.items()]
        for listed, own in names.items():
            if self._names.is_renamed(spec.name, listed, own):
                _log.info("server %r: its tool %r is listed as %r", spec.name, own, listed)
        async with self._writing:
            report = await anyio.to_thread.run_sync(lambda: self._sync(spec, items))
        routes = {
            listed: ToolServer(spec.name, own, _is_for_app(listing.tools[own]))
            for listed, own in names.items()
        }
        others = {name: route for name, route in self.routes.items() if route.server != spec.name}
        gone, new = self.routes.keys() - others.keys() - routes.keys(), routes.keys() - self.routes.keys()
        self.routes = {**others, **routes}
        self._revision += 1
        if changed := report.plan.names("change"):
            _log.info("server %r: changed: %s", spec.name, _told(changed))
        if new or gone:
            _log.info("server %r: new: %s; gone: %s", spec.name, _told(new), _told(gone))

    async def refresh(self) -> None:
        """Makes the written tools available to selection."""
        await self.read_held()
        try:
            await self.roll.arefresh()
        except ToolrollError as error:
            _log.warning("the catalog cannot be read again: %s", error)

    @property
    def revision(self) -> int:
        """The registry's revision that selection uses."""
        found: int = self.roll.health()["revision"]
        return found

    def server_of(self, name: str) -> str | None:
        """Returns the server whose prefix this name has, if there is one."""
        return self._names.server_of(name)

    def visible(self, context: Context) -> VisibleTools:
        """Returns the tools that this caller may have."""
        return self.roll.visible(context)

    def without_routes(self) -> tuple[str, ...]:
        """Returns the tools of the catalog that no server in this process has. Nobody can call them."""
        catalog = self.roll.catalog
        if self._seen is None or self._seen[0] is not catalog or self._seen[1] != self._revision:
            self.unroutable = tuple(sorted(catalog.names.keys() - self.routes.keys()))
            self.for_apps = tuple(sorted(name for name, route in self.routes.items() if route.is_for_app))
            self._seen = catalog, self._revision
        return self.unroutable

    async def read_held(self) -> None:
        """Reads which tools wait for approval, and logs the new ones."""
        before = self.held
        servers = sorted({route.server for route in self.routes.values()} | before.keys())
        try:
            waiting = await anyio.to_thread.run_sync(self._waiting, servers)
        except ToolrollError as error:  # the old names stay
            _log.warning("which tools wait for approval cannot be read: %s", error)
            return
        self.held = {server: waiting.get(server, ()) for server in servers}
        for server, held in self.held.items():
            if set(held) - set(before.get(server, ())):
                _log.warning(
                    "server %r: %d tools wait for approval, see `toolroll mcp approve %s`: %s",
                    server, len(held), server, _told(held),
                )  # fmt: skip

    def _sync(self, spec: ServerSpec, items: Iterable[Json]) -> Any:
        review = spec.review or self._review
        if review == "changed" and self._has_listed(spec.name):
            review = "all"  # nobody has reviewed additions after the first list
        return self.registry.sync(
            items,
            plugin=spec.name,
            toolkit=spec.name,
            review=review,
            while_waiting="approved",
            reason="the server's list",
        )

    def _has_listed(self, server: str) -> bool:
        """Whether the registry has had a tool of this server."""
        has = (self.registry.tools(plugin=server, deleted=gone, limit=1) for gone in (False, True))
        return any(page.records for page in has)

    def _waiting(self, servers: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Returns the waiting tools, by server."""
        found: dict[str, list[str]] = {}
        for state in _WAITING:
            page = self.registry.tools(review=state, limit=1_000)
            records = iter(page.records)
            if page.next:  # the many of one plugin must not hide another's
                pages = (self.registry.tools(plugin=one, review=state, limit=1_000) for one in servers)
                records = chain.from_iterable(each.records for each in pages)
            for record in records:
                found.setdefault(record.plugin, []).append(record.name)
        return {server: tuple(names) for server, names in found.items()}

    def _item(self, spec: ServerSpec, listed: str, tool: Json) -> Json:
        """Returns the server's tool in the registry's form."""
        item = self._names.own_texts(spec.name, tool)
        tag = f"[{spec.name}] " if self._tags else ""
        item["name"] = listed
        item["description"] = f"{tag}{item.get('description') or ''}"[:_LONGEST_DESCRIPTION]
        if spec.sensitive:
            item["annotations"] = {**(item.get("annotations") or {}), SENSITIVE: True}
        return item


def _is_for_app(tool: Mapping[str, Any]) -> bool:
    """Whether the metadata of MCP Apps declares that only a user interface calls it."""
    ui = (tool.get("_meta") or {}).get("ui")
    return isinstance(ui, dict) and ui.get("visibility") == ["app"]


def _told(names: Iterable[str]) -> str:
    names = sorted(names)
    more = f" and {len(names) - _MOST_TOLD} more" if len(names) > _MOST_TOLD else ""
    return f"{', '.join(names[:_MOST_TOLD])}{more}" or "none"
