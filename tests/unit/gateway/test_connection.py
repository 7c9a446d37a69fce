"""What a connection says of a server that ends, and when it starts it again."""

from __future__ import annotations

import json
import logging
from types import SimpleNamespace

import pytest

pytest.importorskip("mcp")

import anyio
from mcp import MCPError

from tests.table import each_row
from toolroll.formats.visible_text import is_visible
from toolroll.gateway import client, connection
from toolroll.gateway.connection import ServerConnection
from toolroll.gateway.logs import ServerLog
from toolroll.gateway.places import log_file, private_folder
from toolroll.gateway.reasons import last_line, quoted, reason_of
from toolroll.gateway.server_spec import ServerSpec
from toolroll.model.errors import InvalidInput


def test_the_last_line_of_npx_is_the_one_that_names_the_error():
    written = (
        b"npm error could not determine executable to run\n"
        b"npm error\n"
        b"npm notice New minor version of npm available!\n"
        b"npm error A complete log of this run can be found in: /home/ann/.npm/_logs/x.log\n\n"
    )
    assert last_line(written) == "npm error could not determine executable to run"


def test_the_log_of_any_server_is_in_the_folder_of_logs(tmp_path):
    for name in ("a/../../b", "..", "/etc/passwd", "Brave Search", "é" * 100):
        assert log_file(tmp_path, name).parent.resolve() == tmp_path / "logs"


def test_folders_of_the_state_are_their_owners_alone(tmp_path):
    folder = private_folder(tmp_path / "state" / "logs")
    assert [each.stat().st_mode & 0o777 for each in (folder, folder.parent)] == [0o700, 0o700]
    assert private_folder(folder) == folder
    folder.chmod(0o755)  # of an older version
    assert private_folder(folder).stat().st_mode & 0o777 == 0o700


class Scripted(ServerConnection):
    """A connection whose server ends as scripted: each item is whether it came up, and its error."""

    def script(self, endings):
        self.endings, self.waits = list(endings), []

    async def _serve(self):
        if not self.endings:
            await anyio.sleep_forever()
        came_up, error = self.endings.pop(0)
        if came_up:
            self.starts += 1
            self._set("up", "")
            self._ended()  # as the session's end does, before the error arrives
        raise error

    def _down(self, reason, retry_at):
        super()._down(reason, retry_at)
        if retry_at:
            self.waits.append(round(retry_at - connection.time.monotonic(), 1))
            self.retry_now()


def run(tmp_path, endings):
    async def nothing(*_):
        pass

    async def go():
        one = Scripted(
            ServerSpec("a", command="x"), tmp_path, ServerLog(tmp_path / "a.log"), nothing, nothing
        )
        one.script(endings)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one.run)
            with anyio.fail_after(60):
                while one.endings:
                    await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
        return one.waits

    return anyio.run(go)


DEAD, OTHER = (False, RuntimeError("no licence")), (False, RuntimeError("no disk"))
CAME_UP = (True, RuntimeError("no licence"))


def test_a_dead_server_is_logged_once_until_something_changes(tmp_path, caplog):
    caplog.set_level(logging.WARNING, "toolroll.gateway")
    run(tmp_path, [DEAD, DEAD, DEAD, OTHER, OTHER, DEAD, CAME_UP, CAME_UP, DEAD])
    told = [record.getMessage().split(": ")[1].split(";")[0] for record in caplog.records]
    assert told == ["no licence", "no disk", "no licence", "no licence", "no licence"]


def test_a_server_that_ran_for_long_is_started_again_soon(tmp_path, monkeypatch):
    assert run(tmp_path, [DEAD, DEAD, DEAD, CAME_UP]) == [0.5, 1.0, 2.0, 4.0]
    monkeypatch.setattr(connection, "_STEADY_S", -1.0)  # each connection held for long
    assert run(tmp_path, [DEAD, DEAD, DEAD, CAME_UP, DEAD]) == [0.5, 1.0, 2.0, 0.5, 1.0]


def test_a_package_that_starts_processes_in_another_way_is_left_as_it_is():
    module = SimpleNamespace(start=print)
    client._keep_processes(module)
    assert vars(module) == {"start": print}


@pytest.mark.parametrize(
    ("value", "told"),
    [("\ud800", r"lone surrogate \(\\ud800\)"), (float("nan"), "JSON"), ({1}, "cannot be written as JSON")],
)
def test_what_cannot_be_written_as_json_ends_no_connection(tmp_path, value, told):
    async def go():
        one = ServerConnection(
            ServerSpec("a", command="x"), tmp_path, ServerLog(tmp_path / "a.log"), None, None
        )
        await one.request("tools/call", {"name": "x", "arguments": {"s": [value]}})

    with pytest.raises(InvalidInput, match=told):
        anyio.run(go)


@each_row("words", ['ok). server "b" is away: (x', "a\n## b\u202e\x1b[2J", "\\" * 900 + '"', ""])
def test_what_a_server_says_of_itself_ends_where_its_quotes_do(words):
    """Before, `ok). server 'b' is away: sign in again at …` read as if the gateway said it of another server."""
    told = reason_of(MCPError(1, words, None))
    inner, end = json.JSONDecoder().raw_decode(told, len("it says "))
    assert end == len(told) <= 500 and len(inner) <= 200 and is_visible(inner)
    assert told == f"it says {quoted(words)}"
