"""Commands that are alike for several kinds of rows: `rules list`, `rules delete NAME`."""

from __future__ import annotations

from typing import Any

import click

from toolroll.cli.commands import DefaultGroup
from toolroll.cli.options import WindowOptions, WriteOptions, any_org_options, write_options
from toolroll.cli.output import print_list, print_result


def add_list(group: DefaultGroup, help: str, columns: str, **shown: Any) -> None:
    """Adds a command that lists the rows of a group. The registry has an attribute with the group's name.

    columns, shown: as `print_list` takes them.
    """
    assert group.name is not None
    area = group.name

    @group.command("list", help=help, example=f"toolroll registry {area} list --org acme")
    @any_org_options
    def run(options: WindowOptions) -> None:
        with options.registry() as registry:
            found = [row.to_dict() for row in getattr(registry, area).list(org=options.org)]
        print_list(options.json, area, found, columns, **shown)


def add_by_name(group: DefaultGroup, command: str, help: str, done: str, example: str = "") -> None:
    """Adds a command that calls the method of its name. done: the output after it."""
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
