"""`toolroll select`: which tools a message needs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from toolroll.cli.commands import command as declare
from toolroll.cli.options import (
    CATALOG,
    POLL_S,
    caller_options,
    embedder_option,
    flag,
    is_registry,
    json_option,
    on_bad_tool_option,
    option,
    profile_option,
    tiers_option,
)
from toolroll.cli.output import Progress, note, print_json, printable
from toolroll.cli.parameter_types import COUNT
from toolroll.cli.parameter_types import provider as provider_name
from toolroll.model.errors import InvalidInput

if TYPE_CHECKING:
    from toolroll.formats.sources.bad_tools import OnBadTool
    from toolroll.roll import Toolroll
    from toolroll.selection.profiles import Profile
    from toolroll.selection.visible import VisibleTools


@declare(
    "select",
    example='toolroll select "Should I bring an umbrella?" --explain\n'
    'toolroll select "Export all customers" --catalog sqlite:///tools.db --org acme --tier pro --json\n'
    "toolroll select --visible --catalog sqlite:///tools.db --org acme",
)
@click.argument("message", required=False)
@option(
    "--catalog",
    "Folder of toolkit files, folder with tools.jsonl, or one such file; a file of `toolroll build`; or a "
    "registry: sqlite:///FILE or postgresql://USER@HOST/DATABASE.",
    metavar="PATH|URL",
    envvar=CATALOG,
    show_envvar=True,
    unset="a demonstration",
)
@option("-k", "Tools that retrieval adds.", type=COUNT, unset="the profile's, 7")
@option("--max-tools", "Most tools in all, base and pinned ones included.", type=COUNT, unset="the profile's")
@option("--budget-tokens", "Most tokens of the schemas.", type=COUNT, unset="no limit")
@option("--org", "Organisation that asks; its own tools and rules in a registry count too.", default="")
@caller_options
@tiers_option
@on_bad_tool_option
@option(
    "--provider",
    "Provider whose limits on the number of tools apply: openai, anthropic, gemini or another.",
    type=provider_name,
    metavar="NAME",
)
@option(
    "--setting settings",
    "A setting that has a value, which turns toolkits on; repeatable.",
    multiple=True,
    metavar="KEY",
    unset="those of the registry; without one, all",
)
@option(
    "--require",
    "Select this tool and skip the search; repeatable, or a JSON list of names.",
    multiple=True,
    metavar="NAME",
)
@option("--exclude", "Omit this tool; repeatable, or a JSON list.", multiple=True, metavar="NAME")
@profile_option()
@embedder_option(envvar="TOOLROLL_EMBEDDER", show_envvar=True)
@json_option
@flag("--explain", "Print why each tool is in or out.")
@flag("--visible", "Without MESSAGE: print all tools and toolkits that the caller may have.")
@option(
    "--schemas",
    "Print the tools' schemas, ready to send to this provider: openai, anthropic, gemini, mcp or another.",
    type=provider_name,
    metavar="NAME",
)
def command(
    message: str | None,
    catalog: str | None,
    k: int | None,
    max_tools: int | None,
    budget_tokens: int | None,
    profile: str | None,
    embedder: str,
    tiers: tuple[str, ...] | None,
    on_bad_tool: OnBadTool | None,
    settings: tuple[str, ...],
    require: tuple[str, ...],
    exclude: tuple[str, ...],
    provider: str | None,
    json: bool,
    explain: bool,
    visible: bool,
    schemas: str | None,
    **context: Any,
) -> None:
    """Pick tools for a message.

    MESSAGE is what the user wrote; - reads it from standard input. The tools come from a folder, from a
    registry, or from a demonstration catalog. Nothing is logged or learned, so `event_id` is null.
    """
    if json + explain + (schemas is not None) > 1:
        raise click.UsageError("--json, --explain and --schemas: not allowed with each other")
    is_limited = any(limit is not None for limit in (k, max_tools, budget_tokens))
    if visible and (message is not None or explain or schemas is not None or is_limited):
        raise click.UsageError("--visible: goes without MESSAGE, --explain, --schemas and limits")
    if message is None and not visible:
        raise click.UsageError("MESSAGE: is missing; --visible needs none")
    if tiers and (catalog is None or is_registry(catalog)):
        raise click.UsageError(
            "--tiers: goes with --catalog FOLDER; `toolroll registry tiers` sets a registry's"
        )
    from toolroll.cli.environment import from_environment
    from toolroll.model.context import Context

    required, excluded = _names("--require", require), _names("--exclude", exclude)
    if message == "-":
        message = sys.stdin.buffer.read().decode("utf-8", "replace")
    with (
        Progress() as progress,
        _open(catalog, tiers or (), on_bad_tool, embedder, from_environment(profile), progress) as roll,
    ):
        if not settings and not (catalog and is_registry(catalog)):
            settings = tuple(roll.catalog.switches.keys)  # as if every toolkit were configured
        turn = Context(
            **context, settings=settings, provider=provider or "", required=required, exclude=excluded
        )
        roll.warm_up([turn.org])
        unknown = roll.unknown_values(turn)
        if message is None:
            _print_visible(roll.visible(turn), unknown, json)
            return
        roll.select(message, turn, k)  # warms the caches, so that the timings below are typical
        picked = roll.select(message, turn, k, max_tools=max_tools, budget_tokens=budget_tokens)
    if json:
        # Nothing is logged, so no report could name an event.
        print_json({**picked.to_dict(), "event_id": None, "unknown_values": list(unknown)})
        return
    _print_notes(unknown)
    if schemas:
        print_json(picked.schemas(schemas))
        for loss in picked.conversion_losses(schemas):
            note(str(loss))
    elif explain:
        print(printable(picked.explain()))
        print(printable(picked.summary()))
    else:
        for name in picked.names:
            print(printable(name))
        note(picked.summary())


def _print_notes(sentences: Sequence[str]) -> None:
    for sentence in sentences:
        note(sentence)


def _print_visible(visible: VisibleTools, unknown: Sequence[str], as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "toolkits": list(visible.toolkits),
                "tools": list(visible.names),
                "unknown_values": list(unknown),
            }
        )
        return
    _print_notes(unknown)
    for tool in visible.definitions:
        print(printable(tool.name))
    toolkits = visible.toolkits
    of = f"of the toolkits {', '.join(toolkits)}" if toolkits else "of no toolkit"
    note(f"{len(visible)} of {len(visible.catalog)} tools, {of}")


def _names(option: str, values: tuple[str, ...]) -> tuple[str, ...]:
    """The names of a repeatable option. Each value is a name or a JSON list of names."""
    from toolroll.model.context import names_of_json

    found: list[str] = []
    for value in values:
        try:
            is_json = value.lstrip().startswith("[")
            found.extend(names_of_json(value, f"{option}:") if is_json else (value,))
        except InvalidInput as error:
            raise click.UsageError(str(error)) from None
    return tuple(dict.fromkeys(found))


def _open(
    catalog: str | None,
    tiers: tuple[str, ...],
    on_bad_tool: OnBadTool | None,
    embedder: str,
    profile: Profile,
    progress: Progress,
) -> Toolroll:
    """Opens what `--catalog` names."""
    from toolroll.catalog.saved import is_saved
    from toolroll.registry.options import Follow, Recording
    from toolroll.roll import Toolroll

    if catalog is None:
        return Toolroll.demo(embedder=embedder, profile=profile)
    shown = progress.counter("embedding")
    if not is_registry(catalog):
        if is_saved(catalog):
            return Toolroll.load(catalog, tiers=tiers or None, embedder=embedder, profile=profile)
        return Toolroll.from_folder(
            catalog, tiers=tiers, embedder=embedder, profile=profile, on_bad_tool=on_bad_tool, progress=shown
        )
    return Toolroll.open(
        catalog,
        embedder=embedder,
        profile=profile,
        follow=Follow(poll_s=POLL_S, listens=False, progress=shown),
        recording=Recording(messages="none", keeper="none"),
    )
