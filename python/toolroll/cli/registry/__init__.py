"""`toolroll registry`: what is in a registry, and changing it. Its commands are in the files beside it."""

from __future__ import annotations

import argparse

from toolroll.cli.catalog_options import group
from toolroll.cli.registry import review, rules, settings, state, sync, toolkits, tools


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the command and those below it."""
    below = group(
        commands,
        "registry",
        "look at a registry and change it",
        description="Looks at a registry and changes it. Every change is one transaction, with who made it "
        "and why; running processes select by it within a second.",
        epilog="example: toolroll registry list --catalog sqlite:///tools.db",
    )
    for part in (
        tools,
        review,
        sync,
        toolkits,
        rules,
        settings,
        state,
    ):
        part.add(below)
