"""The registry on behalf of a caller: checks each read and change, and names its author."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from fastapi import Request

from toolroll import Registry, Toolroll
from toolroll.model.errors import NotFound, ToolrollError
from toolroll.registry.analytics.window import Window
from toolroll.registry.editing.governed_rows import Reach
from toolroll.registry.store.database import Database
from toolroll.server.callers import Caller, Identify
from toolroll.server.tool_registry.shared_tools import SharedTools

T = TypeVar("T")


def prepare(roll: Toolroll, orgs: Iterable[str]) -> None:
    """Loads the organisations' own tools. If that fails, answers are about the shared tools."""
    with suppress(ToolrollError):
        roll.warm_up(orgs)


@dataclass(frozen=True, slots=True)
class RegistryAccess:
    """A registry whose callers act for one organisation in each request.

    A caller of one organisation gets a registry with that organisation's rows and the tools of the platform
    that reach it; other rows do not exist there.

    Attributes:
        registry: of all organisations.
        identify: finds the caller of a request.
    """

    registry: Registry
    identify: Identify
    shared: SharedTools

    @property
    def database(self) -> Database:
        """The registry's storage."""
        return self.registry.database

    @property
    def reports(self) -> Database:
        """The storage that reports read; perhaps a copy that is a little older."""
        return self.registry.reports

    def own_rows(self, request: Request, org: str | None) -> tuple[Registry, str]:
        """The registry, and the organisation whose own rows the caller may read. Raises Denied."""
        caller = self.identify(request)
        caller.require("read")
        return self.registry, caller.org_of(org)

    def reader(self, request: Request, org: str | None) -> tuple[Registry, str]:
        """The registry as the caller knows it, and the organisation to read. Raises Denied."""
        _, owner = self.own_rows(request, org)
        return self.known_to(self.identify(request)), owner

    def known_to(self, caller: Caller) -> Registry:
        """The registry with the caller as author, limited to rows that the caller may know."""
        reach: Reach | None = self.shared.reach(caller.org) if caller.org else None
        return self.registry.with_actor(caller.actor, reach)

    def read_shared(self, request: Request, org: str | None, read: Callable[[Registry, str], T]) -> T:
        """Calls `read` for the organisation, then for the platform, whose tools all organisations share.

        A caller of one organisation gets only its own rows, because rows of the platform name people. Such a
        caller reads the platform through `SharedTools`.

        Raises:
            Denied: as `reader`.
            NotFound: neither has it.
        """
        caller = self.identify(request)
        registry, owner = self.reader(request, org)
        try:
            return read(registry, owner)
        except NotFound:
            if not owner or caller.org is not None:
                raise
            try:
                return read(registry, "")
            except NotFound:
                pass  # the organisation's error suggests names
            raise

    def window(
        self,
        request: Request,
        org: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Window:
        """The events of a period that the caller may read; a dependency of routes. Raises Denied."""
        caller = self.identify(request)
        caller.require("read")
        owner = None if caller.org is None and org is None else caller.org_of(org)
        return Window(owner, since, until)

    def editor(self, request: Request, org: str | None) -> tuple[Registry, str]:
        """The registry with the caller as author, and the organisation to change. Raises Denied."""
        caller = self.identify(request)
        caller.require("administer")
        owner = caller.org_of(org)
        return self.known_to(caller), owner
