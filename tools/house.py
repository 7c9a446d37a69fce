"""Measures the size of the house, and compares it with `tools/house.toml`: no number may grow unnoticed.

    python tools/house.py            fails if a number differs from the file
    python tools/house.py --write    writes the numbers of now to the file

Who needs more raises the number in the same commit, and says in the commit what was refused instead. A number
that fell is written down too, so that it stays there.

Lines and words (in hundreds, rounded up), the layout and fork hooks are read from the source, the others from a run of the installed
package. A move is a change from one file of the package to another, calls and returns alike, in the caller's thread.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import logging
import os
import re
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
NUMBERS = REPOSITORY / "tools" / "house.toml"
HOOKS = ("survive_forks", "register_at_fork")
_HUNDRED = 100  # so that not every commit has another number
RUNS = 5  # of each guest; the least counts

House = dict[str, dict[str, int]]


# What is read from the source.


def lines(package: Path) -> dict[str, int]:
    """Lines of Python by room, a folder of the package; "root" for its own files, "whole" for all. In hundreds."""
    found: Counter[str] = Counter()
    for path in sorted(package.rglob("*.py")):
        room = path.relative_to(package).parts[0]
        found["root" if room.endswith(".py") else room] += path.read_bytes().count(b"\n")
    exact = {"whole": sum(found.values()), **dict(sorted(found.items()))}
    return {room: -(-count // _HUNDRED) * _HUNDRED for room, count in exact.items()}


def words(docs: Path) -> dict[str, int]:
    """Words of the pages and of the decisions, as `wc -w` counts them. In hundreds."""
    found = {"pages": 0, "decisions": 0}
    for path in docs.rglob("*.md"):
        kind = "decisions" if "decisions" in path.relative_to(docs).parts else "pages"
        found[kind] += len(path.read_text("utf-8").split())
    return {kind: -(-count // _HUNDRED) * _HUNDRED for kind, count in found.items()}


def layout(package: Path, page: Path) -> dict[str, int]:
    """How the rooms stand on each other.

    files are all of Python; rooms are folders and files of the package; floors is the longest way down by imports; arrows are pairs of rooms of
    which one imports the other; circles are groups of files, of the package or of the admin page, that import each
    other. The faces `__init__` and `__main__` only hand names on, and are no rooms.
    """
    imports = python_imports(package)
    below: dict[str, set[str]] = {room_of(file): set() for file in imports if not is_face(file)}
    for file, files in imports.items():
        if not is_face(file):
            below[room_of(file)] |= {room_of(other) for other in files if not is_face(other)} - {
                room_of(file)
            }

    def floor(room: str, above: tuple[str, ...] = ()) -> int:
        return 1 + max((floor(one, (*above, room)) for one in below[room] if one not in above), default=0)

    return {
        "files": sum(1 for _ in package.rglob("*.py")),
        "rooms": len(below),
        "floors": max(map(floor, below)),
        "arrows": sum(map(len, below.values())),
        "circles": circles(imports) + circles(page_imports(page)),
    }


def room_of(module: str) -> str:
    return ([*module.split("."), ""])[1]


def is_face(module: str) -> bool:
    return room_of(module) in ("", "__main__", "_version")


def python_imports(package: Path) -> dict[str, set[str]]:
    """The modules of the package that each module imports, anywhere in it."""
    paths = {}
    for path in package.rglob("*.py"):
        parts = path.relative_to(package.parent).with_suffix("").parts
        paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    found: dict[str, set[str]] = {}
    for module, path in paths.items():
        names = set()
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                whole = {f"{node.module}.{alias.name}" for alias in node.names}
                names |= {name if name in paths else node.module for name in whole}
        found[module] = {name for name in names if name in paths} - {module}
    return found


def page_imports(page: Path) -> dict[str, set[str]]:
    """The files of the admin page that each of its files imports, types included."""
    files = {path.relative_to(page).with_suffix("").as_posix(): path for path in page.rglob("*.ts*")}
    found: dict[str, set[str]] = {}
    for name, path in files.items():
        named = re.findall(r"from '(\.[^']*)'", path.read_text("utf-8"))
        whole = (os.path.normpath(Path(name).parent / one).replace(os.sep, "/") for one in named)
        found[name] = {one for one in whole if one in files}
    return found


def circles(imports: Mapping[str, set[str]]) -> int:
    """How many groups of two and more import each other, directly or through others."""
    reached = {name: set(others) for name, others in imports.items()}
    for middle in reached:  # Warshall's closure
        for others in reached.values():
            if middle in others:
                others |= reached[middle]
    groups = {frozenset(one for one in reached[name] if name in reached[one]) for name in reached}
    return sum(len(group) > 1 for group in groups)


def fork_hooks(package: Path) -> int:
    """How many places ask to be called when the process forks."""
    calls = (
        node.func
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Call)
    )
    return sum(getattr(call, "attr", getattr(call, "id", "")) in HOOKS for call in calls)


# What is counted while the package works.


class Moves:
    """Counts the moves between files of a package while `of` runs a call."""

    def __init__(self, package: Path) -> None:
        self._package, self._file, self._count = f"{package}/", "", 0

    def of(self, call: Callable[[], object]) -> int:
        """The moves of one call."""
        self._file, self._count = "", -1  # to arrive is no move
        sys.setprofile(self._see)
        try:
            call()
        finally:
            sys.setprofile(None)
        return max(self._count, 0)

    def _see(self, frame: FrameType, event: str, _: object) -> None:
        there = frame if event == "call" else frame.f_back if event == "return" else None
        if there is None:
            return
        file = there.f_code.co_filename
        if file != self._file and file.startswith(self._package):
            self._file = file
            self._count += 1


def moves(package: Path) -> dict[str, int]:
    """Moves of a message, of a report, of a turn and of a change, in memory and over a registry."""
    from toolroll import Context, Registry, Toolroll, read_folder

    count, context = Moves(package), Context(org="acme", tier="free", page="home")

    def least(guest: Callable[[int], object]) -> int:
        guest(0), guest(1)  # the first ones fill caches
        return min(count.of(lambda number=number: guest(number)) for number in range(2, 2 + RUNS))

    def select(roll: Toolroll) -> int:
        return least(lambda _: roll.select("Should I bring an umbrella?", context))

    def report(roll: Toolroll) -> int:
        def guest(_: int) -> None:
            picked = roll.select("Should I bring an umbrella?", context)
            roll.record(picked, {picked.names[-1]: True})

        return least(guest)

    def turn(roll: Toolroll) -> int:
        def guest(number: int) -> None:
            session = roll.session("conversation", context)
            picked = session.select(f"Umbrella number {number}?")
            session.used({picked.names[-1]: True})
            session.end_turn()

        return least(guest)

    found = {}
    with Toolroll.demo() as roll:
        found |= {"memory_select": select(roll), "memory_record": report(roll), "memory_turn": turn(roll)}
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/tools.db"
        with Registry.open(url, actor="house") as registry:
            registry.import_(read_folder(package / "demo" / "toolkits"))
            with Toolroll.open(url) as roll:
                roll.warm_up(["acme"])
                found |= {"registry_select": select(roll), "registry_record": report(roll)}
                found |= {"registry_turn": turn(roll)}

            def change(number: int) -> None:
                version = registry.tool("get_forecast").version
                registry.update("get_forecast", {"pin_weight": number}, version=version)

            found["registry_change"] = least(change)
    return found


def threads(package: Path) -> int:
    """How many kinds of threads a host over a registry starts: threads of a pool count once."""
    from toolroll import Context, Registry, Toolroll, read_folder

    with tempfile.TemporaryDirectory() as folder, started() as names:
        url = f"sqlite:///{folder}/tools.db"
        with Registry.open(url, actor="house") as registry:
            registry.import_(read_folder(package / "demo" / "toolkits"))
            with Toolroll.open(url) as roll:
                session = roll.session("conversation", Context(org="acme"))
                session.used(dict.fromkeys(session.select("Will it rain?").names[-1:], True))
                session.end_turn()
                registry.update(
                    "get_forecast", {"pin_weight": 2}, version=registry.tool("get_forecast").version
                )
                roll.refresh()
                roll.record(roll.receipt(picked := roll.select("And snow?")), {picked.names[0]: True})
                roll.flush()
    return len(names)


@contextmanager
def started() -> Iterator[set[str]]:
    """The names of all threads of the package that start meanwhile."""
    names: set[str] = set()
    start = threading.Thread.start

    def noted(thread: threading.Thread) -> None:
        if thread.name.startswith("toolroll"):
            names.add(thread.name)
        start(thread)

    threading.Thread.start = noted  # type: ignore[method-assign]
    try:
        yield names
    finally:
        threading.Thread.start = start  # type: ignore[method-assign]


def measured() -> House:
    """All numbers of now."""
    import toolroll
    from toolroll.registry.store import tables

    source, package = REPOSITORY / "python" / "toolroll", Path(toolroll.__file__).parent
    logging.getLogger("toolroll").setLevel(logging.CRITICAL)
    return {
        "lines": lines(source),
        "layout": layout(source, REPOSITORY / "web" / "src"),
        "words": words(REPOSITORY / "docs"),
        "mechanisms": {
            "threads": threads(package),
            "fork_hooks": fork_hooks(source),
            "tables": len(tables.metadata.tables),
            "open_parameters": len(inspect.signature(toolroll.Toolroll.open).parameters),
        },
        "moves": moves(package),
    }


# The file of numbers.

HEAD = "# The size of the house: `python tools/house.py` compares, `--write` writes. tests/README.md says what it is.\n"


def read(text: str) -> House:
    """The numbers of a file: `name = number` lines under `[group]` lines."""
    found: House = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.partition("#")[0].strip()
        if group := re.fullmatch(r"\[(\w+)\]", line):
            found[group[1]] = {}
        elif (entry := re.fullmatch(r"(\w+) = (\d+)", line)) and found:
            found[[*found][-1]][entry[1]] = int(entry[2])
        elif line:
            raise SystemExit(f"{NUMBERS.name}:{number}: is {line!r}, must be [group] or name = number")
    return found


def written(house: Mapping[str, Mapping[str, int]]) -> str:
    """The file of these numbers."""
    groups = (
        f"[{name}]\n" + "".join(f"{key} = {n}\n" for key, n in one.items()) for name, one in house.items()
    )
    return f"{HEAD}\n" + "\n".join(groups)


def differences(agreed: House, now: House) -> list[str]:
    """A sentence for each number that is not the agreed one."""
    found = []
    for group in [*now, *(name for name in agreed if name not in now)]:
        before, after = agreed.get(group, {}), now.get(group, {})
        for name in [*after, *(name for name in before if name not in after)]:
            old, new = before.get(name, 0), after.get(name, 0)
            if new > old:
                found.append(
                    f"{group}.{name} grew by {new - old:,} to {new:,}: make room, or raise it in tools/house.toml in "
                    "the same commit and say there why, and what you refused instead"
                )
            elif new < old:
                found.append(f"{group}.{name} fell by {old - new:,} to {new:,}: write it down (--write)")
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Compares the size of the house with tools/house.toml.")
    parser.add_argument("--write", action="store_true", help="write the numbers of now")
    options: Any = parser.parse_args(arguments)
    now = measured()
    if options.write:
        NUMBERS.write_text(written(now), "utf-8")
        return 0
    found = differences(read(NUMBERS.read_text("utf-8")), now)
    print(*found or ["The house has the size that was agreed on."], sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
