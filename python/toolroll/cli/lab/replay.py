"""`toolroll lab replay`: decides a logged selection again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from toolroll.cli.commands import command as declare
from toolroll.cli.options import RegistryOptions, embedder_option, flag, option, registry_options
from toolroll.cli.output import print_json, printable

if TYPE_CHECKING:
    from toolroll.selection.pipeline_builder import PipelineBuilder


@declare("replay", example="toolroll lab replay 5f0c… --catalog sqlite:///tools.db --explain")
@click.argument("event")
@option("--org", "Organisation that must own the event.", metavar="ORG", unset="any")
@option("--profile", "Named set of parameters.", default="", metavar="NAME", unset="the event's")
@embedder_option()
@flag("--explain", "Also print why each tool is in or out.")
@registry_options
def command(
    options: RegistryOptions, event: str, org: str | None, profile: str, embedder: str, explain: bool
) -> int:
    """Decide a logged selection again.

    Uses the registry as it was at the time of the EVENT, and what had been learned by then. Prints what
    differs. Exit status 1 if anything does, or if the event cannot be decided again.
    """
    from toolroll.embedders import named
    from toolroll.registry.editing.vectors import StoredEmbedder
    from toolroll.registry.events.replay import replay
    from toolroll.selection import profiles
    from toolroll.selection.pipeline_builder import PipelineBuilder

    with options.database() as database:
        made = named.embedder(embedder)
        if made is not None and not made.is_instant:
            made = StoredEmbedder(made, database)

        def builder(name: str) -> PipelineBuilder:
            return PipelineBuilder(made, profiles.profile(name or "default"))

        replayed = replay(database, event, builder, org=org, profile=profile)
    if options.json:
        print_json(replayed.to_dict())
    else:
        print(printable(str(replayed)))
        if explain and replayed.selection is not None:
            print(printable(replayed.selection.explain()))
    return 0 if replayed.is_same else 1
