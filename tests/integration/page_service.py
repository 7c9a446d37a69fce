"""A service with the demonstration catalog, some traffic and several keys, for tests of its page in a browser."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

import toolroll
from toolroll import Context, Recording, Registry, Toolroll
from toolroll.formats.sources.folder import read_folder
from toolroll.learning.experiments import Experiment
from toolroll.registry.analytics import experiments
from toolroll.server.application import create_application
from toolroll.server.settings import ServerSettings

MESSAGES = (
    "Should I bring an umbrella tomorrow?",
    "show me my pipeline forecast",
    "turn off the lights in the kitchen",
    "email Ada the notes of the meeting",
    "what is on my calendar on Friday?",
    "which deals close this month?",
)
KEYS = {"admin": ("read", "administer"), "reader": ("read",), "caller": ("select",)}


class PageService:
    """A running service.

    Attributes:
        base: its URL.
        registry: of its tools.
        url: of the registry.
        keys: texts of keys by name: "admin", "reader", "caller" and "acme", which is of one organisation.
    """

    def __init__(self, registry: Registry, url: str) -> None:
        self.registry, self.url = registry, url
        self.keys = {name: registry.keys.add(name, roles=roles, org=None)[1] for name, roles in KEYS.items()}
        self.keys["acme"] = registry.keys.add("acme", roles=["read", "administer"], org="acme")[1]
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._port = int(self._listener.getsockname()[1])
        self.base = f"http://127.0.0.1:{self._port}"
        self._start()

    def stop(self) -> None:
        """Stops answering."""
        self._server.should_exit = True
        self._thread.join(30)
        assert not self._thread.is_alive()

    def start_again(self) -> None:
        """Answers at the same address again."""
        self._listener = socket.create_server(("127.0.0.1", self._port))
        self._start()

    def _start(self) -> None:
        settings = ServerSettings(catalog=self.url, grace_s=5, session_secret="of the tests" * 3)
        application = create_application(settings)
        self._server = uvicorn.Server(
            uvicorn.Config(application, log_config=None, access_log=False, timeout_graceful_shutdown=2)
        )
        self._thread = threading.Thread(
            target=asyncio.run, args=(self._server.serve(sockets=[self._listener]),), daemon=True
        )
        self._thread.start()
        deadline = time.monotonic() + 60
        while not self._server.started:
            assert time.monotonic() < deadline
            time.sleep(0.02)


@contextmanager
def page_service(url: str, *, has_tools: bool = True) -> Iterator[PageService]:
    """A service over this registry, filled with the demonstration catalog and a day of traffic."""
    with Registry.open(url, actor="ada") as registry:
        if has_tools:
            fill(registry, url)
        service = PageService(registry, url)
        try:
            yield service
        finally:
            service.stop()


def fill(registry: Registry, url: str) -> None:
    """Adds the demonstration catalog, and selections with their outcomes."""
    registry.import_(read_folder(Path(toolroll.__file__).with_name("demo") / "toolkits"))
    experiment = Experiment("ranking", {"default": 0.5, "learned": 0.5})
    experiments.start(registry.database, experiment, actor="ada", org="globex")
    with Toolroll.open(url, recording=Recording(messages="kept")) as roll:
        for turn in range(60):
            page = ("home", "crm", "calendar")[turn % 3]
            picked = roll.select(MESSAGES[turn % len(MESSAGES)], Context(user=f"user {turn}", page=page))
            if picked.names and turn % 5:
                roll.record(picked, {picked.names[0]: turn % 7 != 0})
