"""An upgrade that is killed, and two versions of toolroll at one registry."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.integration.next_schema import NEXT, NOW, REVISIONS, Next, add_step, names_of
from tests.integration.outcomes import eventually
from toolroll import Context, Follow, Recording, Tool, Toolroll
from toolroll.model.errors import NotFound, StoreUnavailable
from toolroll.model.tools import Definitions
from toolroll.registry.registry import Registry
from toolroll.registry.store import schema, tables
from toolroll.registry.store.database import Database

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="no kill -9 here"),
]

KILLS = int(os.environ.get("TOOLROLL_KILLS", "0"))
SHARE = 12
TOOLS = [Tool(f"tool_{at}", f"does {at}") for at in range(60)]
# A step that writes every row, so that there is something to interrupt.
THEN = """for number in range(40):
        op.execute(f"UPDATE tools SET owner = 'owner {number}'")
        op.execute(f"INSERT INTO notes VALUES ('{number}')")
    op.create_index("ix_notes", "notes", ["note"])"""


def killed(work: Callable[[Callable[[], None]], None], after_s: float | None) -> float | None:
    """Runs the work in a child and kills it so long after it begins; how long it took, None if killed.

    after_s: None lets it come to its end.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover
        os.close(reading)
        try:
            work(lambda: os.write(writing, b"%d\n" % time.monotonic_ns()))
            os.write(writing, b"%d\n" % time.monotonic_ns())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answers:
        begun = int(answers.readline())
        if after_s is not None:
            time.sleep(after_s)
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        done = answers.readline()
    return (int(done) - begun) / 1e9 if done.endswith(b"\n") else None


def cycles(url: str, work: Callable[[Callable[[], None]], None], again: Callable[[bool], None]) -> None:
    """Kills the work at random moments of its life. again: checks and undoes it, given whether it was done."""
    draws = random.Random(url.partition(":")[0])
    took_s = killed(work, None)
    assert took_s is not None
    again(True)
    in_the_middle = 0
    for _ in range(KILLS or (SHARE if url.startswith("sqlite") else SHARE // 2)):
        done = killed(work, draws.random() * took_s * 1.2) is not None
        in_the_middle += not done
        again(done)
    print(f"{in_the_middle} killed before the end, which takes {took_s * 1e3:.0f} ms")
    assert in_the_middle


@pytest.mark.timeout(1_200)
def test_a_killed_upgrade_is_there_whole_or_not_at_all(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import alembic.command  # noqa: F401  so that a child does not spend its life on this

    folder, old = add_step(tmp_path / "migrations", THEN), schema.REVISIONS
    with Registry.open(database_url, actor="ada") as registry:
        registry.import_(Definitions(tuple(TOOLS)))
        registry.update("tool_1", {"description": "does one"}, version=1)

    def upgrade(begin: Callable[[], None]) -> None:
        schema.MIGRATIONS, schema.REVISIONS = folder, REVISIONS  # type: ignore[misc]  of the child
        begin()
        Database.open(database_url, create=False, migrate=True).close()

    def check(done: bool) -> None:
        try:
            database = Database.open(database_url, create=False, migrate=False)
        except StoreUnavailable as error:
            assert f"was made by a newer toolroll (schema {NEXT}; this one knows up to {NOW})" in str(error)
        else:  # nothing of the step is there, and this version works as before
            assert not done
            assert names_of(database) == {*tables.metadata.tables, schema.VERSION_TABLE}
            with database.reading() as connection:
                columns = {column["name"] for column in sa.inspect(connection).get_columns("tools")}
            assert columns == set(tables.tools.c.keys())
            database.close()
        with monkeypatch.context() as patched:
            patched.setattr(schema, "MIGRATIONS", folder)
            patched.setattr(schema, "REVISIONS", REVISIONS)
            database = Database.open(database_url, create=False, migrate=True)  # goes on, or finds it done
            with database.reading() as connection:
                assert connection.scalars(sa.text("SELECT DISTINCT owner FROM tools")).all() == ["owner 39"]
                assert connection.scalar(sa.text("SELECT count(*) FROM notes")) == 40
                if database.dialect == "sqlite":
                    assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
            with Registry.open(database_url) as registry:
                assert registry.tool("tool_1").tool.description == "does one"
                assert [version.version for version in registry.history("tool_1")] == [2, 1]
            with database.recording() as connection:
                connection.execute(sa.text("DROP TABLE notes"))
                connection.execute(sa.text("ALTER TABLE tools DROP COLUMN owner"))
                connection.execute(sa.text(f"UPDATE {schema.VERSION_TABLE} SET version_num = '{old[-1]}'"))
            database.close()

    cycles(database_url, upgrade, check)


@pytest.mark.timeout(1_200)
def test_a_killed_creation_is_there_whole_or_not_at_all(empty_url: str) -> None:
    import alembic.command  # noqa: F401

    def create(begin: Callable[[], None]) -> None:
        begin()
        Database.open(empty_url, create=True, migrate=True).close()

    def check(done: bool) -> None:
        try:
            database = Database.open(empty_url, create=False, migrate=False)
        except NotFound:
            assert not done
        else:
            assert names_of(database) == {*tables.metadata.tables, schema.VERSION_TABLE}
            database.close()
        database = Database.open(empty_url, create=True, migrate=True)
        assert database.revision() == 0
        with database.recording() as connection:
            tables.metadata.drop_all(connection)
            connection.execute(sa.text(f"DROP TABLE {schema.VERSION_TABLE}"))
            if database.dialect == "postgresql":
                connection.execute(sa.text("DROP FUNCTION toolroll_append_only()"))
        database.close()

    cycles(empty_url, create, check)


def test_a_process_that_is_open_during_an_upgrade_goes_on_beside_the_next_version(
    database_url: str, tmp_path: Path
) -> None:
    with Registry.open(database_url, actor="ada") as registry:
        registry.import_(Definitions(tuple(TOOLS)))
    folder, ann = add_step(tmp_path / "migrations"), Context(user="ann")
    old = Toolroll.open(
        database_url, embedder="none", follow=Follow(poll_s=0.1), recording=Recording(outbox=tmp_path / "old")
    )
    writer = Registry.open(database_url, actor="old")
    with old, writer, Next(database_url, folder, tmp_path / "next") as following:
        assert f"has schema {NOW}, this toolroll needs {NEXT}" in following("open")
        assert isinstance(following("upgrade"), int)

        # The version before selects, reports, talks and writes.
        picked = old.select("does 7", ann, k=5)
        assert "tool_7" in picked.names and picked.degraded == ()
        assert old.record(picked, ["tool_7"]).counted == 1
        old.session("talk", ann).select("does 8", k=3)
        assert old.flush(20)
        assert old.health()["recording"]["keeper"]["counted"] == 1
        assert following("own", "tool_3", "ben") == "ben"
        writer.update("tool_3", {"description": "sings a song"}, version=1)
        writer.create(Tool("tool_new", "whistles"))
        assert following("select", "sings a song") == ["tool_3"]
        assert following("owner", "tool_3") == "ben"  # its write kept what it does not know
        assert following("owner", "tool_new") == "nobody"

        # It follows what the next version writes.
        following("describe", "tool_4", "paints a picture")
        eventually(lambda: "tool_4" in old.select("paints a picture", ann, k=1).names, 20)
        assert old.health()["degraded"] == []

        # A new process of the version before is refused, and told what to do.
        with pytest.raises(StoreUnavailable, match=r"made by a newer toolroll .* install that version"):
            Toolroll.open(database_url, embedder="none")
    with pytest.raises(StoreUnavailable, match="made by a newer toolroll"):
        Registry.open(database_url)
