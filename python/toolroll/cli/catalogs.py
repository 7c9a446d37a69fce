"""`toolroll catalogs key, build, list, prune`: catalogs that are built once and mapped by every replica."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from toolroll.cli.commands import Group
from toolroll.cli.options import (
    POLL_S,
    embedder_option,
    flag,
    hnsw_option,
    is_registry,
    json_option,
    on_bad_tool_option,
    option,
    storage_options_option,
    tiers_option,
)
from toolroll.cli.output import Progress, note, print_list, print_result, redacted
from toolroll.cli.parameter_types import POSITIVE
from toolroll.model.errors import Denied, InvalidInput, NotFound
from toolroll.runtime.extras import needs_extra

if TYPE_CHECKING:
    from toolroll.formats.sources.bad_tools import OnBadTool
    from toolroll.snapshots.manifest import Manifest
    from toolroll.snapshots.shelf import Shelf

command = Group(
    "catalogs",
    help='Build catalogs once, for every replica.\n\nNeeds the extra: pip install "toolroll[published]", and '
    "the package of the storage, such as s3fs, gcsfs or adlfs. docs/scale.md says how replicas use them.",
    example="toolroll catalogs key catalog.pem\n"
    "toolroll catalogs build toolkits/ --to s3://bucket/catalogs --key catalog.pem",
)

_TO = option(
    "--to location", "Folder or URL where they are: s3://bucket/catalogs.", required=True, metavar="LOCATION"
)
_NAME = option("--name", "Name of the catalog.", default="main", metavar="NAME")


@command.command("key", example="toolroll catalogs key catalog.pem")
@click.argument("file")
@json_option
def key(file: str, json: bool) -> None:
    """Make a key that signs catalogs.

    FILE gets the private key, which only the builder needs. The public key is printed: replicas trust it.
    Its id, beside it on standard error, is how errors name the key.
    """
    from toolroll.snapshots.keys import SigningKey

    public = SigningKey.generate(file).public
    print_result(json, {"file": file, "public_key": public.text, "key_id": public.key_id}, public.text)
    if not json:
        note(f"its id: {public.key_id}")


@command.command(
    "build",
    example="toolroll catalogs build toolkits/ --to /srv/catalogs --key catalog.pem\n"
    "toolroll catalogs build postgresql://host/tools --to s3://bucket/catalogs --key catalog.pem",
)
@click.argument("source", metavar="PATH|URL")
@_TO
@_NAME
@option(
    "--key",
    "The private key that signs it.",
    required=True,
    metavar="FILE",
    envvar="TOOLROLL_CATALOG_KEY",
    show_envvar=True,
)
@tiers_option
@on_bad_tool_option
@option("--profile", "The profile that replicas use.", metavar="NAME", unset="default")
@embedder_option()
@hnsw_option
@storage_options_option
@json_option
def build(
    source: str,
    location: str,
    name: str,
    key: str,
    tiers: tuple[str, ...] | None,
    on_bad_tool: OnBadTool | None,
    profile: str | None,
    embedder: str,
    hnsw: bool,
    storage_options: dict[str, Any],
    json: bool,
) -> None:
    """Build a catalog and publish it.

    The source is a folder of toolkit files, a folder with tools.jsonl, one such file, or a registry. Replicas
    with exactly these tools take the catalog within seconds; it is theirs as long as they have these tools.
    If the newest catalog is already the same, nothing is uploaded.
    """
    from toolroll.cli.environment import from_environment
    from toolroll.registry.options import Follow, Recording
    from toolroll.roll import Toolroll
    from toolroll.snapshots.keys import SigningKey

    trusted = (SigningKey.read(key).public.text,)  # before the work
    before = next(_shelf(location, name, trusted, storage_options).every(), None)
    settings: dict[str, Any] = {"embedder": embedder, "profile": from_environment(profile)}
    with Progress() as progress:
        built: dict[str, Any] = {"hnsw": hnsw or "auto", "progress": progress.counter("embedding")}
        if is_registry(source):
            follow = Follow(poll_s=POLL_S, listens=False, **built)
            recording = Recording(messages="none", keeper="none")
            roll = Toolroll.open(source, follow=follow, recording=recording, **settings)
        else:
            roll = Toolroll.from_folder(
                source, tiers=tiers or (), on_bad_tool=on_bad_tool, **settings, **built
            )
    with roll:
        made = roll.publish(
            location,
            name,
            key=key,
            source=None if is_registry(source) else source,
            on_bad_tool=on_bad_tool,
            options=storage_options,
        )
    already = ", already the newest" if made == before else ""
    print_result(
        json,
        {"location": location, **made.to_dict()},
        f"{redacted(location)}/{name}: {made.tools:,} tools, {made.size / 1e6:.1f} MB, "
        f"{made.sha256[:16]}{already}",
    )


@command.command("list", example="toolroll catalogs list --to s3://bucket/catalogs --trust catalog.pub")
@_TO
@_NAME
@option(
    "--trust",
    "A public key or a file of them: list only what it signed; repeatable.",
    multiple=True,
    metavar="KEY",
)
@storage_options_option
@json_option
def list_catalogs(
    location: str, name: str, trust: tuple[str, ...], storage_options: dict[str, Any], json: bool
) -> None:
    """List published catalogs, newest first.

    Without --trust nobody's signature is verified.
    """
    shelf, problems = _shelf(location, name, trust, storage_options), list[str]()
    found = list(shelf.every(problems))
    problems += _problems_of_pointer(shelf, found[0] if found else None)
    if not found and not problems:
        raise _nothing(shelf)
    newest = found[0].sequence if found else None
    print_list(
        json,
        "catalogs",
        [{**each.to_dict(), "newest": each.sequence == newest} for each in found],
        "PUBLISHED=published_at TOOLS MB TOOLROLL EMBEDDER=space REVISION=catalog_revision SHA256 NEWEST",
        {"location": location, "name": name, "problems": problems},
        mb=lambda each: f"{each['size'] / 1e6:.1f}",
        sha256=lambda each: each["sha256"][:16],
        newest=lambda each: "newest" if each["newest"] else "",
    )
    for problem in [] if json else problems:
        note(problem)


@command.command("prune", example="toolroll catalogs prune --to s3://bucket/catalogs --keep 3")
@_TO
@_NAME
@option("--keep", "How many of the newest stay.", type=POSITIVE, default=3)
@flag("--dry-run", "Say what would be deleted, and delete nothing.")
@storage_options_option
@json_option
def prune(
    location: str, name: str, keep: int, dry_run: bool, storage_options: dict[str, Any], json: bool
) -> None:
    """Delete old published catalogs.

    Replicas keep copies of the catalogs that they use. Files of the last hour stay.
    """
    from toolroll.snapshots.publisher import prune

    shelf = _shelf(location, name, (), storage_options)
    gone = prune(shelf, keep=keep, dry_run=dry_run)
    if not (gone.kept or gone.manifests or gone.catalogs):
        raise _nothing(shelf)
    verb = "would be" if dry_run else "were"
    young = f" ({gone.kept - keep:,} of them younger than an hour)" if gone.kept > keep else ""
    print_result(
        json,
        {"location": location, "name": name, "dry_run": dry_run, **gone.to_dict()},
        f"{len(gone.catalogs):,} catalogs and {len(gone.manifests):,} manifests {verb} deleted; "
        f"{gone.kept:,} are kept{young}",
    )


def _problems_of_pointer(shelf: Shelf, newest: Manifest | None) -> Iterator[str]:
    """Problems of `newest.json`, which replicas read first. newest: the newest manifest in the listing."""
    from toolroll.snapshots.shelf import NEWEST

    advice = "`toolroll catalogs build` writes it again"
    try:
        named = shelf.newest()
    except (InvalidInput, Denied) as error:
        yield f"{error}; {advice}"
        return
    if named != newest and (named is None or newest is None or named.order < newest.order):
        yield f"{shelf.folder}/{NEWEST}: does not name the newest catalog; {advice}"


def _nothing(shelf: Shelf) -> NotFound:
    return NotFound(f"nothing is published at {redacted(str(shelf.folder))}")


def _shelf(location: str, name: str, trust: tuple[str, ...], options: dict[str, Any]) -> Shelf:
    with needs_extra("published catalogs", "published"):
        from toolroll.runtime.locations import Location
    from toolroll.snapshots.keys import public_keys
    from toolroll.snapshots.manifest import checked_name
    from toolroll.snapshots.shelf import Shelf

    return Shelf(Location(location, options), checked_name(name), public_keys(trust) if trust else None)
