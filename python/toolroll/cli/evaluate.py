"""`toolroll eval`: how good selection is on labelled messages."""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from toolroll.cli import arguments
from toolroll.cli.terminal import Progress, print_json

if TYPE_CHECKING:
    from toolroll.evaluation.quality import Evaluation

_BETWEEN_LINES_S = 0.1  # of progress: what is measured beside it must not feel it


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the command."""
    evaluate = commands.add_parser(
        "eval",
        help="judge selection on labelled messages",
        description="Asks labelled messages, and says how often the right tools were found, how well it was "
        "told when none applies, and how long it took. A folder has tools.jsonl (or toolkit files) and "
        "queries.jsonl: id, text, gold, split, context a line. Examples come from the train split alone.",
        epilog="example: toolroll eval my-tools/ --embedder static,none --plot front.png",
    )
    evaluate.add_argument("folders", nargs="+", metavar="FOLDER", help="dataset folder")
    evaluate.add_argument(
        "--profile",
        type=arguments.names,
        default=("default",),
        metavar="NAME[,NAME…]",
        help="composition of stages; each of several is judged",
    )
    arguments.add_set(evaluate, "the profile")
    evaluate.add_argument(
        "--embedder",
        type=arguments.names,
        default=("static",),
        metavar="NAME[,NAME…]",
        help="static, minilm, multilingual, ollama:MODEL, … or none; each of several is judged",
    )
    evaluate.add_argument(
        "-k",
        type=arguments.ascending,
        default=(1, 3, 5, 7, 10),
        metavar="N[,N…]",
        help="places to judge at (default: 1,3,5,7,10)",
    )
    evaluate.add_argument(
        "--split", choices=("test", "train", "all"), default="test", help="queries to ask (default: test)"
    )
    evaluate.add_argument(
        "--examples",
        choices=("train", "given", "none"),
        default="train",
        help="example messages of the tools: their own and the train split's (default), their own, or none. "
        "--split train with its own examples asks one half and learns from the other",
    )
    evaluate.add_argument(
        "--most-examples", type=arguments.count, metavar="N", help="examples that a tool has at the most"
    )
    evaluate.add_argument(
        "--no-history", action="store_true", help="do not show what was said before in the dialog"
    )
    evaluate.add_argument(
        "--limit", type=arguments.positive, metavar="N", help="ask N of the queries only, the same each time"
    )
    evaluate.add_argument("--by", metavar="KEY", help="judge each value of this context key by itself too")
    evaluate.add_argument("--json", action="store_true", help="print one JSON object")
    evaluate.add_argument("--run-file", metavar="FILE", help="write what was ranked for each query")
    evaluate.add_argument("--plot", metavar="FILE.png", help="draw recall over latency (extra: plot)")
    evaluate.set_defaults(run=run, usage=evaluate)


def run(options: argparse.Namespace) -> int:
    """Judges and prints."""
    if options.split == "all" and options.examples == "train":
        options.usage.error(
            "--split all with --examples train: a message that is asked cannot be an example; "
            "say --examples given or none, or --split test or train"
        )
    if options.run_file and len(options.folders) * len(options.profile) * len(options.embedder) > 1:
        options.usage.error("--run-file: takes one folder, one profile and one embedder")
    from toolroll._files import check_writable
    from toolroll.evaluation.report import table, to_json, write_run

    for file in filter(None, (options.run_file, options.plot)):
        check_writable(file)
    if options.plot:
        from toolroll.evaluation.pictures.latency_quality import (
            draw,  # before the work: the extra may be missing
        )
    with _counted_instead_of_logged():
        results = _judge(options)
    if options.run_file:
        write_run(options.run_file, results[0].queries, results[0].answers)
    if options.plot:
        draw(results, options.plot)
    if options.json:
        print_json(to_json(results))
    else:
        print(table(results))
    return 0


def _judge(options: argparse.Namespace) -> list[Evaluation]:
    from toolroll.evaluation.dataset import read_dataset
    from toolroll.evaluation.quality import evaluate

    progress = Progress()
    changes = arguments.set_by(options)
    results = []
    try:
        for dataset in [read_dataset(folder) for folder in options.folders]:
            for profile in options.profile:
                for embedder in options.embedder:
                    results.append(
                        evaluate(
                            dataset,
                            profile=profile,
                            parameters=changes,
                            embedder=embedder,
                            ks=options.k,
                            split=options.split,
                            examples=options.examples,
                            most_examples=options.most_examples,
                            history=not options.no_history,
                            limit=options.limit,
                            by=options.by,
                            progress=_Steps(progress, f"{dataset.name}, {profile}, {embedder}: "),
                        )
                    )
    finally:
        progress.clear()
    return results


class _Steps:
    """Shows how far an evaluation is, a few times a second at the most."""

    def __init__(self, progress: Progress, head: str) -> None:
        self._progress, self._head = progress, head
        self._next = 0.0

    def __call__(self, what: str, done: int, of: int) -> None:
        if self._progress.shows and (now := time.monotonic()) >= self._next:
            self._next = now + _BETWEEN_LINES_S
            self._progress(f"{self._head}{what} {done:,}/{of:,}")


@contextmanager
def _counted_instead_of_logged() -> Iterator[None]:
    """Keeps a failing embedder from logging each of thousands of selections: the result counts them."""

    def drop(record: logging.LogRecord) -> bool:
        return not str(record.msg).startswith("selection degraded")

    log = logging.getLogger("toolroll")
    log.addFilter(drop)
    try:
        yield
    finally:
        log.removeFilter(drop)
