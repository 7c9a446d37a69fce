"""The 3-layer architecture (profile `layers`): base tools, toolkits by keyword, then by meaning; its example."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.table import each_row
from tests.unit.prior_systems.planned import PlannedEmbedder
from toolroll import Context, Route, Tool, Toolkit, Toolroll
from toolroll.cli import main
from toolroll.formats.sources.folder import read_folder
from toolroll.model.tools import Definitions
from toolroll.selection.profiles import PROFILES

FOLDER = Path(__file__).parents[2] / "data" / "prior_systems" / "layers"
WORKOUT = "If it rains tomorrow, plan an indoor workout and add it to my calendar"
FREE = Context(tier="free")

# The cosines of the system's example: 0.52 for the calendar, and all others below its threshold of 0.40.
COSINES = {"calendar: ": 0.52, "weather: ": 0.38, "scheduler: ": 0.39, "email: ": 0.2}


def roll_of(embedder="static", **changes) -> Toolroll:
    parameters = PROFILES["layers"].with_(**changes)
    return Toolroll.from_folder(FOLDER, profile=parameters, tiers=("free", "pro"), embedder=embedder)


def toolkits_of(picked) -> set[str]:
    return {picked.catalog.tools[row].toolkit for row in picked.rows.tolist()}


def test_the_indoor_workout_gets_18_of_35_tools():
    picked = roll_of(PlannedEmbedder(COSINES)).select(WORKOUT, FREE)
    assert (len(picked), picked.total) == (18, 35)
    assert picked.summary().startswith(
        "18/35 tools | activated: weather(keyword 'rain'), calendar(dense 0.52) | "
    )
    counts = {kit: 0 for kit in toolkits_of(picked)}
    for row in picked.rows.tolist():
        counts[picked.catalog.tools[row].toolkit] += 1
    assert counts == {"general": 13, "weather": 1, "calendar": 4}
    assert picked.total - len(picked) == 17


def test_the_built_in_embedder_finds_the_same_18_tools():
    picked = roll_of().select(WORKOUT, FREE)
    assert len(picked) == 18
    assert list(picked.activated) == ["general", "weather", "calendar"]


def test_a_hit_scores_its_strength_and_is_sent_in_that_order():
    picked = roll_of(PlannedEmbedder(COSINES)).select(WORKOUT, FREE)
    assert picked.names[13:] == ("weather", "create_event", "delete_event", "list_events", "update_event")
    scores = {tool["name"]: tool["score"] for tool in picked.to_dict()["tools"]}
    assert (scores["weather"], scores["create_event"], scores["recall"]) == (1.0, 0.52, 0.0)
    assert picked.log_lines() == (
        "tool selection: method=routes, core=13, routes=5, total=18/35",
        "tool routes: hit=2: weather(keyword 'rain'), calendar(dense 0.52)",
    )


def test_the_catalog_has_8_toolkits_beside_13_base_tools():
    catalog = roll_of().catalog
    assert len(catalog.base) == 13
    assert set(catalog.toolkits) - {"general"} == {
        "calendar", "contacts", "email", "git", "host_pc", "meta", "scheduler", "weather",
    }  # fmt: skip
    assert len(catalog.below["weather"]) == 1 and len(catalog.below["calendar"]) == 4


def test_all_35_schemas_cost_more_than_what_is_sent():
    tokens = roll_of().select("What's the weather today?", FREE).tokens
    assert tokens.selected < tokens.total / 2


@each_row(
    ("message", "toolkits"),
    [
        ("What's the weather today?", {"weather"}),
        ("Commit my code", {"git"}),
        ("크롬 열어줘", {"host_pc"}),
        ("Open Chrome", {"host_pc"}),
        ("내일 날씨가 어때?", {"weather"}),
        ("Tell me a joke", set()),
    ],
)
def test_keywords_switch_on_their_toolkits_and_no_others(message, toolkits):
    roll = roll_of(PlannedEmbedder({}))
    assert toolkits_of(roll.select(message, FREE)) == {"general", *toolkits}


def test_what_no_keyword_says_is_found_by_meaning():
    picked = roll_of(PlannedEmbedder({"weather: ": 0.44})).select("Is it going to be wet outside?", FREE)
    assert picked.activated["weather"] == "dense 0.44"


@pytest.fixture
def without_umbrella(tmp_path) -> Path:
    """The system's catalog, without the keyword 'umbrella' of the weather."""
    folder = tmp_path / "layers"
    folder.mkdir()
    for file in FOLDER.glob("*.json"):
        (folder / file.name).write_text(file.read_text("utf-8").replace('"umbrella"', '"parasol"'), "utf-8")
    return folder


