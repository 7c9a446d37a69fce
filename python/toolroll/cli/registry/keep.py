"""`toolroll registry keep`: counts what hosts record, in the foreground."""

from __future__ import annotations

import signal
import threading
from datetime import timedelta

from toolroll.cli.commands import command
from toolroll.cli.options import RegistryOptions, option, registry_options
from toolroll.cli.output import note, print_fields, print_json
from toolroll.cli.parameter_types import duration
from toolroll.registry.options import Recording

_LOOK_S = 0.2
_END_S = 5.0  # for what is in the inbox


@command(
    "keep",
    example="toolroll registry keep --catalog postgresql://tools@db/tools\n"
    "toolroll registry keep --catalog sqlite:///tools.db --events 90d",
)
@option(
    "--events",
    "How long the events of selections are kept; their outcomes stay.",
    type=duration,
    metavar="TIME",
    default="30d",
)
@registry_options
def keep(options: RegistryOptions, events: timedelta) -> None:
    """Count what hosts record, until it is stopped. Of several keepers one works, and the others wait.

    `toolroll serve` and `toolroll mcp --http` start a keeper of their own. Other hosts keep the registry in a
    thread, unless they are opened with keeper="none".
    """
    from toolroll.registry.events.lease import state_of
    from toolroll.registry.keeper.keeper import Keeper

    events_s = Recording(events_s=events.total_seconds()).events_s
    is_ending = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: is_ending.set())
    with options.database() as database:
        keeper = Keeper(database, events_s=events_s)
        keeper.start()
        said = ""
        while not is_ending.wait(_LOOK_S):
            if keeper.failing is not None:
                says = f"waiting: {keeper.failing}"
            elif keeper.is_held:
                says = f"keeping {database.url}"
            else:
                says = f"waiting: {state_of(database).holder} keeps {database.url}"
            if says != said:
                note(says)
                said = says
        keeper.drain(_END_S)
        keeper.close(_END_S)
        figures = keeper.figures
    if options.json:
        print_json(figures)
    else:
        print_fields(figures)


COMMANDS = (keep,)
