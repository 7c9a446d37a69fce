"""`toolroll lab bench`: how fast selection is on this machine."""

from __future__ import annotations

from toolroll.cli.commands import command as declare
from toolroll.cli.options import json_option, option
from toolroll.cli.output import Progress, print_json
from toolroll.cli.parameter_types import SECONDS, sizes


@declare("bench", example="toolroll bench --tools 1000,100000 --seconds 3")
@option("--tools", "Catalog sizes.", type=sizes, default="158,1000,10000", metavar="N[,N…]")
@option("--seconds", "Time for each measurement.", type=SECONDS, default=1.0)
@json_option
def command(tools: tuple[int, ...], seconds: float, json: bool) -> None:
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
