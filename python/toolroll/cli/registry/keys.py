"""`toolroll registry keys`: who may call the service, for which organisation, and what for."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import click

from toolroll.cli.commands import ListGroup
from toolroll.cli.options import (
    WriteOptions,
    flag,
    option,
    platform_write_options,
    write_options,
)
from toolroll.cli.output import note, print_json, print_result
from toolroll.cli.parameter_types import duration
from toolroll.cli.registry.by_name import add_list

if TYPE_CHECKING:
    from toolroll.registry.access.service_keys import ServiceKey

_ROLES = (
    "select",
    "report",
    "vouch",
    "sync",
    "read",
    "administer",
)  # written out, so that --help imports nothing

keys = ListGroup(
    "keys",
    help="List the keys of the service's callers, or change them. Without a command: list.\n\n"
    "`toolroll serve` accepts these keys. The registry stores a hash of each; a key is printed once, when it "
    "is made.",
    example="toolroll registry keys --catalog sqlite:///tools.db",
)


add_list(
    keys,
    "List the keys, expired ones too. A key of any organisation has none in the column ORG.",
    "KEY=key_id NAME ORG ROLES PLUGIN EXPIRES=expires_at BY=created_by",
)


@keys.command(
    "add",
    example="toolroll registry keys add chat-backend --any-org --role select --role report --role vouch\n"
    "toolroll registry keys add crm-plugin --org acme --role sync --plugin crm --expires 90d",
)
@click.argument("name")
@option(
    "--role roles",
    "What callers with the key may do; repeatable.",
    choices=_ROLES,
    multiple=True,
    required=True,
)
@option("--plugin", "The plugin that --role sync registers.", default="", metavar="NAME")
@option("--expires", "Length of its life: 90d, 12h.", type=duration, metavar="TIME", unset="no end")
@flag("--any-org", "For callers of all organisations, such as the backend of your platform.")
@write_options
def add_key(
    options: WriteOptions,
    name: str,
    roles: tuple[str, ...],
    plugin: str,
    expires: timedelta | None,
    any_org: bool,
) -> None:
    """Make a key and print it. Nobody can print it again.

    With the role vouch, each user that the key names reports outcomes of their own, so give it to a backend
    that has signed its users in. Without it, all outcomes of the key count as those of one unnamed caller.
    """
    if any_org and options.org:
        raise click.UsageError("--any-org: goes without --org")
    with options.registry() as registry:
        made = registry.keys.add(
            name,
            roles=roles,
            org=None if any_org else options.org,
            plugin=plugin,
            lifetime=expires,
            reason=options.reason,
        )
    _print_key(options.json, *made)


@keys.command("rotate", example="toolroll registry keys rotate 3f2a9c01 --overlap 7d")
@click.argument("key_id", metavar="KEY")
@option(
    "--overlap",
    "How long the old key stays valid: 7d, 12h.",
    type=duration,
    default="1d",
    metavar="TIME",
)
@platform_write_options
def rotate_key(options: WriteOptions, key_id: str, overlap: timedelta) -> None:
    """Make a key that allows the same, and print it. KEY expires after the overlap."""
    with options.registry() as registry:
        made = registry.keys.rotate(key_id, overlap=overlap, reason=options.reason)
    _print_key(options.json, *made)


@keys.command("revoke", example="toolroll registry keys revoke 3f2a9c01")
@click.argument("key_id", metavar="KEY")
@platform_write_options
def revoke_key(options: WriteOptions, key_id: str) -> None:
    """End a key's validity now. Running services refuse it within seconds."""
    with options.registry() as registry:
        done = registry.keys.revoke(key_id, reason=options.reason)
    print_result(options.json, done.to_dict(), f"key {key_id}, {done.name}: revoked")


def _print_key(as_json: bool, key: ServiceKey, text: str) -> None:
    if as_json:
        print_json({**key.to_dict(), "key": text})
    else:
        note(f"key {key.key_id}, {key.name}: {', '.join(key.roles)}; it is shown this once")
        print(text)


COMMANDS = (keys,)
