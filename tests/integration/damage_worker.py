"""Damages files and rows and says what came of each; run as a script by test_damaged_files.py.

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
import sqlite3
import sys
import warnings
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa

from tests.integration.outcomes import NOW, exposure
from tests.integration.test_damaged_rows import ACME, GLOBEX, NO_TEXT, NOBODY, wrong_values
from toolroll import Context, Follow, Recording, Toolroll
from toolroll._core import Learned
from toolroll.embedders.cached import CachedEmbedder
from toolroll.embedders.hashing import HashingEmbedder
from toolroll.errors import ToolrollError
from toolroll.registry.events.journal import Damage, frame, records_in
from toolroll.registry.events.receipts import Signer
from toolroll.registry.store import tables

RECORDS = [bytes([at]) * (at * 7 % 50) for at in range(20)]
SIGNER = Signer({"key": b"s" * 32}, "key")
TEXTS = [f"text {at}" for at in range(12)]
# Rows that nothing reads to select, learn or converse: events and the audit log are read by people.
TABLES = [
    table
    for table in tables.metadata.sorted_tables
    if table.name not in ("selection_events", "changes", "logged_tools", "receipt_keys")
]


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


def damage_journal(draw: random.Random, folder: Path) -> str:
    """Reports that wait for the registry: what is read back was written, in its order."""
    sound = b"".join(map(frame, RECORDS))
    counted = Damage()
    found = [record for record, _ in records_in(spoil(sound, draw), counted)]
    left = iter(RECORDS)
    if not all(record in left for record in found):
        return "wrong"
    if len(found) == len(RECORDS):
        return "same"
    # A journal that ends at the end of a record is one whose last records were never written.
    return "said" if counted.stretches or found == RECORDS[: len(found)] else "wrong"


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


def ask(path: Path, journal: Path) -> tuple[dict[str, object], list[str]]:
    """Opens the registry, asks and works with it; the answers, and what is said to be damaged."""
    with Toolroll.open(
        f"sqlite:///{path}", follow=Follow(poll_s=60), recording=Recording(outbox=journal)
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
    journal = folder / "journal"
    shutil.rmtree(journal, ignore_errors=True)
    sound = folder / "sound"
    shutil.rmtree(sound, ignore_errors=True)
    expected, _ = ask_once(folder)
    try:
        found, said = ask(path, journal)
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


def damage_row(draw: random.Random, folder: Path) -> str:
    """One value of one row: of another kind, or another one of its kind."""
    path = folder / "damaged.db"
    remove(path)
    shutil.copy(folder / "registry.db", path)
    while True:
        column = draw.choice(list(draw.choice(TABLES).c))
        if overwrite(path, column, draw):
            return f"{compare(path, folder)} {column.table.name}.{column.name}"


def remove(path: Path) -> None:
    for end in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + end).unlink(missing_ok=True)


def overwrite(path: Path, column: sa.Column[Any], draw: random.Random) -> bool:
    """Changes the value in a random row; whether there is one that may hold the new value."""
    name = f'"{column.name}"'
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(f"SELECT rowid, {name} FROM {column.table.name}").fetchall()
        if not rows:
            return False
        row, value = draw.choice(rows)
        new = altered(value, column, draw) if draw.random() < 0.7 else draw.choice(wrong_values(column))
        if new == value:
            return False
        wanted, given = ("CAST(x'ff' AS TEXT)", (row,)) if new is NO_TEXT else ("?", (new, row))
        try:
            connection.execute(f"UPDATE {column.table.name} SET {name} = {wanted} WHERE rowid = ?", given)
        except sqlite3.IntegrityError:
            return False
        connection.commit()
    return True


def altered(value: object, column: sa.Column[Any], draw: random.Random) -> object:
    """A value of the same kind, one bit or one letter away; a date where there is none."""
    if value is None and isinstance(column.type, tables.Instant):
        return "2026-01-01 00:00:00"
    if isinstance(value, bytes) and value:
        return spoil(value, draw)
    if isinstance(value, int):
        return value ^ (1 << draw.randrange(4))
    if isinstance(value, float):
        return value + 1
    if isinstance(value, str) and value:
        at = draw.randrange(len(value))
        return f"{value[:at]}{chr(ord(value[at]) ^ 1)}{value[at + 1 :]}"
    return value


KINDS: dict[str, Callable[[random.Random, Path], str]] = {
    "archive": damage_archive,
    "journal": damage_journal,
    "receipt": damage_receipt,
    "cache": damage_cache,
    "toolkit": damage_toolkit,
    "database": damage_database,
    "row": damage_row,
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
