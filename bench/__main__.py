"""``python -m bench``: every microbenchmark beside what a user would take instead, as one table.

    python -m bench setup [main] [semantic-router]   makes the environments of the peers, once
    python -m bench [--only vectors,select] [--sizes 158,1000] [--quick] [--json PATH] [--record]
    python -m bench report RECORD.json               prints a record as Markdown

Each module of `bench.latency` runs in a process of its own: a peer that crashes costs its module and no more.
Exit status: 0 done, 1 a wrong answer or a crash (never a missed bar: no run asserts a time), 2 wrong use.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import os
import pkgutil
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any, TextIO

import bench
from bench import environments, latency, report

_ROOT = Path(__file__).resolve().parent.parent
FORMAT = 1  # of a record: raised when a reader of old ones would misread a new one


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["setup"]:
        environments.setup(arguments[1:])
        return 0
    if arguments[:1] == ["report"]:
        return _report(arguments[1:])
    known = sorted(module.name for module in pkgutil.iter_modules(latency.__path__) if module.name[0] != "_")
    options = _parse(arguments, known)
    if options.child:
        return _child(options)
    names = [name.strip() for name in options.only.split(",")] if options.only else known
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"bench: no benchmark {unknown[0]!r}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    return _run(options, names)


def _parse(arguments: list[str], known: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__, formatter_class=_Plain)
    parser.add_argument("--only", default="", help=f"comma-separated, of: {', '.join(known)}")
    parser.add_argument("--sizes", default="", help="comma-separated catalog sizes instead of the usual ones")
    parser.add_argument("--quick", action="store_true", help="small sizes, short bursts: does it run")
    parser.add_argument("--json", metavar="PATH", help="writes the raw figures there as well")
    parser.add_argument("--record", action="store_true", help="keeps the raw figures in bench/record/")
    parser.add_argument("--cpu", type=int, default=None, help="processor to stay on while timing (Linux)")
    parser.add_argument("--realtime", action="store_true", help="before everything else (Linux, as root)")
    parser.add_argument("--here", action="store_true", help="this interpreter, not the environment of setup")
    parser.add_argument("--child", default="", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


class _Plain(argparse.RawDescriptionHelpFormatter):
    pass


def _report(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("bench: report takes one record", file=sys.stderr)
        return 2
    try:
        record = json.loads(Path(arguments[0]).read_text())
    except (OSError, ValueError) as error:
        print(f"bench: {arguments[0]}: {error}", file=sys.stderr)
        return 2
    print(report.markdown(record))
    return 0


def _run(options: argparse.Namespace, names: list[str]) -> int:
    python = sys.executable if options.here else environments.python_for("main")
    started = datetime.datetime.now(datetime.timezone.utc)
    record: dict[str, Any] = {"format": FORMAT, "date": started.date().isoformat()}
    record |= {"quick": options.quick, "cpu": options.cpu, "realtime": options.realtime}
    rows: list[dict[str, Any]] = []
    status = 0
    for line in _spawn(python, options, "facts"):
        record["facts"] = json.loads(line)
        print(report.heading(record), flush=True)
    built = environments.built_from() if not options.here else None
    if built and "facts" in record and built != record["facts"]["commit"]:
        print(f"note: toolroll there was built from {built}; `python -m bench setup main` builds it again")
    for name in names:
        print(f"\n{name}", flush=True)
        ended = False
        for line in _spawn(python, options, name):
            row = json.loads(line)
            if "ended" in row:
                ended = True
                continue
            rows.append({"bench": name, **row})
            print(report.lines(row), flush=True)
            status |= "wrong" in row or "crashed" in row
        if not ended:
            died = {"operation": name, "size": "", "crashed": "its process died", "met": False}
            rows.append({"bench": name, **died})
            print(report.lines(died), flush=True)
            status = 1
    record["rows"] = rows
    seconds = (datetime.datetime.now(datetime.timezone.utc) - started).total_seconds()
    record["seconds"] = round(seconds)
    print(f"\n{report.table(rows)}\n\n{report.verdict(rows)} · {seconds / 60:.1f} min")
    for path in _targets(options, record):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record, indent=1) + "\n")
        print(f"kept in {os.path.relpath(path)}")
    return int(status)


def _targets(options: argparse.Namespace, record: dict[str, Any]) -> list[Path]:
    targets = [Path(options.json)] if options.json else []
    if options.record:
        folder = _ROOT / "bench" / "record" / record.get("facts", {}).get("slug", "unknown")
        path, again = folder / f"{record['date']}.json", 2
        while path.exists():
            path, again = folder / f"{record['date']}-{again}.json", again + 1
        targets.append(path)
    return targets


def _spawn(python: str, options: argparse.Namespace, name: str) -> Any:
    """Lines of JSON from a child; it ends with ours if we are interrupted."""
    command = [python, "-m", "bench", "--child", name, "--sizes", options.sizes]
    command += ["--quick"] if options.quick else []
    command += ["--cpu", str(options.cpu)] if options.cpu is not None else []
    command += ["--realtime"] if options.realtime else []
    environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=_ROOT, env=environment) as process:
        assert process.stdout is not None
        try:
            yield from process.stdout
        finally:
            if process.poll() is None and sys.exc_info()[0] is not None:
                process.kill()


def _child(options: argparse.Namespace) -> int:
    # What libraries print goes to standard error: the rows have the real standard output for themselves.
    outlet = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    if options.child == "facts":
        from bench import machine

        _say(outlet, machine.facts() | {"slug": machine.slug(machine.cpu_name())})
        return 0
    from bench import harness, timing

    if bench.numpy_came_first:
        print("note: numpy was loaded first and may use several threads", file=sys.stderr)
    if options.sizes:
        harness.asked_sizes = tuple(int(size.replace("_", "")) for size in options.sizes.split(","))
    try:
        how = timing.Conditions(options.quick, options.cpu, options.realtime)
        harness.asked_realtime = options.realtime
        module = importlib.import_module(f"bench.latency.{options.child}")
        for case in module.cases(options.quick):
            if isinstance(case, harness.Figure):
                _say(outlet, harness.run_figure(case))
                continue
            try:
                _say(outlet, harness.run_case(case, how))
            except Exception as error:  # the other cases still run
                _say(outlet, _crashed(case.operation, case.size, error))
            del case  # a million vectors take gigabytes: they go before the next ones are made
    except Exception as error:  # one module's failure is a row; the others run
        _say(outlet, _crashed(options.child, "", error))
    _say(outlet, {"ended": True})
    return 0


def _crashed(operation: str, size: str, error: Exception) -> dict[str, Any]:
    traceback.print_exception(error)
    what = f"{type(error).__name__}: {error}"[:300]
    return {"operation": operation, "size": size, "crashed": what, "met": False}


def _say(outlet: TextIO, row: dict[str, Any]) -> None:
    outlet.write(json.dumps(row) + "\n")
    outlet.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
