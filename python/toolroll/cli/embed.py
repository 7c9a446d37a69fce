"""`toolroll embed`: keeps the vectors of a registry's tools in it, embedded once for all who read it."""

from __future__ import annotations

import argparse

from toolroll.cli.catalog_options import add_catalog, url_of
from toolroll.cli.terminal import Progress, note, print_json, printable


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the command."""
    embed = commands.add_parser(
        "embed",
        help="embed the tools of a registry",
        description="Embeds what has no vector yet of a registry's tools, in batches, each kept before the "
        "next: what is interrupted goes on where it was. Processes that follow the registry then embed "
        "nothing themselves. A text that changed is another text, so no vector is ever out of date.",
        epilog="example: toolroll embed --catalog sqlite:///tools.db --embedder minilm",
    )
    embed.add_argument(
        "--embedder",
        default="static",
        metavar="NAME",
        help="static, minilm, multilingual, ollama:MODEL, …: what the readers use (default: static)",
    )
    embed.add_argument("--dry-run", action="store_true", help="print what is missing, embed nothing")
    embed.add_argument(
        "--prune", action="store_true", help="delete its vectors of texts that no tool has any more"
    )
    add_catalog(embed)
    embed.set_defaults(run=run, usage=embed)


def run(options: argparse.Namespace) -> int:
    """Embeds and prints the counts."""
    url = url_of(options)
    if options.embedder == "none":
        options.usage.error("--embedder none: embeds nothing; name one")
    from toolroll.embedders.named import embedder
    from toolroll.registry.store.database import Database
    from toolroll.registry.vectors import embed_missing, embedding_state, prune_vectors, stored_texts

    database = Database.open(url, create=False, migrate=False)
    progress = Progress()
    embedded = pruned = 0
    try:
        made = embedder(options.embedder)
        assert made is not None
        texts = stored_texts(database)
        if not options.dry_run:
            embedded = embed_missing(
                database,
                made,
                texts,
                (lambda done, of: progress(f"embedding {done:,}/{of:,}")) if progress.shows else None,
            )
            if options.prune:
                pruned = prune_vectors(database, made.identity, texts)
        state = embedding_state(database, made.identity, texts)
    finally:
        progress.clear()
        database.close()
    if options.json:
        print_json({**state.to_dict(), "embedded": embedded, "pruned": pruned, "dry_run": options.dry_run})
        return 0
    print(
        printable(
            f"{state.identity}: {state.current:,} of {state.texts:,} texts have a vector, "
            f"{embedded:,} of them new; {state.orphans:,} vectors are of no tool"
            + (f", {pruned:,} deleted" if options.prune else "")
        )
    )
    if options.dry_run:
        note(f"{state.stale:,} would be embedded (--dry-run)")
    return 0
