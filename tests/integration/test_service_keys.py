"""Service keys: random, stored as digests, bound to what they allow, and rotated with an overlap."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
import sqlalchemy as sa

from tests.integration.commands import Typed
from tests.table import each_row
from toolroll.model.errors import Conflict, InvalidInput, NotFound
from toolroll.registry.registry import Registry
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database

DAY = timedelta(days=1)


@pytest.fixture
def registry(database: Database) -> Registry:
    return Registry(database, "ada")


def now() -> datetime:
    return datetime.now(timezone.utc)


def test_a_key_is_found_by_its_text_alone_with_what_it_allows(registry: Registry) -> None:
    key, text = registry.keys.add("backend", roles=["report", "select"], org="acme")
    other, _ = registry.keys.add("backend", roles=["read"], org="globex")
    ring = registry.keys.ring()
    assert ring.find(text, now()) == key
    assert (key.org, key.roles, key.expires_at, key.created_by) == ("acme", ("select", "report"), None, "ada")
    for wrong in (
        "",
        text[:-1],
        text + "A",
        text.upper(),
        text.replace(key.key_id, other.key_id),
        f"trk_{key.key_id}_",
        f"trk_{key.key_id}",
        "trk__",
        text.removeprefix("trk_"),
    ):
        assert ring.find(wrong, now()) is None, wrong


def test_the_secret_is_stored_nowhere(registry: Registry) -> None:
    texts = {registry.keys.add("backend", roles=["select"])[1] for _ in range(20)}
    secrets = {text.split("_", 2)[2] for text in texts}
    assert len(secrets) == 20
    assert {len(secret) for secret in secrets} == {43}  # 256 bits as base64
    with registry.database.reading() as connection:
        stored = " ".join(
            str(row)
            for table in tables.metadata.sorted_tables
            for row in connection.execute(sa.select(table))
        )
    assert not [secret for secret in secrets if secret in stored]


@pytest.mark.parametrize(
    "change", [{"org": None}, {"org": "globex"}, {"roles": ["select", "administer"]}, {"plugin": "crm"}]
)
def test_a_row_that_was_changed_past_the_registry_is_no_key(registry: Registry, change: dict) -> None:
    _, text = registry.keys.add("backend", roles=["select"], org="acme")
    with registry.database.recording() as connection:
        connection.execute(sa.update(tables.service_keys).values(**change))
    assert registry.keys.ring().find(text, now()) is None


def test_an_expired_key_is_refused_and_a_revoked_one_at_once(registry: Registry) -> None:
    key, text = registry.keys.add("backend", roles=["select"], lifetime=DAY)
    ring = registry.keys.ring()
    assert ring.find(text, now() + 0.9 * DAY) is not None
    assert ring.find(text, now() + DAY) is None
    assert not registry.keys.revoke(key.key_id).is_valid(now())
    assert registry.keys.ring().find(text, now()) is None
    with pytest.raises(Conflict, match="has expired"):
        registry.keys.revoke(key.key_id)
    with pytest.raises(Conflict, match="has expired"):
        registry.keys.rotate(key.key_id)


def test_a_rotated_key_allows_the_same_and_the_old_one_lives_for_the_overlap(registry: Registry) -> None:
    old, old_text = registry.keys.add("crm", roles=["sync"], org=None, plugin="crm", lifetime=90 * DAY)
    new, text = registry.keys.rotate(old.key_id, overlap=DAY)
    ring, at = registry.keys.ring(), now()
    assert new.key_id != old.key_id
    assert replace(new, key_id="", created_at=at, expires_at=None) == replace(
        old, key_id="", created_at=at, expires_at=None
    )
    assert new.expires_at is not None
    assert new.expires_at - new.created_at == 90 * DAY
    assert (ring.find(old_text, at), ring.find(text, at)) != (None, None)
    later = at + DAY
    assert (ring.find(old_text, later), ring.find(text, later)) == (None, new)


def test_an_overlap_lengthens_no_life(registry: Registry) -> None:
    old, _ = registry.keys.add("crm", roles=["read"], lifetime=DAY)
    registry.keys.rotate(old.key_id, overlap=30 * DAY)
    assert old in registry.keys.list()


def test_each_change_of_keys_is_in_the_audit_log_of_its_organisation(registry: Registry) -> None:
    key, text = registry.keys.add("backend", roles=["select"], org="acme", reason="new chat")
    new, _ = registry.keys.rotate(key.key_id)
    registry.keys.revoke(new.key_id)
    lines = registry.audit.list(org="acme", action="key", after=0)
    assert [(line.action, line.subject, line.actor) for line in lines] == [
        ("key.add", key.key_id, "ada"),
        ("key.rotate", new.key_id, "ada"),
        ("key.revoke", new.key_id, "ada"),
    ]
    assert (lines[0].reason, lines[1].details["replaces"]) == ("new chat", key.key_id)
    assert text not in str([line.to_dict() for line in lines])


def test_keys_are_listed_by_organisation(registry: Registry) -> None:
    acme, _ = registry.keys.add("b", roles=["select"], org="acme")
    platform, _ = registry.keys.add("c", roles=["select"])
    anyone, _ = registry.keys.add("a", roles=["select"], org=None)
    assert registry.keys.list("acme") == (acme,)
    assert registry.keys.list("") == (platform,)
    assert registry.keys.list() == (anyone, acme, platform)


@each_row(
    ("arguments", "problem"),
    [
        ({"roles": []}, "roles is"),
        ({"roles": ["root"]}, "must be some of select, report, vouch, sync, read, administer"),
        ({"roles": "select"}, "roles is"),
        ({"roles": ["sync"]}, "needs one"),
        ({"roles": ["select"], "plugin": "crm"}, "no other key has one"),
        ({"roles": ["select"], "lifetime": -DAY}, "lifetime is"),
    ],
)
def test_a_key_that_means_nothing_is_refused(registry: Registry, arguments: dict, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        registry.keys.add("backend", **arguments)
    assert registry.keys.list() == ()


def test_a_key_that_does_not_exist_is_not_found(registry: Registry) -> None:
    for change in (registry.keys.revoke, registry.keys.rotate):
        with pytest.raises(NotFound, match="service key 'abc'"):
            change("abc")


def test_keys_are_made_listed_rotated_and_revoked_as_typed(
    database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = Typed(database_url, capsys)
    done = typed("registry", "keys", "add", "chat", "--any-org", "--role", "select", "--role", "report")
    text = done.out.strip()
    key_id = text.split("_")[1]
    assert f"key {key_id}, chat: select, report" in done.err
    new = typed("registry", "keys", "rotate", key_id, "--overlap", "2d", "--json").json
    assert (new["name"], new["org"], new["roles"]) == ("chat", None, ["select", "report"])
    assert "revoked" in typed("registry", "keys", "revoke", key_id).out
    listed = typed("registry", "keys", "--json").json["keys"]
    assert {each["key_id"]: each["expires_at"] is None for each in listed} == {
        key_id: False,
        new["key_id"]: True,
    }
    wrong = typed("registry", "keys", "add", "x", "--any-org", "--org", "acme", "--role", "read", status=2)
    assert "--any-org" in wrong.err
