"""`toolroll events export`: events as Parquet, in one file or continuously in partitions."""

from __future__ import annotations

import os
import time
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from toolroll.cli.commands import command
from toolroll.cli.options import WindowOptions, flag, option, storage_options_option, window_options
from toolroll.cli.output import Progress, note, print_result, redacted
from toolroll.cli.parameter_types import POSITIVE, duration
from toolroll.model.errors import InvalidInput
from toolroll.runtime.extras import needs_extra

if TYPE_CHECKING:
    from toolroll.registry.analytics.parquet_stream import StreamResult

_OF_PARTITIONS = ("by", "buckets", "slice_", "settle", "late", "every", "storage_options")
_LEAST_PAUSE = timedelta(seconds=1)  # of --every; without a pause it would query the registry all the time
_MAGIC = b"PAR1"  # a Parquet file begins with it


@command(
    "export",
    example="toolroll events export e.parquet --since 2026-03-01\n"
    "toolroll events export s3://bucket/events --partitioned --every 5m",
)
@click.argument("target", metavar="FILE|LOCATION")
@flag("--messages", "Include the messages, where they were kept, and what it takes to decide again.")
@flag("--vectors", "Include the messages' vectors (float16).")
@flag("--partitioned", "Write a folder of partitions, and go on where the last export stopped.")
@option(
    "--by",
    "Partitions: by the hash of the organisation, or by organisation; by month in any case.",
    choices=("hash", "org"),
    default="hash",
)
@option("--buckets", "Partitions by hash.", type=POSITIVE, default=16)
@option("--slice slice_", "Time in one file.", type=duration, default="1h", metavar="TIME")
@option(
    "--settle", "Wait so long for outcomes, then write a slice.", type=duration, default="1h", metavar="TIME"
)
@option(
    "--late", "Also write what arrives so long after its slice.", type=duration, default="1d", metavar="TIME"
)
@option(
    "--every", "Continue without end: look again after so long.", type=duration, metavar="TIME", unset="once"
)
@storage_options_option
@window_options(since=None)
def export(
    options: WindowOptions,
    target: str,
    messages: bool,
    vectors: bool,
    partitioned: bool,
    by: Any,
    buckets: int,
    slice_: timedelta,
    settle: timedelta,
    late: timedelta,
    every: timedelta | None,
    storage_options: dict[str, Any],
) -> None:
    """Write events into Parquet.

    Without --partitioned, all events of the period go into one file, oldest first. With it, each event is
    written once, when its slice of time has settled, and whenever the export is killed: run it again, or let
    it run with --every. Users' messages are left out unless asked for. Needs the extra: pip install
    "toolroll[parquet]".
    """
    if not partitioned:
        context = click.get_current_context()
        for each in context.command.params:
            is_given = context.get_parameter_source(each.name or "") is not ParameterSource.DEFAULT
            if each.name in _OF_PARTITIONS and is_given:
                raise click.UsageError(f"{each.opts[0]}: needs --partitioned")
        if target.endswith(("/", os.sep)):
            raise click.UsageError(f"{target!r:.300}: is a folder, which needs --partitioned")
        _one_file(options, target, messages, vectors)
        return
    if options.org is not None or options.since is not None or options.until is not None:
        raise click.UsageError("--partitioned: exports all events; --org, --since and --until choose some")
    if every is not None and every < _LEAST_PAUSE:
        raise click.UsageError("--every: must be at least 1s; without --every, the export looks once")
    with needs_extra("--partitioned", "parquet"):
        from toolroll.runtime.locations import Location

    place = Location(target, storage_options)
    with options.report() as database, Progress() as progress:
        from toolroll.registry.analytics.parquet_stream import StreamOptions, export_stream

        layout = StreamOptions(by, buckets, int(slice_.total_seconds()), messages, vectors)
        while True:
            done = export_stream(
                database,
                place,
                layout,
                now=datetime.now(timezone.utc),
                settle_s=settle.total_seconds(),
                late_s=late.total_seconds(),
                progress=lambda number: progress(f"{number:,} events"),
            )
            if every is None:
                break
            if done.events:
                note(_summary(target, done))
            time.sleep(every.total_seconds())
    result = {"location": target, **done.to_dict()}
    print_result(options.json, result, _summary(target, done))


def _summary(target: str, done: StreamResult) -> str:
    return (
        f"{redacted(target)}: {done.events:,} events ({done.late:,} of them late) in {done.files:,} files, "
        f"all until {done.until:%Y-%m-%d %H:%M}"
    )


def _one_file(options: WindowOptions, file: str, messages: bool, vectors: bool) -> None:
    from toolroll.runtime.files import check_writable

    check_writable(file)
    _check_replaceable(file)
    with options.report() as database, Progress() as progress:
        from toolroll.registry.analytics import parquet

        written = parquet.export(
            database,
            options.window(),
            file,
            messages=messages,
            vectors=vectors,
            progress=lambda done: progress(f"{done:,} events"),
        )
    result = {"file": file, "events": written}
    print_result(options.json, result, f"{file}: {written:,} events")


def _check_replaceable(file: str) -> None:
    """Refuses to overwrite a file that is not empty and no earlier export."""
    if not os.path.isfile(file):  # new, or a pipe or device
        return
    try:
        with open(file, "rb") as stream:
            start = stream.read(len(_MAGIC))
    except OSError as error:
        raise InvalidInput(f"{file!r:.300}: cannot be read: {error.strerror or error}") from error
    if start not in (b"", _MAGIC):
        raise InvalidInput(
            f"{file!r:.300}: is there and is no Parquet file, so it is not overwritten; name another file"
        )
