"""Commands that change one rule, toolkit or setting and need only its name: `rules delete NAME`."""

from __future__ import annotations

import click

from toolroll.cli.commands import ListGroup
from toolroll.cli.options import WriteOptions, write_options
from toolroll.cli.output import print_result


def add_by_name(group: ListGroup, command: str, help: str, done: str, example: str = "") -> None:
    """Adds a command that calls the method of its name, of the registry's attribute of the group's name.

    done: what has become of the thing then, as the output says it.
    """
    assert group.name is not None
    area, kind = group.name, group.name.removesuffix("s")

    @group.command(command, help=help, example=f"toolroll registry {area} {command} {example}")
    @click.argument("name")
    @write_options
    def run(options: WriteOptions, name: str) -> None:
        with options.registry() as registry:
            change = getattr(getattr(registry, area), command)
            changed = change(name, org=options.org, reason=options.reason)
        print_result(options.json, changed.to_dict(), f"{kind} {name}: {done}")
