"""`toolroll replay`: a logged selection, decided again."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from toolroll.cli.catalog_options import add_catalog, command, url_of
from toolroll.cli.terminal import print_json

if TYPE_CHECKING:
    from toolroll.selection.pipeline_builder import PipelineBuilder


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the command."""
    replay = command(
        commands,
        "replay",
        run,
        "decide a logged selection again",
        description="Decides a logged event again, from the registry as it was then and what had been learnt "
        "by then, and says what differs. Exit status 1 where anything does, or where it cannot be.",
        epilog="example: toolroll replay 5f0c… --catalog sqlite:///tools.db --explain",
    )
    replay.add_argument("event", metavar="EVENT", help="its id, as a selection and `toolroll events` have it")
    add_catalog(replay)
    replay.add_argument("--org", metavar="ORG", help="whose it must be (default: whosever it is)")
    replay.add_argument(
        "--profile", metavar="NAME", help="composition of stages (default: the one that the event names)"
    )
    replay.add_argument(
        "--embedder", default="static", metavar="NAME", help="static, minilm, ollama:MODEL, … or none"
    )
    replay.add_argument("--explain", action="store_true", help="also print why each tool is in or out")


def run(options: argparse.Namespace) -> int:
    """Decides again and prints."""
    url = url_of(options)
    from toolroll.embedders import named
    from toolroll.registry.events.replay import replay
    from toolroll.registry.store.database import Database
    from toolroll.registry.vectors import StoredEmbedder
    from toolroll.selection.pipeline_builder import PipelineBuilder
    from toolroll.selection.profiles import profile

    embedder = named.embedder(options.embedder)
    database = Database.open(url, create=False, migrate=False)
    try:
        if embedder is not None and not embedder.is_instant:
            embedder = StoredEmbedder(embedder, database)

        def assembly_of(name: str) -> PipelineBuilder:
            return PipelineBuilder(embedder, profile(name or "default"))

        replayed = replay(
            database, options.event, assembly_of, org=options.org, profile=options.profile or ""
        )
    finally:
        database.close()
    if options.json:
        print_json(replayed.to_dict())
    else:
        print(replayed)
        if options.explain and replayed.selection is not None:
            print(replayed.selection.explain())
    return 0 if replayed.is_same else 1
