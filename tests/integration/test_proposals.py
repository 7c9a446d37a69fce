"""Proposed changes: they wait for approval, and the approved content serves meanwhile."""

from __future__ import annotations

import pytest

from toolroll import Toolroll
from toolroll.model.errors import Conflict, Denied, InvalidInput
from toolroll.model.tools import Tool
from toolroll.registry.registry import Registry

MAIL = Tool("send_mail", "Sends a mail.", {"type": "object"}, examples=("write to Bob",))


@pytest.fixture
def registry(database):
    registry = Registry(database, "ann")
    registry.create(MAIL)
    return registry


def served(url):
    with Toolroll.open(url, embedder=None) as roll:
        return {tool.name: tool.examples for tool in roll.catalog.tools}


def test_a_proposal_waits_for_approval_and_the_approved_content_serves_meanwhile(registry, database_url):
    record = registry.propose(
        "send_mail", {"examples": ["write to Bob", "mail Ann"]}, version=1, reason="more"
    )
    assert (record.review, record.version, record.approved_version, record.served_version) == (
        "changed",
        2,
        1,
        1,
    )
    assert served(database_url) == {"send_mail": ("write to Bob",)}
    assert registry.history("send_mail")[0].changed == ("examples", "review", "served_version")
    approved = registry.approve("send_mail", version=2)
    assert (approved.review, approved.served_version) == ("approved", None)
    assert served(database_url) == {"send_mail": ("write to Bob", "mail Ann")}


def test_a_rejected_proposal_leaves_the_approved_content_and_may_not_come_back(registry, database_url):
    registry.propose("send_mail", {"examples": ["buy pills"]}, version=1)
    record = registry.reject("send_mail")
    assert (record.review, record.tool.examples) == ("approved", ("write to Bob",))
    assert served(database_url) == {"send_mail": ("write to Bob",)}
    with pytest.raises(Denied, match="was rejected"):
        registry.propose("send_mail", {"examples": ["buy pills"]}, version=record.version)


def test_a_proposal_upon_a_proposal_waits_as_well(registry, database_url):
    registry.propose("send_mail", {"examples": ["mail Ann"]}, version=1)
    record = registry.propose("send_mail", {"summary": "Mails"}, version=2)
    assert (record.review, record.version, record.served_version) == ("changed", 3, 1)
    assert served(database_url) == {"send_mail": ("write to Bob",)}


def test_a_proposal_to_a_tool_that_nobody_approved_yet_leaves_it_pending(registry, database_url):
    registry.sync([Tool("drop", "Drops.")], plugin="p", review="all")
    record = registry.propose("drop", {"examples": ["drop it"]}, version=1)
    assert (record.review, record.served_version) == ("pending", None)
    assert "drop" not in served(database_url)


def test_a_proposal_that_changes_calls_hides_the_tool_until_it_is_approved(registry, database_url):
    schema = {"type": "object", "properties": {"to": {"type": "string"}}}
    record = registry.propose("send_mail", {"parameters": schema}, version=1)
    assert (record.review, record.served_version) == ("changed", None)
    assert served(database_url) == {}


def test_a_proposal_without_a_difference_writes_nothing(registry):
    record = registry.propose("send_mail", {"examples": ["write to Bob"]}, version=1)
    assert (record.version, record.review) == (1, "approved")
    assert len(registry.history("send_mail")) == 1


def test_a_proposal_cannot_change_what_only_people_decide(registry):
    with pytest.raises(InvalidInput, match="public: takes effect without approval"):
        registry.propose("send_mail", {"public": True}, version=1)


def test_a_proposal_names_the_version_that_it_read(registry):
    registry.update("send_mail", {"summary": "Mails"}, version=1)
    with pytest.raises(Conflict):
        registry.propose("send_mail", {"examples": ["mail Ann"]}, version=1)
