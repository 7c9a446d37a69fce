"""`toolroll registry settings, tiers, pins`: the choices of organisations."""

from __future__ import annotations

import sys

import click

from toolroll.cli.commands import DefaultGroup, command
from toolroll.cli.options import WriteOptions, flag, option, platform_write_options, write_options
from toolroll.cli.output import note, print_json, print_result, printable
from toolroll.cli.registry.by_name import add_by_name, add_list
from toolroll.model.errors import InvalidInput

settings = DefaultGroup(
    "settings",
    help="List the settings that have a value, or change them. Without a command: list.\n\n"
    "Settings turn toolkits on. The registry stores that a setting has a value, never the value.",
    example="toolroll registry settings --catalog sqlite:///tools.db",
)


add_list(
    settings,
    "List the settings that have a value.",
    "KEY ORG HAS_A_VALUE=is_set SINCE=updated_at BY=updated_by",
)


@settings.command("set", example="toolroll registry settings set crm_key < crm.key")
@click.argument("key")
@write_options
def set_setting(options: WriteOptions, key: str) -> None:
    """Record that a setting has a value.

    The value is read from standard input, or asked for on a terminal, so that no shell history keeps it. It
    is checked and forgotten. A blank value is refused; any other text is a value, also false, 0 and null.
    """
    if sys.stdin.isatty():
        value = click.prompt(f"Value of {key}", default="", show_default=False, hide_input=True, err=True)
    else:
        value = sys.stdin.buffer.read(1 << 20).decode("utf-8", "replace")
    if not value.strip():
        raise InvalidInput(
            f"setting {key!r}: the value is blank, which counts as none; write it to standard input, "
            "or use `settings unset`"
        )
    with options.registry() as registry:
        done = registry.settings.set(key, value, org=options.org, reason=options.reason)
    print_result(options.json, done.to_dict(), f"setting {key}: has a value")


add_by_name(settings, "unset", "Record that a setting has no value.", "has no value", "crm_key")


@command("tiers", example="toolroll registry tiers free pro enterprise")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@flag("--clear", "Remove all tiers.")
@platform_write_options
def tiers(options: WriteOptions, names: tuple[str, ...], clear: bool) -> None:
    """Print the subscription tiers, or set them.

    NAMEs are all tiers, lowest first.
    """
    if names and clear:
        raise click.UsageError("--clear: goes without names")
    with options.registry() as registry:
        if names or clear:
            registry.set_tiers(names, reason=options.reason)
        found = registry.tiers()
    if options.json:
        print_json({"tiers": list(found)})
    elif found:
        print("\n".join(map(printable, found)))
    else:
        note("there are no tiers; toolroll registry tiers LOWEST … HIGHEST")


pins = DefaultGroup(
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


COMMANDS = (settings, tiers, pins)
