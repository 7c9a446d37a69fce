"""Tests for names that other packages offer: what is wrong with one is said, with the package's name."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from toolroll.embedders.named import embedder
from toolroll.model.errors import EmbedderUnavailable, InvalidInput, NotFound
from toolroll.runtime.plugins import plugin, plugin_names
from toolroll.selection.profiles import profile, profile_names


@pytest.fixture
def offers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Makes an installed package that offers these lines in a group."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def offer(package: str, group: str, line: str, code: str = "") -> None:
        folder = tmp_path / f"{package}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_text(f"[{group}]\n{line}\n")
        (tmp_path / f"{package}.py").write_text(code)
        sys.modules.pop(package, None)

    return offer


def test_a_name_that_nobody_offers_is_none_and_names_are_sorted(offers) -> None:
    assert plugin("toolroll.tests", "a") is None and plugin_names("toolroll.tests") == []
    offers("one_package", "toolroll.tests", "b = one_package:B\na = one_package:A", "A, B = 1, 2")
    assert plugin("toolroll.tests", "a") == 1
    assert plugin_names("toolroll.tests") == ["a", "b"]


def test_an_object_that_cannot_be_imported_names_its_package(offers) -> None:
    offers(
        "broken_package", "toolroll.embedders", "broken = broken_package:make", "raise OSError('no model')"
    )
    with pytest.raises(
        InvalidInput, match=r"'broken': broken_package:make of package broken_package .* OSError: no model"
    ):
        embedder("broken")


def test_two_packages_with_one_name_are_refused(offers) -> None:
    for package in ("first_package", "second_package"):
        offers(package, "toolroll.profiles", f"mine = {package}:P", "P = 1")
    with pytest.raises(InvalidInput, match="offered by first_package and second_package; uninstall one"):
        profile("mine")


def test_an_object_of_another_kind_says_what_it_must_be(offers) -> None:
    offers("wrong_package", "toolroll.profiles", "odd = wrong_package:P", "P = 3")
    with pytest.raises(InvalidInput, match=r"profile 'odd': .* is 3, must be a Profile"):
        profile("odd")
    offers("wrong_maker", "toolroll.embedders", "dull = wrong_maker:make", "class make: dim = 1")
    with pytest.raises(InvalidInput, match="makes a make without embed and identity, must make an Embedder"):
        embedder("dull")


def test_a_name_in_neither_list_says_both(offers) -> None:
    offers("good_package", "toolroll.embedders", "good = good_package:make", "make = 1")
    with pytest.raises(NotFound, match="known are static, .* good; did you mean 'good'\\?$"):
        embedder("goood")


def test_a_function_that_raises_is_named_with_its_package(offers) -> None:
    offers(
        "raising_package",
        "toolroll.embedders",
        "mine = raising_package:make",
        "def make(size='1'):\n    if size == '1': raise OSError('no model')\n    int(size)",
    )
    place = r"'mine.*': the entry point 'mine' of toolroll.embedders \(package raising_package\) fails: "
    with pytest.raises(EmbedderUnavailable, match=place + "OSError: no model"):
        embedder("mine")
    with pytest.raises(InvalidInput, match=place + "ValueError: .*'large'"):
        embedder("mine:large")


def test_a_built_in_name_hides_an_installed_one_and_is_listed_once(offers) -> None:
    offers("shadow_package", "toolroll.embedders", "static = shadow_package:E\nollama = shadow_package:E")
    offers("shadow_profile", "toolroll.profiles", "default = shadow_profile:P")
    with pytest.raises(NotFound, match=r"MODEL_OR_PATH; did you mean 'static'\?$"):
        embedder("statik")
    assert profile_names().count("default") == 1
    with pytest.raises(NotFound, match=r"did you mean 'default'\?$"):
        profile("defualt")
