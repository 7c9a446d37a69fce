"""docs/seeds.md, which lists what the seeds do, names files, tests and attributes that exist."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from toolroll.selection.profiles import PROFILES

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/seeds.md").read_text("utf-8")
ROWS = [
    [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    for section in PAGE.split("\n## ")[1:]
    for line in section.splitlines()
    if line.startswith("| ") and not line.startswith(("| behaviour", "| ---"))
]
NAMES = {
    "CostMonitor": "toolroll.formats.repair.cost",
    "Context": "toolroll",
    "PageMapping": "toolroll",
    "Registry": "toolroll",
    "Route": "toolroll",
    "Selection": "toolroll",
    "Session": "toolroll.sessions.session",
    "Tool": "toolroll",
    "Toolkit": "toolroll",
    "Toolroll": "toolroll",
}


def test_there_is_a_row_for_each_behaviour():
    assert len(ROWS) > 120
    assert all(len(row) == 4 for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:60])
def test_a_row_says_where_and_what_shows_it_or_that_it_is_not_yet_there(row):
    behaviour, here, shown, _ = row
    assert behaviour and here
    assert shown or "not yet" in here or "caller" in here


@pytest.mark.parametrize("test", sorted(set(re.findall(r"`((?:unit|integration|contract)/[^`]+)`", PAGE))))
def test_a_test_is_there(test):
    file, _, name = test.partition("::")
    text = (ROOT / "tests" / file).read_text("utf-8")
    assert not name or f"def {name}(" in text


@pytest.mark.parametrize(
    "file", sorted(set(re.findall(r"`(?!unit/|integration/|contract/)([\w/]+\.py)`", PAGE)))
)
def test_a_file_is_there(file):
    assert (ROOT / "python" / "toolroll" / file).is_file()


@pytest.mark.parametrize(
    "name", sorted(set(re.findall(r"`(" + "|".join(NAMES) + r")\.(\w+)", PAGE))), ids=".".join
)
def test_a_name_is_there(name):
    owner = getattr(importlib.import_module(NAMES[name[0]]), name[0])
    assert hasattr(owner, name[1])


def test_each_seed_has_its_profile():
    assert {"domains", "on_demand", "layers", "learned", "merged"} < set(PROFILES)
    for name in PROFILES:
        assert f"`{name}`" in PAGE or name == "static"
