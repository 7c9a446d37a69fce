"""The page about the service, as it stands: its commands, its Python, its settings."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from fastapi import FastAPI

import toolroll
from tests.ports import free_port
from tests.unit.server.asgi import request
from toolroll.server.settings import ServerSettings

pytestmark = pytest.mark.slow
PAGE = (Path(__file__).parents[2] / "docs" / "service.md").read_text("utf-8")
DEMO = Path(toolroll.__file__).parent / "demo" / "toolkits"
NEEDED = pytest.mark.skipif(
    sys.platform == "win32" or shutil.which("curl") is None,
    reason="the page's commands need a shell and curl",
)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


class Shell:
    """Where somebody types the page's commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.variables = {**os.environ, "TOOLROLL_SERVER_PORT": str(self.port)}
        (folder / "toolkits").symlink_to(DEMO)

    def __call__(self, commands: str, typed: str = "") -> str:
        """What the commands print. typed: what they ask for."""
        commands = commands.replace("localhost:8080", f"localhost:{self.port}")
        script = f'toolroll() {{ "{sys.executable}" -m toolroll "$@"; }}\n{commands}'
        done = subprocess.run(
            ["bash", "-euc", script],
            cwd=self.folder,
            env=self.variables,
            input=typed,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (commands, done.stdout, done.stderr)
        self.variables.update(re.findall(r"^export (\w+)=(\S+)$", commands, re.MULTILINE))
        return done.stdout

    @contextmanager
    def running(self, command: str) -> Iterator[None]:
        """A command that serves."""
        words = [sys.executable, "-m", "toolroll", *command.split()[1:]]
        with (self.folder / "log.txt").open("wb") as log:
            process = subprocess.Popen(words, cwd=self.folder, env=self.variables, stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + 240
            while not self._is_ready():
                assert process.poll() is None and time.monotonic() < deadline, self.log
                time.sleep(0.2)
            yield
        finally:
            process.terminate()
            process.wait(60)

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://localhost:{self.port}/readyz", timeout=120) as answer:
                return bool(json.load(answer)["ready"])
        except urllib.error.URLError as error:
            if isinstance(error, urllib.error.HTTPError):
                error.close()
            return False

    @property
    def log(self) -> str:
        return (self.folder / "log.txt").read_text("utf-8")


@NEEDED
def test_the_commands_of_the_page_work_in_their_order(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    start, keys, accounts, images, select, report, sync = blocks("sh")
    assert images.startswith("docker ")  # of registries, which tests do not ask
    install, *prepare, serve = start.splitlines()
    assert install == "pip install 'toolroll[server]'"
    key = shell("\n".join(prepare)).split()[-1]
    with shell.running(serve):
        first = json.loads(shell("toolroll registry keys list --json --catalog sqlite:///tools.db"))
        printed = shell(keys.replace("3f2a9c01", first["keys"][0]["key_id"]))
        plugin_key = next(word for word in printed.split() if word.startswith("trk_"))
        for command in accounts.splitlines():
            shell(command, "correct horse battery\n" * 2)  # the password, twice
        shell.variables["KEY"] = shell(prepare[1]).split()[-1]  # the page has revoked the first one
        assert shell.variables["KEY"] != key
        time.sleep(3)  # after which a new key counts, the page says
        answer = json.loads(shell(select))
        assert "get_forecast" in answer["names"], answer
        shell.variables["EVENT_ID"] = answer["event_id"]
        said = json.loads(shell(report))
        assert (said["event_id"], said["counted"]) == (answer["event_id"], 1)
        assert json.loads(shell(report))["counted"] == 0
        shell.variables["PLUGIN_KEY"] = plugin_key
        written = json.loads(shell(sync))
        assert (written["plugin"], written["org"]) == ("weather", "acme") and "get_tides" in str(written)


def test_the_python_of_the_page_runs() -> None:
    (code,) = blocks("python")
    world: dict[str, Any] = {}
    exec(compile(code, "service.md", "exec"), world)
    application: FastAPI = world["application"]
    status, _, answer = request(
        application, "POST", "/tools/select", {"message": "will it rain?"}, headers={"x-org": "acme"}
    )
    assert status == 200 and answer["names"], answer


def test_the_page_has_every_setting() -> None:
    rows = "\n".join(line for line in PAGE.splitlines() if line.startswith("| `"))
    for name in ServerSettings.model_fields:
        if not name.startswith(("upstream_", "oidc_")):  # those have pages and a section of their own
            assert f"`{name}`" in rows, name
    for name in ("oidc_issuer", "oidc_client_id", "oidc_label", "oidc_groups_claim", "oidc_scopes"):
        assert name in PAGE
