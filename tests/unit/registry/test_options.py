"""Tests for `toolroll.registry.options`: a wrong value is refused by its name when it is written."""

from __future__ import annotations

import inspect
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.table import each_row
from toolroll import Follow, Recording, Sessions, Toolroll
from toolroll.model.errors import InvalidInput
from toolroll.registry.events import receipts


@each_row(
    ("kind", "option", "value", "must"),
    [
        (Follow, "poll_s", 0, "from 0.05 to 3600 seconds"),
        (Follow, "poll_s", True, "seconds"),
        (Follow, "settings_s", -1, "from 0.0 to 3600 seconds"),
        (Follow, "organisations", 0, "a whole number from 1"),
        (Follow, "listens", "yes", "True or False"),
        (Follow, "max_policy_age_s", 0.5, "at least twice poll_s"),
        (Follow, "hnsw", "always", "True, False or 'auto'"),
        (Follow, "progress", 7, "must be a function"),
        (Recording, "messages", "all", "'kept', 'hashed', 'dropped' or 'none'"),
        (Recording, "messages", ["kept"], "'kept'"),
        (Recording, "durable", "maybe", "'process' or 'disk'"),
        (Recording, "events_s", 3_600, "how long a receipt is valid"),
        (Recording, "events_s", math.nan, "seconds from"),
        (Recording, "events_s", True, "seconds from"),
        (Recording, "outbox", 7, "must be a"),
        (Sessions, "expire_s", 0, "above 0"),
        (Sessions, "expire_s", -1.0, "above 0"),
        (Sessions, "expire_s", math.inf, "a hundred years"),
        (Follow, "listen_url", 5, "a URL"),
        (Recording, "outbox", "", "a file"),
    ],
)
def test_a_wrong_value_is_refused_by_its_name_and_what_it_must_be(
    kind: Any, option: str, value: object, must: str
) -> None:
    with pytest.raises(InvalidInput, match=f"^{option}: is .*must be.*") as caught:
        kind(**{option: value})
    assert must in str(caught.value)


def test_a_url_to_listen_at_needs_that_somebody_listens() -> None:
    with pytest.raises(InvalidInput, match="listen_url: nothing listens"):
        Follow(listens=False, listen_url="postgresql://host/tools")


def test_a_relative_outbox_is_where_the_process_was_when_it_was_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    recording = Recording(outbox="outbox")
    monkeypatch.chdir("/")
    assert recording.outbox == tmp_path / "outbox"
    assert receipts.LIFETIME_S == 86_400.0 and Recording(events_s=receipts.LIFETIME_S)


@pytest.mark.parametrize("option", ["follow", "recording", "sessions"])
def test_a_value_of_another_type_is_refused_before_anything_is_opened(option: str) -> None:
    options: dict[str, Any] = {option: {"poll_s": 1.0}}
    with pytest.raises(InvalidInput, match=f"{option}: is .*must be toolroll.{option.capitalize()}$"):
        Toolroll.open("sqlite:///nowhere.db", **options)


def test_open_takes_a_url_and_eight_values() -> None:
    assert list(inspect.signature(Toolroll.open).parameters) == [
        "url",
        "create",
        "embedder",
        "profile",
        "observers",
        "steps",
        "follow",
        "recording",
        "sessions",
    ]


def test_the_three_values_need_neither_a_database_nor_numpy() -> None:
    program = (
        "import sys; from toolroll import Follow, Recording, Sessions; Follow(), Recording(), Sessions(); "
        "print(sorted({'sqlalchemy', 'numpy', 'fsspec'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
