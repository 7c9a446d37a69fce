"""`toolroll registry rules, pages`: who sees which tools, and which toolkits belong to a page."""

from __future__ import annotations

import json
from typing import Any

import click

from toolroll.cli.commands import ListGroup
from toolroll.cli.options import WindowOptions, WriteOptions, any_org_options, write_options
from toolroll.cli.output import print_list, print_result
from toolroll.cli.parameter_types import condition

_priority_option = click.option(
    "--priority", type=int, default=0, metavar="N", help="Higher priorities win; may be negative."
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
        ("NAME", "ORG", "EFFECT", "ON", "PRIORITY", "ACTIVE", "WHEN"),
        lambda rule: (
            rule["name"],
            rule["org"] or "-",
            rule["effect"],
            f"tool {rule['tool']}" if rule["tool"] else f"toolkit {rule['toolkit']}",
            rule["priority"],
            "yes" if rule["active"] else "no",
            json.dumps(rule["condition"], ensure_ascii=False),
        ),
    )


@rules.command(
    "add",
    example="toolroll registry rules add exports-are-pro --deny --tool crm_export "
    '--when \'{"tier": {"lt": "pro"}}\'',
)
@click.argument("name")
@click.option("--allow", is_flag=True, help="Show the tools.")
@click.option("--deny", is_flag=True, help="Hide the tools.")
@click.option("--tool", default="", metavar="NAME", show_default="none", help="The tool it is about.")
@click.option(
    "--toolkit",
    default="",
    metavar="NAME",
    show_default="none",
    help="The toolkit it is about, with those below it; * is all.",
)
@click.option(
    "--when",
    type=condition,
    required=True,
    metavar="JSON",
    help='For whom, by org, user, role, page and tier: \'{"role": "admin"}\', '
    '\'{"any": [{"tier": {"gte": "pro"}}, {"user": {"in": ["ann", "bo"]}}]}\'; '
    "'{\"all\": []}' is everybody.",
)
@_priority_option
@write_options
def add_rule(
    options: WriteOptions, name: str, allow: bool, deny: bool, when: dict[str, Any], **target: Any
) -> None:
    """Add a rule that shows or hides a tool, or a toolkit and those below it.

    Of the rules about a tool, the one of the highest priority decides; at equal priority a denial does.
    `toolroll registry why` names it.
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


def _change_rule(options: WriteOptions, method: str, name: str, done: str) -> None:
    with options.registry() as registry:
        rule = getattr(registry.rules, method)(name, org=options.org, reason=options.reason)
    print_result(options.json, rule.to_dict(), f"rule {name}: {done}")


@rules.command("delete", example="toolroll registry rules delete exports-are-pro")
@click.argument("name")
@write_options
def delete_rule(options: WriteOptions, name: str) -> None:
    """Delete a rule."""
    _change_rule(options, "delete", name, "deleted")


@rules.command("enable", example="toolroll registry rules enable exports-are-pro")
@click.argument("name")
@write_options
def enable_rule(options: WriteOptions, name: str) -> None:
    """Put a disabled rule in force again."""
    _change_rule(options, "enable", name, "in force")


@rules.command("disable", example="toolroll registry rules disable exports-are-pro")
@click.argument("name")
@write_options
def disable_rule(options: WriteOptions, name: str) -> None:
    """Take a rule out of force, but keep it."""
    _change_rule(options, "disable", name, "not in force")


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
    print_list(
        options.json,
        "pages",
        found,
        ("ID", "ORG", "PATTERN", "PRIORITY", "TOOLKITS"),
        lambda page: (
            page["page_id"],
            page["org"] or "-",
            page["pattern"],
            page["priority"],
            ", ".join(page["toolkits"]),
        ),
    )


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
