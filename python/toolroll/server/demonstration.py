"""A registry for trying the service: the demonstration catalog with three weeks of invented use."""

from __future__ import annotations

import random
import time
from datetime import datetime, timezone
from pathlib import Path

import sqlalchemy as sa

import toolroll
from toolroll import Context, Toolroll
from toolroll.embedders import named
from toolroll.formats.sources.folder import read_folder
from toolroll.homes.registry import RegistryHome
from toolroll.learning.experiments import Experiment
from toolroll.model.rules import PageMapping, Rule
from toolroll.model.tools import Tool
from toolroll.registry.analytics import experiments
from toolroll.registry.options import Follow, Recording, Sessions
from toolroll.registry.registry import Registry
from toolroll.registry.store import tables
from toolroll.selection.pipeline_builder import PipelineBuilder
from toolroll.selection.profiles import profile
from toolroll.selection.selection import Selection

DAYS = 21
BROKEN = "get_current_weather"  # works at first and fails later
_DAY_S = 86_400.0
_BREAKS_AFTER_S = (DAYS - 6) * _DAY_S
_TURNS, _WEEKEND_SHARE = 60, 0.4  # selections of a working day; how many of them a day of the weekend has
_USERS = 150
_FAILING_SHARE = 0.06  # of the calls to a tool that works
_CORRECTED_SHARE = 0.03  # of the calls: the model has called another tool, and the user says which was meant
_WAITED = 4.0  # times as long as a call that works
_FLUSH_S = 30.0
# Messages that say too little to select by: the model searches.
_VAGUE_SHARE = 0.04
_VAGUE = ("the same as last week, please", "can you sort that out for me?", "and the other one")
_TIERS = ("free", "pro", "enterprise")
_PAGES = ("home", "deals", "settings")  # all tools are candidates
_PAGE_TOOLKITS = {"contacts": ("crm", "people"), "calendar": ("calendar", "scheduler")}
_HELPDESK = (
    Tool(
        "find_ticket",
        "Finds support tickets by customer, state or words",
        toolkit="helpdesk",
        examples=("which support tickets of Globex are open?", "find the ticket about the broken invoice"),
    ),
    Tool(
        "answer_ticket",
        "Sends an answer to the customer of a support ticket",
        toolkit="helpdesk",
        examples=("answer the support ticket: the fix is out",),
    ),
    Tool("close_ticket", "Closes a support ticket", toolkit="helpdesk"),
)


def write_demonstration(url: str, *, embedder: str = "static", now: float | None = None) -> None:
    """Creates a registry with tools, rules, changes that wait for approval, and logged selections.

    now: the end of the three weeks, in seconds since the epoch; None for the present.
    """
    with Registry.open(url, actor="demo") as registry:
        end = time.time() if now is None else now
        _write_tools(registry)
        _start_experiment(registry, end - DAYS * _DAY_S)
    _write_events(url, embedder, end)


def _write_tools(registry: Registry) -> None:
    registry.import_(read_folder(Path(toolroll.__file__).with_name("demo") / "toolkits"))
    registry.set_tiers(_TIERS)
    registry.rules.add(
        Rule("free plans have no campaigns", "deny", "tier", {"tier": {"lt": "pro"}}, toolkit="campaigns")
    )
    registry.rules.add(
        Rule("guests change no passwords", "deny", "role", {"role": "guest"}, toolkit="passwords")
    )
    for page, toolkits in _PAGE_TOOLKITS.items():
        registry.pages.add(PageMapping(page, toolkits))
    registry.sync(_HELPDESK[:2], plugin="helpdesk", plugin_version="2.0.0", trusted=True)
    registry.sync(_HELPDESK, plugin="helpdesk", plugin_version="2.1.0", review="all")
    weather = registry.tool("get_forecast")
    registry.propose(
        "get_forecast",
        {"description": weather.tool.description + " Tells sailors about the wind at sea."},
        version=weather.version,
        reason="sailors ask for it",
    )


def _start_experiment(registry: Registry, begun_at: float) -> None:
    """Starts an experiment that began when the events begin."""
    experiment = Experiment("ranking", {"default": 0.5, "learned": 0.5})
    experiments.start(registry.database, experiment, actor="demo", reason="two profiles side by side")
    with registry.database.recording() as connection:
        begun = sa.update(tables.experiments).values(begun_at=datetime.fromtimestamp(begun_at, timezone.utc))
        connection.execute(begun)


def _write_events(url: str, embedder: str, end: float) -> None:
    """Selects tools for example messages at past times, and reports plausible calls."""
    draw = random.Random(7)
    at = end - DAYS * _DAY_S
    home = RegistryHome(
        url,
        PipelineBuilder(named.embedder(embedder), profile("default"), "auto", {}),
        Follow(),
        Recording(events_s=None),
        Sessions(expire_s=None),
        profile="default",
        clock=lambda: at,
    )
    with Toolroll(home) as roll:
        asked = [(text, tool) for tool in roll.catalog.tools for text in tool.examples]
        settings = tuple(sorted({key for kit in roll.catalog.toolkits.values() for key in kit.settings_keys}))
        popular = [draw.paretovariate(1.2) for _ in asked]
        asked_of_broken = [(text, tool) for text, tool in asked if tool.name == BROKEN]
        for day in range(DAYS):
            morning = end - (DAYS - day) * _DAY_S
            is_weekend = time.gmtime(morning).tm_wday >= 5
            turns = int(_TURNS * (_WEEKEND_SHARE if is_weekend else 1) * draw.uniform(0.8, 1.2))
            for moment in sorted(draw.uniform(0, _DAY_S) for _ in range(turns)):
                at = morning + moment
                message, wanted = (
                    draw.choice(asked_of_broken) if draw.random() < 0.05 else draw.choices(asked, popular)[0]
                )
                if draw.random() < _VAGUE_SHARE:
                    message = draw.choice(_VAGUE)
                user = draw.randrange(_USERS)
                own_page = [page for page, toolkits in _PAGE_TOOLKITS.items() if wanted.toolkit in toolkits]
                page = draw.choice(own_page or _PAGES)
                context = Context(user=f"user {user}", tier=_TIERS[user % 3], page=page, settings=settings)
                is_down = wanted.name == BROKEN and moment + day * _DAY_S > _BREAKS_AFTER_S
                works = not is_down and draw.random() >= _FAILING_SHARE
                _report(roll, roll.select(message, context), wanted.name, works, draw)
            roll.flush(_FLUSH_S)


def _report(roll: Toolroll, picked: Selection, wanted: str, works: bool, draw: random.Random) -> None:
    """Reports a call to the wanted tool, a search for it, or a call to another tool."""
    call = {wanted: {"succeeded": works, "duration_ms": _duration_ms(wanted, works, draw)}}
    others = [name for name in picked.shown if name != wanted]
    if not roll.may(wanted, picked.turn.context):
        roll.record(picked)
    elif wanted not in picked.shown:
        roll.record(picked, wanted=call)
    elif others and draw.random() < _CORRECTED_SHARE:
        roll.record(picked, corrected={others[0]: wanted})
    else:
        roll.record(picked, call)


def _duration_ms(tool: str, works: bool, draw: random.Random) -> float:
    """A random duration. Each tool has its own median; a call that fails takes longer."""
    median_ms = 10 ** random.Random(tool).uniform(1.5, 3.0)
    return median_ms * draw.lognormvariate(0.0, 0.5) * (1 if works else _WAITED)
