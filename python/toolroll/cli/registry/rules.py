"""`toolroll registry rules, pages`: who sees which tools, and which toolkits belong to a page."""

from __future__ import annotations

from typing import Any

import click

from toolroll.cli.commands import ListGroup
from toolroll.cli.options import WindowOptions, WriteOptions, any_org_options, flag, option, write_options
from toolroll.cli.output import print_list, print_result
from toolroll.cli.parameter_types import condition
from toolroll.cli.registry.by_name import add_by_name

_priority_option = option(
    "--priority", "Higher priorities win; may be negative.", type=int, default=0, metavar="N"
)

rules = ListGroup(
    "rules",
    help="List the rules that say who sees which tools, or change them. Without a command: list.",
    example="toolroll registry rules --catalog sqlite:///tools.db",
)


@rules.command("list", example="toolroll registry rules list --org acme")
@any_org_options
def list_rules(options: WindowOptions) -> None:
    """List the rules."""
    with options.registry() as registry:
        found = [item.to_dict() for item in registry.rules.list(org=options.org)]
    print_list(
        options.json,
        "rules",
        found,
        "NAME ORG EFFECT ON PRIORITY ACTIVE WHEN=condition",
        on=lambda rule: f"tool {rule['tool']}" if rule["tool"] else f"toolkit {rule['toolkit']}",
    )


@rules.command(
    "add",
    example="toolroll registry rules add exports-are-pro --deny --tool crm_export "
    '--when \'{"tier": {"lt": "pro"}}\'',
)
@click.argument("name")
@flag("--allow", "Show the tools.")
@flag("--deny", "Hide the tools.")
@option("--tool", "The tool it is about.", default="", metavar="NAME")
@option("--toolkit", "The toolkit it is about, with those below it; * is all.", default="", metavar="NAME")
@option(
    "--when",
    'For whom, by org, user, role, page and tier: \'{"role": "admin"}\', \'{"any": [{"tier": {"gte": '
    '"pro"}}, {"user": {"in": ["ann", "bo"]}}]}\'; \'{"all": []}\' is everybody. Also for which tools, by '
    'their annotations: \'{"annotation": {"destructiveHint": true}}\'.',
    type=condition,
    required=True,
    metavar="JSON",
)
@_priority_option
@write_options
def add_rule(
    options: WriteOptions, name: str, allow: bool, deny: bool, when: dict[str, Any], **target: Any
) -> None:
    """Add a rule that shows or hides a tool or a toolkit.

    A rule about a toolkit covers those below it. Of the rules about a tool, the one of the highest
    priority decides; at equal priority a denial does. `toolroll registry why` names it.
    """
    if allow == deny:
        raise click.UsageError("--allow --deny: needs one of them, and not both")
    if bool(target["tool"]) == bool(target["toolkit"]):
        raise click.UsageError("--tool --toolkit: needs one of them, and not both")
    from toolroll.registry.rules import kind_of
    from toolroll.rules import Rule

    rule = Rule(
        name=name,
        effect="allow" if allow else "deny",
        kind=kind_of(when),
        condition=when,
        org=options.org,
        **target,
    )
    with options.registry() as registry:
        done = registry.rules.add(rule, reason=options.reason)
    print_result(options.json, done.to_dict(), f"rule {name}: in force")


add_by_name(rules, "delete", "Delete a rule.", "deleted", "exports-are-pro")
add_by_name(rules, "enable", "Put a disabled rule in force again.", "in force", "exports-are-pro")
add_by_name(rules, "disable", "Take a rule out of force, but keep it.", "not in force", "exports-are-pro")


pages = ListGroup(
    "pages",
    help="List which toolkits belong to which page, or change it. Without a command: list.",
    example="toolroll registry pages --catalog sqlite:///tools.db",
)


@pages.command("list", example="toolroll registry pages list --org acme")
@any_org_options
def list_pages(options: WindowOptions) -> None:
    """List the page mappings."""
    with options.registry() as registry:
        found = [item.to_dict() for item in registry.pages.list(org=options.org)]
    print_list(options.json, "pages", found, "ID=page_id ORG PATTERN PRIORITY TOOLKITS")


@pages.command("add", example="toolroll registry pages add 'contacts*' crm calendar")
@click.argument("pattern")
@click.argument("toolkits", nargs=-1, required=True, metavar="TOOLKIT...")
@_priority_option
@write_options
def add_page(options: WriteOptions, pattern: str, toolkits: tuple[str, ...], priority: int) -> None:
    """Map a page to toolkits.

    PATTERN is a page (contacts), or one with a star for any text: contacts*, *contacts, *contacts*.
    """
    from toolroll.rules import PageMapping

    with options.registry() as registry:
        done = registry.pages.add(
            PageMapping(pattern, toolkits, priority, options.org), reason=options.reason
        )
    print_result(options.json, done.to_dict(), f"page {pattern}: {', '.join(toolkits)}")


@pages.command("delete", example="toolroll registry pages delete 0c6b…")
@click.argument("page_id", metavar="ID")
@write_options
def delete_page(options: WriteOptions, page_id: str) -> None:
    """Delete a page mapping; ID as `pages` prints it."""
    with options.registry() as registry:
        done = registry.pages.delete(page_id, reason=options.reason)
    print_result(options.json, done.to_dict(), f"page mapping {page_id}: deleted")


COMMANDS = (rules, pages)
