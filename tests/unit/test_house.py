"""Tests for `tools/house.py`: what it counts, and what it says of a number that is another one."""

from __future__ import annotations

import importlib.util
import sys
import threading
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def house() -> ModuleType:
    spec = importlib.util.spec_from_file_location("house", ROOT / "tools" / "house.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package whose `a.main` calls `b.help` twice, which calls itself and the standard library."""
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "b.py").write_text(
        "import json\n" * 150
        + "def help(n=1): return json.dumps(n) and n and help(n - 1)\nsurvive_forks(help)\n"
    )
    (tmp_path / "a.py").write_text("def main(help): return help(), help()\nos.register_at_fork()\n")
    return tmp_path


def test_a_number_that_grew_is_named_with_what_to_do_about_it(house: ModuleType) -> None:
    agreed, now = {"mechanisms": {"threads": 2, "tables": 21}}, {"mechanisms": {"threads": 3, "tables": 21}}
    (said,) = house.differences(agreed, now)
    assert said.startswith("mechanisms.threads grew by 1 to 3: make room, or raise it in tools/house.toml")
    assert "in the same commit and say there why" in said


def test_a_number_that_fell_asks_to_be_written_down(house: ModuleType) -> None:
    said = house.differences({"lines": {"registry": 23_200, "gone": 100}}, {"lines": {"registry": 12_000}})
    assert said == [
        "lines.registry fell by 11,200 to 12,000: write it down (--write)",
        "lines.gone fell by 100 to 0: write it down (--write)",
    ]


def test_a_new_room_counts_as_grown_and_equal_numbers_say_nothing(house: ModuleType) -> None:
    agreed = {"lines": {"a": 100}}
    assert house.differences(agreed, agreed) == []
    assert house.differences(agreed, {"lines": {"a": 100, "b": 300}})[0].startswith(
        "lines.b grew by 300 to 300"
    )


def test_what_is_written_is_read_again_and_a_wrong_line_is_named(house: ModuleType) -> None:
    numbers = {"lines": {"whole": 94_300}, "moves": {"memory_select": 54}}
    assert house.read(house.written(numbers)) == numbers
    assert house.read((ROOT / "tools" / "house.toml").read_text("utf-8")).keys() == {
        "lines",
        "layout",
        "words",
        "mechanisms",
        "moves",
    }
    with pytest.raises(SystemExit, match=r"house.toml:2: is 'whole: 3', must be"):
        house.read("[lines]\nwhole: 3\n")


def test_lines_are_counted_by_room_in_hundreds_and_hooks_by_call(house: ModuleType, package: Path) -> None:
    assert house.lines(package) == {"whole": 200, "room": 200, "root": 100}
    assert house.fork_hooks(package) == 2


def test_rooms_floors_arrows_and_circles_follow_from_the_imports(house: ModuleType, tmp_path: Path) -> None:
    package, page = tmp_path / "inn", tmp_path / "page"
    for path, text in {
        "__init__.py": "from inn.top import main",  # a face: no room, no arrow
        "top.py": "from inn.middle import a, b\nimport json",
        "middle/__init__.py": "",
        "middle/a.py": "def one():\n    import inn.middle.b\n    from inn.ground import two",
        "middle/b.py": "from inn.middle.a import one",
        "ground.py": "two = 2",
    }.items():
        (package / path).parent.mkdir(parents=True, exist_ok=True)
        (package / path).write_text(text)
    (page / "views").mkdir(parents=True)
    (page / "app.tsx").write_text("import { Tool } from './views/tool'\n")
    (page / "views" / "tool.tsx").write_text("import type { App } from '../app'\nimport 'preact'\n")
    assert house.layout(package, page) == {"files": 6, "rooms": 3, "floors": 3, "arrows": 2, "circles": 2}


def test_words_of_pages_and_of_decisions_are_counted_apart(house: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "decisions").mkdir()
    (tmp_path / "decisions" / "0001.md").write_text("word " * 101)
    (tmp_path / "page.md").write_text("word\n" * 100)
    assert house.words(tmp_path) == {"pages": 100, "decisions": 200}


def test_a_move_is_a_change_of_file_within_the_package_returns_included(
    house: ModuleType, package: Path
) -> None:
    space: dict[str, dict[str, object]] = {}
    for name in ("a.py", "room/b.py"):
        text = (package / name).read_text().partition("\nsurvive_forks")[0].partition("\nos.")[0]
        exec(compile(text, str(package / name), "exec"), space.setdefault(name, {}))
    main, help_ = space["a.py"]["main"], space["room/b.py"]["help"]
    count = house.Moves(package)
    assert count.of(lambda: main(help_)) == 4  # type: ignore[operator]  # there and back, twice
    assert count.of(lambda: None) == 0 and sys.getprofile() is None


def test_threads_of_the_package_are_counted_by_their_names(house: ModuleType) -> None:
    with house.started() as names:
        for name in ("toolroll-a", "toolroll-a", "toolroll-b", "another"):
            thread = threading.Thread(target=int, name=name)
            thread.start()
            thread.join()
    assert names == {"toolroll-a", "toolroll-b"}
