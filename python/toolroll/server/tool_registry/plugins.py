"""`/plugins`: the owners of tools. `/plugins/sync` registers the tools of a plugin."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Request
from pydantic import ConfigDict, FailFast, Field
from pydantic.alias_generators import to_camel

from toolroll.formats.sources.dicts import read_tools_for_registry
from toolroll.model.errors import Denied
from toolroll.model.rules import PageMapping
from toolroll.model.tools import Definitions, Route, Toolkit
from toolroll.registry.analytics import tools as health
from toolroll.registry.analytics.plugins import plugins
from toolroll.registry.analytics.tool_calls import plugin_calls
from toolroll.registry.analytics.window import Window
from toolroll.registry.editing.content import route_to
from toolroll.server.bodies import Body, Texts, without_read_only
from toolroll.server.callers import Caller
from toolroll.server.problems import ProblemRoute
from toolroll.server.tool_registry.access import RegistryAccess
from toolroll.server.tool_registry.categories import PageMappingBody


class _PluginBody(Body):
    """Takes the names of its fields in both spellings: `plugin_id` and `pluginId`."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class KeywordBody(Body):
    """A keyword with the way in which it must stand in a message."""

    keyword: str
    mode: Literal["", "substring", "word", "prefix"] = ""


class CategoryBody(_PluginBody):
    """A category: a toolkit, with the keywords and patterns that switch it on.

    It may be an answer of `GET /categories`, with the categories below it.
    """

    name: str
    description: str = ""
    parent: str | None = None
    settings_keys: Texts = ()
    base: bool = False
    tier: str | None = None
    members: Texts = ()
    keywords: Annotated[tuple[str | KeywordBody, ...], FailFast()] = ()
    patterns: Texts = ()
    children: Annotated[tuple[CategoryBody, ...], FailFast()] = ()

    _without_read_only = without_read_only("toolkit_id")

    def family(self) -> Iterator[CategoryBody]:
        """The category and all below it."""
        yield self
        for child in self.children:
            yield from child.family()

    def toolkit(self) -> Toolkit:
        """The same as a value of toolroll."""
        return Toolkit(
            self.name, self.description, self.parent, self.settings_keys, self.base, self.tier, self.members
        )

    def route(self) -> Route | None:
        """The route that switches it on."""
        pairs = [(each, "") if isinstance(each, str) else (each.keyword, each.mode) for each in self.keywords]
        return route_to(self.name, pairs, self.patterns)


class SyncBody(_PluginBody):
    """Everything that a plugin has. Tools that are missing here are deleted.

    `tools` is required: an empty list deletes all tools of the plugin.
    """

    plugin_id: str = Field(min_length=1)
    version: str = ""
    tools: Annotated[tuple[dict[str, Any], ...], FailFast()] = Field(
        description="All tools of the plugin: those that it had and that are missing here are deleted.",
        examples=[[{"name": "ping", "description": "Asks whether a host is there", "toolkit": "net"}]],
    )
    categories: Annotated[tuple[CategoryBody, ...], FailFast()] = ()
    page_mappings: Annotated[tuple[PageMappingBody, ...], FailFast()] = ()
    dry_run: bool = False
    reason: str = ""

    def definitions(self) -> Definitions:
        """Converts it to definitions. Raises InvalidDefinition."""
        read = read_tools_for_registry(self.tools)
        categories = [each for category in self.categories for each in category.family()]
        declared = {category.name for category in categories}
        routes = (category.route() for category in categories)
        return Definitions(
            read.tools,
            (
                *(toolkit for toolkit in read.toolkits if toolkit.name not in declared),
                *(category.toolkit() for category in categories),
            ),
            tuple(route for route in routes if route is not None),
            (),
            tuple(PageMapping(page.pattern, page.categories, page.priority) for page in self.page_mappings),
            skipped=read.skipped,
            refused=read.refused,
        )


def plugin_router(access: RegistryAccess) -> APIRouter:
    """`/plugins` and `/plugins/sync`."""
    router = APIRouter(tags=["plugins"], route_class=ProblemRoute, prefix="/plugins")
    events: Any = Depends(access.window)

    @router.post("/sync")
    def sync(
        request: Request, body: SyncBody, org: str | None = None, trusted: bool = False
    ) -> dict[str, Any]:
        """Makes the tools, categories and page mappings of a plugin equal to the body, all or nothing.

        New tools are added, changed ones get a version, missing ones are deleted. What did not change costs
        nothing. The key of a plugin registers that plugin alone. trusted: lets the plugin also decide what
        only people decide otherwise, such as page mappings; needs the role `administer`.
        """
        caller = access.identify(request)
        _check(caller, body.plugin_id, trusted)
        report = access.known_to(caller).sync(
            body.definitions(),
            plugin=body.plugin_id,
            plugin_version=body.version,
            org=caller.org_of(org),
            trusted=trusted,
            dry_run=body.dry_run,
            reason=body.reason,
        )
        return report.to_dict()

    @router.get("")
    def list_plugins(request: Request, org: str | None = None) -> dict[str, Any]:
        """The plugins: their last change and what it was, tools to review, calls and failures.

        `synced_at` is the last sync that changed something: others write nothing. `last_day` counts calls of
        the last 24 hours; `last_call` and `last_failure` are the beginning of that hour, or of that day if it
        is longer ago. `left_out` has the tools that stopped working and since when.

        Without `org`, a caller of any organisation gets the plugins of all.
        """
        month = access.window(request, org, datetime.now(timezone.utc) - timedelta(days=30))
        every = Window(None, month.since) if month.org == "" else month  # all call the platform's tools
        broken = health.broken(access.reports, every)
        found = plugins(access.database, month.org, breaks=broken)
        return {"plugins": [record.to_dict() for record in found]}

    @router.get("/calls")
    def list_plugin_calls(window: Window = events) -> dict[str, Any]:
        """Calls, failures and durations of plugins with calls, those with the most failures first.

        `duration_ms` has the mean and the 95th percentile of the `timed` calls; `failing` and `slow` have the
        tools of a plugin that failed most and that took longest. Without `org`, a caller of any organisation
        gets the calls of all.
        """
        found = plugin_calls(access.reports, window)
        return {"plugins": [each.to_dict() for each in found]}

    return router


def _check(caller: Caller, plugin: str, trusted: bool) -> None:
    """Raises Denied if the caller may not register this plugin."""
    if trusted or "administer" in caller.roles:
        caller.require("administer")
        return
    caller.require("sync")
    if caller.plugin != plugin:
        raise Denied(f"{caller.name}: registers plugin {caller.plugin!r:.80}, not {plugin!r:.80}")
