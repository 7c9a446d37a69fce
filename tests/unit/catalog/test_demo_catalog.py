"""The demonstration catalog is well formed as plain JSON, and its messages are fair to it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.table import each_row

ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / "python" / "toolroll" / "demo" / "toolkits").glob("*.json"))
MESSAGES_FILE = ROOT / "tests" / "data" / "demo_messages.jsonl"

TOOLKITS: dict[str, dict[str, Any]] = {f.stem: json.loads(f.read_text(encoding="utf-8")) for f in FILES}
TASKS: list[dict[str, Any]] = [task for kit in TOOLKITS.values() for task in kit["tasks"]]
TOOLKIT_OF = {task["function"]["name"]: name for name, kit in TOOLKITS.items() for task in kit["tasks"]}
EXAMPLES: list[list[str]] = [task["examples"] for task in TASKS if "examples" in task]
MESSAGES: list[dict[str, Any]] = [
    json.loads(line) for line in MESSAGES_FILE.read_text(encoding="utf-8").splitlines()
]

TOOLKIT_KEYS = {"name", "description", "parent", "base", "keywords", "patterns", "settings_keys", "tasks"}
TASK_KEYS = {"type", "function", "tags", "when_to_use", "examples", "pinned"}
TYPES = {"string", "integer", "number", "boolean", "array", "object"}


def folded(text: str) -> str:
    return re.sub(r"\W+", " ", text).strip().casefold()


def name_of(task: dict[str, Any]) -> str:
    return str(task["function"]["name"])


def schemas(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The schema and all below it, each with its path."""
    yield path, schema
    for key, part in schema.get("properties", {}).items():
        yield from schemas(part, f"{path}.{key}")
    if "items" in schema:
        yield from schemas(schema["items"], f"{path}[]")


def test_there_are_at_least_158_tools_in_at_least_19_toolkits() -> None:
    assert len(TASKS) >= 158
    assert len(TOOLKITS) >= 19


def test_a_file_is_named_after_its_toolkit() -> None:
    assert [kit["name"] for kit in TOOLKITS.values()] == list(TOOLKITS)


def test_a_tool_name_occurs_once_and_suits_every_provider() -> None:
    names = [name_of(task) for task in TASKS]
    assert len(names) == len(set(names))
    assert [name for name in names if not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", name)] == []


@each_row("name", TOOLKITS)
def test_a_toolkit_has_only_known_keys_and_says_what_it_is_for(name: str) -> None:
    kit = TOOLKITS[name]
    assert set(kit) <= TOOLKIT_KEYS
    assert len(kit["description"]) >= 40
    assert 4 <= len(kit["keywords"]) <= 12
    assert all(keyword == keyword.strip().casefold() for keyword in kit["keywords"])


def test_no_keyword_switches_on_two_toolkits() -> None:
    keywords = [keyword for kit in TOOLKITS.values() for keyword in kit["keywords"]]
    assert len(keywords) == len(set(keywords))


def test_patterns_use_nothing_that_re2_lacks() -> None:
    for kit in TOOLKITS.values():
        for pattern in kit.get("patterns", ()):
            re.compile(pattern)
            assert not re.search(r"\(\?[=!<>P]|\\[1-9]", pattern), pattern


@each_row("task", TASKS)
def test_a_tool_has_a_description_and_a_described_schema(task: dict[str, Any]) -> None:
    assert task["type"] == "function"
    assert set(task) <= TASK_KEYS
    assert set(task["function"]) == {"name", "description", "parameters"}
    assert task["function"]["description"].endswith(".")
    assert task["function"]["parameters"]["type"] == "object"
    for path, schema in schemas(task["function"]["parameters"], name_of(task)):
        properties = schema.get("properties", {})
        assert schema["type"] in TYPES, path
        assert set(schema.get("required", ())) <= set(properties), path
        assert all(part.get("description") for part in properties.values()), path
        assert schema["type"] != "array" or "items" in schema, path
        if "enum" in schema:
            assert len(schema["enum"]) == len(set(schema["enum"])) > 1, path
            assert schema.get("default", schema["enum"][0]) in schema["enum"], path


def test_no_two_tools_share_a_description() -> None:
    texts = [task["function"]["description"] for task in TASKS]
    assert len(texts) == len(set(texts))


def test_a_third_to_a_half_of_the_tools_have_examples_and_none_is_used_twice() -> None:
    assert len(TASKS) / 3 <= len(EXAMPLES) <= len(TASKS) / 2
    assert all(2 <= len(examples) <= 6 for examples in EXAMPLES)
    flat = [folded(example) for examples in EXAMPLES for example in examples]
    assert len(flat) == len(set(flat))


def test_every_parent_exists_and_no_toolkit_is_its_own_ancestor() -> None:
    for name, kit in TOOLKITS.items():
        seen, above = {name}, kit.get("parent")
        while above is not None:
            assert above in TOOLKITS, f"{name}: there is no toolkit {above!r}"
            assert above not in seen, f"{name}: {above} is above itself"
            seen.add(above)
            above = TOOLKITS[above].get("parent")


def test_at_most_one_tool_is_pinned() -> None:
    assert sum(task.get("pinned", False) for task in TASKS) <= 1


def test_exactly_one_toolkit_is_always_on_and_it_is_small() -> None:
    (base,) = (kit for kit in TOOLKITS.values() if kit.get("base"))
    assert len(base["tasks"]) in (3, 4)


def test_no_tool_mentions_an_umbrella_so_that_the_weather_is_found_by_meaning() -> None:
    for file in FILES:
        text = file.read_text(encoding="utf-8").casefold()
        assert "umbrella" not in text and "우산" not in text, file.name


def test_there_are_120_messages_ten_in_korean_and_ten_that_need_no_tool() -> None:
    assert len({folded(m["message"]) for m in MESSAGES}) == len(MESSAGES) == 120
    assert sum(bool(re.search("[가-힣]", m["message"])) for m in MESSAGES) == 10
    assert sum(not m["gold"] for m in MESSAGES) == 10
    assert sum(len(m["gold"]) > 1 for m in MESSAGES) >= 8


def test_every_gold_tool_exists_in_the_toolkits_named_beside_it() -> None:
    for m in MESSAGES:
        assert list(dict.fromkeys(TOOLKIT_OF[name] for name in m["gold"])) == m["toolkits"], m["message"]


def test_no_message_is_an_example() -> None:
    examples = {folded(example) for group in EXAMPLES for example in group}
    assert [m["message"] for m in MESSAGES if folded(m["message"]) in examples] == []
