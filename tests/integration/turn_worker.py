"""A process that takes steps of conversations' turns; run as a script by test_turn_steps.py.

Reads a step as JSON from each line of its standard input and writes the result to its standard output.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from toolroll import Context, Profile, Recording, Toolroll
from toolroll.formats.meta_tools import META_TOOLS
from toolroll.formats.repair import repair
from toolroll.model.errors import Denied, InvalidInput

# Outcomes are recorded and change no selection: over a store, statistics follow a moment later.
PROFILE = Profile(learning=None, pass_through_tools=0)


def take(roll: Toolroll, step: dict[str, Any]) -> Any:
    """Takes one step, as a request of its own."""
    session = roll.session(step["session"], Context(user="ann", exclude=tuple(step["exclude"])))
    match step["do"]:
        case "select":
            selection = session.select(step["message"], step["k"], history=step["history"])
            sent = _delivered(session, step)
            return {
                **sent,
                "event": selection.event_id,
                "selected": list(selection.names),
                "turn": session.turn,
            }
        case "deliver":
            return _delivered(session, step)
        case "check":
            return [name for name in step["names"] if _passes(session, name)]
        case "call":
            return _called(session, step["name"], step["arguments"])
        case "report":
            return list(session.used([(name, worked) for name, worked in step["called"]]))
        case "end":
            return list(session.end_turn())


def _delivered(session: Any, step: dict[str, Any]) -> dict[str, Any]:
    must_call = step.get("must_call", False)
    delivery = session.deliver(step["provider"], step["how"], meta_tools=META_TOOLS, must_call=must_call)
    return {"request": delivery.request, "allowed": sorted(delivery.allowed)}


def _passes(session: Any, name: str) -> bool:
    try:
        session.check(name)
    except Denied:
        return False
    return True


def _called(session: Any, name: str, arguments: Any) -> dict[str, Any]:
    try:
        tool = session.check(name)
        if tool in META_TOOLS:
            answer = session.answer(tool.name, arguments)
            if answer.call is None:
                return {"answered": tool.name, "tools": [found.name for found in answer.tools]}
            tool, arguments = answer.call.tool, answer.call.arguments
        return {"tool": tool.name, "arguments": repair(arguments, tool.parameters).arguments}
    except (Denied, InvalidInput) as error:
        return {"refused": type(error).__name__}


def main(url: str, outbox: str) -> None:
    with Toolroll.open(url, profile=PROFILE, recording=Recording(outbox=outbox)) as roll:
        for line in sys.stdin:
            sys.stdout.write(json.dumps(take(roll, json.loads(line))) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
