"""`toolroll registry toolkits`: the tree of toolkits."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from toolroll.cli.catalog_options import opened
from toolroll.cli.groups import below, group, print_done
from toolroll.cli.terminal import print_json, printable
from toolroll.errors import NotFound


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the commands."""
    _add_toolkits(
        group(commands, "toolkits", _toolkits, "print the tree of toolkits, change it", all_of_them=False)
    )


def _add_toolkits(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    put = below(
        commands,
        "put",
        _put_toolkit,
        "make a toolkit, or change what is said of one",
        description="Makes a toolkit, or changes one: what is not given stays as it is. An empty text takes "
        "away what is there (--tier '').",
        epilog="example: toolroll registry toolkits put crm --keyword customer --keyword deal --tier pro",
    )
    put.add_argument("name", metavar="NAME")
    put.add_argument("--description", metavar="TEXT", help="what it is for")
    put.add_argument("--parent", metavar="NAME", help="the toolkit above it")
    put.add_argument(
        "--setting", action="append", metavar="KEY", help="on only where one of these has a value"
    )
    put.add_argument(
        "--base", action=argparse.BooleanOptionalAction, help="its tools are part of every selection"
    )
    put.add_argument("--tier", metavar="NAME", help="the lowest tier that gets it")
    put.add_argument("--keyword", action="append", metavar="WORD", help="switches it on; repeatable")
    put.add_argument("--pattern", action="append", metavar="RE2", help="likewise")
    put.add_argument(
        "--member",
        action="append",
        metavar="NAME",
        help="tool of another toolkit that is switched on with it; * is any text (memory_*); repeatable",
    )
    for name, run, help in (
        ("delete", _delete_toolkit, "delete a toolkit that has neither tools nor toolkits in it"),
        ("restore", _restore_toolkit, "bring a deleted toolkit back"),
    ):
        below(commands, name, run, help).add_argument("name", metavar="NAME")


def _toolkits(options: argparse.Namespace) -> int:
    with opened(options) as registry:
        if options.json:
            print_json({"toolkits": [item.to_dict() for item in registry.toolkits.list(org=options.org)]})
        else:
            print(printable(registry.toolkits.tree(org=options.org)))
    return 0


def _put_toolkit(options: argparse.Namespace) -> int:
    from toolroll.tools import Toolkit

    with opened(options) as registry:
        try:
            before = registry.toolkits.get(options.name, org=options.org)
            toolkit, version = before.toolkit, before.version
        except NotFound:
            toolkit, version = Toolkit(options.name), 0
        given = {
            "description": options.description,
            "parent": options.parent,
            "settings_keys": options.setting,
            "base": options.base,
            "tier": options.tier,
            "members": options.member,
        }
        changes = {name: _value(name, value) for name, value in given.items() if value is not None}
        done = registry.toolkits.put(
            replace(toolkit, **changes),
            keywords=None if options.keyword is None else tuple(filter(None, options.keyword)),
            patterns=None if options.pattern is None else tuple(filter(None, options.pattern)),
            org=options.org,
            version=version,
            reason=options.reason,
        )
    return print_done(done, options, f"toolkit {options.name}: version {done.version}")


def _value(name: str, value: Any) -> Any:
    if isinstance(value, list):
        return tuple(filter(None, value))
    return value or None if name in ("parent", "tier") else value


def _delete_toolkit(options: argparse.Namespace) -> int:
    with opened(options) as registry:
        done = registry.toolkits.delete(options.name, org=options.org, reason=options.reason)
    return print_done(done, options, f"toolkit {options.name}: deleted")


def _restore_toolkit(options: argparse.Namespace) -> int:
    with opened(options) as registry:
        done = registry.toolkits.restore(options.name, org=options.org, reason=options.reason)
    return print_done(done, options, f"toolkit {options.name}: restored")
