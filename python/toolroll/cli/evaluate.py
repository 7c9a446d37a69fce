"""`toolroll eval`, `lab converse`, `bench`: how good and how fast selection is."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from toolroll.cli.commands import command as declare
from toolroll.cli.options import (
    embedder_option,
    flag,
    jobs_option,
    json_option,
    keep_option,
    on_bad_tool_option,
    on_option,
    option,
    set_option,
    split_option,
)
from toolroll.cli.output import Progress, print_json
from toolroll.cli.parameter_types import COUNT, POSITIVE, SECONDS, ascending, names, sizes

_BETWEEN_S = 0.1  # from one line of progress to the next: printing must not slow the measurement


@declare("eval", example="toolroll eval my-tools/ --embedder static,none --plot front.png")
@click.argument("folders", nargs=-1, required=True, metavar="FOLDER...")
@option(
    "--profile profiles",
    "Named set of parameters; several are measured one after the other.",
    type=names,
    default="default",
    metavar="NAME[,NAME…]",
)
@set_option("the profile")
@embedder_option(
    type=names,
    metavar="NAME[,NAME…]",
    help="What embeds texts: static, minilm, multilingual, ollama:MODEL, … or none. "
    "Several are measured one after the other.",
)
@option("-k ks", "List lengths to measure at.", type=ascending, default="1,3,5,7,10", metavar="N[,N…]")
@split_option()
@option(
    "--examples",
    "Example messages of the tools: their own and those of the train split, their own, or none. With "
    "--split train and their own examples, half of the queries are asked and half are examples.",
    choices=("train", "given", "none"),
    default="train",
)
@option("--most-examples", "Most examples of one tool.", type=COUNT, unset="no limit")
@flag("--no-history", "Leave out the earlier messages of a dialog.")
@option("--limit", "Ask only N queries, always the same.", type=POSITIVE, unset="all")
@on_bad_tool_option
@option("--by", "Also measure each value of this context key.", metavar="KEY")
@on_option
@jobs_option
@keep_option
@json_option
@option("--run-file", "Write the ranked tools of each query to a file.", metavar="FILE")
@option("--plot", "Draw recall over latency (extra: plot).", metavar="FILE.png")
def command(
    folders: tuple[str, ...],
    profiles: tuple[str, ...],
    embedder: tuple[str, ...],
    no_history: bool,
    on_bad_tool: Any,
    json: bool,
    run_file: str | None,
    plot: str | None,
    keep: str | None,
    **options: Any,
) -> None:
    """Measure selection on labelled messages.

    Selects tools for each message of a dataset folder and compares them with the right ones. It reports how
    often they were found, how well messages that need no tool were recognised, and how long a selection took.

    A folder holds tools.jsonl (or toolkit files) and queries.jsonl, whose lines have id, text, gold, split
    and context. Examples come from the train split only.
    """
    if options["split"] == "all" and options["examples"] == "train":
        raise click.UsageError(
            "--split all with --examples train: a message that is asked cannot be an example; "
            "use --examples given or none, or --split test or train"
        )
    if run_file and len(folders) * len(profiles) * len(embedder) > 1:
        raise click.UsageError("--run-file: takes one folder, one profile and one embedder")
    from toolroll.lab.evaluation.dataset import read_dataset
    from toolroll.lab.evaluation.quality import evaluate
    from toolroll.lab.evaluation.report import table, to_json, write_run
    from toolroll.runtime.files import check_writable

    for file in filter(None, (run_file, plot)):
        check_writable(file)
    if plot:
        from toolroll.lab.pictures.latency_quality import draw  # fails here, before the work
    datasets = [read_dataset(folder, on_bad_tool) for folder in folders]
    with Progress(_BETWEEN_S) as progress, _without_degraded_warnings():

        def show(head: str, step: str, done: int, total: int) -> None:
            progress(f"{head}: {step} {done:,}/{total:,}")

        results = [
            evaluate(
                dataset,
                profile=profile,
                embedder=each,
                history=not no_history,
                kept=keep,
                progress=lambda *step, head=f"{dataset.name}, {profile}, {each}": show(head, *step),
                **options,
            )
            for dataset in datasets
            for profile in profiles
            for each in embedder
        ]
    if run_file:
        write_run(run_file, results[0].queries, results[0].answers, datasets[0].spellings)
    if plot:
        draw(results, plot)
    if json:
        print_json(to_json(results))
    else:
        print(table(results))


@contextmanager
def _without_degraded_warnings() -> Iterator[None]:
    """Drops the log line of each degraded selection, because the result counts them."""

    def is_kept(record: logging.LogRecord) -> bool:
        return not str(record.msg).startswith("selection degraded")

    log = logging.getLogger("toolroll")
    log.addFilter(is_kept)
    try:
        yield
    finally:
        log.removeFilter(is_kept)


@declare("converse", example="toolroll lab converse my-dialogs/ -k 15")
@click.argument("folders", nargs=-1, required=True, metavar="FOLDER...")
@option("--profile", "Named set of parameters.", default="static", metavar="NAME")
@set_option("the profile")
@embedder_option()
@option("-k", "Tools found in a turn.", type=POSITIVE, default=15)
@option("--max-tools", "Most tools to send.", type=POSITIVE, unset="the profile's")
@split_option()
@option(
    "--examples",
    "Example messages of the tools: their own and those of the train split, their own, or none.",
    choices=("train", "given", "none"),
    default="none",
)
@json_option
def converse(folders: tuple[str, ...], json: bool, **options: Any) -> None:
    """Measure sessions on labelled dialogs.

    Plays each dialog of a folder three times: each message alone, with the earlier messages, and as a session
    that learns which tools were called. Reports how often the tools of a turn were sent, how many tools were
    sent, and which share of their tokens a provider's prompt cache would have served. A folder is one of
    `toolroll eval` whose queries have context.dialog and context.turn.
    """
    from toolroll.lab.evaluation.conversations import converse, table
    from toolroll.lab.evaluation.dataset import read_dataset

    with Progress() as progress:
        results = [
            converse(
                read_dataset(folder),
                progress=lambda step, done, total: progress(f"{step} {done:,}/{total:,}"),
                **options,
            )
            for folder in folders
        ]
    found = [result.to_dict() for result in results]
    if json:
        print_json(found[0] if len(found) == 1 else {"results": found})
    else:
        print(table(results))


@declare("bench", example="toolroll bench --tools 1000,100000 --seconds 3")
@option("--tools", "Catalog sizes.", type=sizes, default="158,1000,10000", metavar="N[,N…]")
@option("--seconds", "Time for each measurement.", type=SECONDS, default=1.0)
@json_option
def bench(tools: tuple[int, ...], seconds: float, json: bool) -> None:
    """Measure selection on this machine.

    Times whole selections on generated catalogs, stage by stage, beside plain Python with numpy.
    """
    from toolroll.lab.evaluation.latency import measure, table

    results = []
    with Progress() as progress:
        for size in tools:
            progress(f"{size} tools …")
            results.append(measure(size, seconds))
    if json:
        print_json({"results": results})
    else:
        print(table(results))
