"""One row of the table in bench/README.md: `python -m tests.adapters.measure langchain`.

60 turns over 300 tools. Each turn's message needs one tool, which the model calls. Fails if it was not sent, if a call
of a tool that was not sent ran, or if an outcome was not reported. The time is that of
the processor in `toolroll` for a turn: two steps of the model, one check and one report. Hooks of an adapter
count where they call nothing of the framework's (`Harness.hooks`).
"""

from __future__ import annotations

import functools
import importlib
import inspect
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

from tests.adapters.scenario import CALLED, MANY, Harness, Reports, dialog, functions, message_for, tools_of
from toolroll import Toolroll
from toolroll.adapters.agent_turn import AgentTurn
from toolroll.adapters.tool_selector import ToolSelector
from toolroll.sessions.session import Session

METHODS = {
    ToolSelector: ("turn", "aturn", "find", "resume", "aresume"),
    AgentTurn: (
        "refusal",
        "arefusal",
        "report",
        "areport",
        "report_results",
        "areport_results",
        "end",
        "aend",
    ),
    Session: ("asearch",),  # of FastMCP's transform
}


class Stopwatch:
    """Time spent in toolroll; calls inside of calls count once."""

    def __init__(self, hooks: Iterable[tuple[type, tuple[str, ...]]]) -> None:
        """hooks: what counts beside `METHODS`."""
        self.spent, self._depth = 0.0, 0
        for owner, names in (*METHODS.items(), *hooks):
            for name in names:
                setattr(owner, name, self._timed(getattr(owner, name)))
        tools = AgentTurn.tools.fget
        assert tools is not None
        AgentTurn.tools = property(self._timed(tools))  # type: ignore[method-assign]

    def _timed(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def timed(*given: Any, **options: Any) -> Any:
            self._depth += 1
            began = time.process_time()
            try:
                return method(*given, **options)
            finally:
                self._depth -= 1
                self.spent += 0 if self._depth else time.process_time() - began

        @functools.wraps(method)
        async def atimed(*given: Any, **options: Any) -> Any:
            self._depth += 1
            began = time.process_time()
            try:
                return await method(*given, **options)
            finally:
                self._depth -= 1
                self.spent += 0 if self._depth else time.process_time() - began

        return atimed if inspect.iscoroutinefunction(method) else timed


def row(module: str) -> str:
    harness: type[Harness] = importlib.import_module(f"tests.adapters.test_{module}").HARNESS
    watch, reports = Stopwatch(harness.hooks), Reports()
    agent = harness(tools_of(harness, MANY), Toolroll.from_tools([], observers=[reports]), max_tools=12)
    sent, right, times = [], 0, []
    needed = dialog(60, MANY)
    for name in needed:
        watch.spent = 0.0
        trace = agent.say(message_for(name), [name])
        times.append(watch.spent)
        sent += [len(names) for names in trace.sent]
        right += name in trace.sent[0]
    shown = agent.say("Thank you!").sent[0]
    hidden = next(one.__name__ for one in functions(MANY) if one.__name__ not in shown)
    CALLED.clear()
    agent.say("Thank you again!", [hidden])
    assert right == len(needed), f"the right tool was sent in {right} of {len(needed)} turns"
    assert not CALLED, "a call of a tool that was not sent ran"
    assert len(reports.outcomes) == right, f"{len(reports.outcomes)} of {right} outcomes were reported"
    cells = [
        module.replace("_", "-"),
        f"{statistics.mean(sent):.1f}",
        f"{1e3 * statistics.median(times[1:]):.2f} ms",
        str(harness.lines),
    ]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    print(row(sys.argv[1]))
