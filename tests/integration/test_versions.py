"""Versions: all of them stay, their differences can be read, and going back is going on."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.integration.test_registry_tools import FULL, held
from toolroll.model.errors import Conflict, Denied, InvalidInput, NotFound
from toolroll.model.tools import Tool
from toolroll.registry.editing.tool_edits import ToolEdits
from toolroll.registry.registry import Registry


@pytest.fixture
def registry(database_url: str) -> Iterator[Registry]:
    with Registry.open(database_url, actor="ann") as opened:
        yield opened


def test_history_has_who_what_when_and_why_newest_first(registry: Registry) -> None:
    created = registry.create(FULL, reason="first")
    updated = registry.with_actor("bob").update(
        "create_event", {"summary": "s", "pinned": False}, version=1, reason="shorter"
    )
    deleted = registry.delete("create_event")
    newest, middle, first = registry.history("create_event")
    assert (first.version, first.changed, first.actor, first.reason) == (1, (), "ann", "first")
    assert (middle.version, middle.changed, middle.actor) == (2, ("summary", "pinned"), "bob")
    assert (newest.version, newest.changed, newest.is_deleted) == (3, ("deleted",), True)
    assert (first.at, middle.at, newest.at) == (created.updated_at, updated.updated_at, deleted.updated_at)
    assert (first.tool, middle.tool) == (created.tool, updated.tool)
    assert list((first.tool.parameters or {})["properties"]) == ["title", "at", "a"]
    assert first.to_dict()["semantic_version"] == "1.4.0-rc.1"


def test_history_can_be_read_in_parts(registry: Registry) -> None:
    registry.create(Tool("weather"))
    for version in range(1, 6):
        registry.update("weather", {"summary": str(version)}, version=version)
    assert [version.version for version in registry.history("weather", limit=2)] == [6, 5]
    assert [version.version for version in registry.history("weather", limit=2, before=5)] == [4, 3]


def test_a_difference_is_read_field_by_field(registry: Registry) -> None:
    registry.create(
        Tool(
            "weather",
            "Says the weather.",
            {"type": "object", "properties": {"city": {"type": "string", "description": "name of the city"}}},
        )
    )
    registry.update(
        "weather",
        {
            "description": "Says the weather,\nand the wind.",
            "public": True,
            "parameters": {"type": "object", "properties": {"city": {"type": "string", "description": "name of a town"}}},
        },
        version=1,
    )  # fmt: skip
    assert registry.diff("weather", 1, 2).splitlines() == [
        "weather: version 1 → 2",
        "description:",
        "  --- version 1",
        "  +++ version 2",
        "  @@ -1 +1,2 @@",
        "  -Says the weather.",
        "  +Says the weather,",
        "  +and the wind.",
        "parameters:",
        "  --- version 1",
        "  +++ version 2",
        "  @@ -4,5 +4,5 @@",
        '       "city": {',
        '         "type": "string",',
        '  -      "description": "name of the city"',
        '  +      "description": "name of a town"',
        "       }",
        "     }",
        "public: false → true",
    ]
    assert registry.differences("weather", 2, 2) == ()
    assert registry.diff("weather", 2, 2) == "weather: version 2 → 2\nno difference"


def test_a_difference_says_what_became_of_the_tool(registry: Registry) -> None:
    registry.create(Tool("weather", "a"))
    held(registry, "weather", Tool("weather", "b"))
    registry.delete("weather")
    assert registry.diff("weather", 1, 3).splitlines() == [
        "weather: version 1 → 3",
        'description: "a" → "b"',
        "review: approved → changed",
        "deleted",
    ]


def test_a_rollback_is_a_new_version_with_what_was(registry: Registry) -> None:
    first = registry.create(FULL)
    registry.update("create_event", {"description": "x", "status": "active", "tags": []}, version=1)
    back = registry.rollback("create_event", 1, version=2)
    assert (back.version, back.tool, back.content_hash) == (3, first.tool, first.content_hash)
    assert registry.history("create_event")[0].reason == "back to version 1"
    assert [version.version for version in registry.history("create_event")] == [3, 2, 1]


def test_a_rollback_to_what_is_there_already_writes_nothing(registry: Registry) -> None:
    registry.create(Tool("weather"))
    registry.update("weather", {"summary": "s"}, version=1)
    assert registry.rollback("weather", 2) == registry.tool("weather")
    assert registry.database.revision() == 2


def test_a_rollback_from_a_stale_version_is_a_conflict(registry: Registry) -> None:
    registry.create(Tool("weather"))
    registry.update("weather", {"summary": "s"}, version=1)
    with pytest.raises(Conflict):
        registry.rollback("weather", 1, version=1)


def test_a_rollback_to_a_name_that_is_taken_is_a_conflict(registry: Registry) -> None:
    registry.create(Tool("weather"))
    registry.update("weather", {"name": "forecast"}, version=1)
    registry.create(Tool("weather"))
    with pytest.raises(Conflict, match="the name is taken"):
        registry.rollback("forecast", 1)


def test_a_version_that_never_was_is_said(registry: Registry) -> None:
    registry.create(Tool("weather"))
    for wrong in (0, 3, -1, 2**80, True, "1"):
        with pytest.raises((NotFound, InvalidInput), match="version"):
            registry.rollback("weather", wrong)  # type: ignore[arg-type]
        with pytest.raises((NotFound, InvalidInput), match="version"):
            registry.diff("weather", 1, wrong)  # type: ignore[arg-type]


def test_a_rollback_brings_back_nothing_that_was_never_approved(registry: Registry) -> None:
    registry.create(Tool("weather", "a"))
    held(registry, "weather", Tool("weather", "bad"))
    held(registry, "weather", Tool("weather", "c"))
    registry.approve("weather")
    with pytest.raises(Denied, match="version 2 was never approved"):
        registry.rollback("weather", 2)
    assert registry.rollback("weather", 3).tool.description == "c"  # approved as version 4
    assert registry.rollback("weather", 1).tool.description == "a"


def test_a_rollback_brings_back_nothing_that_was_refused(registry: Registry) -> None:
    registry.create(Tool("weather", "a"))
    registry.update("weather", {"description": "b"}, version=1)
    held(registry, "weather", Tool("weather", "a"))
    registry.reject("weather")
    with pytest.raises(Denied, match="was rejected"):
        registry.rollback("weather", 1)


def test_a_rollback_of_what_waits_is_a_way_to_refuse_it(registry: Registry) -> None:
    registry.create(Tool("weather", "a"))
    held(registry, "weather", Tool("weather", "bad"))
    back = registry.rollback("weather", 1)
    assert (back.tool.description, back.review, back.approved_version) == ("a", "approved", 3)


def test_a_new_tool_that_waits_is_not_approved_by_rolling_it_back(registry: Registry) -> None:
    with registry.database.writing("plugin") as write:
        edits = ToolEdits(write)
        edits.create(Tool("spy"), org="", plugin="p", review="pending")
        edits.flush()
    with pytest.raises(Denied):
        registry.rollback("spy", 1)


def test_another_major_version_is_flagged_until_somebody_approves_it(registry: Registry) -> None:
    registry.create(Tool("weather", version="1.9.3"))
    assert registry.update("weather", {"semantic_version": "1.10.0"}, version=1).flags == ()
    flagged = registry.update("weather", {"semantic_version": "2.0.0"}, version=2)
    assert [flag["code"] for flag in flagged.flags] == ["major"]
    assert "1.10.0 became 2.0.0" in flagged.flags[0]["message"]
    assert registry.update("weather", {"summary": "s"}, version=3).flags == flagged.flags
    assert registry.approve("weather").flags == ()
    assert [flag["code"] for flag in registry.rollback("weather", 1).flags] == ["major"]


WRITES = """
import sys
from toolroll.registry.registry import Registry

