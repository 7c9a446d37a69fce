"""Damages files and says what came of each; run as a script by test_damaged_files.py.

A case is a kind and a number. For each, the worker writes one line: the case, what came of it, and where.

    same      every answer is that of the sound file
    refused   an error of our own tree, or the ValueError of an archive
    said      answers differ, and `degraded` or the health names the damage
    read      a file without a checksum, as what it says now
    wrong     answers differ, and nothing says so
    foreign   an exception that is not ours
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import warnings
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import sqlalchemy as sa

from tests.integration.logged import event, write_events
from tests.integration.outcomes import NOW, exposure
from toolroll import Context, Follow, Recording, Tool, Toolkit, Toolroll
from toolroll._core import Learned
from toolroll.embedders.cached import CachedEmbedder
from toolroll.embedders.hashing import HashingEmbedder
from toolroll.model.errors import StoreUnavailable, ToolrollError
from toolroll.model.rules import PageMapping, Rule
from toolroll.registry.events.receipts import Signer
from toolroll.registry.outbox.outbox import Outbox
from toolroll.registry.registry import Registry
from toolroll.registry.store import tables

ACME, GLOBEX, NOBODY = Context(org="acme", user="ann"), Context(org="globex", user="bob"), Context(user="eve")
RECORDS = [bytes([at]) * (at * 7 % 50) for at in range(20)]
SIGNER = Signer({"key": b"s" * 32}, "key")
TEXTS = [f"text {at}" for at in range(12)]


def spoil(data: bytes, draw: random.Random) -> bytes:
    """The bytes with a few flipped bits, a lost or foreign range, or without their end."""
    spoilt, way = bytearray(data), draw.randrange(5)
    if way == 0:
        spoilt[draw.randrange(len(spoilt))] ^= 1 << draw.randrange(8)
    elif way == 1:
        for _ in range(8):
            spoilt[draw.randrange(len(spoilt))] ^= 1 << draw.randrange(8)
    elif way == 2:
        del spoilt[draw.randrange(len(spoilt)) :]
    else:
        length = min(draw.choice((16, 512, 4_096)), len(spoilt) // 2 + 1)
        at = draw.randrange(max(len(spoilt) - length, 1))
        spoilt[at : at + length] = bytes(length) if way == 3 else draw.randbytes(length)
    return bytes(spoilt)


# What has checksums of its own.


def damage_archive(draw: random.Random, folder: Path) -> str:
    """What outcomes have taught, as the registry keeps it."""
    sound = (folder / "learned.bin").read_bytes()
    spoilt = spoil(sound, draw)
    try:
        learned = Learned.from_bytes(spoilt)
    except ValueError:
        return "refused"
    return "same" if learned.to_bytes() == sound else "wrong"


def damage_outbox(draw: random.Random, folder: Path) -> str:
    """Records that wait for the registry: they are read or refused, and so is the next one."""
    path, sound = folder / "damaged.outbox", folder / "sound.outbox"
    remove(path), remove(sound)
    outbox = Outbox(sound)
    outbox.append(*(("acme", 1.0 + at, record) for at, record in enumerate(RECORDS)))
    outbox.checkpoint()
    outbox.close()
    path.write_bytes(spoil(sound.read_bytes(), draw))
    damaged = Outbox(path)
    try:
        damaged.append(("acme", 100.0, b"new"))
        found = [record.record for record in damaged.oldest(100, 0.0)]
        found = [record.record for record in damaged.oldest(100, 0.0)]  # those of others, seen before
        damaged.waiting()
    except StoreUnavailable:
        return "refused"
    finally:
        damaged.close()
    return "same" if found == [*RECORDS, b"new"] else "read"


def damage_receipt(draw: random.Random, folder: Path) -> str:
    """What a turn has shown, signed."""
    shown = exposure("event", "tool_1", "tool_2")
    receipt = SIGNER.sign(shown)
    spoilt = spoil(receipt.encode(), draw).decode("latin-1")
    try:
        read = SIGNER.read(spoilt, NOW)
    except ToolrollError:
        return "refused"
    return "same" if spoilt == receipt and read.event_id == "event" else "wrong"


def damage_cache(draw: random.Random, folder: Path) -> str:
    """Vectors of slow embedders on disk: a damaged one is made again."""
    inner = HashingEmbedder(16)
    path = CachedEmbedder(inner, folder / "cache").path
    assert path is not None
    if not path.exists():
        CachedEmbedder(inner, folder / "cache").embed(TEXTS)
    place = folder / "damaged cache"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    (place / path.name).write_bytes(spoil(path.read_bytes(), draw))
    return (
        "same" if np.array_equal(CachedEmbedder(inner, place).embed(TEXTS), inner.embed(TEXTS)) else "wrong"
    )


# What has none: read, or refused with its place.


def damage_toolkit(draw: random.Random, folder: Path) -> str:
    """A folder of toolkits: it makes a catalog or is refused. Its texts have no checksum."""
    place = folder / "toolkits"
    place.mkdir(exist_ok=True)
    sound = (folder / "toolkit.json").read_bytes()
    (place / "toolkit.json").write_bytes(spoil(sound, draw))
    try:
        roll = Toolroll.from_folder(place, embedder="none")
        json.dumps(roll.select("a", Context(everything=True)).schemas("openai"))
    except ToolrollError:
        return "refused"
    return "read"


# A registry.


def fill(url: str, tmp_path: Path) -> None:
    """A registry in which acme, globex and the platform have rows in every table."""
    with Registry.open(url, actor="ada") as registry:
        registry.create(Tool("open", "serves everybody", public=True))
        for org in ("", "acme", "globex"):
            kit = f"{org or 'plat'}_kit"
            registry.toolkits.put(Toolkit(kit, settings_keys=(f"{kit}_key",)), org=org)
            registry.toolkits.put(Toolkit(f"{kit}_child", parent=kit), org=org)
            for at in range(3):
                name = f"{org or 'plat'}_{at}"
                registry.create(Tool(name, f"serves {name}", toolkit=kit if at else ""), org=org)
            registry.rules.add(
                Rule("no", "deny", "composite", {"all": []}, tool=f"{org or 'plat'}_1", org=org)
            )
            registry.pages.add(PageMapping("home*", (kit,), org=org))
            if org:
                registry.pins.set("open", org=org)
            registry.settings.set(f"{kit}_key", "value", org=org)
            registry.keys.add(f"{org} backend", roles=["select"], org=org)
            with registry.database.recording() as connection:  # by hand: a hash would need argon2
                now = datetime.now(timezone.utc)
                row = {"name": f"{org} ann", "org": org, "roles": ["read"], "password": "$argon2id$"}
                dates = {"created_at": now, "created_by": "ada", "changed_at": now}
                connection.execute(sa.insert(tables.accounts), {**row, **dates})
            registry.sync([Tool(f"{org or 'plat'}_sync", "serves too")], plugin=f"{org}_plugin", org=org)
    with Toolroll.open(
        url, follow=Follow(poll_s=0.05), recording=Recording(outbox=tmp_path / "outbox")
    ) as roll:
        roll.warm_up()
        for context in (ACME, GLOBEX, NOBODY):
            talk(roll, context)
        assert roll.flush(20)
        database, failed = roll._home._database, {"degraded": ["routes"], "selected": []}
        for org in ("", "acme", "globex"):
            trial = {"name": f"test of {org}", "org": org, "unit": "user", "salt": "", "active": True}
            begun = {
                "variants": {"default": 0.5, "learned": 0.5},
                "begun_at": datetime(2026, 1, 1, tzinfo=timezone.utc),
            }
            with database.recording() as connection:
                connection.execute(sa.insert(tables.experiments), {**trial, **begun, "ended_at": None})
            of = {"experiment": trial["name"], "variant": "default", "at": datetime.now(timezone.utc)}
            write_events(database, event(org=org, **of, **failed))


def talk(roll: Toolroll, context: Context) -> None:
    name = f"{context.org or 'plat'}_0"
    for _ in range(2):
        picked = roll.select("serves", context, k=50)
        roll.record(picked, called={name: {"succeeded": True, "duration_ms": 20}})
    roll.record(roll.select("serves", context, k=50), called={name: True}, final=False)
    session = roll.session("talk", context)
    session.select("serves", k=5)
    session.end_turn()


def observe(roll: Toolroll) -> dict[str, object]:
    """What everybody gets, without what is random or depends on the time."""
    found: dict[str, object] = {}
    for context in (ACME, GLOBEX, NOBODY):
        org = context.org
        whole = roll.select("", Context(org=org, user=context.user, everything=True))
        found[f"{org} tools"] = sorted(json.dumps(one, sort_keys=True) for one in whole.schemas("mcp"))
        page = Context(org=org, user=context.user, page="home")
        found[f"{org} selected"] = sorted(roll.select("serves", page, k=50).names)
        session = roll.session("talk", context)
        found[f"{org} session"] = (session.turn, session.loaded)
        learned = roll._home.learned(org)
        found[f"{org} learned"] = None if learned is None else learned.to_bytes()
    return found


def ask(path: Path, outbox: Path) -> tuple[dict[str, object], list[str]]:
    """Opens the registry, asks and works with it; the answers, and what is said to be damaged."""
    with Toolroll.open(
        f"sqlite:///{path}", follow=Follow(poll_s=60), recording=Recording(outbox=outbox)
    ) as roll:
        said = []
        for call in (roll.warm_up, roll.refresh):
            try:
                call()
            except ToolrollError as error:
                said.append(str(error))
        found = observe(roll)
        for context in (ACME, NOBODY):
            picked = roll.select("serves", context, k=50)
            said += picked.degraded
            try:
                if picked.names:
                    roll.record(picked, called={picked.names[0]: True})
                session = roll.session("another", context)
                said += session.select("serves").degraded
                session.end_turn()
            except ToolrollError as error:
                said.append(str(error))
        said += roll.select("serves", GLOBEX).degraded
        roll.flush(5)
        return found, [*said, *roll.health()["degraded"]]


def compare(path: Path, folder: Path) -> str:
    """What became of the answers."""
    outbox = folder / "outbox"
    remove(outbox), remove(folder / "sound")
    expected, _ = ask_once(folder)
    try:
        found, said = ask(path, outbox)
    except ToolrollError:
        return "refused"
    if said:
        return "said"
    return "same" if found == expected else "wrong"


_expected: list[tuple[dict[str, object], list[str]]] = []


def ask_once(folder: Path) -> tuple[dict[str, object], list[str]]:
    """The answers of the sound registry."""
    if not _expected:
        path = folder / "copy.db"
        shutil.copy(folder / "registry.db", path)
        _expected.append(ask(path, folder / "sound"))
        assert not _expected[0][1], _expected[0][1]
    return _expected[0]


def damage_database(draw: random.Random, folder: Path) -> str:
    """Bytes of the file."""
    path = folder / "damaged.db"
    remove(path)
    path.write_bytes(spoil((folder / "registry.db").read_bytes(), draw))
    return compare(path, folder)


def remove(path: Path) -> None:
    for end in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + end).unlink(missing_ok=True)


KINDS: dict[str, Callable[[random.Random, Path], str]] = {
    "archive": damage_archive,
    "outbox": damage_outbox,
    "receipt": damage_receipt,
    "cache": damage_cache,
    "toolkit": damage_toolkit,
    "database": damage_database,
}


def main(kind: str, begin: str, end: str, folder: str) -> None:
    warnings.simplefilter("ignore")
    for number in range(int(begin), int(end)):
        print(f"begin {kind} {number}", flush=True)
        try:
            came = KINDS[kind](random.Random(f"{kind} {number}"), Path(folder))
        except Exception as error:
            came = f"foreign {type(error).__name__}: {str(error)[:200]!r}"
        print(f"end {kind} {number} {came}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
