"""Ten thousand organisations in one registry, of which few select in one process; docs/scale.md has figures.

``python -m bench.scale.tenants [ORGANISATIONS] [ASKED]``. A PostgreSQL of its own has so many organisations,
with 158 tools each. A process opens it, and organisations select for the first time, one after the other and
all at once. Then a noisy neighbour changes a tool 10,000 times a minute, selects 1,000 times a second and has
rows that cannot be read, while a quiet organisation selects in the same process. It prints times, memory and
counts; exit status 1 if a count that must be zero is not.

The tools of organisations that nobody asks for are copies without digests: a process that read one would say
so.
"""

from __future__ import annotations

import ctypes
import gc
import json
import multiprocessing
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import sqlalchemy as sa
from tests.integration.conftest import own_server

from bench.peers.run import rss_bytes
from toolroll import Context, Recording, Tool, Toolroll
from toolroll.model.rules import Rule
from toolroll.model.tools import Definitions
from toolroll.registry.registry import Registry
from toolroll.registry.store import tables

TOOLS = 158
SECONDS = 5.0  # of each phase beside a noisy neighbour
CHANGES_A_MINUTE, SELECTIONS_A_SECOND, QUIET_A_SECOND = 10_000, 1_000, 50
VERBS = ["list", "create", "update", "delete", "find", "export", "approve", "archive"]
THINGS = ["invoice", "contact", "meeting", "ticket", "order", "parcel", "contract", "report", "budget"]
ROWS = ("tools", "toolkits", "pins", "visibility_rules", "page_mappings", "settings")


