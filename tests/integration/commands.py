"""Commands as typed, for the tests of the command line on real databases."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from toolroll.cli import main

WEATHER = {
    "name": "weather",
    "description": "The weather, now and in the days to come.",
    "keywords": ["weather", "rain"],
    "tasks": [
        {"name": "get_forecast", "description": "Gives the weather forecast for a city and a day."},
        {"name": "get_air_quality", "description": "Gives the air quality of a city."},
    ],
}
CRM = {
    "name": "crm",
    "description": "Customers and deals.",
    "settings_keys": ["crm_key"],
    "tasks": [
        {"name": "crm_export", "description": "Exports all customers to a file."},
        {"name": "crm_find", "description": "Finds a customer by name."},
    ],
}


@dataclass(frozen=True)
class Done:
    """What a command came to."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed: one JSON value, and nothing beside it."""
        assert self.err == ""
        return json.loads(self.out, parse_constant=pytest.fail)


class Typed:
    """Runs commands on one registry."""

    def __init__(self, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.url, self._capsys = url, capsys

    def __call__(self, *words: str, status: int = 0, catalog: str = "--catalog") -> Done:
        """Runs it; `catalog` is the option that names the registry."""
        self._capsys.readouterr()
        at = words.index("--") if "--" in words else len(words)
        found = main((*words[:at], catalog, self.url, *words[at:]))
        done = Done(found, *self._capsys.readouterr())
        assert found == status, f"{words}: {done}"
        return done

    def json(self, *words: str, status: int = 0, catalog: str = "--catalog") -> Any:
        """The same with --json."""
        at = words.index("--") if "--" in words else len(words)
        return self(*words[:at], "--json", *words[at:], status=status, catalog=catalog).json

    def put(self, folder: Path, *words: str) -> Any:
        """Imports a folder."""
        return self.json("import", str(folder), *words, catalog="--to")

    def names(self, *words: str) -> list[str]:
        """The names that `registry list` prints."""
        return [tool["name"] for tool in self.json("registry", "list", *words)["tools"]]

    def picked(self, message: str, *words: str) -> list[str]:
        """The names that `select` picks; with -k a small catalog is not handed on whole."""
        picked = self.json("select", message, "-k", "2", *words)
        assert picked["degraded"] == []
        return [tool["name"] for tool in picked["tools"]]


def toolkit_file(folder: Path, toolkit: Mapping[str, Any], **changes: Any) -> Path:
    """Writes a toolkit into a folder and gives the folder back."""
    folder.mkdir(exist_ok=True)
    (folder / f"{toolkit['name']}.json").write_text(json.dumps({**toolkit, **changes}), encoding="utf-8")
    return folder


def type_in(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """What stands on standard input."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
