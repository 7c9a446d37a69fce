"""`toolroll embed`: computes the vectors of a registry's tools and stores them there for all its readers."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from toolroll.cli.commands import command as declare
from toolroll.cli.options import (
    RegistryOptions,
    embedder_option,
    flag,
    jobs_option,
    on_option,
    registry_options,
)
from toolroll.cli.output import Progress, note, print_json, printable
from toolroll.model.errors import InvalidInput


@declare("embed", example="toolroll embed --catalog sqlite:///tools.db --embedder minilm")
@embedder_option(
    help="What embeds texts: minilm, multilingual, ollama:MODEL, …: the one that readers use.", default=None
)
@flag("--dry-run", "Count the missing vectors, embed nothing.")
@flag("--prune", "Delete vectors of texts that no tool has any more.")
@on_option
@jobs_option
@registry_options
def command(
    options: RegistryOptions, embedder: str | None, dry_run: bool, prune: bool, on: Any, jobs: int
) -> None:
    """Embed the tools of a registry.

    Computes the missing vectors in batches and stores each batch before the next, so an interrupted run
    continues where it stopped. Processes that follow the registry then embed nothing themselves. A vector
    belongs to a text, so changed texts count as missing and no vector is ever out of date. The default
    embedder (static) embeds within each process and needs none of this.
    """
    if embedder is None:
        raise click.UsageError(
            "--embedder: name the one that readers use, such as minilm; the default one of readers (static) "
            "embeds within each process and reads no stored vectors"
        )
    if embedder == "none":
        raise click.UsageError("--embedder none: embeds nothing; name an embedder")
    from toolroll.embedders import named
    from toolroll.registry.editing.vectors import embed_missing, embedding_state, prune_vectors, stored_texts

    embedded = pruned = 0
    with options.database() as database, Progress() as progress:
        made = named.embedder(embedder)
        assert made is not None
        if made.is_instant:
            raise InvalidInput(
                f"--embedder {embedder}: embeds within each process, which reads no stored vectors; name the "
                "embedder that readers use if it takes time, such as minilm"
            )
        texts = stored_texts(database)
        if not dry_run:
            elsewhere = None
            if on != "here" or jobs > 1:
                from toolroll.lab.offline.embedding import embed_batches

                elsewhere = partial(embed_batches, embedder, on=on, jobs=jobs)
            embedded = embed_missing(database, made, texts, progress.counter("embedding"), elsewhere)
            if prune:
                pruned = prune_vectors(database, made.identity, texts)
        state = embedding_state(database, made.identity, texts)
    if options.json:
        print_json({**state.to_dict(), "embedded": embedded, "pruned": pruned, "dry_run": dry_run})
        return
    print(
        printable(
            f"{state.identity}: {state.current:,} of {state.texts:,} texts have a vector, "
            f"{embedded:,} of them new; {state.orphans:,} vectors belong to no tool"
            + (f", {pruned:,} deleted" if prune else "")
        )
    )
    if dry_run:
        note(f"{state.stale:,} would be embedded (--dry-run)")
