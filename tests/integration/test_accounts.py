"""Accounts of people: passwords are stored as hashes that are bound to what the account allows."""

from __future__ import annotations

import io

import pytest
import sqlalchemy as sa

pytest.importorskip("argon2")

from tests.integration.commands import Typed
from toolroll.model.errors import Conflict, InvalidInput, NotFound
from toolroll.registry.access.accounts import Accounts
from toolroll.registry.editing.audit import Audit
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database

PASSWORD = "correct horse battery"


@pytest.fixture
def accounts(database: Database) -> Accounts:
    return Accounts(database, "ada")


def test_only_the_name_with_its_password_is_an_account(accounts: Accounts) -> None:
    ann = accounts.add("ann", PASSWORD, roles=["administer", "read"], org="acme")
    accounts.add("bob", "another password", roles=["read"])
    book = accounts.book()
    assert (ann.org, ann.roles, ann.created_by) == ("acme", ("read", "administer"), "ada")
    assert book.check("ann", PASSWORD) == ann
    for name, password in (("ann", PASSWORD + " "), ("bob", PASSWORD), ("eve", PASSWORD), ("ann", "")):
        assert book.check(name, password) is None


def test_a_password_is_the_same_however_a_keyboard_writes_it(accounts: Accounts) -> None:
    accounts.add("ann", "caf\u00e9 au lait, please", roles=["read"])
    assert accounts.book().check("ann", "cafe\u0301 au lait, please") is not None


def test_the_password_is_stored_nowhere(accounts: Accounts, database: Database) -> None:
    accounts.add("ann", PASSWORD, roles=["read"], reason="new")
    accounts.set_password("ann", PASSWORD + PASSWORD)
    with database.reading() as connection:
        stored = [
            str(row)
            for table in tables.metadata.sorted_tables
            for row in connection.execute(sa.select(table))
        ]
    assert not [row for row in stored if PASSWORD in row]
    assert [row for row in stored if "$argon2id$" in row]


@pytest.mark.parametrize("change", [{"org": None}, {"org": "globex"}, {"roles": ["read", "administer"]}])
def test_nobody_signs_in_to_a_row_that_was_changed_past_the_registry(
    accounts: Accounts, database: Database, change: dict
) -> None:
    accounts.add("ann", PASSWORD, roles=["read"], org="acme")
    version = accounts.book().version_of("ann")
    with database.recording() as connection:
        connection.execute(sa.update(tables.accounts).values(**change))
    assert accounts.book().check("ann", PASSWORD) is None
    assert accounts.book().of_version("ann", version) is None


def test_a_new_password_and_a_removal_end_the_version_that_sessions_have(accounts: Accounts) -> None:
    ann = accounts.add("ann", PASSWORD, roles=["read"])
    version = accounts.book().version_of("ann")
    assert accounts.book().of_version("ann", version) == ann
    accounts.set_password("ann", "another password")
    assert accounts.book().of_version("ann", version) is None
    assert accounts.book().check("ann", PASSWORD) is None
    assert accounts.book().check("ann", "another password") is not None
    version = accounts.book().version_of("ann")
    accounts.remove("ann")
    assert accounts.book().of_version("ann", version) is None
    assert accounts.book().of_version("ann", "") is None
    for change in (lambda: accounts.remove("ann"), lambda: accounts.set_password("ann", PASSWORD)):
        with pytest.raises(NotFound, match="'ann'"):
            change()


def test_an_account_that_exists_and_wrong_values_are_refused_without_naming_the_password(
    accounts: Accounts,
) -> None:
    accounts.add("ann", PASSWORD, roles=["read"])
    with pytest.raises(Conflict):
        accounts.add("ann", PASSWORD, roles=["administer"])
    for password in ("short", "x" * 1_001, "half \ud800 of a pair", "a NUL \0 in the middle"):
        with pytest.raises(InvalidInput) as error:
            accounts.add("bob", password, roles=["read"])
        assert password not in str(error.value)
    for roles in ([], ["sync"], "read", ["owner"]):
        with pytest.raises(InvalidInput, match="roles"):
            accounts.add("bob", PASSWORD, roles=roles)
    assert [account.name for account in accounts.list()] == ["ann"]


def test_the_audit_log_has_each_change_of_an_account(accounts: Accounts, database: Database) -> None:
    accounts.add("ann", PASSWORD, roles=["read"], org="acme", reason="joined")
    accounts.set_password("ann", PASSWORD + "!")
    accounts.remove("ann", reason="left")
    changes = Audit(database).list(subject="ann")
    assert [(each.action, each.org, each.reason) for each in changes] == [
        ("account.remove", "acme", "left"),
        ("account.password", "acme", ""),
        ("account.add", "acme", "joined"),
    ]


def test_accounts_are_changed_by_commands(
    database_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = Typed(database_url, capsys)

    def type_password(text: str) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{text}\n"))

    type_password(PASSWORD)
    made = typed("registry", "accounts", "add", "ann", "--any-org", "--role", "read", "--stdin", "--json")
    assert (made.json["name"], made.json["org"], made.json["roles"]) == ("ann", None, ["read"])
    type_password("short")
    refused = typed("registry", "accounts", "password", "ann", "--stdin", status=1)
    assert "must have 12" in refused.err
    assert "ann" in typed("registry", "accounts").out
    typed("registry", "accounts", "remove", "ann")
    assert typed("registry", "accounts", "list", "--json").json["accounts"] == []
