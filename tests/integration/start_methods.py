"""A program that starts processes in every way that Python has; run as a script by test_start_methods.py.

Its children use the roll of their parent, or one of their own, and print what came of it. A child that hangs in
one of its steps is ended by an alarm, after five seconds.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from toolroll import Context, Follow, InvalidInput, Recording, Tool, Toolroll

TOOLS = [Tool(f"tool_{at}", f"does the thing of number {at}") for at in range(20)]
ANN = Context(user="ann")
CHILDREN = 2

opened: Toolroll | None = None


def open_roll() -> Toolroll:
    """A roll in memory, or over the registry that the environment names."""
    url, outbox = os.environ["ROLL_URL"], Path(os.environ["ROLL_OUTBOX"])
    return (
        Toolroll.from_tools(TOOLS)
        if url == "memory"
        else Toolroll.open(url, follow=Follow(poll_s=0.1), recording=Recording(outbox=outbox))
    )


def say(*words: object) -> None:
    """Prints a line in one piece: children print at the same time."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def use(roll: Toolroll, who: str) -> None:
    """Selects, talks, reports, reads and writes."""
    steps: list[Callable[[], object]] = [
        lambda: picked.append(roll.select("number 7", ANN, k=3)),
        lambda: roll.record(picked[0], ["tool_7"]),
        lambda: roll.session(who, ANN).select("number 3", k=3),
        roll.health,
        lambda: roll.record(roll.receipt(picked[0]), ["tool_7"]),
        lambda: roll.flush(4) or say(who, "not flushed"),
    ]
    picked: list = []
    for step in steps:
        signal.alarm(5)
        step()
    signal.alarm(0)
    assert "tool_7" in picked[0].names and not picked[0].degraded, picked[0].degraded
    say(who, "works")


def child(method: str, who: str) -> None:
    if method == "fork":
        assert opened is not None
        use(opened, who)
    elif method == "preload":
        from tests.integration import start_methods_preloaded as preloaded

        assert preloaded.pid == os.getppid(), "not inherited"
        use(preloaded.roll, who)
    else:
        signal.alarm(5)
        with open_roll() as roll:
            use(roll, who)


def main(method: str) -> None:
    global opened
    context: Any = multiprocessing.get_context("forkserver" if method == "preload" else method)
    if method == "preload":  # the server that forks has opened the roll, as gunicorn --preload does
        context.set_forkserver_preload(["tests.integration.start_methods_preloaded"])
    else:
        opened = open_roll()
        use(opened, "parent")
        try:
            pickle.dumps(opened)
        except InvalidInput as error:
            say(error)
    children = [context.Process(target=child, args=(method, f"{method}{at}")) for at in range(CHILDREN)]
    for one in children:
        one.start()
    for one in children:
        one.join()
        if one.exitcode:
            say("exit", one.exitcode)
    if opened is not None:
        use(opened, "parent")
        opened.close()


if __name__ == "__main__":
    main(sys.argv[1])
