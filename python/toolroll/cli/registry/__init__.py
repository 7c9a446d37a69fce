"""`toolroll registry`: reads a registry and changes it. Its commands are in the files beside it."""

from __future__ import annotations

from toolroll.cli.commands import Group
from toolroll.cli.registry import callers, organisations, review, rules, state, sync, toolkits, tools

command = Group(
    "registry",
    help="Read a registry and change it.\n\n"
    "Every change is one transaction that records who made it and why. Running processes follow it within a "
    "second.",
    example="toolroll registry list --catalog sqlite:///tools.db",
)
for _module in (tools, review, sync, toolkits, rules, organisations, callers, state):
    for _command in _module.COMMANDS:
        command.add_command(_command)
