"""`toolroll registry rules, pages`: who sees which tools, and which toolkits belong to a page."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from toolroll.cli.commands import DefaultGroup
from toolroll.cli.options import (
    OrgOptions,
    WriteOptions,
    expected_version_option,
    flag,
    option,
    org_options,
    platform_write_options,
    write_options,
)
from toolroll.cli.output import note, print_json, print_list, print_result
from toolroll.cli.parameter_types import condition
from toolroll.cli.registry.by_name import add_by_name, add_list

_PRIORITY = "Higher priorities win; may be negative."
_WHEN = (
    'For whom, by org, user, role, page and tier: \'{"role": "admin"}\', \'{"any": [{"tier": {"gte": '
    '"pro"}}, {"user": {"in": ["ann", "bo"]}}]}\'; \'{"all": []}\' is everybody. Also for which tools, by '
    'their annotations: \'{"annotation": {"destructiveHint": true}}\'.'
)
_priority_option = option("--priority", _PRIORITY, type=int, default=0, metavar="N")
_new_priority_option = option("--priority", _PRIORITY, type=int, metavar="N", unset="unchanged")

rules = DefaultGroup(
    "rules",
    help="List the rules that say who sees which tools, or change them. Without a command: list.",
    example="toolroll registry rules --catalog sqlite:///tools.db",
)


add_list(
    rules,
    "List the rules.",
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
@option("--when", _WHEN, type=condition, required=True, metavar="JSON")
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
    from toolroll.model.rules import Rule
    from toolroll.registry.editing.rules import kind_of

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


@rules.command(
    "update",
    example="toolroll registry rules update exports-are-pro --priority 5\n"
    'toolroll registry rules update exports-are-pro --when \'{"tier": {"lt": "team"}}\'',
)
@click.argument("name")
@option("--name new_name", "Its new name.", metavar="NEW", unset="unchanged")
@flag("--allow", "Show the tools.")
@flag("--deny", "Hide the tools.")
@option("--tool", "The tool it is about.", metavar="NAME", unset="unchanged")
@option(
    "--toolkit", "The toolkit it is about, with those below it; * is all.", metavar="NAME", unset="unchanged"
)
@option("--when", _WHEN, type=condition, metavar="JSON", unset="unchanged")
@_new_priority_option
@expected_version_option("rule")
@write_options
def update_rule(
    options: WriteOptions,
    name: str,
    new_name: str | None,
    allow: bool,
    deny: bool,
    tool: str | None,
    toolkit: str | None,
    when: dict[str, Any] | None,
    priority: int | None,
    version: int | None,
) -> None:
    """Change fields of a rule.

    Options that are not given stay as they are. A rule about a tool becomes one about a toolkit by --toolkit.
    """
    if allow and deny:
        raise click.UsageError("--allow --deny: not allowed with each other")
    if tool is not None and toolkit is not None:
        raise click.UsageError("--tool --toolkit: not allowed with each other")
    from toolroll.registry.editing.rules import kind_of

    changes: dict[str, Any] = _without_none(name=new_name, priority=priority)
    if allow or deny:
        changes["effect"] = "allow" if allow else "deny"
    if tool is not None or toolkit is not None:
        changes |= {"tool": tool or "", "toolkit": toolkit or ""}
    if when is not None:
        changes |= {"condition": when, "kind": kind_of(when)}
    _need(changes, "--name --allow --deny --tool --toolkit --when --priority")
    with options.registry() as registry:
        done = registry.rules.update(name, changes, version=version, org=options.org, reason=options.reason)
    state = "in force" if done.active else "not in force"
    print_result(options.json, done.to_dict(), f"rule {done.name}: version {done.version}, {state}")


def _without_none(**changes: object) -> dict[str, Any]:
    return {name: value for name, value in changes.items() if value is not None}


def _need(changes: dict[str, Any], options: str) -> None:
    if not changes:
        raise click.UsageError(f"{options}: needs one of them")


add_by_name(rules, "delete", "Delete a rule.", "deleted", "exports-are-pro")
add_by_name(rules, "enable", "Put a disabled rule in force again.", "in force", "exports-are-pro")
add_by_name(rules, "disable", "Take a rule out of force, but keep it.", "not in force", "exports-are-pro")


pages = DefaultGroup(
    "pages",
    help="List which toolkits belong to which page, or change it. Without a command: list.",
    example="toolroll registry pages --catalog sqlite:///tools.db",
)


add_list(pages, "List the page mappings.", "ID=page_id ORG PATTERN PRIORITY TOOLKITS")


@pages.command("add", example="toolroll registry pages add 'contacts*' crm calendar")
@click.argument("pattern")
@click.argument("toolkits", nargs=-1, required=True, metavar="TOOLKIT...")
@_priority_option
@write_options
def add_page(options: WriteOptions, pattern: str, toolkits: tuple[str, ...], priority: int) -> None:
    """Map a page to toolkits.

    PATTERN is a page (contacts), or one with a star for any text: contacts*, *contacts, *contacts*.
    """
    from toolroll.model.rules import PageMapping

    with options.registry() as registry:
        done = registry.pages.add(
            PageMapping(pattern, toolkits, priority, options.org), reason=options.reason
        )
    print_result(options.json, done.to_dict(), f"page {pattern}: {', '.join(toolkits)}")


@pages.command("for", example="toolroll registry pages for contacts/7 --org acme")
@click.argument("page")
@org_options
def pages_for(options: OrgOptions, page: str) -> None:
    """List the mappings that match a page, with their toolkits.

    The platform's mappings and the organisation's count, all that match. Without a match, all tools stay.
    """
    with options.registry() as registry:
        found = registry.pages.for_page(page, options.org)
    toolkits = list(dict.fromkeys(name for mapping in found for name in mapping.toolkits))
    if options.json:
        print_json({"page": page, "toolkits": toolkits, "pages": [asdict(mapping) for mapping in found]})
    elif found:
        print_list(False, "pages", found, "ID=page_id ORG PATTERN PRIORITY TOOLKITS")
    else:
        note(f"no mapping matches page {page!r}, so all tools stay")


@pages.command("update", example="toolroll registry pages update 0c6b… --toolkit crm --toolkit email")
@click.argument("page_id", metavar="ID")
@option("--pattern", "Which pages, as in `pages add`.", metavar="PATTERN", unset="unchanged")
@option(
    "--toolkit toolkits",
    "A toolkit of these pages, instead of those it has; repeatable.",
    multiple=True,
    metavar="NAME",
    unset="unchanged",
)
@_new_priority_option
@expected_version_option("mapping")
@platform_write_options
def update_page(
    options: WriteOptions,
    page_id: str,
    pattern: str | None,
    toolkits: tuple[str, ...],
    priority: int | None,
    version: int | None,
) -> None:
    """Change fields of a page mapping; ID as `pages` prints it.

    Options that are not given stay as they are.
    """
    changes = _without_none(pattern=pattern, toolkits=toolkits or None, priority=priority)
    _need(changes, "--pattern --toolkit --priority")
    with options.registry() as registry:
        done = registry.pages.update(page_id, changes, version=version, reason=options.reason)
    mapping = done.mapping
    text = f"page {mapping.pattern}: {', '.join(mapping.toolkits)}, version {done.version}"
    print_result(options.json, done.to_dict(), text)


@pages.command("delete", example="toolroll registry pages delete 0c6b…")
@click.argument("page_id", metavar="ID")
@platform_write_options
def delete_page(options: WriteOptions, page_id: str) -> None:
    """Delete a page mapping; ID as `pages` prints it."""
    with options.registry() as registry:
        done = registry.pages.delete(page_id, reason=options.reason)
    print_result(options.json, done.to_dict(), f"page mapping {page_id}: deleted")


COMMANDS = (rules, pages)
