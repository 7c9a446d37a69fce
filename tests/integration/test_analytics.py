"""What the store says of selections and outcomes, on both databases, against counts made by hand."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest
from scipy import stats

from tests.integration.logged import arm, at, called, event, learn, outcome, write, write_events
from tests.table import each_row
from toolroll.catalog.tool_text import description_text
from toolroll.learning.experiments import Experiment
from toolroll.model.errors import Conflict, Denied, InvalidInput, NotFound
from toolroll.model.identity import key, scopes
from toolroll.model.tools import Tool
from toolroll.registry.analytics.comparison import compare
from toolroll.registry.analytics.drift import drift
from toolroll.registry.analytics.experiments import counts, find, list_experiments, start, stop
from toolroll.registry.analytics.metrics import metrics
from toolroll.registry.analytics.off_policy_log import evaluate_off_policy, propensities, rewards_of
from toolroll.registry.analytics.sharing import AGREES, share
from toolroll.registry.analytics.tools import arms, broken, unused
from toolroll.registry.analytics.usage import heatmap, hits
from toolroll.registry.analytics.window import Window
from toolroll.registry.editing.vectors import keep_vectors, text_hash
from toolroll.registry.events.priors import beginning, latest_release
from toolroll.registry.registry import Registry
from toolroll.registry.store import tables

ALL = Window()


# Metrics


def test_metrics_are_the_counts_and_quantiles_of_the_events(database):
    rng = np.random.default_rng(1)
    latencies = rng.lognormal(5, 1, 237).round(2).tolist()
    kinds = ["succeeded", "failed", "unused", None]
    write_events(
        database,
        *(
            event(
                day / 50,
                latency_us=latency,
                outcome=kinds[day % 4],
                called={} if kinds[day % 4] else None,
                profile="learned" if day % 3 == 0 else "default",
                tokens_selected=100 + day,
                selected=["find"] * (day % 5),
                degraded=["embedder", "routes"] if day % 10 == 0 else [],
                org=f"org-{day % 6}",
            )
            for day, latency in enumerate(latencies)
        ),
    )
    found = metrics(database, ALL)
    ordered = sorted(latencies)
    assert found["total"] == 237 and found["organisations"] == 6
    for name, place in (("p50", 118), ("p95", 225), ("p99", 234)):
        assert found["latency_us"][name] == pytest.approx(ordered[place], rel=0.008)
    assert found["latency_us"]["mean"] == pytest.approx(np.mean(latencies))
    assert [(m["profile"], m["events"]) for m in found["methods"]] == [("default", 158), ("learned", 79)]
    assert found["outcomes"] == {
        "succeeded": 60, "failed": 59, "corrected": 0, "wanted": 0, "called": 0, "unused": 59, "unknown": 59,
    }  # fmt: skip
    assert found["success"] == pytest.approx(60 / 178)
    assert found["tokens"]["saved"] == sum(1_000 - 100 - day for day in range(237))
    assert found["tools_per_event"] == pytest.approx(np.mean([day % 5 for day in range(237)]))
    assert found["degraded"] == {"embedder": 24, "routes": 24}
    json.dumps(found, allow_nan=False)


def test_events_that_sampling_left_out_are_counted_by_those_that_it_kept(database):
    rows = [event(n / 10, share=0.25, latency_us=100.0 + n, org="acme") for n in range(40)]
    rows += [called(n / 10, latency_us=1_000.0, org="acme") for n in range(20)]
    write_events(database, *rows)
    found = metrics(database, ALL)
    assert (found["logged"], found["total"]) == (60, 180)
    assert (found["outcomes"]["succeeded"], found["outcomes"]["unknown"]) == (20, 160)
    # the 90th of 180; each of the first 40 stands for four
    assert found["latency_us"]["p50"] == pytest.approx(100.0 + 22, rel=0.008)
    assert found["latency_us"]["p95"] == pytest.approx(1_000.0, rel=0.008)
    assert found["latency_us"]["mean"] == pytest.approx((4 * sum(range(100, 140)) + 20 * 1_000) / 180)
    assert found["tokens"]["saved"] == 180 * 800 and found["tools_per_event"] == 2
    assert heatmap(database, ALL, "selected").counts == ((180,), (180,))
    assert heatmap(database, ALL, "called").counts == ((20,),)
    assert sum(day.calls for day in hits(database, ALL)) == 20
    assert unused(database, ALL)["events"] == 180


def test_metrics_of_no_events_are_zeros_and_nulls(database):
    found = metrics(database, Window(org="nobody"))
    assert found["total"] == 0 and found["latency_us"]["p50"] is None and found["success"] is None
    json.dumps(found, allow_nan=False)


def test_a_window_is_an_organisation_and_a_time_and_nothing_beyond_it(database):
    write_events(database, event(0), event(1), event(2), event(1, org="other"), event(1, org=""))
    assert metrics(database, Window("acme"))["total"] == 3
    assert metrics(database, Window("acme", since=at(1), until=at(2)))["total"] == 1  # until is not in it
    assert metrics(database, Window("", since=at(0.5)))["total"] == 1
    assert metrics(database, Window(None, until=at(1)))["total"] == 1
    elsewhere = at(1).astimezone(timezone(timedelta(hours=9)))
    assert metrics(database, Window("acme", since=elsewhere))["total"] == 2
    with pytest.raises(InvalidInput, match="with its zone"):
        Window(since=datetime(2026, 1, 1))
    with pytest.raises(InvalidInput, match="before until"):
        Window(since=at(1), until=at(1))


# Tools by page, and the hit rate


def test_the_heatmap_counts_tools_by_page(database):
    rng = np.random.default_rng(2)
    rows, oracle = [], {"selected": Counter(), "called": Counter(), "succeeded": Counter()}
    kinds = ["succeeded", "failed", "called", "corrected", "wanted", "wanted_succeeded", "meant"]
    for _ in range(300):
        page = str(rng.choice(["home", "crm", ""]))
        selected = [str(name) for name in rng.permutation(list("abcdef"))[:3]]
        said = {name: str(rng.choice(kinds)) for name in selected[: int(rng.integers(0, 3))]}
        rows.append(event(page=page, selected=selected, called=said or None))
        oracle["selected"].update((name, page) for name in selected)
        for name, kind in said.items():
            oracle["called"][name, page] += kind != "meant"
            oracle["succeeded"][name, page] += kind in ("succeeded", "wanted_succeeded")
    write_events(database, *rows)
    for of, expected in oracle.items():
        found = heatmap(database, ALL, of)
        cells = {
            (tool, page): count
            for tool, row in zip(found.tools, found.counts, strict=True)
            for page, count in zip(found.pages, row, strict=True)
        }
        assert {cell: count for cell, count in cells.items() if count} == {
            c: n for c, n in expected.items() if n
        }
        sums = [sum(row) for row in found.counts]
        assert sums == sorted(sums, reverse=True)
        few = heatmap(database, ALL, of, most_tools=2, most_pages=1)
        assert few.tools == found.tools[:2] and len(few.pages) == 1
        assert few.left_out == sum(expected.values()) - sum(map(sum, few.counts))
    with pytest.raises(InvalidInput, match="must be one of"):
        heatmap(database, ALL, "shown")  # type: ignore[arg-type]


def test_a_hit_is_a_needed_tool_that_had_been_selected(database):
    write_events(
        database,
        called(0, called={"find": "succeeded", "send": "failed"}),  # two hits
        called(0.4, called={"gone": "wanted_succeeded"}),  # a miss
        called(0.45, called={"find": "corrected", "send": "meant"}),  # a hit: the right one was there
        called(1, called={"find": "corrected", "gone": "meant"}),  # a miss
        called(1, called={}, outcome="unused"),
        event(1),
        called(3, called={"find": "called"}),
    )
    found = hits(database, ALL)
    assert [(day.day, day.calls, day.hits) for day in found] == [
        ("2026-03-01", 4, 3),
        ("2026-03-02", 1, 0),
        ("2026-03-04", 1, 1),
    ]
    assert found[0].rate == 0.75


def test_days_are_those_of_utc_whatever_the_zone_of_the_session(database):
    late = datetime(2026, 3, 1, 23, 30, tzinfo=timezone(timedelta(hours=-5)))
    write_events(database, called(at=late))
    assert [day.day for day in hits(database, ALL)] == ["2026-03-02"]


# Arms


def test_arms_have_the_mean_and_the_interval_of_their_decayed_counts(database):
    write(database, tables.learned, *arm("old", 40, 10, 0), *arm("new", 3, 1, 28), *arm("none", 0, 0, 28))
    found = {each.tool: each for each in arms(database, ALL, at(28))}
    law = stats.beta(0.85 * 3 + 10, 0.15 * 3 + 2.5)  # two half-lives later
    assert found["old"].mean == pytest.approx(law.mean())
    assert (found["old"].low, found["old"].high) == pytest.approx(law.interval(0.95))
    assert found["old"].called == 50 and found["old"].successes == pytest.approx(10)
    assert found["new"].mean == pytest.approx((2.55 + 3) / 7)
    assert found["none"].mean == pytest.approx(0.85)
    assert [each.tool for each in arms(database, ALL, at(28), limit=1)] == ["old"]


def test_arms_of_seed_4_start_from_one_and_one_and_do_not_decay(database):
    write(database, tables.learned, *arm("a", 8, 2, 0, level="seed", context_key="free:home:general"))
    (found,) = arms(database, ALL, at(100), level="seed")
    assert (found.mean, found.low, found.high) == pytest.approx((0.75, *stats.beta(9, 3).interval(0.95)))
    assert arms(database, ALL, at(100)) == ()
    with pytest.raises(InvalidInput, match="must be one of"):
        arms(database, ALL, at(0), level="tool")


def test_arms_are_those_of_one_organisation(database):
    write(database, tables.learned, *arm("a", 8, 2), *arm("a", 1, 1, org="other"), *arm("b", 1, 1))
    assert {(each.org, each.tool) for each in arms(database, Window("acme"), at(1))} == {
        ("acme", "a"),
        ("acme", "b"),
    }
    assert [each.org for each in arms(database, ALL, at(1), tool="a")] == ["acme", "other"]
    assert arms(database, Window(since=at(1)), at(1)) == ()


# Tools nobody is shown, and tools that broke


def some_tools(url, **tools):
    with Registry.open(url, actor="test", create=False) as registry:
        for name, org in tools.items():
            registry.create(Tool(name, f"What {name} does."), org=org)


def test_tools_that_were_never_selected_or_never_called_are_told(database, database_url):
    some_tools(database_url, find="", send="", never="", own="acme", foreign="other")
    write_events(
        database,
        *(called(1, selected=["find", "send", "own"]) for _ in range(6)),
        event(20, selected=["never"], org="acme"),
        event(1, selected=["find"], org="other"),
    )
    found = unused(database, Window("acme", until=at(10)), shown_often=5)
    assert (found["events"], found["tools"]) == (6, 4)
    assert [tool["name"] for tool in found["never_selected"]] == ["never"]
    assert [(tool["name"], tool["shown"]) for tool in found["never_called"]] == [("own", 6), ("send", 6)]
    everybody = unused(database, ALL, shown_often=100)
    assert [(tool["org"], tool["name"]) for tool in everybody["never_selected"]] == [("other", "foreign")]
    assert everybody["never_called"] == []


def test_a_tool_that_may_not_be_selected_is_not_missed(database, database_url):
    some_tools(database_url, off="", gone="", there="")
    with Registry.open(database_url, actor="test", create=False) as registry:
        registry.update("off", {"status": "retired"}, version=1)
        registry.delete("gone")
    assert [tool["name"] for tool in unused(database, ALL)["never_selected"]] == ["there"]


def test_a_tool_that_broke_is_told_with_when_and_how_and_whether_it_works_again(database):
    rows = [outcome(n, n / 100, n % 20 != 0) for n in range(1, 61)]  # works 19 times of 20
    rows += [outcome(n, n / 100, False) for n in range(61, 66)]
    rows += [outcome(n, n / 100, True, "send") for n in range(66, 80)]
    rows += [outcome(n, n / 100, True) for n in range(80, 83)]
    write(database, tables.outcomes, *rows)
    learn(database)
    (found,) = broken(database, ALL)
    assert found.tool == "find" and 0.9 < found.worked < 0.97
    assert 3 <= found.failures <= 4  # `n` = 60 failed too
    assert found.first_failure in (at(0.6), at(0.61)) and found.alarm <= at(0.65)
    assert found.back == at(0.8)  # the first success after it
    assert broken(database, Window("other")) == ()
    assert broken(database, Window("acme", since=found.alarm)) == (found,)  # what was before it is known
    assert broken(database, Window("acme", since=found.alarm + timedelta(seconds=1))) == ()


@pytest.mark.parametrize(
    ("changes", "is_told"),
    [
        ({}, True),
        ({"reporter": ""}, True),  # the application itself
        ({"reporter": "one"}, False),  # one person may be wrong, or malicious
        ({"voided_at": at(1)}, False),
    ],
)
def test_one_reporter_alone_breaks_no_tool(database, changes, is_told):
    rows = [outcome(n, 0, True) for n in range(40)]
    rows += [outcome(n, 0, False, **changes) for n in range(40, 50)]
    write(database, tables.outcomes, *rows)
    learn(database)
    assert bool(broken(database, ALL)) is is_told


def test_what_was_revised_or_late_breaks_no_tool(database):
    rows = [outcome(n, 0, True) for n in range(40)]
    for n in range(40, 60):
        row = outcome(n, 0, False)
        (entry,) = row["entries"]
        row["entries"] = [entry._replace(before="succeeded") if n % 2 else entry._replace(is_late=True)]
        rows.append(row)
    write(database, tables.outcomes, *rows)
    learn(database)
    assert broken(database, ALL) == ()


def test_a_tool_that_always_failed_now_and_then_is_rarely_called_broken(database):
    rng = np.random.default_rng(4)
    rows = [outcome(n, n / 1_000, bool(rng.random() < 0.9), f"t{n % 20}") for n in range(4_000)]
    write(database, tables.outcomes, *rows)
    learn(database)
    assert len(broken(database, ALL)) <= 4  # 20 tools, 200 outcomes each


# Embeddings


def test_tools_without_vectors_with_old_ones_or_of_another_embedder_drift(database, database_url):
    some_tools(database_url, fresh="", missing="", other="", own="acme")
    with Registry.open(database_url, actor="test", create=False) as registry:
        registry.create(Tool("half", "What half does.", examples=("do the half of it",)))
        texts = {
            name: description_text(registry.tool(name, org="acme" if name == "own" else "").tool)
            for name in ("fresh", "other", "own", "half")
        }
    vector = np.array([1, 0, 0, 0], np.float32)
    for identity, names in (("mini", ("fresh", "half", "own")), ("big", ("other", "fresh"))):
        keep_vectors(database, identity, {text_hash(texts[name]): vector for name in names})
    looked_at, found = drift(database, ALL, "mini")
    assert looked_at == 5
    assert [(each.name, each.state, each.embedded, each.texts) for each in found] == [
        ("half", "stale", 1, 2),
        ("missing", "missing", 0, 1),
        ("other", "other", 0, 1),
    ]
    later = datetime.now(timezone.utc) + timedelta(days=8)
    _, old = drift(database, Window("acme"), "mini", older_than=later)
    assert {each.name for each in old if each.state == "old"} == {"fresh", "own"}
    assert drift(database, Window("other"), "mini")[0] == 4


# Experiments

EVEN = Experiment("ranking", {"default": 0.5, "learned": 0.5})


def test_an_experiment_is_begun_ended_and_written_into_the_log(database, database_url):
    begun = start(database, EVEN, actor="ann", reason="is it better?")
    assert list_experiments(database, active=True) == (begun,)
    assert find(database, "ranking") == begun and begun.experiment.control == "default"
    ended = stop(database, "ranking", actor="ann")
    assert not ended.active and ended.ended_at is not None
    assert stop(database, "ranking", actor="ann") == find(database, "ranking") == ended
    assert list_experiments(database, active=True) == () and len(list_experiments(database)) == 1
    with Registry.open(database_url, actor="test", create=False) as registry:
        changes = registry.audit.list(action="experiment")
    assert [change.action for change in changes] == ["experiment.stop", "experiment.start"]
    with pytest.raises(NotFound, match="none of this name"):
        stop(database, "other", actor="ann")


def test_a_turn_is_in_one_experiment(database):
    start(database, EVEN, actor="ann", org="acme")
    with pytest.raises(Conflict, match="used before"):
        start(database, EVEN, actor="ann", org="other")
    second = Experiment("second", {"a": 0.5, "b": 0.5})
    for org in ("acme", ""):
        with pytest.raises(Conflict, match="is running"):
            start(database, second, actor="ann", org=org)
    start(database, second, actor="ann", org="other")
    stop(database, "ranking", actor="ann")
    start(database, Experiment("third", {"a": 0.5, "b": 0.5}), actor="ann", org="acme")


def test_an_experiments_units_are_those_of_its_events_with_an_outcome(database):
    trial = start(database, EVEN, actor="ann")
    later = trial.begun_at + timedelta(hours=1)

    def seen(user, variant, result, **changes):
        return event(
            reporter=user, at=later, experiment="ranking", variant=variant, outcome=result, **changes
        )

    write_events(
        database,
        seen("a", "default", "succeeded"),
        seen("a", "default", "failed"),
        seen("a", "learned", "succeeded", org="other"),  # another user of the same name
        seen("b", "default", "unused"),
        seen("c", "learned", "succeeded"),
        seen("c", "learned", None),
        seen("d", "learned", "called"),
        seen("e", "learned", "succeeded"),
        seen("e", "default", "succeeded"),  # in both: says nothing
        event(reporter="f", at=later, experiment="before", variant="default", outcome="succeeded"),
        event(reporter="g", at=at(0), experiment="ranking", variant="default", outcome="succeeded"),
    )
    found = counts(database, trial)
    assert found.strays == 1
    assert found.unknown == {"default": 0, "learned": 2}
    assert found.assigned == {"default": 2, "learned": 3}  # `d` among them, of whom nothing is known
    default, learned = found.tallies["default"], found.tallies["learned"]
    assert (default.units, default.events, default.reward) == (2, 3, 1)
    assert (learned.units, learned.events, learned.reward) == (2, 2, 2)
    assert compare(EVEN, found.tallies).state == "undecided"


@pytest.mark.parametrize(("unit", "expected"), [("user", 4), ("session", 2), ("org", 1)])
def test_units_are_users_sessions_or_organisations(database, unit, expected):
    trial = start(database, Experiment("e", {"a": 0.5, "b": 0.5}, unit), actor="ann")
    write_events(
        database,
        *(
            called(at=trial.begun_at, experiment="e", variant="a", reporter=f"u{n % 4}", session=f"s{n % 2}")
            for n in range(8)
        ),
    )
    assert counts(database, trial).tallies["a"].units == expected


# Judging


def test_a_profile_is_judged_by_what_its_tools_brought_when_they_were_shown(database):
    rng = np.random.default_rng(6)
    rows, right = [], 0
    for n in range(600):
        shown = ["best"] + (["second"] if rng.random() < 0.5 else ["third"])
        gold = str(rng.choice(["best", "second", "third"], p=[0.5, 0.3, 0.2]))
        right += gold in ("best", "second")
        said = {gold: "succeeded"} if gold in shown else {}
        rows.append(
            called(
                n / 100,
                session=f"s{n % 120}",
                selected=shown,
                called=said,
                outcome="succeeded" if said else "unused",
                candidates=[
                    ["best", 0.9, 0, 1, 1, 1.0],
                    ["second", 0.5, 0, 1, 1, 0.5],
                    ["third", 0.4, 0, 1, 1, 0.5],
                ],
            )
        )
    rows += [
        event(1),
        called(1, called={"best": "called"}, outcome="called"),
        called(1, message_form="dropped"),
    ]
    write_events(database, *rows)
    found = evaluate_off_policy(
        database, ALL, lambda row: None if row.message_form == "dropped" else ("best", "second")
    )
    assert found.events == 603
    assert found.skipped == {
        "no outcome": 1,
        "no known reward": 1,
        "cannot be decided again": 1,
    }
    judged = found.judgement
    assert judged is not None and (judged.events, judged.sessions) == (600, 120)
    assert judged.ips.low <= right / 600 <= judged.ips.high
    assert judged.ips.gain_low > -0.05 and judged.unsupported == 0
    assert judged.logged.value == pytest.approx(sum(r["outcome"] == "succeeded" for r in rows[:600]) / 600)
    latest = evaluate_off_policy(database, ALL, lambda row: ("best",), most=100)
    assert latest.events == 100 and latest.judgement is not None and latest.judgement.events == 100
    assert evaluate_off_policy(database, Window("nobody"), lambda row: ()).judgement is None


def test_what_was_shown_without_a_draw_was_certain_and_what_was_not_is_out_of_reach():
    candidates = [["a", 1, 0, 0, 1, None], ["b", 0.5, 0, 0, 1, 0.0], ["c", 0.4, 0, 0, 1, 0.25]]
    assert propensities(candidates, {"a", "b", "pinned"}) == {"a": 1.0, "b": 1e-6, "c": 0.25, "pinned": 1.0}
    with pytest.raises(InvalidInput, match=r"in \[0, 1\]"):
        propensities([["a", 1, 0, 0, 1, 1.5]], set())


@each_row(
    ("said", "expected"),
    [
        ({"a": "succeeded"}, {"a": 1.0}),
        ({"a": "succeeded", "b": "failed"}, {"a": 0.5}),
        ({"a": "succeeded", "b": "succeeded"}, {"a": 0.5, "b": 0.5}),
        ({"a": "failed"}, {}),
        ({"a": "succeeded", "b": "corrected"}, {}),
        ({"a": "wanted_succeeded"}, {}),
        ({}, {}),
        ({"a": "called"}, None),
    ],
)
def test_the_rewards_of_an_event_come_to_at_most_one(said, expected):
    assert rewards_of(said) == expected


# Sharing


def test_sharing_takes_those_who_agreed_writes_what_it_may_and_counts_what_it_spent(database, database_url):
    some_tools(database_url, find="", own="org-1")
    orgs = [f"org-{n}" for n in range(40)]
    write(
        database,
        tables.learned,
        *(row for org in orgs for row in arm("find", 90, 10, org=org)),
        *(row for org in orgs for row in arm("find", 1, 1, org=org, level="page", context_key="home")),
        *arm("own", 500, 0, org="org-1"),
    )
    with pytest.raises(Denied, match="0 organisations take part"):
        share(database, epsilon=1.0, actor="ann")
    with Registry.open(database_url, actor="test", create=False) as registry:
        for org in orgs[:30]:
            registry.settings.set(AGREES, "yes", org=org)
    found = share(database, epsilon=2.0, actor="ann")
    assert found.release.organisations == 30 and found.spent == 2.0
    assert set(found.release.counts) <= {"find"}
    with database.reading() as connection:
        release = latest_release(connection)
        begins, nothing = beginning(connection, release, 4), beginning(connection, 0, 4)
    arms, everywhere = np.array([key("arm", "find"), key("arm", "own")], np.uint64), scopes("", "", "")[:3]
    known, prior = (each.reliability(everywhere, arms, 0.0)[0] for each in (begins, nothing))
    assert known[0] > prior[0] and known[1] == prior[1]
    assert share(database, epsilon=3.0, actor="ann").spent == 5.0
    with pytest.raises(Denied, match="epsilon 13, must be at most 10"):
        share(database, epsilon=8.0, actor="ann")
    with Registry.open(database_url, actor="test", create=False) as registry:
        assert len(registry.audit.list(action="learning.share")) == 2


def test_nothing_is_spent_where_nothing_is_told(database):
    for _ in range(2):
        with pytest.raises(Denied):
            share(database, epsilon=9.0, actor="ann")
