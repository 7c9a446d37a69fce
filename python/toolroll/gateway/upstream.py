"""`Upstream`: one configured MCP server, its connections and its lists."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

import anyio
import anyio.abc
from mcp import MCPError

from toolroll.gateway.accounts import ServerAccount
from toolroll.gateway.budget import Budget
from toolroll.gateway.client import Client
from toolroll.gateway.connection import ServerConnection
from toolroll.gateway.listing import Listing, read_listing, without_excluded
from toolroll.gateway.logs import ServerLog
from toolroll.gateway.protocol import Json
from toolroll.gateway.reasons import reason_of
from toolroll.gateway.server_spec import ServerSpec
from toolroll.model.errors import Overloaded, ToolrollError

_log = logging.getLogger("toolroll.gateway")

Kind = Literal["tools", "prompts", "resources"]
_CHANGES: dict[str, Kind] = {
    "notifications/tools/list_changed": "tools",
    "notifications/prompts/list_changed": "prompts",
    "notifications/resources/list_changed": "resources",
}
MOST_USERS = 100  # with a process of their own
_IDLE_S = 900.0  # after which a user's process is stopped
_SETTLE_S = 0.2  # a server that changes many tools sends many notifications
_REST = 20  # times as long as lists took to read, until they are read again
_LONGEST_REST_S = 60.0
# Bytes of changed items that are taken over at once, and all the time: the registry keeps old versions.
CHANGED, CHANGED_PER_S = 5_000_000, 200
_LEAST_CHANGE = 20_000  # bytes: clients read all lists again
_WARNINGS, _WARNINGS_PER_S = 30, 1 / 60  # lines in the gateway's log


class Upstream:
    """One server.

    Attributes:
        main: the configured user's connection. Its lists are the server's.
        listing: its lists; None before the first ones.
        subscribed: user → URIs of the resources that this user's connection subscribed to.
        refusal: the reason why its tools are refused; "" if they are not.
    """

    def __init__(
        self,
        spec: ServerSpec,
        folder: Path,
        log_file: Path,
        on_listing: Callable[[Upstream], Awaitable[None]],
        on_update: Callable[[Upstream, str, Json], Awaitable[None]],
        account_of: Callable[[ServerSpec, str], ServerAccount | None],
    ) -> None:
        """folder: of the configuration. log_file: gets the standard error of its processes, within limits.

        on_listing: called when its lists have changed. on_update: called when a resource has changed, with
            the connection's user and the parameters of the notification.
        """
        self.spec, self.refusal = spec, ""
        self.listing: Listing | None = None
        self._folder, self.log = folder, ServerLog(log_file)
        self._on_listing, self._on_update = on_listing, on_update
        self._account_of = account_of
        self.subscribed: dict[str, set[str]] = {}
        self._tasks: anyio.abc.TaskGroup | None = None
        self._users: dict[str, tuple[ServerConnection, anyio.CancelScope]] = {}
        self._last_use: dict[str, float] = {}
        self._stale, self._changes = anyio.Event(), Budget(CHANGED, CHANGED_PER_S)
        self._warnings = Budget(_WARNINGS, _WARNINGS_PER_S)
        self.main = self._connection("", self._main_up)

    async def run(self) -> None:
        """Keeps the server running and its lists up to date, until it is cancelled."""
        async with anyio.create_task_group() as self._tasks:
            self._tasks.start_soon(self._refresh)
            self._tasks.start_soon(self._stop_idle)
            await self.main.run()

    async def connection_of(self, user: str) -> ServerConnection:
        """Returns the connection that serves this user.

        Raises:
            Overloaded: too many users have a connection.
        """
        user = self.process_user(user)
        if not user or self._tasks is None:
            return self.main
        if user not in self._users:
            if len(self._users) >= MOST_USERS:
                raise Overloaded(
                    f"server {self.spec.name!r}: runs for {MOST_USERS} users already", retry_after_s=60
                )
            connection, scope = self._connection(user, partial(self._user_up, user)), anyio.CancelScope()
            self._users[user] = connection, scope
            self._tasks.start_soon(self._run_for, connection, scope)
        self._last_use[user] = time.monotonic()
        return self._users[user][0]

    def _connections(self) -> list[ServerConnection]:
        return [self.main, *[connection for connection, _ in self._users.values()]]

    @property
    def is_up(self) -> bool:
        """Whether one of its connections is up."""
        return any(connection.state == "up" for connection in self._connections())

    def account(self, user: str) -> ServerAccount | None:
        """Returns the account for this user's requests; None for a server without a URL."""
        return self._account_of(self.spec, self.process_user(user))

    def needs_sign_in(self, user: str) -> bool:
        """Whether this user must sign in before the server answers."""
        user = self.process_user(user)
        connection = self._users[user][0] if user in self._users else self.main
        if connection is self.main and user and self.main.needs_sign_in:
            account = self.account(user)
            return account is not None and not account.has_tokens
        return connection.needs_sign_in

    async def start_for(self, user: str) -> None:
        """Starts the connection of a user who has signed in, if the server's lists are still unknown.

        Raises:
            Overloaded: too many users have a connection.
        """
        if self.listing is None and self.spec.sign_in == "user" and not self.needs_sign_in(user):
            await self.connection_of(user)

    def signed_in(self, user: str) -> None:
        """Reconnects at once with new tokens."""
        user = self.process_user(user)
        (self._users[user][0] if user in self._users else self.main).retry_now()

    def process_user(self, user: str) -> str:
        """Returns the user whose connection serves this user; "" for the main connection."""
        return "" if self.spec.is_shared else user

    async def subscribe(self, user: str, uri: str) -> None:
        """Subscribes to a resource on this user's connection, and again whenever it comes up.

        Raises:
            MCPError, ServerDown, Overloaded, TimeoutError: as `ServerConnection.request`.
        """
        connection = await self.connection_of(user)
        await connection.request("resources/subscribe", {"uri": uri})
        self.subscribed.setdefault(self.process_user(user), set()).add(uri)

    async def unsubscribe(self, user: str, uri: str) -> None:
        """Ends a subscription of this user's connection."""
        user = self.process_user(user)
        uris = self.subscribed.get(user, set())
        uris.discard(uri)
        if not uris:
            self.subscribed.pop(user, None)
        connection = await self.connection_of(user)
        if connection.client is not None:
            await connection.request("resources/unsubscribe", {"uri": uri})

    def compare(self) -> None:
        """Requests a new read of the lists soon."""
        self._stale.set()

    def _connection(self, user: str, on_up: Callable[[Client], Awaitable[None]]) -> ServerConnection:
        notified = partial(self._notified, user)
        account = self._account_of(self.spec, user)
        return ServerConnection(self.spec, self._folder, self.log, on_up, notified, account)

    async def _run_for(self, connection: ServerConnection, scope: anyio.CancelScope) -> None:
        with scope:
            await connection.run()

    async def _stop_idle(self) -> None:
        while True:
            await anyio.sleep(_IDLE_S / 10)
            for user, used in list(self._last_use.items()):
                if time.monotonic() - used > _IDLE_S and user not in self.subscribed:
                    del self._last_use[user]
                    self._users.pop(user)[1].cancel()

    async def _notified(self, user: str, method: str, params: Json) -> None:
        if method in _CHANGES:
            self.compare()
        elif method == "notifications/resources/updated":
            await self._on_update(self, user, params)

    async def _main_up(self, client: Client) -> None:
        await self._listed(client)
        await self._resubscribe("", client)

    async def _user_up(self, user: str, client: Client) -> None:
        if self.main.needs_sign_in:  # then the list of whoever has signed in counts
            await self._listed(client)
        await self._resubscribe(user, client)

    async def _resubscribe(self, user: str, client: Client) -> None:
        for uri in sorted(self.subscribed.get(user, ())):
            try:
                await client.request("resources/subscribe", {"uri": uri})
            except MCPError as error:  # the resource may be gone
                _log.warning(
                    "server %r: %s cannot be subscribed to: %s", self.spec.name, uri, reason_of(error)
                )

    async def _refresh(self) -> None:
        while True:
            await self._stale.wait()
            await anyio.sleep(_SETTLE_S)
            self._stale = anyio.Event()
            began = time.thread_time()
            client = next((each.client for each in self._connections() if each.client is not None), None)
            if client is not None:
                try:
                    with anyio.fail_after(self.spec.start_timeout_s):
                        await self._listed(client)
                except Exception as error:  # the last lists stay
                    self._warn("its lists cannot be read: %s", reason_of(error))
            await anyio.sleep(min(_REST * (time.thread_time() - began), _LONGEST_REST_S))

    async def _listed(self, client: Client) -> None:
        listing = await read_listing(client)
        listing = without_excluded(listing, self.spec.include_tools, self.spec.exclude_tools)
        broken = [f"tool {name!r}: {why}" for name, why in self.main.traffic.broken.items()]
        listing = replace(listing, problems=(*listing.problems, *broken))
        before = self.listing
        if before is not None and listing != before:
            if self._changes.owe(0):
                self.refusal = "its lists change too often; the last change is taken over later"
                return
            self._changes.owe(_size_of_change(before, listing))
        self.listing = listing
        if listing != before or self.refusal:  # a registry that was away may be back
            for problem in listing.problems[:10]:
                self._warn("%s", problem)
            try:
                await self._on_listing(self)
            except ToolrollError as error:
                self._warn("its tools are not taken over: %s", error)

    def _warn(self, message: str, *values: object) -> None:
        """Logs a problem, but no more often than a limit allows."""
        level = logging.WARNING if self._warnings.take() else logging.DEBUG
        _log.log(level, f"server %r: {message}", self.spec.name, *values)


def _size_of_change(before: Listing, after: Listing) -> int:
    """Returns the bytes of new and changed items."""
    size = _LEAST_CHANGE
    for kind in ("tools", "prompts", "resources", "templates"):
        old, new = getattr(before, kind), getattr(after, kind)
        size += sum(len(json.dumps(item)) for name, item in new.items() if old.get(name) != item)
    return size
