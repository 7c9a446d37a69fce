"""`toolroll events`, `toolroll lab judge` and `toolroll lab experiment` as typed, on both databases."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest

from tests.integration.commands import CRM, WEATHER, Typed, toolkit_file
from tests.integration.logged import arm, called, event, learn, outcome, write, write_events
from toolroll.cli import main
from toolroll.registry.analytics.experiments import find
from toolroll.registry.store import tables
from toolroll.selection.profiles import Profile

NOW = datetime.now(timezone.utc)


def ago(days):
    return NOW - timedelta(days=days)


@pytest.fixture
def typed(database_url, capsys):
    return Typed(database_url, capsys)


@pytest.fixture
def used(typed, database, tmp_path):
    """A registry whose tools were selected and called."""
    folder = toolkit_file(tmp_path / "tools", WEATHER)
    typed.put(toolkit_file(folder, CRM))
    rows = []
    for n in range(40):
        worked = n % 4 != 0
        rows.append(
            called(
                at=ago(n / 4),
                page="home" if n % 2 else "",
                session=f"s{n % 8}",
                message="what is the weather like",
                selected=["get_forecast", "crm_find"],
                called={"get_forecast": "succeeded" if worked else "failed"},
                outcome="succeeded" if worked else "failed",
                candidates=[
                    ["get_forecast", 0.8, None, None, None, 1.0],
                    ["crm_find", 0.2, None, None, None, 0.5],
                ],
            )
        )
    rows.append(event(at=ago(1), selected=["crm_find"], org="other", message_form="dropped", message=""))
    write_events(database, *rows)
    return typed


def test_events_are_listed_shown_exported_and_cleared_away(used, tmp_path):
    listed = used.json("events", "list", "--since", "2d", "--limit", "5")["events"]
    assert len(listed) == 5 and [e["at"] for e in listed] == sorted((e["at"] for e in listed), reverse=True)
    assert "message" not in listed[0] and "message" not in used("events", "list").out
    assert {e["outcome"] for e in used.json("events", "list", "--outcome", "failed")["events"]} == {"failed"}
    assert [e["org"] for e in used.json("events", "list", "--outcome", "unknown")["events"]] == ["other"]
    assert len(used.json("events", "list", "--tool", "get_forecast", "--org", "acme")["events"]) == 40
    assert used.json("events", "list", "--tool", "crm_export")["events"] == []

    (one,) = used.json("events", "list", "--limit", "1")["events"]
    shown = used.json("events", "show", one["event_id"])
    assert shown["message"] == "what is the weather like" and shown["outcomes"] == []
    text = used("events", "show", one["event_id"]).out
    assert re.search(r"yes +get_forecast +0\.8 +- +- +- +1", text)
    assert "is not in the store" in used("events", "show", "0" * 32, status=1).err
    assert "is not in the store" in used("events", "show", one["event_id"], "--org", "nobody", status=1).err

    file = tmp_path / "e.parquet"
    pq = pytest.importorskip("pyarrow.parquet")
    assert used.json("events", "export", str(file), "--since", "1d", "--org", "acme")["events"] == 4
    assert pq.read_metadata(file).num_rows == 4

    assert used.json("events", "export", str(file))["events"] == 41  # an earlier export may be replaced
    notes = tmp_path / "notes.txt"
    notes.write_text("my notes")
    assert "no Parquet file" in used("events", "export", str(notes), status=1).err
    assert notes.read_text() == "my notes"
    for wrong in (
        ["--by", "org"],
        *(["--buckets", "16"], ["--slice", "1h"], ["--settle", "1h"], ["--late", "1d"], ["--every", "1m"]),
        ["--storage-options", "{}"],
    ):
        said = used("events", "export", str(tmp_path / "e2.parquet"), *wrong, status=2).err
        assert f"{wrong[0]}: needs --partitioned" in said
    assert "needs --partitioned" in used("events", "export", f"{tmp_path}/lake/", status=2).err
    for pause in ("0s", "0d"):
        again = ("events", "export", str(tmp_path / "lake"), "--partitioned", "--every", pause)
        assert "--every: must be at least 1s" in used(*again, status=2).err
    assert not (tmp_path / "lake").exists() and not (tmp_path / "e2.parquet").exists()

    assert used.json("events", "prune", "--older-than", "5d") == {"events": 20}
    assert len(used.json("events", "list")["events"]) == 21
    assert used.json("events", "prune", "--older-than", "0m", "--org", "other") == {"events": 1}


def test_metrics_and_hits_are_printed_as_a_table_and_as_json(used):
    found = used.json("events", "analytics", "metrics", "--org", "acme")
    assert found["total"] == 40 and found["success"] == 0.75 and found["tokens"]["saved"] == 40 * 800
    text = used("events", "analytics", "metrics", "--org", "acme").out
    assert re.search(r"selections +40\b", text) and "75.0%" in text and "32,000 (80.0%)" in text
    found = used.json("events", "analytics", "hits")
    assert (found["calls"], found["rate"]) == (40, 1.0) and len(found["days"]) >= 10
    assert "100.0%" in used("events", "analytics", "hits").out
    assert used.json("events", "analytics", "metrics", "--org", "nobody")["total"] == 0
    used("events", "analytics", "metrics", "--org", "nobody")
    used("events", "analytics", "hits", "--org", "nobody")


def test_the_heatmap_and_the_hit_rate_are_drawn(used, tmp_path):
    pytest.importorskip("matplotlib")
    found = used.json(
        "events", "analytics", "heatmap", "--of", "selected", "--plot", str(tmp_path / "map.png")
    )
    assert found["tools"] == ["crm_find", "get_forecast"] and sorted(found["pages"]) == ["", "home"]
    assert sum(map(sum, found["counts"])) == 81
    used("events", "analytics", "hits", "--plot", str(tmp_path / "hits.png"))
    for name in ("map.png", "hits.png"):
        assert (tmp_path / name).read_bytes()[:4] == b"\x89PNG"
    done = used("events", "analytics", "heatmap", "--tools", "1", "--of", "selected")
    assert "(none)" in done.out and "40 are of further" in done.err
    assert "nothing to draw" in used(
        "events", "analytics", "heatmap", "--org", "nobody", "--plot", str(tmp_path / "x.png"), status=1
    ).err  # fmt: skip


def test_arms_unused_and_broken_tools_and_drift_are_printed(used, database):
    write(database, tables.learned, *arm("get_forecast", 30, 10, updated_at=NOW))
    rows = [outcome(n, 0, n < 40, "get_forecast", at=ago(2 - n / 100)) for n in range(48)]
    write(database, tables.outcomes, *rows)
    (found,) = used.json("events", "analytics", "arms")["arms"]
    assert (
        found["mean"] == pytest.approx((30 + 2.55) / 43, abs=1e-3)
        and found["low"] < found["mean"] < found["high"]
    )
    assert re.search(
        r"acme +get_forecast +everywhere +50 +40 +30 +0\.757 +0\.6\d+ to 0\.8",
        used("events", "analytics", "arms").out,
    )

    learn(database)
    unused = used.json("events", "analytics", "unused", "--shown", "10")
    assert [t["name"] for t in unused["never_selected"]] == ["crm_export", "get_air_quality"]
    assert [t["name"] for t in unused["never_called"]] == ["crm_find"]
    assert "shown 41 times, never called" in used("events", "analytics", "unused", "--shown", "10").out

    (broke,) = used.json("events", "analytics", "broken")["tools"]
    assert broke["tool"] == "get_forecast" and broke["failures"] == 4 and broke["back"] is None
    assert re.search(r"get_forecast .* 9\d% +4 of 4 +4 +no", used("events", "analytics", "broken").out)
    assert used.json("events", "analytics", "broken", "--since", "30m")["tools"] == []

    assert used.json("events", "analytics", "drift")["tools"] == []
    assert "embeds within each process" in used("events", "analytics", "drift").err
    assert used.json("events", "analytics", "drift", "--older-than", "1s")["stored"] is False


def test_another_profile_is_judged_on_the_logged_events(used):
    found = used.json("lab", "judge", "--since", "30d")
    assert found["profile"] == "default" and found["events"] == 41
    assert found["skipped"] == {"no outcome": 1}
    judged = found["judgement"]
    assert judged["events"] == 40 and judged["sessions"] == 8
    # the four tools are few enough to be handed on whole: of the two that were not shown nothing is known
    assert judged["ips"]["value"] == pytest.approx(0.75) and judged["ips"]["gain"] == pytest.approx(0)
    assert judged["unsupported"] > 0.2 and not judged["is_supported"]
    done = used("lab", "judge", "--most", "10", "--org", "acme")
    assert "75.00%" in done.out or "70.00%" in done.out or "80.00%" in done.out
    assert "10 events of" in done.err and "a rough estimate" in done.err
    assert "no event has enough" in used("lab", "judge", "--org", "nobody").err
    assert "unknown" in used("lab", "judge", "--profile", "nope", status=1).err


def test_an_experiment_that_nobody_could_serve_is_not_begun(typed):
    assert (
        "twice"
        in typed(
            "lab", "experiment", "start", "e", "--variant", "default=.7", "--variant", "default=.3", status=1
        ).err
    )
    assert (
        "unknown"
        in typed(
            "lab", "experiment", "start", "e", "--variant", "default=.7", "--variant", "nope=.3", status=1
        ).err
    )
    assert typed.json("lab", "experiment", "show") == {"experiments": []}


def test_an_experiment_says_who_wins(typed, database, monkeypatch):
    monkeypatch.setattr("toolroll.selection.profiles.PROFILES", {"default": Profile(), "other": Profile()})
    begun = typed.json(
        "lab", "experiment", "start", "ranking", "--variant", "default=0.5", "--variant", "other=0.5"
    )
    assert begun["variants"] == {"default": 0.5, "other": 0.5} and begun["active"]
    assert "is running" in typed(
        "lab", "experiment", "start", "second", "--variant", "default=0.5", "--variant", "other=0.5", status=1
    ).err  # fmt: skip
    shown = typed.json("lab", "experiment", "show", "ranking")
    assert shown["state"] == "undecided" and shown["contrasts"][0]["low"] is None
    assert (
        "no winner yet; about 50 of default, 50 of other more units decide it"
        in typed("lab", "experiment", "show", "ranking").out
    )
    trial = find(database, "ranking")
    rng = np.random.default_rng(1)
    write_events(
        database,
        *(
            event(
                at=trial.begun_at + timedelta(seconds=n),
                experiment="ranking",
                variant=(variant := "other" if n % 2 else "default"),
                reporter=f"u{n}",
                outcome="succeeded" if rng.random() < (0.8 if variant == "other" else 0.4) else "unused",
            )
            for n in range(1_000)
        ),
    )
    shown = typed.json("lab", "experiment", "show", "ranking")
    assert (shown["state"], shown["winner"], shown["strays"]) == ("winner", "other", 0)
    done = typed("lab", "experiment", "show", "ranking")
    text = done.out
    assert "unequal shares" not in done.err
    assert "other is better than every other" in text and "other against default: +" in text
    assert "runs" in typed("lab", "experiment", "show").out
    late = trial.begun_at + timedelta(hours=1)
    quiet = [
        event(at=late, experiment="ranking", variant="other", reporter=f"u{2 * n + 1}") for n in range(40)
    ]
    write_events(database, *quiet)
    assert "unequal shares" in typed("lab", "experiment", "show", "ranking").err
    assert typed.json("lab", "experiment", "stop", "ranking")["active"] is False
    assert "none of this name" in typed("lab", "experiment", "stop", "nope", status=1).err


@pytest.mark.parametrize("command", ["events", "events analytics", "lab experiment"])
def test_a_group_alone_is_wrong_use(command, capsys):
    assert main(command.split()) == 2
    assert "Commands:" in capsys.readouterr().err
