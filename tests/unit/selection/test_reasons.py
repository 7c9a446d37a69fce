"""Reasons are for explanations: no code decides by them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import tests.oracle
import toolroll
from tests.table import each_row
from toolroll import Context, Profile, Route, Tool, Toolkit, Toolroll
from toolroll.registry.events.event_row import candidates_of
from toolroll.selection.candidates import Candidates
from toolroll.selection.explanation import KEPT, REMOVED
from toolroll.selection.exposure import exposure_of
from toolroll.selection.profiles import PROFILES

SOURCE = Path(toolroll.__file__).parent
VERBS = ("forbid", "narrow", "arrange")
MESSAGES = ("put the rain forecast into my calendar", "send Ann a mail about it", "", "zq xv")
TOOLS = [
    *(Tool(f"mail_{at}", f"Does thing {at} with a mail", toolkit="mail") for at in range(9)),
    *(Tool(f"calendar_{at}", f"Does thing {at} with a calendar", toolkit="calendar") for at in range(9)),
    Tool("forecast", "Weather forecast: rain and wind", toolkit="weather"),
    Tool("now", "Date and time", toolkit="basics"),
    Tool("pin", "Pinned", pinned=True),
]
KITS = [Toolkit("basics", base=True), Toolkit("weather", settings_keys=("KEY",))]
ROUTES = [Route(("mail",), keywords=("mail",)), Route(("calendar",), keywords=("calendar",))]


def test_only_explanations_read_the_reason_or_the_verb_of_a_step():
    readers = []
    for path in SOURCE.rglob("*.py"):
        source = path.read_text("utf-8")
        is_about_candidates = "andidates" in source and "toolroll.selection" in source
        if not is_about_candidates or path == SOURCE / "selection" / "explanation.py":
            continue
        reads = [
            node
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Attribute) and node.attr in ("reason", "verb")
        ]
        readers += [f"{path.relative_to(SOURCE)}:{node.lineno}" for node in reads]
    assert readers == []


def test_every_reason_to_leave_is_described():
    found = set()
    oracle = Path(tests.oracle.__file__).parent  # its reasons are those of the core
    folders = (SOURCE / "selection", SOURCE / "selection" / "stages", oracle)
    for path in [path for folder in folders for path in folder.glob("*.py") if "test_" not in path.name]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("forbid", "narrow"):
                constants = [part for argument in node.args[1:] for part in ast.walk(argument)]
                found |= {part.value for part in constants if isinstance(getattr(part, "value", None), str)}
    assert {"policy.deny", "retrieval.nearest", "cap.k"} < found
    assert found - {"cap.whole", "step "} <= KEPT.keys() | REMOVED.keys()


def played(profile: Profile) -> tuple[list[object], list[float]]:
    """What a conversation over all kinds of stages comes to, apart from words: names, and numbers."""
    roll = Toolroll.from_tools(TOOLS, toolkits=KITS, routes=ROUTES, embedder="hashing", profile=profile)
    for user in "abcdef":
        picked = roll.select(MESSAGES[1], Context(user=user, session=user))
        roll.record(picked, {name: name == "mail_7" for name in picked.names})
    session = roll.session("s")
    seen: list[object] = []
    numbers: list[float] = []
    for message in MESSAGES:
        picked = session.select(message, k=3)
        session.used({name: True for name in picked.names[:2]})
        candidates, _ = candidates_of(picked)
        ranked = list(candidates.rows())
        seen += [picked.names, picked.has_match, sorted(name for name, *_ in ranked)]
        seen.append(session.conversation.to_record())
        numbers += [*picked.candidates.scores.tolist(), picked.confidence or 0.0]
        numbers += [one.expected for one in exposure_of(picked, "", "").shown]
        numbers += sorted(number or 0.0 for _, *drawn in ranked for number in drawn)
    seen.append(roll.select(MESSAGES[0], Context(required=("pin", "forecast", "none"))).names)
    return seen, numbers


@each_row("name", PROFILES)
def test_a_reason_of_another_name_changes_no_selection(name, monkeypatch):
    profile = PROFILES[name].with_(affinity=0.2, sticky_tools=8, growth=3.0)
    seen, numbers = played(profile)
    for verb in VERBS:
        plain = getattr(Candidates, verb)

        def renamed(self, first, reason, *rest, _plain=plain, **named):
            return _plain(self, first, f"another {reason}", *rest, **named)

        monkeypatch.setattr(Candidates, verb, renamed)
    seen_again, numbers_again = played(profile)
    assert seen_again == seen
    assert numbers_again == pytest.approx(numbers, abs=1e-5)  # outcomes fade between the two
