"""`Gateway`: starts and stops many MCP servers, and decides about their tools in one place."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import anyio.to_thread

from toolroll import Context
from toolroll.gateway.accounts import ServerAccounts
from toolroll.gateway.clients import Clients
from toolroll.gateway.configuration import Configuration
from toolroll.gateway.hooks import is_destructive
from toolroll.gateway.logs import CallLog
from toolroll.gateway.places import log_file
from toolroll.gateway.protocol import Json
from toolroll.gateway.reasons import reason_of
from toolroll.gateway.reviewed_offers import ReviewedOffers
from toolroll.gateway.sign_in_tool import SignInTool
from toolroll.gateway.tool_catalog import ToolCatalog
from toolroll.gateway.upstream import Upstream
from toolroll.model.errors import ToolrollError

_log = logging.getLogger("toolroll.gateway")

_BETWEEN_STARTS_S = 0.005  # a new process holds the loop up; clients are answered in between
_COLLECT_S = 0.05  # servers that answer together are taken over together
_TOGETHER_S = 0.3  # after which the lists that were taken over are shown; the rest follows

# Gets the server, the user whose connection it is, and the parameters of the server's notification.
OnUpdate = Callable[[Upstream, str, Json], Coroutine[Any, Any, None]]
Listener = Callable[[str], Awaitable[None]]


class Gateway:
    """All servers of a configuration, behind one interface.

    Attributes:
        upstreams: the servers by name.
        catalog: the tools of the servers.
        clients: the gateway's knowledge of its clients.
        on_update: called when a subscribed resource has changed.
    """

    def __init__(self, configuration: Configuration, catalog: ToolCatalog, state: Path) -> None:
        """state: folder for logs."""
        self.options, self.catalog, self.clients = configuration.options, catalog, Clients()
        accounts = ServerAccounts.of_configuration(configuration, state)
        self.upstreams = {
            name: Upstream(
                spec,
                configuration.folder,
                log_file(state, name),
                self._on_listing,
                self._on_update,
                accounts.of,
            )
            for name, spec in configuration.servers.items()
        }
        self.reviewed = ReviewedOffers.of_configuration(configuration, state)
        self._reviewing = anyio.Lock()
        self.sign_in_tool = SignInTool(
            self.upstreams, self.user_of, self.options.identity is None, lambda: self.tasks
        )
        self.call_log = CallLog(state / "calls.jsonl", self.options.log_arguments)
        self.on_update: OnUpdate | None = None
        self._listeners: list[Listener] = []
        self._tasks: anyio.abc.TaskGroup | None = None
        self._began = 0.0
        self._known = {name: anyio.Event() for name in self.upstreams}
        self._away_since: dict[str, float] = {}
        self._pending: list[Upstream] = []
        self._has_pending = anyio.Event()
        self._warm: dict[str, anyio.Event] = {}  # organisation → its outcomes are read
        self._destructive: tuple[object, tuple[str, ...]] | None = None

    # Its life.

    @asynccontextmanager
    async def running(self, began: float | None = None) -> AsyncIterator[Gateway]:
        """Starts all servers, guardians first, and stops them at the end.

        began: the time since which clients wait, by the monotonic clock; by default now.
        """
        self._began = time.monotonic() if began is None else began
        try:
            async with anyio.create_task_group() as self._tasks:
                for task in (self.call_log.run, self._take_over, self._compare, self._start):
                    self._tasks.start_soon(task)
                try:
                    yield self
                finally:
                    self._tasks.cancel_scope.cancel()
        finally:
            self.call_log.close()

    async def _start(self) -> None:
        guardians = [each for each in self.upstreams.values() if each.spec.role == "guardian"]
        self.tasks.start_soon(self.outcomes_read, self.options.caller.org)
        for upstream in guardians:
            self.tasks.start_soon(upstream.run)
        for upstream in guardians:
            await upstream.main.tried()
        for upstream in guardians:
            self.tasks.start_soon(self._note_first, upstream)
        for upstream in self.upstreams.values():
            if upstream not in guardians:
                self.tasks.start_soon(upstream.run)
                self.tasks.start_soon(self._note_first, upstream)
                await anyio.sleep(_BETWEEN_STARTS_S)

    async def _note_first(self, upstream: Upstream) -> None:
        """Lets the first list go on without a server that could not be started."""
        await upstream.main.tried()
        if upstream.listing is None:
            self._known[upstream.spec.name].set()

    async def known(self, at_most_s: float = 0.0) -> None:
        """Waits until every server has sent its lists, or cannot be started.

        at_most_s: the longest wait after the start, if that is longer than the wait for the first list.
        """
        limit_s = max(at_most_s, self.options.first_list_s)
        with anyio.move_on_after(max(0.0, self._began + limit_s - time.monotonic())):
            for event in self._known.values():
                await event.wait()

    async def started(self, server: str, at_most_s: float) -> bool:
        """Waits for a starting server, up to this time after the start. Returns whether it waited."""
        if self._known[server].is_set():
            return False
        with anyio.move_on_after(max(0.0, self._began + at_most_s - time.monotonic())):
            await self._known[server].wait()
        return True

    @property
    def is_starting(self) -> bool:
        """Whether a server has not sent its lists yet."""
        return not all(event.is_set() for event in self._known.values())

    def on_change(self, listener: Listener) -> None:
        """Calls the listener with "tools", "prompts" or "resources" when these lists may have changed."""
        self._listeners.append(listener)

    async def _on_listing(self, upstream: Upstream) -> None:
        self._pending.append(upstream)
        self._has_pending.set()

    async def _on_update(self, upstream: Upstream, user: str, params: Json) -> None:
        if self.on_update is not None and self._tasks is not None:
            self._tasks.start_soon(self.on_update, upstream, user, params)  # a slow client holds up no server

    async def _take_over(self) -> None:
        """Stores new lists of servers. Lists that arrive together are published together."""
        while True:
            await self._has_pending.wait()
            self._has_pending = anyio.Event()
            await anyio.sleep(_COLLECT_S)
            taken, self._pending = list(dict.fromkeys(self._pending)), []
            began = time.monotonic()
            for number, upstream in enumerate(taken, 1):
                assert upstream.listing is not None
                try:
                    await self.catalog.take_over(upstream.spec, upstream.listing)
                    upstream.refusal = ""
                except Exception as error:  # one server's list costs its own tools only
                    upstream.refusal = reason_of(error)
                    _log.warning(
                        "server %r: its tools are not taken over: %s", upstream.spec.name, reason_of(error)
                    )
                if time.monotonic() - began > _TOGETHER_S:
                    self._pending = [*taken[number:], *self._pending]
                    self._has_pending.set()
                    taken = taken[:number]
                    break
            await self._review_offers(taken)
            await self.catalog.refresh()
            for upstream in taken:
                self._known[upstream.spec.name].set()
            await self._changed("tools", "prompts", "resources")

    async def _review_offers(self, upstreams: Iterable[Upstream]) -> None:
        """Stores approved prompts and resources. Files of several servers are written in parallel."""
        async with self._reviewing, anyio.create_task_group() as tasks:
            for upstream in upstreams:
                tasks.start_soon(self._review, upstream)

    async def _review(self, upstream: Upstream) -> None:
        name, listing = upstream.spec.name, upstream.listing
        if listing is not None:
            try:
                await anyio.to_thread.run_sync(self.reviewed.take_over, name, listing)
            except Exception as error:  # the state folder may be gone or closed
                _log.warning("server %r: its prompts and resources are not taken over: %s", name, error)

    async def _compare(self) -> None:
        """Compares the servers' lists from time to time, and notes which servers are down."""
        compared, absent, revision = time.monotonic(), self._absent(), self.catalog.revision
        while True:
            await anyio.sleep(1.0)
            now = time.monotonic()
            for name, upstream in self.upstreams.items():
                if upstream.is_up:
                    self._away_since.pop(name, None)
                else:
                    self._away_since.setdefault(name, now)
            before, absent = (absent, revision), self._absent()
            revision = self.catalog.revision
            approved = [one for name, one in self.upstreams.items() if self.reviewed.is_changed(name)]
            await self._review_offers(approved)
            if revision != before[1]:
                await self.catalog.read_held()
            if approved or absent != before[0]:
                await self._changed("tools", "prompts", "resources")
            elif revision != before[1]:
                await self._changed("tools")
            if now - compared > self.options.refresh_s:
                compared = now
                for upstream in self.upstreams.values():
                    upstream.compare()

    async def _changed(self, *kinds: str) -> None:
        for listener in self._listeners:
            for kind in kinds:
                try:
                    await listener(kind)
                except Exception:
                    _log.exception("a listener failed")

    @property
    def tasks(self) -> anyio.abc.TaskGroup:
        """The group of tasks that end with the gateway."""
        assert self._tasks is not None
        return self._tasks

    async def outcomes_read(self, org: str, at_most_s: float = 0.0) -> None:
        """Waits until an organisation's outcomes are read, once in this process."""
        if org not in self._warm:
            self._warm[org] = anyio.Event()
            self.tasks.start_soon(self._read_outcomes, org)
        with anyio.move_on_after(at_most_s):
            await self._warm[org].wait()

    async def _read_outcomes(self, org: str) -> None:
        try:
            await self.catalog.roll.awarm_up([org])
        except ToolrollError as error:
            _log.warning("organisation %r: its outcomes cannot be read yet: %s", org, error)
        finally:
            self._warm[org].set()

    # The one decision.

    def callable(self, context: Context) -> Context:
        """The context that decides about calls: without tools that no server has or that are forbidden."""
        hidden = (*self.catalog.without_routes(), *self._forbidden())
        return replace(context, exclude=(*context.exclude, *hidden)) if hidden else context

    def listed(self, context: Context) -> Context:
        """The context that decides about lists and searches: also without tools of servers that are away.

        No model sees the tools that a server has for a user interface. If mappings name toolkits for the
        caller's page, other tools are not shown; they can be called.
        """
        away = self._absent()
        hidden: list[str] = []
        if away:
            hidden = [name for name, route in self.catalog.routes.items() if route.server in away]
        context = self.callable(context)
        visible = self.catalog.visible(context)
        if (on_page := visible.on_page) is not visible:
            hidden += set(visible.names).difference(on_page.names)
        more = (*hidden, *self.catalog.for_apps)
        return replace(context, exclude=(*context.exclude, *more)) if more else context

    def _absent(self) -> frozenset[str]:
        """The servers that have been away for so long that their tools leave the lists."""
        latest = time.monotonic() - self.options.keep_s
        return frozenset(name for name, since in self._away_since.items() if since <= latest)

    def _forbidden(self) -> tuple[str, ...]:
        if self.options.destructive != "deny":
            return ()
        catalog = self.catalog.roll.catalog
        if self._destructive is None or self._destructive[0] is not catalog:
            self._destructive = catalog, tuple(tool.name for tool in catalog.tools if is_destructive(tool))
        return self._destructive[1]

    def user_of(self, context: Context) -> str:
        """The user whose process serves a call; "" for the configured one. Organisations share no process."""
        own = self.options.caller
        return "" if (context.org, context.user) == (own.org, own.user) else f"{context.org}/{context.user}"

    def sees(self, context: Context, server: str) -> bool:
        """Whether this caller may know of a server: it has no tools, or the caller may have one of them."""
        visible = self.catalog.visible(self.callable(context))
        own = [name for name, route in self.catalog.routes.items() if route.server == server]
        return not own or any(name in visible for name in own)
