"""What a session's turn costs beside a plain selection, and what a live conversation holds in memory.

The dialogs are those of nobody: messages of the workload in runs of ten, each turn with the two messages
before it; after each turn a tool is said to have been called. Saying so is timed in whole turns alone.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator

from bench import workloads
from bench.harness import Case, Figure, sizes
from bench.peers.run import rss_bytes
from toolroll import Context, Toolroll
from toolroll.embedders.static import StaticEmbedder
from toolroll.formats.sources.dicts import read_tools
from toolroll.sessions.session import Session

MESSAGES, TURNS, K = 4096, 10, 7
LIVE = 100_000
_PLAIN = "the selection without a session"
#: At most so many times the selection without, and where outcomes were learnt; the same of a whole turn.
_MOST, _MOST_LEARNT = 1.4, 1.6
LEARNT = 3_000
_BYTES = 1e9


def cases(quick: bool) -> Iterator[Case | Figure]:
    for n in sizes(158) if quick else sizes(158, 10_000):
        yield _turn(n)
    yield _turn(158, 300 if quick else LEARNT)
    for learnt in (0, 300 if quick else LEARNT):
        yield _whole(learnt, 100 if quick else 2_000)
    yield _live(2_000 if quick else LIVE)


def _roll(n: int) -> Toolroll:
    return Toolroll.from_tools(read_tools(workloads.tools(n)).tools, embedder=StaticEmbedder())


def _taught(n: int, learnt: int) -> tuple[Toolroll, list[str]]:
    """A roll that has learnt from so many outcomes of fifty users, and messages."""
    roll, asked = _roll(n), workloads.messages(MESSAGES, n)
    for i in range(learnt):
        picked = roll.select(asked[i % MESSAGES], Context(user=f"user-{i % 50}"), K)
        roll.record(picked, {picked.names[i % 3]: i % 5 != 0})
    return roll, asked


def _turn(n: int, learnt: int = 0) -> Case:
    roll, asked = _taught(n, learnt)
    context = Context(user="ann", session="plain")

    def history(i: int) -> list[dict[str, str]]:
        before = [asked[(i - at) % MESSAGES] for at in (2, 1)]
        return [
            {"role": role, "content": text} for role, text in zip(("user", "assistant"), before, strict=True)
        ]

    # Prepared, so that the timed call is `select` alone: a session in each of its ten turns.
    ready: list[Session] = []
    for i in range(40 * TURNS):
        session = roll.session(f"conversation-{i}", context, learns=False)
        for turn in range(1, i % TURNS + 1):
            picked = session.select(asked[(i + turn) % MESSAGES], K, history=history(i + turn), turn=turn)
            session.used(picked.names[-1:])
        ready.append(session)

    def ours(i: int) -> object:
        turn = i % TURNS + 1  # of this session: it is asked for the same turn again and again
        return ready[i % len(ready)].select(asked[i % MESSAGES], K, history=history(i), turn=turn)

    def plain(i: int) -> object:
        return roll.select(asked[i % MESSAGES], context, K, history=history(i))

    def check() -> str:
        longest = max(len(session.selection) for session in ready if session.turn)
        assert longest > 2 * K, "no list has grown"
        return f"lists of up to {longest} tools"

    return Case(
        operation=f"a session's turn, k={K}, with what was said before",
        size=f"{n:,} tools, {learnt:,} outcomes",
        ours=ours,
        peers={_PLAIN: plain},
        check=check,
        bars={_PLAIN: 1 / (_MOST_LEARNT if learnt else _MOST)},
        beside=(_PLAIN,),
        note="turns 1 to 10 alike; both read two messages of history",
        repeats=4000,
    )


def _whole(learnt: int, n: int) -> Figure:
    """Opened, selected, reported and ended, beside a selection and its report, each in turn.

    In processor time of this thread.
    """
    roll, asked = _taught(158, learnt)
    context = Context(user="ann")

    def ours(i: int) -> None:
        session = roll.session(f"conversation-{i % 400}", context)
        picked = session.select(asked[i % MESSAGES], K)
        session.used({picked.names[-1]: True})
        session.end_turn()

    def plain(i: int) -> None:
        picked = roll.select(asked[i % MESSAGES], context, K)
        roll.record(picked, {picked.names[-1]: True})

    took: dict[str, list[int]] = {"ours": [], "plain": []}
    for i in range(n + 100):
        for name, call in (("ours", ours), ("plain", plain)):
            start = time.thread_time_ns()
            call(i)
            if i >= 100:
                took[name].append(time.thread_time_ns() - start)
    medians = {name: sorted(times)[n // 2] for name, times in took.items()}
    return Figure(
        "a whole turn over a selection and its report",
        f"158 tools, {learnt:,} outcomes",
        medians["ours"] / medians["plain"],
        "times",
        limit=_MOST_LEARNT if learnt else _MOST,
        note=f"{medians['ours'] / 1e3:.0f} us",
    )


def _live(n: int) -> Figure:
    roll, asked = _roll(158), workloads.messages(MESSAGES, 158)
    for i in range(200):  # what is made once
        roll.session(f"first-{i}", learns=False).select(asked[i], K)
    gc.collect()
    before = rss_bytes()
    for i in range(n):
        session = roll.session(f"conversation-{i}", Context(org=f"org-{i % 1_000}"), learns=False)
        for turn in range(1, 4):
            picked = session.select(asked[(i + turn) % MESSAGES], K, turn=turn)
            session.used(picked.names[-2:])
        session.load(picked.names[:3])
    gc.collect()
    held = rss_bytes() - before
    return Figure(
        f"{n:,} live conversations",
        "158 tools, 3 turns each",
        held / 1e6,
        "MB",
        limit=_BYTES / 1e6 * n / LIVE,
        note=f"{held / n:,.0f} bytes each",
    )
