"""Talome (profile `domains`): settings switch toolkits on, keywords choose among them; checked by its counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.table import each_row
from tests.unit.prior_systems.catalogs import DOMAINS, domains
from tests.unit.prior_systems.planned import PlannedEmbedder
from toolroll import Context, Rule, Toolroll
from toolroll.model.errors import Denied
from toolroll.selection.profiles import PROFILES

CONFIGURED = Context(settings=("qbittorrent_url", "homeassistant_url"))
AMBIGUOUS = "What should I do next?"


def roll_of(**options) -> Toolroll:
    return Toolroll.from_definitions(domains(), profile="domains", **options)


@pytest.fixture(scope="module")
def roll() -> Toolroll:
    return roll_of()


def toolkits_of(picked) -> set[str]:
    return {picked.catalog.tools[row].toolkit for row in picked.rows.tolist()}


def test_each_layer_has_as_many_tools_as_the_seed_says(roll):
    everything = roll.select("", Context(everything=True, provider="mcp"))
    active = roll.select(AMBIGUOUS, CONFIGURED)
    routed = roll.select("Pause that torrent", CONFIGURED)
    core_only = roll.select(AMBIGUOUS, Context())
    assert len(everything) == everything.total == 234  # 230+
    assert len(active) == 143  # 80-150
    assert len(routed) == 58  # 50-80
    assert len(core_only) == 117
    assert len(roll.catalog.toolkits) - 5 == 16  # domains: the five of core are one


@pytest.mark.parametrize("message", [AMBIGUOUS, "Which series does Sonarr follow?", "arr_00"])
def test_without_sonarr_there_are_no_arr_tools_whatever_the_message(roll, message):
    assert "arr" not in toolkits_of(roll.select(message, CONFIGURED))
    assert "arr" in toolkits_of(roll.select(message, Context(settings=("arr_url",))))


def test_the_active_domains_and_their_tools_are_known_without_a_message(roll):
    """The equivalents of getActiveDomainNames and getActiveRegisteredTools."""
    active = roll.visible(CONFIGURED)
    of_core = {name for name in DOMAINS if name.startswith("core_")}
    assert set(active.toolkits) == {"core", "mdns", "qbittorrent", "homeassistant"} | of_core
    assert len(active) == 143 and set(active) == set(roll.select(AMBIGUOUS, CONFIGURED).names)
    assert set(roll.visible().toolkits) == {"core", "mdns"} | of_core


def test_a_call_of_a_tool_that_is_not_configured_is_refused_and_why_names_the_settings(roll):
    with pytest.raises(Denied, match="arr_00"):
        roll.select("Which series does Sonarr follow?", CONFIGURED).check("arr_00")
    verdict = roll.why("arr_00", CONFIGURED)
    assert not verdict.visible and "arr_url" in verdict.reason


def test_a_setting_brings_its_tools_with_the_next_message(roll):
    assert "plex" not in toolkits_of(roll.select("Is plex up?", Context(settings={"plex_url": ""})))
    assert "plex" in toolkits_of(roll.select("Is plex up?", Context(settings={"plex_url": "http://plex"})))


def test_torrent_brings_core_and_qbittorrent(roll):
    picked = roll.select("How fast is my torrent?", CONFIGURED)
    assert toolkits_of(picked) == {"core_basics", "qbittorrent"}
    assert picked.summary().startswith("58/234 tools | activated: qbittorrent(keyword 'torrent') | ")


def test_several_keywords_bring_several_toolkits(roll):
    picked = roll.select("Turn the light off when the torrent is done", CONFIGURED)
    assert toolkits_of(picked) == {"core_basics", "qbittorrent", "homeassistant"}


def test_a_message_without_a_keyword_gets_all_that_is_active(roll):
    picked = roll.select(AMBIGUOUS, CONFIGURED)
    assert toolkits_of(picked) == {
        name
        for name in DOMAINS
        if name.startswith("core") or name in ("mdns", "qbittorrent", "homeassistant")
    }
    assert picked.log_lines() == ("tool selection: method=whole, core=46, whole=97, total=143/234",)


def test_a_toolkit_without_keywords_is_there_where_nothing_is_named(roll):
    context = Context(settings=("proxmox_url",))
    assert "proxmox" in toolkits_of(roll.select(AMBIGUOUS, context))
    assert "proxmox" not in toolkits_of(roll.select("docker", context))


def test_the_keyword_of_what_is_switched_off_hides_nothing(roll):
    """No keyword of an active domain matches, so all active domains stay, as in the system."""
    assert len(roll.select("Sonarr!", CONFIGURED)) == 143


def test_keywords_of_what_is_on_narrow_although_others_are_off(roll):
    assert toolkits_of(roll.select("Sonarr and torrents", CONFIGURED)) == {"core_basics", "qbittorrent"}


@pytest.mark.parametrize("message", ["TORRENTS?", "my torrents", "a lightning struck"])
def test_keywords_are_found_inside_words_in_any_case(roll, message):
    """False positives load more tools and take none away that would be there without them."""
    hit = "homeassistant" if "light" in message else "qbittorrent"
    assert toolkits_of(roll.select(message, CONFIGURED)) == {"core_basics", hit}


@each_row("message", ["", "Pause that torrent", "Which series does Sonarr follow?"])
@each_row("profile", PROFILES)
def test_an_mcp_client_gets_every_tool_whatever_is_configured_or_said(profile, message):
    roll = Toolroll.from_definitions(domains(), profile=profile, embedder="none")
    everything = roll.select(message, Context(everything=True, provider="mcp"))
    assert len(everything) == everything.total == 234
    assert roll.select(message, Context(everything=True), k=7).names == everything.names


def test_core_tools_come_first_and_the_providers_limit_holds(roll):
    picked = roll.select(AMBIGUOUS, Context(settings=CONFIGURED.settings, provider="openai"))
    assert len(picked) == 128
    assert all(name.startswith("core_basics") for name in picked.names[:46])
    assert picked.log_lines()[1].startswith("tool cap: kept=128/143, dropped=15: mdns_03, ")


def test_nothing_is_embedded_for_a_message():
    embedder = PlannedEmbedder({})
    roll = roll_of(embedder=embedder)
    embedder.is_up = False
    picked = roll.select("torrent", CONFIGURED)
    assert embedder.asked == [] and picked.degraded == () and len(picked) == 58


def test_a_denied_toolkit_is_not_switched_on_by_its_keyword():
    """Nor does its keyword tell that it is there: the message hits nothing."""
    denied = Rule("no torrents", "deny", "role", {"role": "guest"}, toolkit="qbittorrent")
    roll = Toolroll.from_definitions(replace(domains(), rules=(denied,)), profile="domains")
    guest = Context(settings=CONFIGURED.settings, roles=("guest",))
    assert roll.select("torrent", guest).names == roll.select(AMBIGUOUS, guest).names
    member = replace(guest, roles=("member",))
    assert toolkits_of(roll.select("torrent", member)) == {"core_basics", "qbittorrent"}
