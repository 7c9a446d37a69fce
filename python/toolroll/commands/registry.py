"""`toolroll registry`: what is in a registry, and changing it. Its commands are in the files beside it."""

from __future__ import annotations

import argparse

from toolroll.commands import (
    registry_review,
    registry_rules,
    registry_settings,
    registry_state,
    registry_sync,
    registry_toolkits,
    registry_tools,
)
from toolroll.commands.catalogs import group


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
        registry_tools,
        registry_review,
        registry_sync,
        registry_toolkits,
        registry_rules,
        registry_settings,
        registry_state,
    ):
        part.add(below)