@pytest.mark.parametrize(("threshold", "found"), [(0.60, False), (0.40, True)])
def test_an_umbrella_is_found_by_meaning_at_a_threshold_that_suits_the_embedder(
    without_umbrella, threshold, found
):
    """The system's 0.40 suits BGE-M3 and the built-in embedder: its cosine is 0.42, and no other toolkit is above 0.18."""
    parameters = PROFILES["layers"].with_(toolkit_threshold=threshold)
    roll = Toolroll.from_folder(without_umbrella, profile=parameters, tiers=("free",), embedder="static")
    picked = roll.select("Should I bring an umbrella?", FREE)
    assert toolkits_of(picked) == {"general", *(["weather"] if found else [])}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("embedder", "cosine", "found"),
    [("minilm", 0.42, True), ("minilm-base", 0.24, False), ("multilingual", 0.20, False)],
)
def test_the_umbrella_is_nearest_to_the_weather_for_each_shipped_embedder(
    without_umbrella, embedder, cosine, found
):
    roll = Toolroll.from_folder(without_umbrella, profile="layers", tiers=("free",), embedder=embedder)
    picked = roll.select("Should I bring an umbrella?", FREE)
    assert toolkits_of(picked) == {"general", *(["weather"] if found else [])}
    near = picked.catalog.toolkit_index.near(picked.turn.vector, -1.0)
    assert next(iter(near)) == "weather" and near["weather"] == pytest.approx(cosine, abs=0.005)


@pytest.mark.slow
def test_the_multilingual_embedder_finds_what_other_languages_mean_at_a_threshold_of_0_25():
    """At 0.40 it finds the last one only."""
    roll = roll_of("multilingual", toolkit_threshold=0.25)
    asked = {
        "Brauche ich morgen einen Regenschirm?": {"weather"},
        "Wie warm wird es morgen in Oslo?": {"weather"},
        "Schreib Anna eine E-Mail": {"email"},
        "Erzähl mir einen Witz": set(),
        "How do I cook rice?": set(),
        "내일 비가 올까?": {"weather"},
    }
    assert {message: toolkits_of(roll.select(message, FREE)) - {"general"} for message in asked} == asked
    layers = roll_of("multilingual")
    assert [message for message in asked if len(layers.select(message, FREE)) > 13] == ["내일 비가 올까?"]


