"""The audit log: complete, in order, and safe to print."""

from __future__ import annotations

from typing import Any

import pytest

from tests.table import each_row
from toolroll import Toolkit
from toolroll.model.errors import InvalidInput
from toolroll.model.rules import PageMapping, Rule
from toolroll.registry.editing.audit import AuditLine
from toolroll.registry.store.database import Database

from .governance import Governed


@pytest.fixture
def governed(database: Database) -> Governed:
    return Governed(database)


def test_every_change_has_its_line(governed: Governed) -> None:
    governed.toolkits.put(Toolkit("crm"))
    governed.toolkits.put(Toolkit("crm", "Deals"))
    governed.rules.add(Rule("r", "deny", "org", {"org": "acme"}, toolkit="crm"))
    governed.rules.update("r", {"priority": 1})
    governed.rules.disable("r")
    governed.rules.enable("r")
    governed.rules.delete("r")
    page_id = governed.pages.add(PageMapping("a", ("crm",))).page_id
    governed.pages.update(page_id, {"priority": 1})
    governed.pages.delete(page_id)
    governed.toolkits.delete("crm")
    governed.toolkits.restore("crm")
    governed.settings.set("KEY", "x")
    governed.settings.unset("KEY")
    changes = governed.audit.list(after=0)
    assert [change.action for change in changes] == [
        "toolkit.create",
        "toolkit.update",
        "rule.create",
        "rule.update",
        "rule.disable",
        "rule.enable",
        "rule.delete",
        "page.create",
        "page.update",
        "page.delete",
        "toolkit.delete",
        "toolkit.restore",
        "setting.set",
        "setting.unset",
    ]
    assert [change.revision for change in changes] == [*range(1, 15)]
    assert {change.actor for change in changes} == {"ann"}
    assert [change.at for change in changes] == sorted(change.at for change in changes)


def test_the_newest_come_first_and_after_a_number_the_oldest(governed: Governed) -> None:
    for name in "abcdef":
        governed.settings.set(name, "x")

    def subjects(**asked: Any) -> str:
        return "".join(change.subject for change in governed.audit.list(**asked))

    first = governed.audit.list(after=0, limit=1)[0].seq
    assert subjects() == "fedcba"
    assert subjects(limit=2) == "fe"
    assert subjects(after=0, limit=2) == "ab"
    assert subjects(after=first + 1, limit=2) == "cd"
    assert subjects(before=first + 2) == "ba"
    assert subjects(after=first, before=first + 2) == "b"
    assert subjects(after=first + 5) == ""


def test_it_is_asked_by_organisation_subject_and_action(governed: Governed) -> None:
    governed.settings.set("KEY", "x")
    governed.settings.set("KEY", "", org="acme")
    governed.toolkits.put(Toolkit("KEY"), org="acme")
    seqs = [change.seq for change in governed.audit.list(after=0)]

    def found(**asked: Any) -> list[int]:
        return [seqs.index(change.seq) for change in governed.audit.list(after=0, **asked)]

    assert found(org="") == [0]
    assert found(org="acme") == [1, 2]
    assert found(subject="KEY") == [0, 1, 2]
    assert found(subject="key") == found(subject="KE%") == []
    assert found(action="setting") == [0, 1]
    assert found(action="setting.unset") == [1]
    assert found(action="Setting") == found(action="set") == found(action="%") == []
    assert found(org="acme", action="toolkit") == [2]


@each_row(
    "wrong", [{"limit": 0}, {"limit": 1001}, {"limit": True}, {"after": -1}, {"before": 2**63}, {"org": "\0"}]
)
def test_a_wrong_question_is_refused(governed: Governed, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        governed.audit.list(**wrong)


def test_a_line_holds_nothing_that_a_terminal_obeys(governed: Governed) -> None:
    evil = "\x1b]0;owned\x07\r\n\u202etxt\u2028"
    mallory = Governed(governed.database, f"mallory{evil}")
    mallory.toolkits.put(Toolkit(f"kit{evil}", evil), org=f"acme{evil}", reason=f"why{evil}")
    change = governed.audit.list()[0]
    assert change.subject == f"kit{evil}" and change.actor == f"mallory{evil}"
    line = str(change)
    assert line.isprintable()
    for part in ("mallory\\x1b]0;owned\\x07\\r\\n\\u202etxt\\u2028", "kit\\x1b", "acme\\x1b", "why\\x1b"):
        assert part in line


def test_a_line_of_long_details_is_short(governed: Governed) -> None:
    governed.toolkits.put(Toolkit("crm", "x" * 60_000))
    change: AuditLine = governed.audit.list()[0]
    assert len(str(change)) < 500
    assert len(change.details["after"]["description"]) == 60_000
