"""Policy rows that were changed or removed past the registry close their organisation to what is public."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
import sqlalchemy as sa

from tests.integration.commands import Typed
from toolroll import Context, Follow, Profile, Rule, Tool, Toolkit, Toolroll
from toolroll.model.errors import Conflict, InvalidInput, StoreUnavailable
from toolroll.model.rules import PageMapping
from toolroll.registry.editing import policy_check
from toolroll.registry.registry import Registry
from toolroll.registry.store import tables
from toolroll.registry.store.database import Database

ACME, GLOBEX, NOBODY = (Context(org=org, user="bob", tier="pro") for org in ("acme", "globex", ""))
PUBLIC = {"weather"}
ALWAYS = {"all": []}


def fill(registry: Registry) -> None:
    registry.set_tiers(("free", "pro"))
    registry.toolkits.put(Toolkit("crm", tier="pro", settings_keys=("crm_key",)))
    registry.toolkits.put(Toolkit("mail"))
    registry.settings.set("crm_key", "s3cret")
    registry.create(Tool("weather", "Says how the weather is", public=True))
    registry.create(Tool("note", "Writes a note"))
    registry.create(Tool("send_mail", "Sends a mail", toolkit="mail"))
    registry.create(Tool("crm_export", "Exports all customers", toolkit="crm"))
    registry.create(Tool("draft", "Is not ready", status="draft", public=True))
    registry.rules.add(Rule("no notes", "deny", "user", {"user": "mallory"}, tool="note"))
    registry.pages.add(PageMapping("crm*", ("crm",)))
    for org in ("acme", "globex"):
        registry.create(Tool(f"{org}_payroll", "Runs the payroll"), org=org)
        registry.toolkits.put(Toolkit(f"{org}_kit", members=("send_*",)), org=org)
        registry.rules.add(Rule("no mail", "deny", "composite", ALWAYS, toolkit="mail", org=org))
        registry.rules.add(Rule("no mails", "deny", "composite", ALWAYS, tool="send_mail", org=org))
        registry.pins.set("weather", org=org)
        registry.settings.set("own_key", "s3cret", org=org)


@pytest.fixture
def registry(database_url: str) -> Iterator[Registry]:
    with Registry.open(database_url, actor="ann") as opened:
        fill(opened)
        yield opened


def by_hand(database: Database, *statements: str) -> None:
    with database.recording() as connection:
        for statement in statements:
            connection.execute(sa.text(statement))


def names(roll: Toolroll, context: Context) -> set[str]:
    return set(roll.visible(context).names) | set(roll.select("mail, notes, export", context, k=20).names)


RULE = "FROM visibility_rules WHERE org = 'acme' AND name = 'no mail'"
# A change by hand, and whose contexts it closes: "" for all.
ATTACKS = {
    "a rule is gone": (f"DELETE {RULE}", {"acme"}),
    "a rule of the platform is gone": ("DELETE FROM visibility_rules WHERE org = ''", {""}),
    "all rules are gone": ("DELETE FROM visibility_rules", {"", "acme", "globex"}),
    "a rule is off": (f"UPDATE visibility_rules SET active = false {RULE[22:]}", {"acme"}),
    "a priority": (f"UPDATE visibility_rules SET priority = -9 {RULE[22:]}", {"acme"}),
    "a condition": (
        f"""UPDATE visibility_rules SET condition = '{{"user": "x"}}' {RULE[22:]}""",
        {"acme"},
    ),
    "a target": ("UPDATE visibility_rules SET tool = 'weather' WHERE org = 'acme' AND tool > ''", {"acme"}),
    "an effect": (f"UPDATE visibility_rules SET effect = 'allow' {RULE[22:]}", {"acme"}),
    "a date of deletion": (f"UPDATE visibility_rules SET deleted_at = created_at {RULE[22:]}", {"acme"}),
    "another owner": (
        "UPDATE visibility_rules SET org = 'other' WHERE org = 'acme' AND tool > ''",
        {"acme", "other"},
    ),
    "a toolkit is gone": ("DELETE FROM toolkits WHERE org = 'acme'", {"acme"}),
    "a toolkit of the platform is gone": ("DELETE FROM toolkits WHERE name = 'crm'", {""}),
    "members": ("UPDATE toolkits SET members = '[]' WHERE org = 'acme'", {"acme"}),
    "a tier": ("UPDATE toolkits SET tier = NULL WHERE name = 'crm'", {""}),
    "needed settings": ("UPDATE toolkits SET settings_keys = '[]' WHERE name = 'crm'", {""}),
    "a setting": ("UPDATE settings SET is_set = false WHERE org = 'acme'", {"acme"}),
    "a setting is gone": ("DELETE FROM settings WHERE org = ''", {""}),
    "tiers": ("""UPDATE registry_state SET tiers = '["pro", "free"]'""", {""}),
    "a page mapping is gone": ("DELETE FROM page_mappings", {""}),
    "a pin": ("UPDATE pins SET pinned = false WHERE org = 'acme'", {"acme"}),
    "a tool in another toolkit": ("UPDATE tools SET toolkit = '' WHERE name = 'crm_export'", {""}),
    "a tool of its own": ("UPDATE tools SET toolkit = 'mail' WHERE org = 'acme'", {"acme"}),
    "a tool waits no longer": ("UPDATE tools SET review = 'pending' WHERE name = 'note'", {""}),
    "digests of one": ("DELETE FROM policy_digests WHERE org = 'acme'", {"", "acme"}),
    "all digests": ("DELETE FROM policy_digests", {"", "acme", "globex"}),
    "the sum of digests": (f"UPDATE registry_state SET policy_digest = '{0:032x}'", {""}),
    "a sum that is none": (
        "UPDATE registry_state SET policy_digest = 'these are not thirty-two digits.'",
        {""},
    ),
    "a digest that is none": (
        """UPDATE policy_digests SET digests = '{"pins": 7, "visibility_rules": "x"}' WHERE org = 'acme'""",
        {"", "acme"},
    ),
    "rules and digests": (
        "DELETE FROM visibility_rules WHERE org = 'acme'; DELETE FROM policy_digests WHERE org = 'acme'",
        {"", "acme"},
    ),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_is_changed_by_hand_closes_its_organisation_until_it_is_accepted(registry, database_url, attack):
    statements, closed = ATTACKS[attack]
    contexts = {"": NOBODY, "acme": ACME, "globex": GLOBEX}
    by_hand(registry.database, *statements.split("; "))
    with Toolroll.open(database_url, follow=Follow(poll_s=0.1)) as roll:
        roll.warm_up()
        for org, context in contexts.items():
            is_closed = "" in closed or org in closed
            assert (names(roll, context) <= PUBLIC) is is_closed, (org, names(roll, context))
            assert ("policy" in roll.select("notes", context).degraded) is is_closed
        assert "policy" in roll.health()["degraded"]
        assert "registry check" in str(roll.health()["why"])
        assert {each.org for each in policy_check.check(registry.database)} == closed
        policy_check.accept(registry.database, "ann", "we meant it")
        roll.refresh()
        assert "policy" not in roll.select("notes", ACME).degraded
        assert not names(roll, GLOBEX) <= PUBLIC
    assert policy_check.check(registry.database) == ()
    assert registry.audit.list(action="policy.accept")[0].reason == "we meant it"


def test_digests_of_an_older_backup_close_their_organisation(registry, database_url):
    with registry.database.reading() as connection:
        old = connection.execute(sa.select(tables.policy_digests)).mappings().all()
    registry.rules.add(Rule("no notes", "deny", "composite", ALWAYS, tool="note", org="acme"))
    table = tables.policy_digests
    with registry.database.recording() as connection:
        for row in old:
            connection.execute(
                sa.update(table).where(table.c.org == row["org"]).values(digests=row["digests"])
            )
    with Toolroll.open(database_url) as roll:
        roll.warm_up()
        assert names(roll, ACME) <= PUBLIC


def test_a_tool_that_is_made_public_by_hand_is_shown_to_nobody(registry, database_url):
    by_hand(registry.database, "UPDATE tools SET public = true WHERE name = 'crm_export'")
    with Toolroll.open(database_url) as roll:
        assert names(roll, NOBODY) == set()
        assert not roll.may("crm_export", NOBODY)


def test_a_rule_in_force_hides_a_public_tool_from_a_closed_organisation_too(registry, database_url):
    registry.rules.add(Rule("no weather", "deny", "composite", ALWAYS, tool="weather", org="acme"))
    by_hand(registry.database, f"DELETE {RULE}")
    with Toolroll.open(database_url) as roll:
        roll.warm_up()
        assert names(roll, ACME) == set()


@pytest.mark.parametrize("choice", ["closed", "last_known", "open"])
def test_a_process_that_knows_the_last_rules_does_what_its_profile_says(registry, database_url, choice):
    with Toolroll.open(
        database_url, profile=Profile(on_policy_error=choice), follow=Follow(poll_s=0.1)
    ) as roll:
        roll.warm_up()
        before = names(roll, ACME)
        off = "UPDATE visibility_rules SET active = false WHERE org = 'acme' AND name <> 'more'"
        by_hand(registry.database, off)
        registry.rules.add(Rule("more", "deny", "user", {"user": "eve"}, tool="note", org="acme"))
        roll.refresh()
        assert "policy" in roll.select("notes", ACME).degraded
        expected = {"closed": before & PUBLIC, "last_known": before, "open": before | {"send_mail"}}
        assert names(roll, ACME) == expected[choice]


def test_no_edit_makes_a_damaged_organisation_whole(registry, database_url):
    by_hand(registry.database, f"UPDATE visibility_rules SET active = false {RULE[22:]}")
    registry.rules.update("no mail", {"priority": 3}, org="acme")
    registry.rules.enable("no mail", org="acme")
    with Toolroll.open(database_url) as roll:
        roll.warm_up()
        assert names(roll, ACME) <= PUBLIC


def test_the_check_says_what_is_wrong(registry):
    rules, toolkits = "UPDATE visibility_rules SET", "UPDATE toolkits SET"
    by_hand(
        registry.database,
        f"DELETE {RULE}",
        f"{rules} priority = 7, active = false WHERE org = 'globex' AND name = 'no mail'",
        f"{toolkits} tier = 'free' WHERE name = 'crm'",
        "UPDATE tools SET status = 'active' WHERE name = 'draft'",
        "UPDATE settings SET is_set = false WHERE org = ''",
    )
    found = {each.org: each for each in policy_check.check(registry.database)}
    assert found["acme"].parts == ("visibility rules",)
    assert found["acme"].differences == ("rule 'no mail' is gone",)
    assert found["globex"].differences == (
        "rule 'no mail': priority is 7, the registry wrote 0",
        "rule 'no mail': active is False, the registry wrote True",
    )
    assert set(found[""].differences) == {
        "toolkit 'crm': tier is 'free', the registry wrote 'pro'",
        "tool 'draft': status is 'active', the registry wrote 'draft'",
        "setting 'crm_key': is_set is False, the registry wrote True",
    }


def test_every_edit_keeps_the_digests_right(registry):
    tool = registry.create(Tool("extra", "Is extra", annotations={"readOnlyHint": True}), org="acme")
    registry.update("extra", {"public": True, "toolkit": "acme_kit"}, version=tool.version, org="acme")
    registry.propose("extra", {"description": "Is more"}, version=2, org="acme")
    registry.approve("extra", org="acme")
    registry.delete("extra", org="acme")
    registry.restore("extra", org="acme")
    registry.rollback("extra", 1, org="acme")
    registry.rules.update("no mail", {"name": "none", "condition": {"user": "é"}}, org="acme")
    registry.rules.disable("none", org="acme")
    registry.rules.delete("none", org="acme")
    registry.toolkits.put(Toolkit("acme_kit", base=True, members=("a", "b")), keywords=["k"], org="acme")
    registry.settings.unset("own_key", org="acme")
    registry.pins.delete("weather", org="acme")
    page = registry.pages.list()[0]
    registry.pages.update(page.page_id, {"priority": 2})
    registry.set_tiers(("free", "pro", "team"))
    tools = [Tool("one", "Is one", public=True), Tool("two", "Is two")]
    registry.sync(tools, plugin="p", org="globex", review="all")
    registry.sync(tools[:1], plugin="p", org="globex", review="all")
    registry.reject("one", org="globex")
    assert policy_check.check(registry.database) == ()


def test_an_edit_reads_no_other_row(registry):
    seen: list[str] = []
    listener: Callable[..., None] = lambda *args: seen.append(args[2])  # noqa: E731
    sa.event.listen(registry.database._engine, "before_cursor_execute", listener)
    registry.rules.disable("no mail", org="acme")
    sa.event.remove(registry.database._engine, "before_cursor_execute", listener)
    assert len([text for text in seen if "policy_digest" in text]) == 4  # one of them has the lock


def test_a_database_that_takes_a_wrong_value_no_longer_opens(new_database_url):
    url = new_database_url("sqlite")
    with Registry.open(url, actor="ann") as registry:
        registry.create(Tool("note", "Writes a note"))
        for values in (
            *("active = 2", "active = 'yes'", "condition = '[]'", "condition = '{'", "effect = 'may'"),
            *("created_at = 5", "created_at = '2026-02-31 00:00:00'", "kind = 'sign'", "version = 0"),
        ):
            registry.rules.add(Rule(values, "deny", "user", {"user": "x"}, tool="note"))
            with pytest.raises((InvalidInput, Conflict), match="its column does not allow|NOT NULL"):
                by_hand(registry.database, f"UPDATE visibility_rules SET {values}")
        with closing(registry.database.own_connection()) as connection:
            connection.execute("PRAGMA ignore_check_constraints = ON")
            connection.execute("UPDATE tools SET flags = 'null'")
        assert registry.tools().records[0].flags == ()  # the list survives
    with pytest.raises(StoreUnavailable, match=r"is damaged \(CHECK constraint failed in tools\)"):
        Registry.open(url)


def test_the_command_says_what_is_wrong_and_accepts_it(registry, database_url, capsys):
    typed = Typed(database_url, capsys)
    assert typed("registry", "check").out == "all is as the registry wrote it\n"
    by_hand(registry.database, f"DELETE {RULE}")
    wrong = typed("registry", "check", status=1)
    whose = "organisation acme: visibility rules are not as the registry wrote them"
    assert wrong.out == f"{whose}\n  rule 'no mail' is gone\n" and "--accept" in wrong.err
    done = typed.json("registry", "check", "--accept", "--reason", "it was wrong")
    assert done["accepted"] and done["mismatches"][0]["org"] == "acme"
    assert typed.json("registry", "check") == {"accepted": False, "mismatches": []}
    (line,) = registry.audit.list(action="policy")
    assert (line.org, line.reason, line.details["differences"]) == (
        *("acme", "it was wrong"),
        ["rule 'no mail' is gone"],
    )
