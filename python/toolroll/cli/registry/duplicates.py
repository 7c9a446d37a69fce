"""`toolroll registry duplicates`: tools of different plugins that seem to do the same."""

from __future__ import annotations

import click

from toolroll.cli.commands import ListGroup
from toolroll.cli.options import OrgOptions, WriteOptions, embedder_option, option, org_options, write_options
from toolroll.cli.output import note, print_json, print_list, print_result

duplicates = ListGroup(
    "duplicates",
    help="List tools that seem to do the same, or accept a pair. Without a command: list.\n\n"
    "Pairs are proposed by their texts and parameters.",
    example="toolroll registry duplicates --catalog sqlite:///tools.db",
)


@duplicates.command("list", example="toolroll registry duplicates list --least 0.9 --org acme")
@embedder_option()
@option("--least", "Lowest score of a pair; 1.3 is the highest.", type=float, default=0.75, metavar="SCORE")
@org_options
def list_duplicates(options: OrgOptions, embedder: str, least: float) -> None:
    """List pairs of different plugins, the best first.

    The score is the cosine of the two texts, and up to 0.3 for parameters of the same names. Tools without a
    plugin are told apart by their toolkits. A person should read each pair.
    """
    from toolroll.embedders.named import embedder as named

    made = named(embedder)
    if made is None:
        raise click.UsageError("--embedder: is none, and texts are compared by an embedder")
    with options.registry() as registry:
        found = registry.duplicates.list(made, org=options.org, least=least)
    pairs = [
        {
            "tools": [pair.first, pair.second],
            "score": pair.score,
            "cosine": pair.cosine,
            "parameters": list(pair.parameters),
        }
        for pair in found
    ]
    if options.json:
        print_json({"duplicates": pairs})
    elif pairs:
        print_list(False, "duplicates", pairs, "SCORE TOOLS COSINE PARAMETERS")
        note("`toolroll registry duplicates accept FIRST SECOND` declares a pair interchangeable")
    else:
        note(f"no two tools of different plugins score {least:g}")


@duplicates.command("accept", example="toolroll registry duplicates accept send_email gmail_send")
@click.argument("names", nargs=-1, required=True, metavar="TOOL TOOL...")
@option("--group", "Name of the group.", default="", metavar="NAME")
@write_options
def accept(options: WriteOptions, names: tuple[str, ...], group: str) -> None:
    """Declare that tools do the same.

    Of a group of interchangeable tools, the most reliable one is shown.
    """
    with options.registry() as registry:
        done = registry.duplicates.accept(names, group=group, org=options.org, reason=options.reason)
    name = done[0].tool.interchangeable
    listed = ", ".join(record.name for record in done)
    print_result(
        options.json,
        {"group": name, "tools": [record.name for record in done]},
        f"{listed}: interchangeable, in group {name}",
    )


COMMANDS = (duplicates,)
