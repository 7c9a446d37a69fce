"""`toolroll registry pins`: which tools of the platform an organisation always selects."""

from __future__ import annotations

import click

from toolroll.cli.commands import ListGroup
from toolroll.cli.options import WriteOptions, flag, option, write_options
from toolroll.cli.output import print_result
from toolroll.cli.registry.by_name import add_by_name, add_list

pins = ListGroup(
    "pins",
    help="List the pins of organisations, or change them. Without a command: list.\n\n"
    "An organisation always selects the tools of the platform that it pins. The platform's own pins are "
    "fields of its tools: `registry update NAME --set pinned=true`.",
    example="toolroll registry pins --catalog sqlite:///tools.db",
)


add_list(
    pins,
    "List the pins of organisations.",
    "TOOL ORG PINNED WEIGHT=pin_weight SINCE=updated_at BY=updated_by",
)


@pins.command(
    "set",
    example="toolroll registry pins set get_forecast --org acme --weight 10\n"
    "toolroll registry pins set search_tools --org acme --unpinned",
)
@click.argument("name")
@option("--weight", "Pinned tools with a higher weight come first.", type=int, default=0, metavar="N")
@flag("--unpinned", "Do not always select the tool, though the platform does.")
@write_options
def set_pin(options: WriteOptions, name: str, weight: int, unpinned: bool) -> None:
    """Always select a tool of the platform for an organisation (--org)."""
    with options.registry() as registry:
        done = registry.pins.set(
            name, org=options.org, pinned=not unpinned, weight=weight, reason=options.reason
        )
    state = "not pinned" if unpinned else "pinned"
    print_result(options.json, done.to_dict(), f"tool {done.tool}: {state} for {done.org}")


add_by_name(pins, "delete", "Delete a pin: the platform's choice counts again.", "deleted", "get_forecast")

COMMANDS = (pins,)
