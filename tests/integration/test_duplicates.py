"""Near-duplicates in a registry: proposed across plugins, accepted by people."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.commands import Typed
from toolroll import Tool
from toolroll.embedders.hashing import HashingEmbedder
from toolroll.embedders.named import embedder
from toolroll.model.errors import Conflict, InvalidInput, NotFound
from toolroll.registry.registry import Registry

MAIL = {"properties": {"to": {}, "subject": {}, "body": {}}}


@pytest.fixture
def registry(database_url: str) -> Iterator[Registry]:
    with Registry.open(database_url, actor="ada") as opened:
        opened.sync(
            [
                Tool("send_email", "Sends a mail to somebody", MAIL),
                Tool("list_emails", "Lists the mails in a folder"),
                Tool("send_mail_v0", "Sends a mail to somebody", MAIL, status="retired"),
            ],
            plugin="mail",
            trusted=True,
        )
        opened.sync([Tool("gmail_send", "Sends a mail to people", MAIL)], plugin="google")
        yield opened


def pairs(registry: Registry, **options: object) -> list[tuple[str, str]]:
    return [(pair.first, pair.second) for pair in registry.duplicates.list(embedder("static"), **options)]


def test_duplicates_of_two_plugins_are_proposed_until_they_are_accepted(registry):
    assert pairs(registry) == [("gmail_send", "send_email")]
    done = registry.duplicates.accept(["send_email", "gmail_send"], reason="the same")
    assert {record.tool.interchangeable for record in done} == {"gmail_send"}
    assert registry.tool("send_email").tool.interchangeable == "gmail_send"
    assert registry.history("send_email")[0].reason == "the same"
    assert pairs(registry) == []


def test_a_tool_joins_the_group_that_the_other_has(registry):
    registry.update("send_email", {"interchangeable": "mail"}, version=1)
    registry.duplicates.accept(["gmail_send", "send_email"])
    assert registry.tool("gmail_send").tool.interchangeable == "mail"
    before = registry.database.revision()
    registry.duplicates.accept(["gmail_send", "send_email"])
    assert registry.database.revision() == before  # nothing changed
    registry.update("list_emails", {"interchangeable": "lists"}, version=1)
    with pytest.raises(Conflict, match="groups lists, mail"):
        registry.duplicates.accept(["gmail_send", "list_emails"])
    registry.duplicates.accept(["gmail_send", "list_emails"], group="all")
    assert registry.tool("list_emails").tool.interchangeable == "all"


def test_an_organisations_tools_are_compared_for_it_alone(registry):
    registry.create(Tool("acme_mail_send", "Sends a mail to people", MAIL), org="acme")
    assert ("acme_mail_send", "gmail_send") in pairs(registry, org="acme")
    assert pairs(registry) == [("gmail_send", "send_email")]


def test_vectors_of_a_slow_embedder_are_kept_in_the_database(registry):
    class Slow(HashingEmbedder):
        is_instant = False
        asked = 0

        def embed(self, texts):
            self.asked += len(texts)
            return super().embed(texts)

    slow = Slow(64)
    first = registry.duplicates.list(slow, least=0.5)
    assert slow.asked == 3 and registry.duplicates.list(slow, least=0.5) == first
    assert slow.asked == 3


def test_what_cannot_be_accepted_changes_nothing(registry):
    with pytest.raises(InvalidInput, match="two tools or more"):
        registry.duplicates.accept(["send_email", "send_email"])
    with pytest.raises(NotFound):
        registry.duplicates.accept(["send_email", "no_such_tool"])
    assert registry.tool("send_email").version == 1


def test_duplicates_as_typed(database_url, registry, capsys):
    typed = Typed(database_url, capsys)
    (pair,) = typed.json("registry", "duplicates")["duplicates"]
    assert pair["tools"] == ["gmail_send", "send_email"] and pair["parameters"] == ["body", "subject", "to"]
    assert "accept FIRST SECOND" in typed("registry", "duplicates", "list").err
    done = typed.json("registry", "duplicates", "accept", *pair["tools"], "--group", "mail")
    assert done == {"group": "mail", "tools": pair["tools"]}
    assert typed.json("registry", "duplicates")["duplicates"] == []
    assert "no two tools" in typed("registry", "duplicates").err
    assert typed("registry", "duplicates", "list", "--embedder", "none", status=2)
