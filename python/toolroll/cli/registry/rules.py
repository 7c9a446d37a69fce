"""`toolroll registry rules, pages`: who sees what, and what belongs to which page."""

from __future__ import annotations

import argparse
import json
from typing import Any

from toolroll.cli import arguments
from toolroll.cli.catalog_options import opened
from toolroll.cli.groups import below, group, print_done
from toolroll.cli.terminal import print_json, print_table


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the commands."""
    _add_rules(group(commands, "rules", _rules, "list the rules that say who sees what, change them"))
    _add_pages(group(commands, "pages", _pages, "list what belongs to which page, change it"))


def _add_rules(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    adding = below(
        commands,
        "add",
        _add_rule,
        "add a rule",
        description="Adds a rule that shows or hides a tool, or a toolkit and those below it. The rule of "
        "the highest priority that names a tool decides; at equal priority a denial does.",
        epilog="example: toolroll registry rules add exports-are-pro --deny --tool crm_export "
        '--when \'{"tier": {"lt": "pro"}}\'',
    )
    adding.add_argument("name", metavar="NAME", help="what `why` will say")
    effect = adding.add_mutually_exclusive_group(required=True)
    effect.add_argument("--allow", dest="effect", action="store_const", const="allow", help="show it")
    effect.add_argument("--deny", dest="effect", action="store_const", const="deny", help="hide it")
    target = adding.add_mutually_exclusive_group(required=True)
    target.add_argument("--tool", default="", metavar="NAME", help="a tool")
    target.add_argument(
        "--toolkit", default="", metavar="NAME", help="a toolkit, with those below; * for all"
    )
    adding.add_argument(
        "--when",
        type=condition,
        required=True,
        metavar="JSON",
        help="for whom, by org, user, role, page and tier: "
        '\'{"role": "admin"}\', \'{"any": [{"tier": {"gte": "pro"}}, {"user": {"in": ["ann", "bo"]}}]}\'; '
        "'{\"all\": []}' is everybody",
    )
    adding.add_argument("--priority", type=whole, default=0, metavar="N", help="default: 0")
    for name, run, help in (
        ("delete", _delete_rule, "delete a rule"),
        ("enable", _enable_rule, "put a rule in force"),
        ("disable", _disable_rule, "take a rule out of force, and keep it"),
    ):
        below(commands, name, run, help).add_argument("name", metavar="NAME")


def condition(text: str) -> dict[str, Any]:
    """A condition: a JSON object."""
    try:
        value = arguments.strict_json(text)
    except (ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"must be JSON ({error})") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f'{text!r:.80}: must be a JSON object, such as {{"role": "admin"}}')
    return value


def whole(text: str) -> int:
    """A whole number, which may be negative."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r:.80}: must be a whole number") from None


def _rules(options: argparse.Namespace) -> int:
    with opened(options) as registry:
        found = [item.to_dict() for item in registry.rules.list(org=options.org)]
    if options.json:
        print_json({"rules": found})
        return 0
    print_table(
        ("NAME", "ORG", "EFFECT", "ON", "PRIORITY", "ACTIVE", "WHEN"),
        (
            (
                rule["name"],
                rule["org"] or "-",
                rule["effect"],
                f"tool {rule['tool']}" if rule["tool"] else f"toolkit {rule['toolkit']}",
                rule["priority"],
                "yes" if rule["active"] else "no",
                json.dumps(rule["condition"], ensure_ascii=False),
            )
            for rule in found
        ),
    )
    return 0


def _add_rule(options: argparse.Namespace) -> int:
    from toolroll.registry.rules import kind_of
    from toolroll.rules import Rule

    rule = Rule(
        name=options.name,
        effect=options.effect,
        kind=kind_of(options.when),
        condition=options.when,
        tool=options.tool,
        toolkit=options.toolkit,
        priority=options.priority,
        org=options.org,
    )
    with opened(options) as registry:
        done = registry.rules.add(rule, reason=options.reason)
    return print_done(done, options, f"rule {options.name}: in force")


def _delete_rule(options: argparse.Namespace) -> int:
    with opened(options) as registry:
        done = registry.rules.delete(options.name, org=options.org, reason=options.reason)
    return print_done(done, options, f"rule {options.name}: deleted")


def _enable_rule(options: argparse.Namespace) -> int:
    with opened(options) as registry:
        done = registry.rules.enable(options.name, org=options.org, reason=options.reason)
    return print_done(done, options, f"rule {options.name}: in force")


def _disable_rule(options: argparse.Namespace) -> int:
    with opened(options) as registry:
        done = registry.rules.disable(options.name, org=options.org, reason=options.reason)
    return print_done(done, options, f"rule {options.name}: not in force")


def _add_pages(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    adding = below(
        commands,
        "add",
        _add_page,
        "say which toolkits belong to a page",
        epilog="example: toolroll registry pages add 'contacts*' crm calendar",
    )
    adding.add_argument("pattern", metavar="PATTERN", help="contacts, contacts*, *contacts or *contacts*")
    adding.add_argument("toolkits", nargs="+", metavar="TOOLKIT")
    adding.add_argument("--priority", type=whole, default=0, metavar="N", help="default: 0")
    below(commands, "delete", _delete_page, "delete a page mapping").add_argument(
        "page_id", metavar="ID", help="as `pages` prints it"
    )


def _pages(options: argparse.Namespace) -> int:
    with opened(options) as registry:
        found = [item.to_dict() for item in registry.pages.list(org=options.org)]
    if options.json:
        print_json({"pages": found})
        return 0
    print_table(
        ("ID", "ORG", "PATTERN", "PRIORITY", "TOOLKITS"),
        (
            (
                page["page_id"],
                page["org"] or "-",
                page["pattern"],
                page["priority"],
                ", ".join(page["toolkits"]),
            )
            for page in found
        ),
    )
    return 0


def _add_page(options: argparse.Namespace) -> int:
    from toolroll.rules import PageMapping

    mapping = PageMapping(options.pattern, tuple(options.toolkits), options.priority, options.org)
    with opened(options) as registry:
        done = registry.pages.add(mapping, reason=options.reason)
    return print_done(done, options, f"page {options.pattern}: {', '.join(options.toolkits)}")


def _delete_page(options: argparse.Namespace) -> int:
    with opened(options) as registry:
        done = registry.pages.delete(options.page_id, reason=options.reason)
    return print_done(done, options, f"page mapping {options.page_id}: deleted")
