"""`toolroll select`: which tools a message needs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from toolroll.cli.commands import command as declare
from toolroll.cli.options import CATALOG, POLL_S, embedder_option, is_registry, json_option
from toolroll.cli.output import Progress, note, print_json, printable
from toolroll.cli.parameter_types import COUNT, PROVIDERS

if TYPE_CHECKING:
    from toolroll.roll import Toolroll
    from toolroll.selection.profiles import Profile


@declare(
    "select",
    example='toolroll select "Should I bring an umbrella?" --explain\n'
    'toolroll select "Export all customers" --catalog sqlite:///tools.db --org acme --tier pro --json',
)
@click.argument("message")
@click.option(
    "--catalog",
    metavar="PATH|URL",
    envvar=CATALOG,
    show_envvar=True,
    show_default="a demonstration",
    help="Folder of toolkit files, folder with tools.jsonl, or one such file; or a registry: "
    "sqlite:///FILE or postgresql://USER@HOST/DATABASE.",
)
@click.option(
    "-k", type=COUNT, metavar="N", show_default="the profile's, 7", help="Tools that retrieval adds."
)
@click.option(
    "--max-tools",
    type=COUNT,
    metavar="N",
    show_default="the profile's",
    help="Most tools in all, base and pinned ones included.",
)
@click.option(
    "--budget-tokens", type=COUNT, metavar="N", show_default="no limit", help="Most tokens of the schemas."
)
@click.option(
    "--org",
    default="",
    show_default="none",
    help="Organisation that asks; its own tools and rules in a registry count too.",
)
@click.option("--user", default="", show_default="none", help="User that asks, for rules.")
@click.option("--role", "roles", multiple=True, show_default="none", help="Role of the user; repeatable.")
@click.option("--tier", default="", show_default="none", help="Subscription tier, for rules.")
@click.option("--page", default="", show_default="none", help="Page that the user is on.")
@click.option(
    "--provider",
    type=click.Choice(PROVIDERS),
    show_default="none",
    help="Provider whose limits on the number of tools apply.",
)
@click.option(
    "--setting",
    "settings",
    multiple=True,
    metavar="KEY",
    show_default="those of the registry; without one, all",
    help="A setting that has a value, which turns toolkits on; repeatable.",
)
@click.option(
    "--require",
    multiple=True,
    metavar="NAME",
    show_default="none",
    help="Select this tool and skip the search; repeatable.",
)
@click.option(
    "--exclude", multiple=True, metavar="NAME", show_default="none", help="Omit this tool; repeatable."
)
@click.option(
    "--profile",
    metavar="NAME",
    envvar="TOOLROLL_PROFILE",
    show_envvar=True,
    show_default="default",
    help="Named set of parameters. Variables such as TOOLROLL_MAX_TOOLS change single ones.",
)
@embedder_option(envvar="TOOLROLL_EMBEDDER", show_envvar=True)
@json_option
@click.option("--explain", is_flag=True, help="Print why each tool is in or out.")
@click.option(
    "--schemas",
    type=click.Choice((*PROVIDERS, "openai_responses")),
    show_default="none",
    help="Print the tools' schemas, ready to send to this provider.",
)
def command(
    message: str,
    catalog: str | None,
    k: int | None,
    max_tools: int | None,
    budget_tokens: int | None,
    profile: str | None,
    embedder: str,
    settings: tuple[str, ...],
    require: tuple[str, ...],
    provider: str | None,
    json: bool,
    explain: bool,
    schemas: str | None,
    **context: Any,
) -> None:
    """Pick tools for a message.

    MESSAGE is what the user wrote; - reads it from standard input. The tools come from a folder, from a
    registry, or from a demonstration catalog.
    """
    if json + explain + (schemas is not None) > 1:
        raise click.UsageError("--json, --explain and --schemas: not allowed with each other")
    from toolroll.cli.environment import from_environment
    from toolroll.context import Context

    if message == "-":
        message = sys.stdin.buffer.read().decode("utf-8", "replace")
    is_stored = catalog is not None and is_registry(catalog)
    turn = Context(
        **context,
        settings=settings,
        provider=provider or "",
        required=require,
        everything=not settings and not is_stored,
    )
    with _open(catalog, turn.org, is_stored, embedder, from_environment(profile)) as roll:
        roll.select(message, turn, k)  # warms the caches, so that the timings below are typical
        picked = roll.select(message, turn, k, max_tools=max_tools, budget_tokens=budget_tokens)
    if json:
        print_json(picked.to_dict())
    elif schemas:
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


@contextmanager
def _open(
    catalog: str | None, org: str, is_stored: bool, embedder: str, profile: Profile
) -> Iterator[Toolroll]:
    """Opens what `--catalog` names; a registry is followed no longer than the selections take."""
    from toolroll.roll import Toolroll

    if catalog is None:
        yield Toolroll.demo(embedder=embedder, profile=profile)
        return
    with Progress() as progress:
        shown = progress.counter("embedding")
        if not is_stored:
            roll = Toolroll.from_folder(catalog, embedder=embedder, profile=profile, progress=shown)
        else:
            stored = Toolroll.open(
                catalog,
                embedder=embedder,
                profile=profile,
                progress=shown,
                poll_s=POLL_S,
                listens=False,
                messages="none",
            )
            try:
                stored.prepare([org])
            except BaseException:
                stored.close()
                raise
    if not is_stored:
        yield roll
    else:
        with stored:
            yield stored
