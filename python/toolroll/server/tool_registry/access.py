"""The registry on behalf of a caller: who may read or change what, and as whom."""

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
    """Waits for the organisations' own tools: people who ask about them should not have to ask twice.

    If they cannot be had now, the answer is about the shared tools.
    """
    with suppress(ToolrollError):
        roll.warm_up(orgs)


@dataclass(frozen=True, slots=True)
class RegistryAccess:
    """A registry whose callers act for one organisation in each request.

    A caller that is bound to an organisation knows its rows, and of the platform what reaches it. To the
    registry that it gets, the rest does not exist.

    Attributes:
        registry: of all organisations.
        identify: says who makes a request.
        shared: the platform's tools, as organisations see them.
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
        """The same for reports, perhaps a copy that is a little older."""
        return self.registry.reports

    def own_rows(self, request: Request, org: str | None) -> tuple[Registry, str]:
        """The registry, for rows of the organisation that the caller may read, and this. Raises Denied."""
        caller = self.identify(request)
        caller.require("read")
        return self.registry, caller.org_of(org)

    def reader(self, request: Request, org: str | None) -> tuple[Registry, str]:
        """The registry as the caller knows it, and the organisation to read. Raises Denied."""
        _, owner = self.own_rows(request, org)
        return self.known_to(self.identify(request)), owner

    def known_to(self, caller: Caller) -> Registry:
        """The registry with the caller as author, and as far as the caller may know of the platform."""
        reach: Reach | None = self.shared.reach(caller.org) if caller.org else None
        return self.registry.with_actor(caller.actor, reach)

    def read_shared(self, request: Request, org: str | None, read: Callable[[Registry, str], T]) -> T:
        """What `read` finds of the organisation, else of the platform, whose tools all organisations share.

        A caller that is bound to an organisation gets its own rows only: the platform's name people. See
        `SharedTools` for what it gets of the platform.

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
        self, request: Request, org: str | None, since: datetime | None = None, until: datetime | None = None
    ) -> Window:
        """The events in a time that the caller may read, of an organisation or of all. Raises Denied."""
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
