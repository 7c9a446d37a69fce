"""Options that several commands share."""

from __future__ import annotations

from tests.table import each_row
from toolroll.cli import main, options
from toolroll.cli.options import RegistryOptions


@each_row(
    ("text", "is_one"),
    [
        ("sqlite:///tools.db", True),
        ("sqlite:////srv/tools.db", True),
        ("postgresql://me@host/tools", True),
        ("postgres://host/tools", True),
        ("PostgreSQL+psycopg://host/tools", True),
        ("mysql://host/tools", True),  # so that the error is that of a URL
        ("toolkits/", False),
        ("./sqlite/tools.jsonl", False),
        ("C:\\tools\\mine", False),
        ("/srv/a:b", False),
        ("", False),
    ],
)
def test_a_registry_is_told_from_a_folder_by_its_scheme(text, is_one):
    assert options.is_registry(text) is is_one


def test_an_actor_is_the_login_name_unless_one_is_given(monkeypatch):
    monkeypatch.setattr("getpass.getuser", lambda: "ada")
    assert RegistryOptions("sqlite:///x.db").actor_name == "ada"
    assert RegistryOptions("sqlite:///x.db", actor="bo").actor_name == "bo"

    def nobody() -> str:
        raise OSError("no name for uid 1000")

    monkeypatch.setattr("getpass.getuser", nobody)
    assert RegistryOptions("sqlite:///x.db").actor_name == "unknown"


def test_a_list_takes_the_options_of_its_group(capsys, monkeypatch):
    monkeypatch.delenv(options.CATALOG, raising=False)
    for words in (["rules"], ["rules", "list"], ["toolkits"], ["pages"], ["settings", "list"]):
        assert main(["registry", *words, "--json", "--catalog", "toolkits/"]) == 1
        assert "is not a registry" in capsys.readouterr().err
