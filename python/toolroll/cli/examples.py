"""`toolroll examples`: has a language model write example messages for tools."""

from __future__ import annotations

import os
import re
import sys
from contextlib import ExitStack
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import click

from toolroll.cli.commands import command as declare
from toolroll.cli.options import (
    WriteOptions,
    embedder_option,
    flag,
    is_registry,
    on_bad_tool_option,
    option,
    source_options,
)
from toolroll.cli.output import Progress, note, one_line, print_json, redacted
from toolroll.cli.parameter_types import COUNT, SECONDS, names
from toolroll.model.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Sized

    from toolroll.formats.sources.bad_tools import OnBadTool
    from toolroll.lab.examples.editable_tools import EditableTools
    from toolroll.lab.examples.plan import Cost, RequestPlan
    from toolroll.lab.examples.review import Review

_LISTED = 20  # rejected messages, skipped or closed tools, that are printed
_LONGEST = 100  # characters of a message in a line
_BETWEEN_S = 0.1  # from one line of progress to the next


@declare(
    "examples",
    example="toolroll examples my-tools/ --llm http://localhost:11434/v1 --model qwen3 --dry-run\n"
    "toolroll examples sqlite:///tools.db --llm https://api.openai.com/v1 --model gpt-5-mini --only 'crm_*'",
)
@option("--llm", "Address of a server with OpenAI's interface.", required=True, metavar="URL")
@option("--model", "Model, as the server calls it.", required=True, metavar="NAME")
@option("--per-tool", "Examples that each tool shall have.", type=click.IntRange(1, 32), default=8)
@option("--only", "Only these tools; * stands for any text.", type=names, metavar="NAME[,NAME…]", unset="all")
@option("--language", "Language of the messages.", default="English", metavar="NAME")
@option("--seed", "Of the model's draw. Another seed asks again for what is missing.", type=COUNT, default=0)
@option("--batch", "Most tools in a request.", type=click.IntRange(1, 50), default=5)
@option("--concurrency", "Most requests at the same time.", type=click.IntRange(1, 64), default=4)
@option("--timeout timeout_s", "Seconds for each attempt.", type=SECONDS, default=300.0, metavar="SECONDS")
@embedder_option("What embeds texts in the round trip: the embedder that the catalog is used with.")
@option(
    "--answers", "File that keeps the model's answers.", metavar="FILE", unset="one in the folder of caches"
)
@on_bad_tool_option
@flag("--yes -y", "Do not ask whether to spend it.")
@flag("--dry-run", "Ask the model and print what would be written; write no tool.")
@source_options
def command(
    options: WriteOptions,
    llm: str,
    model: str,
    per_tool: int,
    only: tuple[str, ...] | None,
    language: str,
    seed: int,
    batch: int,
    concurrency: int,
    timeout_s: float,
    embedder: str,
    answers: str | None,
    on_bad_tool: OnBadTool | None,
    yes: bool,
    dry_run: bool,
) -> int:
    """Write example messages with a language model.

    Asks for messages that each tool should answer, and for near misses that it should not. It keeps the
    messages that are new and find their tool among the others, and tells which tool the rest fit better.
    PATH is a folder of toolkit files or one file: the examples are added to the files, and nothing else in
    them changes. In a registry they become versions that wait for approval.

    It first prints the number of requests and tokens and asks whether to go on. The answers are kept in a
    file: an interrupted run continues where it stopped, and a later one asks only for what is missing. The
    key of the server is read from TOOLROLL_LLM_KEY, or for OpenAI's own address from OPENAI_API_KEY. Needs
    the extra `remote`.
    """
    from toolroll.embedders import named
    from toolroll.lab.examples.answers import AnswerLog, default_path
    from toolroll.lab.examples.asking import RequestRun
    from toolroll.lab.examples.chat_endpoint import ChatEndpoint
    from toolroll.lab.examples.plan import plan
    from toolroll.lab.examples.review import review

    endpoint = ChatEndpoint(llm, model, timeout_s=timeout_s, concurrency=concurrency, seed=seed)
    made = named.embedder(embedder)
    source = options.catalog if is_registry(options.catalog) else os.path.realpath(options.catalog)
    log = AnswerLog(answers or default_path(source), model=model, language=language, seed=seed)
    with ExitStack() as stack:
        tools = _tools(options, on_bad_tool, stack)
        chosen = _choose(tools, only)
        with Progress(_BETWEEN_S) as progress:
            planned = plan(
                tools.definitions,
                chosen,
                log,
                per_tool=per_tool,
                batch=batch,
                embedder=made,
                progress=progress.counter("comparing tools"),
            )
        cost = planned.cost(language)
        if cost.requests and not _agrees(cost, endpoint.url, yes):
            note("nothing was asked, nothing was written")
            return 1
        asking = RequestRun(endpoint, log, language)
        try:
            with Progress(_BETWEEN_S) as progress:
                asking.run(planned.batches, concurrency, progress.counter("asking for tools"))
        except BaseException:
            note(f"answers so far are in {log.path}; the same command continues with what is missing")
            raise
        found = {**planned.answered, **asking.answers}
        with Progress(_BETWEEN_S) as progress:
            result = review(tools.definitions, planned, found, made, progress.counter("finding tools"))
        written: tuple[str, ...] = ()
        if result.kept and not dry_run:
            written = tools.write(result.kept)
    _print(options, planned, cost, asking.skipped, result, written, tools, only, dry_run)
    return int(bool(asking.skipped))


