"""`toolroll registry settings, tiers`: what is switched on, and the order of subscriptions."""

from __future__ import annotations

import argparse
import sys

from toolroll.cli.catalog_options import add_catalog, add_writing, command, opened
from toolroll.cli.groups import below, group, print_done
from toolroll.cli.terminal import note, print_json, print_table, printable
from toolroll.errors import InvalidInput


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the commands."""
    _add_settings(
        group(
            commands,
            "settings",
            _settings,
            "list the settings that have a value, change them",
            description="Lists the settings that have a value, which switch toolkits on. The registry keeps "
            "that there is one, never the value.",
        )
    )
    tiers = command(
        commands,
        "tiers",
        _tiers,
        "print the subscription tiers, lowest first, or set them",
        epilog="example: toolroll registry tiers free pro enterprise",
    )
    tiers.add_argument("names", nargs="*", metavar="NAME", help="all tiers, lowest first")
    tiers.add_argument("--clear", action="store_true", help="have none")
    add_writing(tiers, org=False)
    add_catalog(tiers)


def _add_settings(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    setting = below(
        commands,
        "set",
        _set_setting,
        "note that a setting has a value",
        description="Notes that a setting has a value. The value is read from standard input, or asked for "
        "on a terminal, so that it is in no history of commands; it is looked at and forgotten. A blank "
        "one is none; any other text is a value, words like false, 0 and null too.",
    )
    setting.add_argument("key", metavar="KEY")
    below(commands, "unset", _unset_setting, "note that a setting has none").add_argument(
        "key", metavar="KEY"
    )


def _settings(options: argparse.Namespace) -> int:
    with opened(options) as registry:
        found = [item.to_dict() for item in registry.settings.list(org=options.org)]
    if options.json:
        print_json({"settings": found})
        return 0
    print_table(
        ("KEY", "ORG", "HAS A VALUE", "SINCE", "BY"),
        (
            (
                item["key"],
                item["org"] or "-",
                "yes" if item["is_set"] else "no",
                str(item["updated_at"])[:19],
                item["updated_by"],
            )
            for item in found
        ),
    )
    return 0


def _set_setting(options: argparse.Namespace) -> int:
    if sys.stdin.isatty():
        from getpass import getpass

        value = getpass(f"value of {options.key}: ")
    else:
        value = sys.stdin.buffer.read(1 << 20).decode("utf-8", "replace")
    if not value.strip():
        raise InvalidInput(
            f"setting {options.key!r}: the value is blank, which is none; write it to standard input, "
            "or say `settings unset`"
        )
    with opened(options) as registry:
        done = registry.settings.set(options.key, value, org=options.org, reason=options.reason)
    return print_done(done, options, f"setting {options.key}: has a value")


def _unset_setting(options: argparse.Namespace) -> int:
    with opened(options) as registry:
        done = registry.settings.unset(options.key, org=options.org, reason=options.reason)
    return print_done(done, options, f"setting {options.key}: has no value")


def _tiers(options: argparse.Namespace) -> int:
    if options.names and options.clear:
        options.usage.error("--clear: goes without names")
    with opened(options) as registry:
        if options.names or options.clear:
            registry.set_tiers(tuple(options.names), reason=options.reason)
        tiers = registry.tiers()
    if options.json:
        print_json({"tiers": list(tiers)})
    elif tiers:
        for name in tiers:
            print(printable(name))
    else:
        note("there are no tiers; toolroll registry tiers LOWEST … HIGHEST")
    return 0
