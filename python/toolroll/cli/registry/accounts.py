"""`toolroll registry accounts`: people who sign in at the service's page with a password."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from toolroll.cli.commands import ListGroup
from toolroll.cli.options import (
    WindowOptions,
    WriteOptions,
    any_org_options,
    flag,
    option,
    platform_write_options,
    write_options,
)
from toolroll.cli.output import print_list, print_result

if TYPE_CHECKING:
    from toolroll.registry.access.accounts import Accounts
    from toolroll.registry.registry import Registry

_ROLES = ("select", "report", "read", "administer")  # written out, so that --help imports nothing
_password_option = flag(
    "--stdin from_stdin", "Read the password from standard input, up to the end of its line."
)

accounts = ListGroup(
    "accounts",
    help="List people who sign in with a password, or change them. Without a command: list.\n\n"
    "They sign in at the page of `toolroll serve`. Where there is an identity provider, use it instead: "
    "docs/service.md.",
    example="toolroll registry accounts --catalog sqlite:///tools.db",
)


@accounts.command("list", example="toolroll registry accounts list --org acme")
@any_org_options
def list_accounts(options: WindowOptions) -> None:
    """List the accounts. One of any organisation has none in the column ORG."""
    with options.registry() as registry:
        found = [account.to_dict() for account in _accounts(registry).list(options.org)]
    print_list(options.json, "accounts", found, "NAME ORG ROLES CHANGED=changed_at BY=created_by")


@accounts.command("add", example="toolroll registry accounts add ann --any-org --role read --role administer")
@click.argument("name")
@option("--role roles", "What the person may do; repeatable.", choices=_ROLES, multiple=True, required=True)
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


COMMANDS = (accounts,)
