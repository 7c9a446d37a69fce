"""`toolroll events`: logged selections and their outcomes. Its commands are in the files beside it."""

from __future__ import annotations

from toolroll.cli.commands import Group
from toolroll.cli.events import analytics, export, learning, log, sessions
from toolroll.cli.lab.judge import parquet

command = Group(
    "events",
    help="Read logged selections, analytics, learning and sessions.\n\n"
    "A registry stores the selections that its readers made, the outcomes they reported, the "
    "statistics of these, and the state of conversations.",
    example="toolroll events list --catalog sqlite:///tools.db --since 1d --outcome failed\n"
    "toolroll events analytics metrics --catalog sqlite:///tools.db --since 7d",
)
for _command in (
    *log.COMMANDS,
    export.export,
    parquet,
    analytics.analytics,
    learning.learning,
    sessions.sessions,
):
    command.add_command(_command)