def _tools(options: WriteOptions, on_bad_tool: OnBadTool | None, stack: ExitStack) -> EditableTools:
    """The tools of the folder, file or registry; a registry is closed at the stack's end."""
    if is_registry(options.catalog):
        if on_bad_tool is not None:
            raise click.UsageError("--on-bad-tool: is for folders and files")
        from toolroll.lab.examples.registry_tools import RegistryTools

        registry = stack.enter_context(options.registry())
        return RegistryTools(registry, org=options.org, reason=options.reason)
    for name, value in (("--org", options.org), ("--actor", options.actor), ("--reason", options.reason)):
        if value:
            raise click.UsageError(f"{name}: is for registries")
    if not os.path.exists(options.catalog):
        raise NotFound(f"{options.catalog!r}: no such file or folder")
    from toolroll.lab.examples.editable_tools import FolderTools

    return FolderTools(options.catalog, on_bad_tool)


def _choose(tools: EditableTools, only: Sequence[str] | None) -> tuple[str, ...]:
    """The tools that match the patterns and may get examples."""
    if only is None:
        return tuple(tools.names)
    found: dict[str, None] = {}
    for pattern in only:
        # Only * is special: names may hold the other marks of a file pattern.
        escaped = re.sub(r"[\[?]", lambda match: f"[{match[0]}]", pattern)
        matching = [name for name in tools.names if fnmatchcase(name, escaped)]
        if not matching:
            closed = next((name for name in tools.closed if fnmatchcase(name, escaped)), None)
            if closed is not None:
                raise InvalidInput(f"--only {pattern!r:.80}: tool {closed!r:.80} {tools.closed[closed]}")
            raise NotFound(f"--only {pattern!r:.80}: is the name of no active tool")
        found |= dict.fromkeys(matching)
    return tuple(found)


def _agrees(cost: Cost, url: str, yes: bool) -> bool:
    """Prints the cost. Returns whether to go on."""
    note(
        f"{cost.requests:,} request{'s' * (cost.requests != 1)} to {redacted(url)} for {cost.tools:,} tools: "
        f"some {cost.input_tokens:,} tokens to read and {cost.output_tokens:,} to write; more where answers "
        "have to be asked for again, or the model thinks aloud"
    )
    if yes:
        return True
    if not sys.stdin.isatty():
        raise click.UsageError("--yes: is needed where nobody can be asked whether to spend this")
    return click.confirm("Go on?", err=True)


def _print(
    options: WriteOptions,
    planned: RequestPlan,
    cost: Cost,
    skipped: Mapping[str, str],
    result: Review,
    written: Sequence[str],
    tools: EditableTools,
    only: Sequence[str] | None,
    dry_run: bool,
) -> None:
    short = [name for name, missing in planned.missing.items() if len(result.kept.get(name, ())) < missing]
    if options.json:
        print_json(
            {
                "cost": cost.to_dict(),
                "kept": sum(map(len, result.kept.values())),
                "rejected": len(result.rejected),
                **result.to_dict(),
                "skipped": [{"name": name, "why": why} for name, why in skipped.items()],
                "closed": [{"name": name, "why": why} for name, why in sorted(tools.closed.items())],
                "short": short,
                "written": list(written),
                "dry_run": dry_run,
            }
        )
        return
    for name, texts in result.kept.items():
        print(one_line(f"{name}: {len(texts)} new"))
        for text in texts if dry_run else ():
            print(f"    {one_line(text, _LONGEST)}")
    for rejection in result.rejected[:_LISTED]:
        note(f"rejected: {rejection.tool}: {one_line(rejection.text, _LONGEST)!r}: {rejection.reason}")
    _note_more(result.rejected, "messages were rejected; --json lists all")
    for name in list(skipped)[:_LISTED]:
        note(f"skipped: {name}: {skipped[name]}")
    _note_more(skipped, "tools were skipped")
    if only is None:
        for name in sorted(tools.closed)[:_LISTED]:
            note(f"left out: {name}: {tools.closed[name]}")
        _note_more(tools.closed, "tools were left out")
    near = result.near_misses
    if near.messages:
        note(
            f"{near.messages:,} near misses: {near.first_before:,} find their tool first without the new "
            f"examples, {near.first_after:,} with them"
        )
    kept = sum(map(len, result.kept.values()))
    done = f"{kept:,} examples for {len(result.kept):,} tools, {len(result.rejected):,} messages rejected"
    print(f"{done} (--dry-run: nothing was written)" if dry_run else done)
    if written:
        waits = "wait for approval: toolroll registry review" if is_registry(options.catalog) else "changed"
        note(f"{', '.join(written[:_LISTED])}{' …' * (len(written) > _LISTED)}: {waits}")
    if short:
        note(f"{len(short):,} tools still have too few examples; another --seed asks for them again")


def _note_more(found: Sized, what: str) -> None:
    if len(found) > _LISTED:
        note(f"and {len(found) - _LISTED:,} more {what}")