with Registry.open(sys.argv[1], actor="child") as registry:
    record = registry.tool("weather")
    while True:
        changes = {"summary": str(record.version), "examples": ["x" * 200] * 50}
        record = registry.update("weather", changes, version=record.version)
        print(record.version, flush=True)
        if record.version % 3 == 0:
            record = registry.rollback("weather", record.version - 1)
            print(record.version, flush=True)
"""


@pytest.mark.slow
def test_a_process_that_is_killed_loses_no_acknowledged_version_and_leaves_none_half_written(
    database_url: str,
) -> None:
    draw = random.Random(4)
    with Registry.open(database_url, actor="ann") as registry:
        registry.create(Tool("weather"))
    for _ in range(5):
        child = subprocess.Popen(
            [sys.executable, "-c", WRITES, database_url], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout
        seen = [child.stdout.readline() for _ in range(draw.randrange(1, 12))]
        child.kill()
        seen += child.stdout.read().splitlines(keepends=True)
        child.communicate()
        acknowledged = [int(line) for line in seen if line.endswith("\n")]
        with Registry.open(database_url) as registry:
            with registry.database.writing("ann") as write:  # waits for what a server has still to do
                write.abandon()
            record = registry.tool("weather")
            versions = registry.history("weather", limit=1_000)
            revision = registry.database.revision()
        assert record.version in (acknowledged[-1], acknowledged[-1] + 1)
        assert [version.version for version in versions] == list(range(record.version, 0, -1))
        assert (versions[0].tool, versions[0].revision) == (record.tool, revision)
