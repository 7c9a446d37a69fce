"""Ten turns of a conversation, with loaded, sticky and idle tools, a fallback, and a restart in between.

    python examples/conversation.py

The user's messages and the model's calls are scripted, because this example calls no model. toolroll
produces the tool lists and the answers to the model. The registry is a new SQLite file with the
demonstration catalog.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import toolroll
from toolroll import Context, Recording, Toolroll
from toolroll.formats.sources.folder import read_folder
from toolroll.registry.registry import Registry
from toolroll.registry.store.database import Database
from toolroll.sessions.session import Session

# The user's message, the model's calls of meta-tools, and the tools that it then calls.
TURNS = (
    ("What's on my calendar tomorrow?", (), ["list_events"]),
    ("Move the second one to Friday", (), ["update_event"]),
    (
        "We meet outside: is the air any good there?",
        [("manage_tools", {"mode": "load", "tools": "get_air_quality, get_pollen"})],
        ["get_air_quality"],
    ),
    ("Email Hanna that we meet in the park", (), ["send_email"]),
    ("send it to John too", (), ["send_email"]),
    ("Which files did I change this week?", (), ["find_files"]),
    (
        "And who touched the second one last?",
        [
            ("search_tools", {"queries": ["history of changes to the code"], "limit": 2}),
            ("call_tool", {"name": "git_log", "arguments": {"path": "plan.md"}}),
        ],
        ["git_log"],
    ),
    ("Get everything ready for the release", [("manage_tools", {"mode": "fallback"})], ["git_status"]),
    ("Which jobs run tonight?", (), ["list_jobs"]),
    ("Thanks, that's all", (), []),
)
RESTART_AFTER = 5


def main() -> None:
    """Plays the conversation and prints it."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'tools.db'}"
        database = Database.open(url, create=True, migrate=True)
        demo = Path(toolroll.__file__).with_name("demo") / "toolkits"
        Registry(database, actor="example").import_(read_folder(demo))
        database.close()
        history: list[dict[str, str]] = []
        for turns in (TURNS[:RESTART_AFTER], TURNS[RESTART_AFTER:]):
            # For the conversation, each opening is like a new process.
            with Toolroll.open(url, recording=Recording(outbox=Path(folder) / "outbox")) as roll:
                session = roll.session("conversation-42", Context(user="ann"), learns=False)
                if history:
                    print(f"\n(restarted: turn {session.turn}, loaded: {listed(session.loaded)})")
                for turn in turns:
                    play(session, history, *turn)


def play(
    session: Session,
    history: list[dict[str, str]],
    message: str,
    asks: Sequence[tuple[str, object]],
    calls: list[str],
) -> None:
    """One turn."""
    before = session.conversation.listed
    picked = session.select(message, k=7, history=history)
    new = [name for name in picked.names if name not in before]
    gone = sum(name not in picked for name in before)
    print(f"\nturn {session.turn}: {message}")
    print(f"  sent {len(picked)} tools, the first {same(before, picked.names)} as in the turn before")
    print(f"  new: {listed(new[-6:], len(new))}" + (f"; let go: {gone}" if gone else ""))
    for name, arguments in asks:
        answer = session.answer(name, arguments)
        if answer.call is not None:
            said = f"(to run: {answer.call.tool.name}({answer.call.arguments}))"
        elif name == "search_tools":
            said = f"{listed(tool.name for tool in answer.tools)}, with their parameters"
        else:
            said = answer.text
        print(f"  the model: {name}({arguments})\n    {said}")
        print(f"    {len(session.selection)} tools can be called now")
    for name in calls:
        session.check(name)  # raises Denied for a tool that was not offered, loaded or found
    session.used(calls)
    print(f"  called: {listed(calls)}; loaded: {listed(session.loaded)}")
    for name in session.end_turn():
        print(f"  idle for too long, unloaded: {name}")
    history += [
        {"role": "user", "content": message},
        {"role": "assistant", "content": "(what the model says)"},
    ]


def same(before: tuple[str, ...], now: tuple[str, ...]) -> int:
    """The number of equal names at the beginning: the part of the list that a provider's prompt cache has."""
    pairs = enumerate(zip(before, now, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(before), len(now)))


def listed(names: Iterable[str], count: int = 0) -> str:
    """Names in one line, and how many more there are."""
    names = list(names)
    more = f" and {count - len(names)} more" if count > len(names) else ""
    return (", ".join(names) or "none") + more


if __name__ == "__main__":
    main()