def test_a_toolkit_file_in_the_seeds_form_is_read_whole(tmp_path):
    function = {
        "name": "weather",
        "description": "Tells the weather.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    }
    toolkit = {
        "name": "weather",
        "tier": "free",
        "description": "Weather and forecasts",
        "keywords": ["날씨", "rain"],
        "tasks": [{"type": "function", "function": function}],
    }
    (tmp_path / "weather.json").write_text(json.dumps(toolkit), "utf-8")
    assert read_folder(tmp_path, ("free",)) == Definitions(
        (Tool("weather", "Tells the weather.", function["parameters"], toolkit="weather"),),
        (Toolkit("weather", "Weather and forecasts", tier="free"),),
        (Route(("weather",), ("날씨", "rain")),),
        tiers=("free",),
    )


def test_the_seeds_files_are_selected_from_on_the_command_line(capsys):
    words = ["select", "What's the weather today?", "--catalog", str(FOLDER), "--profile", "layers"]
    assert main([*words, "--tiers", "free,pro", "--tier", "free", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert len(said["tools"]) == 14 and said["tools"][-1]["name"] == "weather"
    assert main([*words, "--tier", "free", "--json"]) == 0  # as they are: they have one tier
    assert json.loads(capsys.readouterr().out)["tools"] == said["tools"]
    assert len(Toolroll.from_folder(FOLDER, profile="layers").select("What's the weather?", FREE)) == 14
    assert main([*words, "--tiers", "gold"]) == 1
    error = capsys.readouterr().err
    assert "calendar.json:3: toolkit 'calendar': tier is 'free'" in error and "--tiers" in error


def test_an_umbrella_is_a_keyword_of_the_systems_own_file():
    """The system's text denies this keyword, its file lists it; the file counts."""
    assert roll_of().select("Should I bring an umbrella?", FREE).activated["weather"] == "keyword 'umbrella'"


@pytest.mark.parametrize(("cosine", "found"), [(0.40, True), (0.39, False)])
def test_a_toolkit_counts_from_a_cosine_of_0_40_on(cosine, found):
    picked = roll_of(PlannedEmbedder({"git: ": cosine + 1e-6})).select("Save my work", FREE)
    assert ("git_commit" in picked) is found


def test_a_stricter_threshold_is_a_parameter():
    strict = roll_of(PlannedEmbedder(COSINES), toolkit_threshold=0.6).select(WORKOUT, FREE)
    assert list(strict.activated) == ["general", "weather"]


def test_a_keyword_goes_before_nearness():
    picked = roll_of(PlannedEmbedder({"weather: ": 0.9})).select("What's the weather today?", FREE)
    assert picked.activated["weather"] == "keyword 'weather'"


def test_keywords_go_on_working_while_the_embedder_is_down():
    embedder = PlannedEmbedder(COSINES)
    roll = roll_of(embedder)
    embedder.is_up = False
    picked = roll.select(WORKOUT, FREE)
    assert len(picked) == 14 and "weather" in picked and "create_event" not in picked
    assert picked.degraded == ("embedder",)
    embedder.is_up = True
    assert len(roll.select(WORKOUT, FREE)) == 18


def test_toolkits_are_embedded_once_and_a_message_once():
    embedder = PlannedEmbedder(COSINES)
    roll = roll_of(embedder)
    assert embedder.asked == []
    roll.select(WORKOUT, FREE)
    assert embedder.asked == [WORKOUT]


@each_row(
    ("message", "toolkit"),
    [
        ("What's the weather today?", "weather"),
        ("Commit my code", "git"),
        ("크롬 열어줘", "host_pc"),
        ("Commit my code. Then show me the weather", "git"),
    ],
)
def test_a_message_that_keywords_name_in_each_part_is_not_embedded(message, toolkit):
    embedder = PlannedEmbedder(COSINES)
    picked = roll_of(embedder).select(message, FREE)
    assert embedder.asked == [] and toolkit in picked.activated
    embedder.is_up = False
    assert roll_of(embedder).select(message, FREE).degraded == ()
    embedder.is_up = True
    roll_of(embedder, spare_embedding=False).select(message, FREE)
    assert embedder.asked == [message]


@each_row(
    "message",
    [WORKOUT, "Tell me a joke", "Commit my code, and save it", "Hi. What's the weather?", "weather " * 200],
)
def test_a_message_with_a_part_that_no_keyword_names_is_embedded(message):
    embedder = PlannedEmbedder(COSINES)
    roll_of(embedder).select(message, FREE)
    assert embedder.asked == [message]


def test_the_keyword_of_a_toolkit_that_the_caller_may_not_have_spares_no_embedding():
    embedder = PlannedEmbedder({"calendar: ": 0.5})
    roll = roll_of(embedder)
    for context in (Context(tier=""), Context(tier="free", exclude=("weather",))):
        roll.select("What's the weather today?", context)
    assert embedder.asked == ["What's the weather today?"] * 2


def test_a_search_and_a_profile_that_retrieves_embed_each_message():
    embedder = PlannedEmbedder(COSINES)
    roll = roll_of(embedder)
    roll.session("s", FREE).search("weather")
    assert embedder.asked == ["weather"]
    other = PlannedEmbedder(COSINES)
    roll_of(other, retrieve="tools").select("weather", FREE)
    assert other.asked == ["weather"]


def test_an_explanation_says_that_a_tier_is_missing_and_speaks_of_no_rule():
    roll = roll_of()
    nobody = roll.select("What's the weather today?", Context())
    assert "is for tier 'free' and above" in roll.why("weather", Context()).reason
    assert "22 removed: its toolkit is for another tier" in nobody.explain()
    assert "rule" not in nobody.explain()


def test_a_toolkit_of_a_higher_tier_is_not_switched_on_by_its_keyword():
    roll = roll_of()
    assert "weather" not in roll.select("What's the weather today?", Context(tier=""))
    assert "weather" in roll.select("What's the weather today?", Context(tier="pro"))
