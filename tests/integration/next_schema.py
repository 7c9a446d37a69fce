"""A toolroll whose schema has one more step than today's. Run as a script, it is a process of that version.

As a script it reads commands from its standard input, one a line: `upgrade`, `open`, `own NAME OWNER`,
`owner NAME`, `describe NAME TEXT`, `select MESSAGE`. It answers each with one line of JSON.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from toolroll import Recording, Toolroll
from toolroll.model.errors import ToolrollError
from toolroll.registry.registry import Registry
from toolroll.registry.store import schema
from toolroll.registry.store.database import Database

ROOT = Path(__file__).parents[2]
NOW, NEXT = schema.REVISIONS[-1], f"{int(schema.REVISIONS[-1]) + 1:04}"
REVISIONS = (*schema.REVISIONS, NEXT)
STEP = f"""
import sqlalchemy as sa
from alembic import op

revision = "{NEXT}"
down_revision = "{NOW}"


def upgrade():
    op.create_table("notes", sa.Column("note", sa.Text, nullable=False))
    op.add_column("tools", sa.Column("owner", sa.Text, nullable=False, server_default="nobody"))
    {{then}}
"""


def add_step(folder: Path, then: str = "") -> Path:
    """Makes a folder of migrations with one more step; `then` is what the step does at its end."""
    shutil.copytree(schema.MIGRATIONS, folder, dirs_exist_ok=True)
    (folder / "versions" / f"{NEXT}_owner.py").write_text(STEP.format(then=then))
    return folder


def names_of(database: Database) -> set[str]:
    """The tables, without the partitions of PostgreSQL."""
    with database.reading() as connection:
        names = set(sa.inspect(connection).get_table_names())
        if database.dialect == "postgresql":
            parts = "SELECT relname FROM pg_class WHERE relispartition"
            names -= set(connection.execute(sa.text(parts)).scalars())
        return names


class Next:
    """A process of the next version."""

    def __init__(self, url: str, folder: Path, outbox: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.next_schema", url, str(folder), str(outbox)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *words: str) -> Any:
        """What it answers to one command."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def __enter__(self) -> Next:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        assert self._process.wait(30) == 0
        self._process.stdout.close()


def main(url: str, folder: str, outbox: str) -> None:
    schema.MIGRATIONS, schema.REVISIONS = Path(folder), REVISIONS  # type: ignore[misc]
    roll: Toolroll | None = None

    def answer(command: str, rest: str) -> Any:
        nonlocal roll
        name, _, text = rest.partition(" ")
        if command in ("open", "upgrade"):
            Database.open(url, create=False, migrate=command == "upgrade").close()
            roll = roll or Toolroll.open(url, embedder="none", recording=Recording(outbox=outbox))
            return roll.health()["revision"]
        if command == "select":
            assert roll is not None
            roll.refresh()
            return list(roll.select(rest, k=1).names)
        if command == "describe":
            with Registry.open(url, actor="next") as registry:
                return registry.update(
                    name, {"description": text}, version=registry.tool(name).version
                ).version
        database = Database.open(url, create=False, migrate=False)
        with database.recording() as connection:
            values = {"name": name, "owner": text}
            if command == "own":
                connection.execute(sa.text("UPDATE tools SET owner = :owner WHERE name = :name"), values)
            owner = connection.scalar(sa.text("SELECT owner FROM tools WHERE name = :name"), {"name": name})
        database.close()
        return owner

    for line in sys.stdin:
        command, _, rest = line.rstrip("\n").partition(" ")
        try:
            found = answer(command, rest)
        except ToolrollError as error:
            found = str(error)
        print(json.dumps(found), flush=True)
    if roll is not None:
        roll.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