def tools_of(prefix: str, count: int) -> tuple[Tool, ...]:
    """Tools such as people have, with one parameter each."""
    parameters = {"type": "object", "properties": {"name": {"type": "string", "description": "Whose it is"}}}
    tools = []
    for at in range(count):
        verb, thing = VERBS[at % 8], THINGS[at // 8 % 9]
        told = f"{verb.capitalize()} the {thing} of customer group {at}, with all its entries"
        tools.append(Tool(f"{prefix}{verb}_{thing}_{at}", told, parameters))
    return tuple(tools)


def org(number: int) -> str:
    """The name of an organisation."""
    return f"org-{number:05d}"


def fill(url: str, organisations: int, asked: int) -> None:
    """Writes the platform, the organisations that will ask, and copies of one of them for the others.

    As many organisations more have a single tool ("one-…").
    """
    with Registry.open(url, create=True, actor="ann") as registry:
        registry.import_(Definitions(tools_of("", TOOLS)))
        for number in range(asked):
            registry.import_(Definitions(tools_of("own_", TOOLS)), org=org(number))
            registry.import_(Definitions(tools_of("own_", 1)), org=f"one-{number:05d}")
        columns = [column.name for column in tables.tools.c]
        copied = {"tool_id": "md5(tool_id || n)", "org": "'org-' || lpad(n::text, 5, '0')"}
        values = ", ".join(copied.get(name, f'"{name}"') for name in columns)
        names = ", ".join(f'"{name}"' for name in columns)
        with registry.database.recording() as connection:
            connection.exec_driver_sql(
                f"INSERT INTO tools ({names}) SELECT {values} FROM tools, "
                f"generate_series({asked}, {organisations - 1}) AS n WHERE org = '{org(0)}'"
            )
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as plain:
        plain.execute("ANALYZE")


@contextmanager
def statements() -> Iterator[dict[str, int]]:
    """Counts the statements of this thread, and the rows of tools and the like that all threads read."""
    counts, own = {"statements": 0, "rows": 0}, threading.get_ident()

    def note(connection: Any, cursor: Any, statement: str, *_: object) -> None:
        counts["statements"] += threading.get_ident() == own
        if any(f"FROM {name}" in statement for name in ROWS) and "recursive" not in statement.lower():
            counts["rows"] += max(0, cursor.rowcount)

    sa.event.listen(sa.Engine, "after_cursor_execute", note)
    try:
        yield counts
    finally:
        sa.event.remove(sa.Engine, "after_cursor_execute", note)


def resident() -> int:
    """Bytes that this process holds, without what its allocator keeps for later."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return rss_bytes()


def own_tool_after(roll: Toolroll, orgs: Sequence[str]) -> tuple[list[float], list[float]]:
    """Seconds of each organisation's first selection, and until one has its own tools.

    All ask at the same time, and again every few milliseconds.
    """
    first, whole, waiting = list[float](), dict[str, float](), dict.fromkeys(orgs, 0.0)
    while waiting:
        for name in tuple(waiting):
            began = time.perf_counter()
            if not waiting[name]:
                waiting[name] = began
            names = select(roll, name)
            ended = time.perf_counter()
            if len(first) < len(orgs):
                first.append(ended - began)
            if any(tool.startswith("own_") for tool in names):
                whole[name] = ended - waiting.pop(name)
        time.sleep(0.002 * len(orgs))
    return first, [whole[name] for name in orgs]


def opened(url: str, asked: int) -> dict[str, Any]:
    """Opens the registry, then lets organisations ask: first the ones of one tool, then others."""
    with statements() as counts:
        began = time.perf_counter()
        roll = Toolroll.open(url, recording=Recording(messages="none"))
        found: dict[str, Any] = {"opening, s": round(time.perf_counter() - began, 3)}
        found["opening, statements"] = counts["statements"]
        found["opening, rows of others"] = counts["rows"] - TOOLS
    with roll:
        strangers = [f"nobody-{number}" for number in range(asked)]
        ones = [f"one-{number:05d}" for number in range(asked)]
        orgs = [org(number) for number in range(asked)]
        warm, half = asked // 2, asked * 3 // 4  # what the first ones take is taken once
        with statements() as counts:
            for name in strangers[:warm]:
                select(roll, name)
            for name in (*ones[:warm], *orgs[:warm]):
                own_tool_after(roll, [name])
            before = resident()
            for name in strangers[warm:]:
                select(roll, name)
            without = resident()
            own_tool_after(roll, ones[warm:])
            of_one = resident()
            later = [own_tool_after(roll, [name]) for name in orgs[warm:half]]
            together = own_tool_after(roll, orgs[half:])
            of_all = resident()
        n = asked - warm
        first = [*(seconds[0] for seconds, _ in later), *together[0]]
        whole = [seconds[0] for _, seconds in later]
        found |= {
            "asked, rows of others": counts["rows"] - asked * (1 + TOOLS),
            "organisation without tools, kB": round((without - before) / n / 1e3, 1),
            "organisation with one tool, kB": round((of_one - without) / n / 1e3, 1),
            f"organisation with {TOOLS} tools, kB": round((of_all - of_one) / n / 1e3, 1),
            "first selection, p99 ms": milliseconds(first, 99),
            "own tools after, median ms": milliseconds(whole, 50),
            "own tools after, p99 ms": milliseconds(whole, 99),
            f"own tools of the last of {asked - half} at once after, ms": milliseconds(together[1], 100),
        }
        found["damage told"] = sum(1 for why in roll.health()["why"] if "damaged" in why)
    return found


def select(roll: Toolroll, name: str) -> tuple[str, ...]:
    return roll.select("list the invoice of customer group 0", Context(org=name), k=5).names


def milliseconds(seconds: Sequence[float], percentile: float) -> float:
    return round(float(np.percentile(seconds, percentile)) * 1e3, 2)


def change(url: str, name: str, seconds: float, done: Any) -> None:
    """Changes a tool of an organisation 10,000 times a minute; puts how many it were."""
    count, every = 0, 60 / CHANGES_A_MINUTE
    with Registry.open(url, actor="noise") as registry:
        tool = tools_of("own_", 1)[0].name
        version = registry.tool(tool, org=name).version
        began = time.perf_counter()
        while (now := time.perf_counter() - began) < seconds:
            if count * every > now:
                time.sleep(count * every - now)
            changed = registry.update(tool, {"summary": f"Change {version}"}, org=name, version=version)
            version = changed.version
            count += 1
    done.put(count)


def poison(url: str, name: str) -> None:
    """Damages some tools of an organisation and a rule, past the registry."""
    with Registry.open(url, actor="noise") as registry:
        registry.rules.add(Rule("broken", "deny", "composite", {"all": []}, toolkit="*", org=name))
        with registry.database.writing("noise", name) as write:
            for table, column, value in (
                (tables.tools, "toolkit", "astrology"),
                (tables.visibility_rules, "active", False),
            ):
                damage = {column: value, "revision": write.revision}
                write.connection.execute(sa.update(table).where(table.c.org == name).values(damage))
            write.log("damage", "rows")


def select_all_the_time(roll: Toolroll, name: str, rate: float, until: float) -> tuple[list[float], int]:
    """Selects at a rate; seconds of each selection, and how many were degraded or had another's tools."""
    took, wrong, began, context = list[float](), 0, time.perf_counter(), Context(org=name)
    while (now := time.perf_counter()) < until:
        due = began + len(took) / rate
        if due > now:
            time.sleep(due - now)
        start = time.perf_counter()
        picked = roll.select("approve the meeting of customer group 9", context, k=5)
        took.append(time.perf_counter() - start)
        wrong += bool(picked.degraded)
    return took, wrong


def beside(roll: Toolroll, quiet: str, noisy: str, change_url: str, seconds: float) -> dict[str, Any]:
    """The quiet organisation's selections while the other selects and changes; without, where it is "".

    change_url: of the registry in which the tools are changed.
    """
    spawn = multiprocessing.get_context("spawn")
    done, figures = spawn.Queue(), dict[str, Any]()
    writer = spawn.Process(target=change, args=(change_url, noisy, seconds + 1, done)) if noisy else None
    selected: list[tuple[list[float], int]] = []
    if writer is not None:
        writer.start()
        time.sleep(2.0)  # until it has opened the registry
    until = time.perf_counter() + seconds
    noise = threading.Thread(
        target=lambda: selected.append(select_all_the_time(roll, noisy, SELECTIONS_A_SECOND, until))
    )
    if noisy:
        noise.start()
    took, degraded = select_all_the_time(roll, quiet, QUIET_A_SECOND, until)
    if writer is not None:
        noise.join()
        figures["changes a minute"] = round(done.get(timeout=60) / (seconds + 1) * 60)
        figures["selections a second"] = round(len(selected[0][0]) / seconds)
        writer.join()
    return figures | {
        "p50 ms": milliseconds(took, 50),
        "p99 ms": milliseconds(took, 99),
        "degraded": degraded,
    }


def neighbours(url: str, other_url: str, seconds: float = SECONDS) -> dict[str, Any]:
    """A quiet organisation alone, beside as much work for another registry, and beside a noisy neighbour."""
    quiet, noisy, found = org(0), org(1), dict[str, Any]()
    with Toolroll.open(url, recording=Recording(messages="dropped")) as roll:
        own_tool_after(roll, [quiet, noisy])
        phases = (
            ("quiet alone", "", url),
            ("while another registry changes", noisy, other_url),
            ("beside a noisy neighbour", noisy, url),
        )
        for phase, name, change_url in phases:
            if phase == "beside a noisy neighbour":
                poison(url, noisy)
                roll.refresh()
            figures = beside(roll, quiet, name, change_url, seconds)
            found |= {f"{phase}, {figure}": value for figure, value in figures.items()}
        names = roll.select("own", Context(org=quiet, everything=True)).names
        found["quiet organisation's tools lost"] = 2 * TOOLS - len(names)
    return found


def in_a_process(what: str, *arguments: str) -> dict[str, Any]:
    """The figures of a new process, whose memory has seen nothing else."""
    command = [sys.executable, "-m", "bench.scale.tenants", "--measure", what, *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


MUST_BE_ZERO = (
    "opening, rows of others",
    "asked, rows of others",
    "damage told",
    "quiet alone, degraded",
    "while another registry changes, degraded",
    "beside a noisy neighbour, degraded",
    "quiet organisation's tools lost",
)


def main(organisations: int, asked: int) -> int:
    with tempfile.TemporaryDirectory() as folder, own_server(Path(folder) / "server") as uri:
        urls = []
        for name in ("tenants", "other"):
            with psycopg.connect(uri, autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {name}")  # type: ignore[arg-type]
            url = sa.make_url(uri).set(drivername="postgresql", database=name)
            urls.append(url.render_as_string(hide_password=False))
        began = time.perf_counter()
        fill(urls[0], organisations, asked)
        fill(urls[1], 2, 2)
        found = {
            "organisations": organisations,
            "asked": asked,
            "filling, s": round(time.perf_counter() - began),
        }
        found |= in_a_process("opened", urls[0], str(asked))
        found |= in_a_process("neighbours", *urls)
    for figure, value in found.items():
        print(f"{figure}: {value:,}")
    return int(any(found[name] for name in MUST_BE_ZERO))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--measure", "opened", url, asked]:
            print(json.dumps(opened(url, int(asked))))
        case ["--measure", "neighbours", url, other_url]:
            print(json.dumps(neighbours(url, other_url)))
        case numbers:
            organisations, asked, *_ = *map(int, numbers), *(10_000, 400)[len(numbers) :]
            sys.exit(main(organisations, asked))
