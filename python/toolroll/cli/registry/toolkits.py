"""`toolroll registry toolkits`: the tree of toolkits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from toolroll.cli.commands import DefaultGroup
from toolroll.cli.options import Decorator, OrgOptions, WriteOptions, org_options, write_options
from toolroll.cli.output import print_json, print_result, printable
from toolroll.cli.registry.by_name import add_by_name
from toolroll.model.errors import NotFound

toolkits = DefaultGroup(
    "toolkits",
    help="Print the tree of toolkits, or change it. Without a command: list.",
    example="toolroll registry toolkits --catalog sqlite:///tools.db",
)


@toolkits.command("list", example="toolroll registry toolkits list --org acme")
@org_options
def list_toolkits(options: OrgOptions) -> None:
    """Print the tree of toolkits."""
    with options.registry() as registry:
        if options.json:
            print_json({"toolkits": [item.to_dict() for item in registry.toolkits.list(org=options.org)]})
        else:
            print(printable(registry.toolkits.tree(org=options.org)))


def _text(name: str, of: str, **attributes: Any) -> Decorator:
    return click.option(name, show_default="unchanged", help=of, **attributes)


def _texts(name: str, field: str, metavar: str, of: str) -> Decorator:
    return click.option(
        name, field, multiple=True, metavar=metavar, show_default="unchanged", help=f"{of}; repeatable."
    )


@toolkits.command(
    "put", example="toolroll registry toolkits put crm --keyword customer --keyword deal --tier pro"
)
@click.argument("name")
@_text("--description", "Its purpose.", metavar="TEXT")
@_text("--parent", "The toolkit above it.", metavar="NAME")
@_texts("--setting", "settings_keys", "KEY", "It is on only if one of these settings has a value")
@_text("--base/--no-base", "Whether its tools are part of every selection.", default=None)
@_text("--tier", "The lowest tier that gets it.", metavar="NAME")
@_texts("--keyword", "keywords", "WORD", "A word in a message that turns it on")
@_texts("--pattern", "patterns", "RE2", "A regular expression that turns it on")
@_texts("--member", "members", "NAME", "A tool of another toolkit to turn on with it; * is any text (get_*)")
@write_options
def put(
    options: WriteOptions, name: str, keywords: tuple[str, ...], patterns: tuple[str, ...], **changes: Any
) -> None:
    """Create a toolkit, or change one.

    Options that are not given stay as they are. An empty text removes a value: --tier ''.
    """
    from toolroll.model.tools import Toolkit

    with options.registry() as registry:
        try:
            before = registry.toolkits.get(name, org=options.org)
            toolkit, version = before.toolkit, before.version
        except NotFound:
            toolkit, version = Toolkit(name), 0
        changes = {key: _value(key, value) for key, value in changes.items() if _is_given(value)}
        done = registry.toolkits.put(
            replace(toolkit, **changes),
            keywords=tuple(filter(None, keywords)) if keywords else None,
            patterns=tuple(filter(None, patterns)) if patterns else None,
            org=options.org,
            version=version,
            reason=options.reason,
        )
    print_result(options.json, done.to_dict(), f"toolkit {name}: version {done.version}")


def _is_given(value: object) -> bool:
    return value is not None and value != ()


def _value(name: str, value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(filter(None, value))
    return value or None if name in ("parent", "tier") else value


add_by_name(
    toolkits, "delete", "Delete a toolkit that has neither tools nor toolkits in it.", "deleted", "crm"
)
add_by_name(toolkits, "restore", "Bring back a deleted toolkit.", "restored", "crm")


COMMANDS = (toolkits,)
