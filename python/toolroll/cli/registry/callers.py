"""`toolroll registry keys, accounts`: who may call the service, for which organisation, and what for."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import click

from toolroll.cli.commands import DefaultGroup
from toolroll.cli.options import WriteOptions, flag, option, platform_write_options, write_options
from toolroll.cli.output import note, print_json, print_result
from toolroll.cli.parameter_types import duration
from toolroll.cli.registry.by_name import add_list

if TYPE_CHECKING:
    from toolroll.registry.access.service_keys import ServiceKey


import sys
from typing import TYPE_CHECKING

from toolroll.cli.options import WindowOptions, any_org_options
from toolroll.cli.output import print_list

if TYPE_CHECKING:
    from toolroll.registry.access.accounts import Accounts
    from toolroll.registry.registry import Registry


# Written out, so that --help imports nothing.
_KEY_ROLES = ("select", "report", "vouch", "sync", "read", "administer")
_ACCOUNT_ROLES = ("select", "report", "read", "administer")

keys = DefaultGroup(
    "keys",
    help="List the keys of the service's callers, or change them. Without a command: list.\n\n"
    "`toolroll serve` accepts these keys. The registry stores a hash of each; a key is printed once, when it "
    "is made.",
    example="toolroll registry keys --catalog sqlite:///tools.db",
)


add_list(
    keys,
    "List the keys, also expired ones. The column ORG is empty for a key of all organisations.",
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
    choices=_KEY_ROLES,
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
    that has signed its users in. Without it, all outcomes of the key count as one unnamed caller's.
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
    "--overlap", "How long the old key stays valid: 7d, 12h.", type=duration, default="1d", metavar="TIME"
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


_password_option = flag(
    "--stdin from_stdin", "Read the password from standard input, up to the end of its line."
)

accounts = DefaultGroup(
    "accounts",
    help="List people who sign in with a password, or change them. Without a command: list.\n\n"
    "They sign in at the page of `toolroll serve`. Where there is an identity provider, use it instead: "
    "docs/service.md.",
    example="toolroll registry accounts --catalog sqlite:///tools.db",
)


@accounts.command("list", example="toolroll registry accounts list --org acme")
@any_org_options
def list_accounts(options: WindowOptions) -> None:
    """List the accounts. The column ORG is empty for an account of all organisations."""
    with options.registry() as registry:
        found = [account.to_dict() for account in _accounts(registry).list(options.org)]
    print_list(options.json, "accounts", found, "NAME ORG ROLES CHANGED=changed_at BY=created_by")


@accounts.command("add", example="toolroll registry accounts add ann --any-org --role read --role administer")
@click.argument("name")
@option(
    "--role roles",
    "What the person may do; repeatable.",
    choices=_ACCOUNT_ROLES,
    multiple=True,
    required=True,
)
@flag("--any-org", "The person acts for all organisations.")
@_password_option
@write_options
def add_account(
    options: WriteOptions, name: str, roles: tuple[str, ...], any_org: bool, from_stdin: bool
) -> None:
    """Add an account. Asks for its password."""
    if any_org and options.org:
        raise click.UsageError("--any-org: goes without --org")
    with options.registry() as registry:
        made = _accounts(registry).add(
            name,
            _password(from_stdin),
            roles=roles,
            org=None if any_org else options.org,
            reason=options.reason,
        )
    print_result(options.json, made.to_dict(), f"account {name}: added; {', '.join(made.roles)}")


@accounts.command("password", example="toolroll registry accounts password ann")
@click.argument("name")
@_password_option
@platform_write_options
def set_password(options: WriteOptions, name: str, from_stdin: bool) -> None:
    """Replace the password of an account. The person's sessions end within seconds."""
    with options.registry() as registry:
        changed = _accounts(registry).set_password(name, _password(from_stdin), reason=options.reason)
    print_result(options.json, changed.to_dict(), f"account {name}: has a new password")


@accounts.command("remove", example="toolroll registry accounts remove ann")
@click.argument("name")
@platform_write_options
def remove_account(options: WriteOptions, name: str) -> None:
    """Remove an account. The person's sessions end within seconds."""
    with options.registry() as registry:
        removed = _accounts(registry).remove(name, reason=options.reason)
    print_result(options.json, removed.to_dict(), f"account {name}: removed")


def _accounts(registry: Registry) -> Accounts:
    try:
        from toolroll.registry.access.accounts import Accounts
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "argon2":
            raise
        raise click.ClickException("accounts need argon2: pip install 'toolroll[server]'") from error
    return Accounts(registry.database, registry.actor)


def _password(from_stdin: bool) -> str:
    if from_stdin:
        return sys.stdin.readline().rstrip("\r\n")
    text: str = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    return text


COMMANDS = (keys, accounts)
