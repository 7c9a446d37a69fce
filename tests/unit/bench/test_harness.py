"""What a run reports: wrong answers, missing peers, bars, and workloads that are the same everywhere."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from bench import peers, report, timing, workloads
from bench.harness import Case, Figure, run_case, run_figure

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
QUICK = timing.Conditions(quick=True)


@pytest.fixture(autouse=True)
def short_bursts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "WARM_UP_S", 0.002)
    monkeypatch.setattr(timing, "AGAIN_S", 0.001)
    monkeypatch.setattr(timing, "QUICK_BUDGET_S", 0.02)


def sleeping(milliseconds: float) -> Callable[[int], object]:
    return lambda i: time.sleep(milliseconds / 1e3)


def right() -> str:
    return "right"


def test_a_wrong_answer_is_reported_and_never_timed() -> None:
    def wrong() -> str:
        raise AssertionError("recall 0.3")

    called: list[int] = []
    row = run_case(Case("op", "1", called.append, {}, wrong), QUICK)
    assert row["wrong"] == "recall 0.3"
    assert row["met"] is False
    assert called == []


def test_a_bar_is_judged_by_the_fastest_peer_that_counts() -> None:
    others = {"slow": sleeping(8), "quick": sleeping(4), "approximate": sleeping(0)}
    case = Case("op", "1", sleeping(1), others, right, bar=1.5, beside=("approximate",))
    row = run_case(case, QUICK)
    assert row["best"] == "quick"
    assert row["met"] is True
    case.beside = ()
    assert run_case(case, QUICK)["met"] is False


def test_a_bar_for_one_peer_does_not_bind_the_others() -> None:
    others = {"slow": sleeping(8), "quick": sleeping(0)}
    assert run_case(Case("op", "1", sleeping(1), others, right, bars={"slow": 2.0}), QUICK)["met"] is True
    assert run_case(Case("op", "1", sleeping(1), others, right, bars={"quick": 2.0}), QUICK)["met"] is False


def test_a_peer_that_is_not_installed_leaves_its_bar_open() -> None:
    row = run_case(Case("op", "1", sleeping(0), {"gone": None}, right, bar=2.0), QUICK)
    assert row["peers"] == [{"name": "gone", "why": "not installed", "bar": None}]
    assert row["met"] is None


def test_a_peer_that_fails_is_out_and_the_others_are_timed() -> None:
    def broken(i: int) -> object:
        raise RuntimeError("no such symbol")

    row = run_case(Case("op", "1", sleeping(0), {"broken": broken, "fine": sleeping(1)}, right, bar=1), QUICK)
    assert "no such symbol" in row["peers"][0]["why"]
    assert row["best"] == "fine"


def test_ours_failing_is_a_crash_and_no_missing_peer() -> None:
    def broken(i: int) -> object:
        raise RuntimeError("no such symbol")

    row = run_case(Case("op", "1", broken, {"fine": sleeping(0)}, right), QUICK)
    assert "no such symbol" in row["crashed"]
    assert row["met"] is False


def test_a_limit_is_met_or_missed_without_any_peer() -> None:
    assert run_case(Case("op", "1", sleeping(1), {}, right, limit_p99_us=1e6), QUICK)["met"] is True
    assert run_case(Case("op", "1", sleeping(1), {}, right, limit_us=100.0), QUICK)["met"] is False


def test_every_call_gets_its_own_time() -> None:
    case = Case("op", "1", lambda i: time.sleep(0.002 if i % 4 else 0.0), {}, right)
    ours = run_case(case, timing.Conditions())["ours"]
    assert ours["min_us"] < 1_000
    assert 2_000 <= ours["p50_us"] < ours["max_us"] + 1


def test_a_case_without_anybody_to_time_is_still_a_row() -> None:
    row = run_case(Case("op", "1", "cannot be imported", {}, right), QUICK)
    assert row["ours"]["why"] == "cannot be imported"
    assert "cannot be imported" in report.lines(row)


def test_a_figure_is_judged_by_its_limit() -> None:
    assert run_figure(Figure("memory", "1", 400.0, "MB", 500.0))["met"] is True
    assert run_figure(Figure("memory", "1", 600.0, "MB", 500.0))["met"] is False
    assert run_figure(Figure("memory", "1", None, "MB", 500.0))["met"] is None


def test_a_record_becomes_a_table_with_every_contestant() -> None:
    facts = {"cpu": "A", "cores": 1, "system": "B", "load": 0, "isa": "avx2", "python": "3", "commit": "c"}
    rows = [
        run_case(Case("op", "1", sleeping(0), {"quick": sleeping(1), "gone": None}, right, bar=1), QUICK),
        run_figure(Figure("memory", "1", 400.0, "MB", 500.0, peers={"quick": 3.0, "gone": None})),
        {"operation": "other", "size": "", "crashed": "died", "met": False},
    ]
    text = report.markdown({"facts": facts | {"versions": {}}, "date": "today", "rows": rows})
    for word in ("| op | 1 |", "| quick |", "not installed", "400 MB", "died", "2 of 3 bars met"):
        assert word in text


def test_a_peer_that_is_not_there_is_none_and_one_that_cannot_build_says_why() -> None:
    assert peers.start("no_such_peer", {"tools": 3}) is None
    told = peers.start("callbus", {"tools": "three"})
    assert told is None or isinstance(told, str)


def test_a_message_asks_for_a_tool_of_its_catalog_and_no_two_are_the_same() -> None:
    names = {tuple(tool["name"].split("_")[:3]) for tool in workloads.tools(158)}
    assert set(workloads.targets(500)) <= names
    assert len(set(workloads.messages(500))) == 500


def test_tools_have_unique_names_and_as_many_words_as_people_write() -> None:
    tools = workloads.tools(3_000)
    assert len({tool["name"] for tool in tools}) == 3_000
    assert all(10 <= len(tool["description"].split()) <= 40 for tool in tools)
    assert all(2 <= len(tool["parameters"]["properties"]) <= 6 for tool in tools)


def test_workloads_are_the_same_in_every_process() -> None:
    made = (
        "import hashlib; from bench import workloads as w;"
        "print(hashlib.sha256(repr((w.tools(99), w.messages(99), w.keywords(99))).encode()"
        " + w.clustered_vectors(99, 48).round(4).tobytes()).hexdigest())"
    )
    run = subprocess.run([sys.executable, "-c", made], cwd=ROOT, capture_output=True, text=True, check=True)
    here = repr((workloads.tools(99), workloads.messages(99), workloads.keywords(99))).encode()
    here += workloads.clustered_vectors(99, 48).round(4).tobytes()
    assert run.stdout.strip() == hashlib.sha256(here).hexdigest()


def test_keyword_messages_have_just_the_length_that_was_asked_for() -> None:
    patterns = workloads.keywords(200)
    assert len(set(patterns)) == 200
    assert {len(text) for text in workloads.keyword_messages(20, 500, patterns)} == {500}


def test_memory_is_touched_before_each_call_where_caches_are_to_be_cold() -> None:
    def soon(i: int) -> object:
        return None

    budget_ns = 20_000_000
    warm = timing.burst(soon, 0, budget_ns, 10**6, 0)
    cold = timing.burst(soon, 0, budget_ns, 10**6, 0, cold_bytes=16 << 20)
    assert len(cold) < len(warm) / 100, "the time of touching is part of the budget"
    assert min(cold) < 1_000_000, "and of no call"


def test_a_peer_in_its_process_touches_memory_too(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, object]] = []
    peer = object.__new__(peers.Remote)
    monkeypatch.setattr(peer, "_ask", lambda request: asked.append(request) or {"ns": [1]}, raising=False)
    case = Case("op", "1", sleeping(0), {"peer": peer}, right, cold_bytes=4_096)
    monkeypatch.setattr(peers.Remote, "close", lambda self: None)
    run_case(case, QUICK)
    assert {request["cold_bytes"] for request in asked if request["do"] == "burst"} == {4_096}
