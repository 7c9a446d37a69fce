"""The admin page in a real browser, through the service, as a person uses it."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("playwright")

from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.integration.page_service import PageService, page_service
from toolroll import Context, Toolroll
from toolroll.model.rules import PageMapping, Rule
from toolroll.model.tools import Tool
from toolroll.server.page import FOLDER

AXE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
expect.set_options(timeout=20_000)  # machines that build and test at once are slow
VIEWS = (
    "overview",
    "playground",
    "catalog",
    "catalog/get_current_weather",
    "approval",
    "access",
    "access/why",
    "access/pages",
    "access/organisation",
    "plugins",
    "analytics",
)
PICTURES = os.environ.get("TOOLROLL_PICTURES", "")  # a folder for pictures of the views

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine"),
    pytest.mark.skipif(not (FOLDER / "index.html").is_file(), reason="the page is not built"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def service(database_url: str) -> Iterator[PageService]:
    with page_service(database_url) as service:
        yield service


Open = Callable[..., Page]


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    """Opens the page of a service in a new window, and signs in. An error in the page's script fails the test."""
    errors: list[str] = []
    contexts = []

    def open_page(service: PageService, view: str = "overview", key: str = "admin", **options: Any) -> Page:
        context = browser.new_context(viewport={"width": 1280, "height": 800}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda said: errors.append(said.text) if "Content Security" in said.text else None)
        page.goto(f"{service.base}/admin/#/{view}")
        if key:
            page.get_by_label("Service key").fill(service.keys[key])
            page.get_by_role("button", name="Sign in").click()
            expect(page.get_by_role("navigation", name="Views")).to_be_visible()
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert errors == []


def test_only_a_valid_key_that_may_read_signs_in(service: PageService, open_page: Open) -> None:
    page = open_page(service, key="")
    for key, answer in (("trk_0_wrong", "no valid key"), (service.keys["caller"], "lacks the role read")):
        page.get_by_label("Service key").fill(key)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_contain_text(answer)
    page.get_by_label("Service key").fill(service.keys["reader"])
    page.keyboard.press("Enter")
    expect(page.get_by_text("Selections work")).to_be_visible()

    page.reload()
    expect(page.get_by_text("Selections work")).to_be_visible()
    (cookie,) = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert service.keys["reader"] not in json.dumps(page.context.storage_state())

    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Service key")).to_be_visible()
    assert page.context.cookies() == []


def test_a_person_signs_in_with_a_password_and_is_named_by_the_page(
    service: PageService, open_page: Open
) -> None:
    from toolroll.registry.access.accounts import Accounts

    Accounts(service.registry.database).add("ann", "correct horse battery", roles=["read", "administer"])
    page = open_page(service, key="")
    page.wait_for_timeout(3_500)  # until the service has read the accounts again
    page.reload()
    page.get_by_label("Name").fill("ann")
    for password in ("wrong", "correct horse battery"):
        page.get_by_label("Password").fill(password)
        page.get_by_role("button", name="Sign in with a password").click()
        if password == "wrong":
            expect(page.get_by_role("alert")).to_contain_text("no account with this name and password")
    expect(page.get_by_text("Selections work")).to_be_visible()
    expect(page.get_by_text("ann", exact=False).first).to_be_visible()


def test_the_session_ends_with_its_key(service: PageService, open_page: Open) -> None:
    page = open_page(service, "catalog")
    expect(page.get_by_role("table", name="Tools")).to_be_visible()
    (key,) = (key for key in service.registry.keys.list() if key.name == "admin")
    service.registry.keys.revoke(key.key_id)
    page.wait_for_timeout(3_500)
    page.get_by_label("Search names").fill("weather")
    expect(page.get_by_label("Service key")).to_be_visible()


def test_the_playground_says_why_and_compares_profiles(service: PageService, open_page: Open) -> None:
    page = open_page(service, "playground")
    page.get_by_label("Message").fill("Should I bring an umbrella tomorrow?")
    page.get_by_label("Compare with").select_option("learned")
    page.get_by_role("button", name="Select", exact=True).click()
    mine = page.get_by_role("region", name="Selection by default")
    other = page.get_by_role("region", name="Selection by learned")
    expect(mine.get_by_role("link", name="get_current_weather", exact=True)).to_be_visible()
    expect(other.get_by_role("table", name="Selected")).to_be_visible()
    assert mine.get_by_role("row").count() > 1
    page.get_by_label("Compare with").select_option("domains")
    page.get_by_role("button", name="Select", exact=True).click()
    difference = page.get_by_role("region", name="Difference")
    expect(difference).to_contain_text("“domains”")
    chips = difference.locator(".badge")
    expect(chips).to_have_count(12)
    difference.get_by_role("button", name=re.compile("and .* more")).click()
    assert chips.count() > 100

    mine.get_by_role("button", name=re.compile("Left out")).click()
    expect(mine.get_by_role("table", name="Left out").get_by_role("row").nth(1)).to_contain_text(
        re.compile("not among|cut|below|no settings")
    )
    mine.get_by_text("Stages").click()
    expect(mine.get_by_role("region", name="Stages").get_by_role("row").nth(1)).to_be_visible()


def test_a_past_selection_is_replayed_and_leaves_no_trace(service: PageService, open_page: Open) -> None:
    page = open_page(service, "playground", "reader")
    past = page.locator("section", has=page.get_by_role("heading", name="Past selections"))
    expect(past.get_by_role("row")).to_have_count(21)
    past.get_by_role("button", name=re.compile("Replay the selection")).first.click()
    expect(past.get_by_text("Decided again as it was, to the last bit.")).to_be_visible()
    again = past.get_by_role("region", name="Selection by default")
    expect(again.get_by_role("table", name="Selected").get_by_role("link").first).to_be_visible()
    page.get_by_role("link", name="Overview").click()
    expect(page.locator(".figure").first).to_contain_text("60")


def test_what_if_compares_other_texts_of_a_tool_with_now_and_saves_nothing(
    service: PageService, open_page: Open
) -> None:
    before = service.registry.database.revision()
    page = open_page(service, "playground", "reader")
    page.get_by_label("Message").fill("polish my spacecraft")
    page.get_by_text("What if…").click()
    expect(page.get_by_text("Complete the change first.")).to_be_visible()
    page.get_by_role("button", name="With other texts").click()
    page.get_by_label("Tool", exact=True).fill("get_forecast")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Description")).to_have_value(re.compile("Forecast by hour"))
    page.get_by_label("Description").fill("Polishes spacecraft until they shine")
    page.get_by_role("button", name="Select with and without it").click()
    difference = page.get_by_role("region", name="Difference")
    expect(difference).to_contain_text("+ get_forecast")
    changed = page.get_by_role("region", name="Selection by With the change")
    expect(changed.get_by_role("link", name="get_forecast", exact=True)).to_be_visible()
    assert (
        page.get_by_role("region", name="Selection by Now").get_by_role("link", name="get_forecast").count()
        == 0
    )
    assert service.registry.database.revision() == before


def test_what_if_tries_a_rule_and_a_rule_less(service: PageService, open_page: Open) -> None:
    service.registry.rules.add(Rule("no forecast", "deny", "composite", {"all": []}, tool="get_forecast"))
    page = open_page(service, "playground")
    page.get_by_label("Message").fill("what is the weather, and will it rain tomorrow?")
    page.get_by_text("What if…").click()
    page.get_by_label("What", exact=True).select_option("tool")
    page.get_by_label("Tool", exact=True).fill("get_current_weather")
    page.get_by_label("For whom").select_option("everybody")
    page.wait_for_timeout(1_500)  # the service follows the registry within a second
    page.get_by_role("button", name="Select with and without it").click()
    difference = page.get_by_role("region", name="Difference")
    expect(difference).to_contain_text("− get_current_weather")
    page.get_by_role("button", name="Without a rule").click()
    page.get_by_label("Rule that does not count").select_option("no forecast")
    page.get_by_role("button", name="Select with and without it").click()
    expect(difference).to_contain_text("+ get_forecast")
    assert [record.name for record in service.registry.rules.list()] == ["no forecast"]


def test_the_stages_show_where_each_tool_dropped_out_and_with_which_score(
    service: PageService, open_page: Open
) -> None:
    page = open_page(service, "playground")
    page.get_by_role("button", name="Select", exact=True).click()
    page.locator("summary", has_text="Stages").click()
    stages = page.get_by_role("region", name="Stages")
    expect(stages.get_by_role("columnheader", name="Retrieval")).to_contain_text("left")
    first = stages.get_by_role("row").nth(1)
    expect(first.get_by_role("cell").last).to_have_text(re.compile(r"0\.\d{3}"))
    expect(stages.get_by_text("dropped").first).to_be_visible()


def test_a_tool_without_vectors_has_a_badge(service: PageService, open_page: Open) -> None:
    """The service of this test embeds by itself, so the answer about vectors is one of another service."""
    answer = {
        "embedder": "remote",
        "stored": True,
        "checked": 200,
        "tools": [{"org": "", "name": "get_current_weather", "state": "stale"}],
    }
    page = open_page(service, "overview")
    page.route("**/analytics/drift*", lambda route: route.fulfill(json=answer))
    page.get_by_role("link", name="Catalog").click()
    page.get_by_label("Toolkit").select_option("weather")
    row = page.get_by_role("row").filter(has_text="get_current_weather")
    expect(row).to_contain_text("vectors out of date")
    expect(page.get_by_role("row").filter(has_text="get_forecast")).not_to_contain_text("vectors")
    row.get_by_role("link").click()
    expect(page.get_by_role("heading", name="get_current_weather")).to_be_visible()
    expect(page.get_by_text("vectors out of date")).to_be_visible()


def test_the_catalog_is_searched_and_shows_a_tool(service: PageService, open_page: Open) -> None:
    page = open_page(service, "catalog")
    expect(page.get_by_role("status").filter(has_text=re.compile(r"^2\d\d tools$"))).to_be_visible()
    page.get_by_label("Search names").fill("umbrella, or nothing")
    expect(page.get_by_text("No tool meets these conditions")).to_be_visible()
    page.get_by_label("Search names").fill("get_current_weather")
    page.get_by_role("link", name="get_current_weather", exact=True).click()
    expect(page.get_by_role("heading", name="get_current_weather")).to_be_visible()
    expect(page.get_by_role("region", name="Parameters")).to_be_visible()


def test_the_status_of_many_tools_is_set_at_once(service: PageService, open_page: Open) -> None:
    page = open_page(service, "catalog")
    names = [each.tool.name for each in service.registry.tools(text="browser_").records]
    page.get_by_label("Search names").fill("browser_")
    expect(page.get_by_text(f"{len(names)} tools", exact=True)).to_be_visible()
    page.get_by_label("Choose all that are listed").check()
    page.get_by_label("Choose browser_read").uncheck()
    before = service.registry.tool("browser_open").version
    service.registry.update("browser_open", {"summary": "Other"}, version=before)
    page.get_by_label("New status").select_option("deprecated")
    page.get_by_label("Reason").fill("a new browser comes")
    page.get_by_role("button", name="Set the status").click()
    expect(page.get_by_role("alert")).to_contain_text("keep their status: browser_open.")
    statuses = {name: service.registry.tool(name).tool.status for name in names}
    kept = {"browser_read", "browser_open"}
    assert len(names) > 3
    assert statuses == {name: "active" if name in kept else "deprecated" for name in names}
    assert service.registry.history("browser_click")[0].reason == "a new browser comes"
    expect(page.get_by_role("row").filter(has_text="browser_click")).to_contain_text("deprecated")

    page.get_by_label("Choose browser_open").check()
    page.get_by_label("New status").select_option("retired")
    page.get_by_role("button", name="Set the status").click()
    expect(page.get_by_text("One tool is retired now.")).to_be_visible()
    assert service.registry.tool("browser_open").tool.status == "retired"


def test_a_reader_cannot_choose_tools(service: PageService, open_page: Open) -> None:
    page = open_page(service, "catalog", "reader")
    expect(page.get_by_role("table", name="Tools")).to_be_visible()
    assert page.get_by_role("main").get_by_label("Choose").count() == 0


def test_an_edit_is_reviewed_saved_and_taken_back(service: PageService, open_page: Open) -> None:
    page = open_page(service, "catalog/get_current_weather")
    before = service.registry.tool("get_current_weather").tool.description
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Description").fill("Says whether it rains\u202e")
    page.get_by_role("button", name="Review the change").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(before)
    expect(dialog).to_contain_text("Says whether it rains⟨U+202E⟩")
    dialog.get_by_label("Reason").fill("shorter")
    dialog.get_by_role("button", name="Save").click()
    expect(page.get_by_text("saved as version 2")).to_be_visible()
    details = page.locator("section", has=page.get_by_role("heading", name="Details"))
    expect(details).to_contain_text("Says whether it rains⟨U+202E⟩")
    (newest, _) = service.registry.history("get_current_weather")
    assert (newest.version, newest.reason) == (2, "shorter")

    page.locator("summary", has_text="Version 1").click()
    page.get_by_role("button", name="Go back to this version").click()
    page.get_by_role("dialog").get_by_role("button", name="Go back").click()
    expect(page.get_by_text("saved as version 3")).to_be_visible()
    assert service.registry.tool("get_current_weather").tool.description == before


def test_the_second_of_two_people_who_edit_a_tool_is_informed_and_loses_nothing(
    service: PageService, open_page: Open
) -> None:
    page = open_page(service, "catalog/get_current_weather")
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Description").fill("Mine")
    service.registry.with_actor("bob").update(
        "get_current_weather", {"description": "Theirs\u202e", "summary": "Their summary"}, version=1
    )
    page.get_by_role("button", name="Review the change").click()
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    conflict = page.get_by_role("alert")
    expect(conflict).to_contain_text("Version 2 by bob")
    expect(conflict).to_contain_text("Theirs⟨U+202E⟩")
    expect(page.get_by_label("Description")).to_have_value("Mine")
    expect(page.get_by_label("Summary")).to_have_value("Their summary")

    page.get_by_role("button", name="Review the change").click()
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(page.get_by_text("saved as version 3")).to_be_visible()
    tool = service.registry.tool("get_current_weather").tool
    assert (tool.description, tool.summary) == ("Mine", "Their summary")


def test_a_reader_sees_no_button_that_changes_anything(service: PageService, open_page: Open) -> None:
    page = open_page(service, "catalog/get_current_weather", "reader")
    expect(page.get_by_role("heading", name="get_current_weather")).to_be_visible()
    expect(page.get_by_role("heading", name="Versions")).to_be_visible()
    assert page.get_by_role("button", name="Edit").count() == 0
    assert page.evaluate(_EDIT, "get_current_weather") == 403  # whoever makes the request by hand is refused
    assert service.registry.tool("get_current_weather").version == 1


_EDIT = """async name => {
  const headers = { 'Content-Type': 'application/json', 'X-Toolroll-Page': '1', 'If-Match': '*' }
  const path = `/internal/tool-registry/tools/${name}`
  return (await fetch(path, { method: 'PUT', headers, body: JSON.stringify({ summary: 'x' }) })).status
}"""


def test_a_rule_is_previewed_before_it_is_saved_and_then_decides(
    service: PageService, open_page: Open
) -> None:
    page = open_page(service, "access")
    expect(page.get_by_text("No rule hides anything")).to_be_visible()
    page.get_by_role("button", name="New rule").click()
    page.get_by_label("Name", exact=True).fill("interns do not ask for weather")
    page.get_by_label("What", exact=True).select_option("tool")
    page.get_by_label("Tool", exact=True).fill("get_current_weathr")
    page.get_by_label("Value").fill("intern")
    expect(page.get_by_role("alert")).to_contain_text("get_current_weather")  # the service suggests it
    page.get_by_label("Tool", exact=True).fill("get_current_weather")
    preview = page.get_by_role("region", name="Callers who gain or lose tools")
    intern = preview.get_by_role("row").filter(has_text="Role intern")
    expect(intern).to_contain_text("loses 1")
    expect(page.get_by_text("also counts for callers of whom the role")).to_be_visible()
    intern.get_by_text("loses 1").click()
    expect(intern.get_by_text("get_current_weather")).to_be_visible()
    assert service.registry.rules.list() == ()

    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("is saved")).to_be_visible()
    (rule,) = service.registry.rules.list()
    assert (rule.rule.effect, rule.rule.condition, rule.rule.tool) == (
        "deny",
        {"role": "intern"},
        "get_current_weather",
    )
    page.get_by_role("link", name="Why", exact=True).click()
    page.get_by_label("Tool", exact=True).fill("get_current_weather")
    page.get_by_label("Roles").fill("intern")
    page.wait_for_timeout(1_500)  # the service follows the registry within a second
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_text("does not see get_current_weather")).to_be_visible()
    expect(page.get_by_text("Decided by rule interns do not ask for weather")).to_be_visible()


def test_the_second_of_two_people_who_edit_a_rule_is_informed_and_loses_nothing(
    service: PageService, open_page: Open
) -> None:
    rule = Rule("no weather", "deny", "role", {"role": "intern"}, tool="get_current_weather")
    service.registry.rules.add(rule)
    page = open_page(service, "access")
    page.get_by_role("button", name="Edit no weather").click()
    page.get_by_label("Value").fill("guest")
    service.registry.with_actor("bob").rules.update("no weather", {"priority": 7}, version=1)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("Version 2 by bob")
    expect(page.get_by_label("Value")).to_have_value("guest")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("is saved")).to_be_visible()
    saved = service.registry.rules.get("no weather").rule
    assert saved.condition == {"role": "guest"}

    page.get_by_role("button", name="Edit no weather").click()
    page.get_by_role("button", name="Delete the rule").click()
    expect(page.get_by_text("is deleted")).to_be_visible()
    assert service.registry.rules.list() == ()


def test_a_cell_of_the_matrix_adds_a_toolkit_to_a_page(service: PageService, open_page: Open) -> None:
    page = open_page(service, "access/pages")
    page.get_by_label("New page").fill("greenhouse*")
    page.get_by_role("button", name="Add").click()
    page.get_by_label("weather on greenhouse*").click()
    expect(page.get_by_label("weather on greenhouse*")).to_be_checked()
    (mapping,) = (each for each in service.registry.pages.list("") if each.mapping.pattern == "greenhouse*")
    assert mapping.mapping.toolkits == ("weather",)
    page.get_by_label("weather on greenhouse*").click()
    expect(page.get_by_text("greenhouse* has no toolkits any more")).to_be_visible()


def test_tiers_settings_and_pins_are_changed_for_the_organisation_that_is_chosen(
    service: PageService, open_page: Open
) -> None:
    page = open_page(service, "access/organisation")
    page.get_by_label("Tiers, lowest first").fill("free, pro, max")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("The tiers are saved")).to_be_visible()
    assert service.registry.tiers() == ("free", "pro", "max")
    page.get_by_label("Organisation").fill("acme")
    page.keyboard.press("Enter")
    page.get_by_label("Setting with a value").fill("mail_url")
    page.keyboard.press("Enter")
    expect(page.get_by_label("mail_url has a value")).to_be_checked()
    page.get_by_label("Always select this tool").fill("get_current_weather")
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="get_current_weather")).to_be_visible()
    (pin,) = service.registry.pins.list("acme")
    assert (pin.tool, service.registry.settings.present("acme") >= {"mail_url"}) == (
        "get_current_weather",
        True,
    )


def test_a_reader_sees_who_sees_what_and_no_button_that_changes_it(
    service: PageService, open_page: Open
) -> None:
    service.registry.rules.add(Rule("no weather", "deny", "role", {"role": "intern"}, toolkit="weather"))
    service.registry.pages.add(PageMapping("greenhouse*", ("weather",)))
    page = open_page(service, "access", "reader")
    expect(page.get_by_role("rowheader", name="no weather")).to_be_visible()
    for part in ("Rules", "Pages", "Organisation"):
        page.get_by_role("link", name=part, exact=True).click()
        expect(page.get_by_role("main").get_by_role("heading", level=2).first).to_be_visible()
        assert page.get_by_role("main").get_by_role("button").count() == 0
        assert page.get_by_role("main").get_by_role("checkbox").count() == 0


def test_what_waits_is_compared_and_many_changes_are_approved_at_once(
    service: PageService, open_page: Open
) -> None:
    tools = [Tool(f"ping_{number}", "Asks whether a host is there") for number in range(3)]
    service.registry.sync(tools, plugin="net", plugin_version="1", review="all")
    service.registry.propose("get_current_weather", {"description": "Rain\u200b or not"}, version=1)
    page = open_page(service, "approval")
    changed = page.get_by_role("region", name="get_current_weather")
    expect(changed).to_contain_text(service.registry.history("get_current_weather")[1].tool.description)
    expect(changed).to_contain_text("Rain⟨U+200B⟩ or not")
    page.get_by_label("All", exact=True).check()
    page.get_by_label("Choose ping_2").uncheck()
    service.registry.update("ping_0", {"description": "Other"}, version=1)
    page.get_by_role("button", name="Approve 3").click()
    expect(page.get_by_role("alert").filter(has_text="ping_0")).to_be_visible()
    expect(page.get_by_role("region", name="get_current_weather")).to_have_count(0)
    assert service.registry.tool("get_current_weather").review == "approved"
    assert service.registry.tool("ping_1").review == "approved"

    assert service.registry.tool("ping_0").review == "pending"  # nobody has read its new text

    page.get_by_label("All", exact=True).check()
    page.get_by_role("button", name="Reject 2").click()
    expect(page.get_by_text("2 changes are rejected")).to_be_visible()
    expect(page.get_by_text("Nothing waits for approval")).to_be_visible()


def test_one_change_is_approved_from_its_own_card(service: PageService, open_page: Open) -> None:
    service.registry.propose("get_current_weather", {"description": "Rain or not"}, version=1)
    page = open_page(service)
    page.get_by_role("link", name="1 change awaits approval").click()
    page.get_by_role("button", name="Approve get_current_weather").click()
    expect(page.get_by_text("One tool is approved.")).to_be_visible()
    assert service.registry.tool("get_current_weather").review == "approved"


def test_a_reader_reads_what_waits_and_decides_nothing(service: PageService, open_page: Open) -> None:
    service.registry.propose("get_current_weather", {"description": "Rain or not"}, version=1)
    page = open_page(service, "approval", "reader")
    expect(page.get_by_role("region", name="get_current_weather")).to_contain_text("Rain or not")
    assert page.get_by_role("main").get_by_role("button").count() == 0
    assert page.get_by_role("main").get_by_role("checkbox").count() == 0


def test_a_plugin_shows_its_last_sync_and_what_it_changed(service: PageService, open_page: Open) -> None:
    tools = [Tool(f"ping_{number}", "Asks whether a host is there") for number in range(3)]
    page = open_page(service, "plugins", "reader")
    expect(page.get_by_text("No plugin has registered tools")).to_be_visible()
    service.registry.sync(tools, plugin="net", plugin_version="1.2.0")
    service.registry.sync(tools[:2], plugin="net", plugin_version="1.3.0")
    page.reload()
    card = page.get_by_role("region", name="net")
    expect(card).to_contain_text("1.3.0")
    expect(card).to_contain_text("no calls for a day")
    expect(card).to_contain_text("no call was timed")
    expect(card).to_contain_text("none in 31 days")
    card.get_by_text("1 deleted").click()
    expect(card.get_by_text("ping_2")).to_be_visible()
    new = Tool("trace_route", "Names the hosts on the way to a host")
    service.registry.sync([*tools[:2], new], plugin="net", plugin_version="1.4.0", review="all")
    page.reload()
    expect(page.get_by_role("region", name="net")).to_contain_text("1 awaits approval")


def test_plugins_say_what_callers_saw_in_the_last_day_and_are_put_in_order(
    service: PageService, open_page: Open
) -> None:
    service.registry.sync([Tool("ping", "Asks whether a host is there")], plugin="net")
    service.registry.sync([Tool("transmit_fax", "Transmits a fax by telephone")], plugin="fax")
    service.registry.sync([Tool("fold_origami", "Folds paper to a bird")], plugin="paper")
    with Toolroll.open(service.url) as roll:
        for turn in range(12):
            picked = roll.select("is the host there? ping it", Context(user=f"user {turn}"))
            roll.record(picked, {"ping": {"succeeded": turn < 4, "duration_ms": 1_500}})
        for turn in range(4):
            picked = roll.select("transmit a fax", Context(user=f"user {turn}"))
            roll.record(picked, {"transmit_fax": turn > 0})
    page = open_page(service, "plugins", "reader")
    net, fax, paper = (page.get_by_role("region", name=name, exact=True) for name in ("net", "fax", "paper"))
    expect(net).to_contain_text("1 tool left out since")
    expect(net.get_by_role("link", name="ping", exact=True)).to_be_visible()
    expect(net).to_contain_text("8 of 12 calls")
    expect(net).to_contain_text("mean 1.5 s")
    expect(net).to_contain_text(re.compile(r"Last failure\s*after"))
    expect(fax).to_contain_text("some calls fail")
    expect(fax).to_contain_text("no call was timed")
    expect(paper).to_contain_text("no calls for a day")
    cards = page.locator("section.card h2")
    for order, first in (("Slowest", "net"), ("By name", "fax"), ("Changed last", "paper")):
        page.get_by_label("Order").select_option(label=order)
        expect(cards.first).to_contain_text(first)


def test_the_overview_shows_selections_over_time_by_hour_and_by_day(
    service: PageService, open_page: Open
) -> None:
    page = open_page(service)
    expect(page.get_by_role("img", name="Selections over time")).to_be_visible()
    card = page.locator("section", has=page.get_by_role("heading", name="Selections over time"))
    for period, per in (("7 days", "By day"), ("24 hours", "By hour")):
        page.get_by_role("button", name=period).click()
        expect(card.get_by_text(per)).to_be_visible()
        if not card.get_by_role("region", name="Selections over time").is_visible():
            card.get_by_text("As a table").click()
        counts = card.get_by_role("cell").all_inner_texts()
        assert sum(int(count) for count in counts) == 60
    expect(page.get_by_role("img", name="Success over time")).to_be_visible()
    sizes = (
        "element => [element.getBoundingClientRect().bottom, document.documentElement.scrollHeight - scrollY]"
    )
    side, whole = page.get_by_role("banner").evaluate(sizes)
    assert side == pytest.approx(whole, abs=1)  # the ground of the navigation reaches the end of the page


def test_the_overview_says_what_fails_and_since_when(service: PageService, open_page: Open) -> None:
    """Nothing of this service fails, so the probe and the log answer as those of another service."""
    page = open_page(service, "catalog")
    health = {"ready": True, "degraded": ["embedder"], "catalog_revision": "x"}
    failed = {
        "part": "embedder",
        "selections": 7,
        "first": "2026-03-01T10:00:00Z",
        "last": "2026-03-01T11:00:00Z",
    }
    timeline = {"per": "day", "points": [], "degraded": [failed]}
    page.route("**/readyz", lambda route: route.fulfill(json=health))
    page.route("**/analytics/timeline*", lambda route: route.fulfill(json=timeline))
    page.get_by_role("link", name="Overview").click()
    expect(page.get_by_role("status").filter(has_text="parts fail")).to_contain_text(
        re.compile("embedder .since .*Mar 1")
    )


def test_a_lost_connection_is_said_and_found_again(service: PageService, open_page: Open) -> None:
    page = open_page(service, "catalog")
    expect(page.get_by_role("table", name="Tools")).to_be_visible()
    service.stop()
    page.get_by_label("Search names").fill("weather")
    expect(page.get_by_role("alert")).to_contain_text("does not answer")
    expect(page.get_by_role("table", name="Tools")).to_be_visible()
    service.start_again()
    expect(page.get_by_role("alert")).to_have_count(0)  # the page tries again by itself


def test_what_is_typed_outlives_a_lost_connection(service: PageService, open_page: Open) -> None:
    page = open_page(service, "catalog/get_current_weather")
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Summary").fill("Typed for an hour")
    page.get_by_role("button", name="Review the change").click()
    service.stop()
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("does not answer")
    expect(page.get_by_label("Summary")).to_have_value("Typed for an hour")
    service.start_again()
    page.get_by_role("button", name="Review the change").click()
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(page.get_by_text("saved as version 2")).to_be_visible()
    assert service.registry.tool("get_current_weather").tool.summary == "Typed for an hour"


def test_a_tool_is_found_edited_and_saved_by_keyboard_alone(service: PageService, open_page: Open) -> None:
    page = open_page(service, key="")
    page.get_by_label("Service key").fill(service.keys["admin"])
    page.keyboard.press("Enter")
    expect(page.get_by_text("Selections work")).to_be_visible()

    def go_to(name: str, most: int = 60, key: str = "Tab") -> None:
        """Presses a key until what is focused has this name."""
        for _ in range(most):
            page.keyboard.press(key)
            if page.evaluate(_FOCUSED).startswith(name):
                return
        pytest.fail(f"{name} is not reached by {key}")

    go_to("Catalog")
    page.keyboard.press("Enter")
    expect(page.get_by_role("table", name="Tools")).to_be_visible()
    go_to("Search names")
    page.keyboard.type("get_current_weather")
    expect(page.get_by_text(re.compile(r"^[1-9] tools?$"))).to_be_visible()
    go_to("get_current_weather")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="get_current_weather")).to_be_visible()
    go_to("Edit")
    page.keyboard.press("Enter")
    go_to("Summary")
    page.keyboard.type("By keyboard")
    go_to("Review the change")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(
        0
    )  # gone, not only hidden: the page knows that it was closed
    expect(page.get_by_role("button", name="Review the change")).to_be_focused()  # as before the dialog
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    go_to("Save", most=8)
    page.keyboard.press("Enter")
    expect(page.get_by_text("saved as version 2")).to_be_visible()
    assert service.registry.tool("get_current_weather").tool.summary == "By keyboard"


_FOCUSED = """() => {
  const at = document.activeElement
  return at.getAttribute('aria-label') ?? at.labels?.[0]?.textContent ?? at.textContent
}"""


def test_organisations_are_proposed_by_name(service: PageService, open_page: Open) -> None:
    page = open_page(service)
    known = page.locator("datalist option")
    expect(known).to_have_count(2)  # acme has a key, globex an experiment and outcomes
    page.get_by_label("Organisation").fill("acm")
    expect(known).to_have_count(1)


def test_the_heatmap_counts_what_is_chosen(service: PageService, open_page: Open) -> None:
    page = open_page(service, "analytics", "reader")
    heat = page.get_by_role("region", name="Tools by page")

    def total() -> int:
        expect(page.get_by_text("Loading…")).to_have_count(0)
        return sum(int(text or 0) for text in heat.locator(".cell").all_inner_texts())

    expect(heat.get_by_role("columnheader", name="crm")).to_be_visible()
    called = total()
    assert called == 48
    page.get_by_role("button", name="Succeeded").click()
    page.wait_for_load_state("networkidle")
    expect(page.get_by_role("button", name="Succeeded")).to_have_attribute("aria-pressed", "true")
    page.wait_for_function(
        "most => [...document.querySelectorAll('.cell')].reduce((sum, cell) => sum + Number(cell.innerText), 0) < most",
        arg=called,
    )
    assert total() == 41


def test_analytics_show_what_fails_what_is_unused_and_how_experiments_do(
    service: PageService, open_page: Open
) -> None:
    service.registry.sync([Tool("ping", "Asks whether a host is there")], plugin="net")
    with Toolroll.open(service.url) as roll:
        for turn in range(12):
            picked = roll.select("is the host there? ping it", Context(user=f"user {turn}"))
            roll.record(picked, {"ping": turn < 4})
        for turn in range(3):
            picked = roll.select("should I bring an umbrella?", Context(user=f"user {turn}"))
            roll.record(picked, {picked.names[0]: True})
    page = open_page(service, "analytics", "reader")
    broken = page.get_by_role("region", name="Tools that stopped working")
    expect(broken.get_by_role("row").filter(has_text="ping")).to_contain_text("left out since")
    expect(page.get_by_role("img", name="Hit rate over time")).to_be_visible()
    plugins = page.get_by_role("region", name="Calls of plugins").first
    expect(plugins.get_by_role("row").filter(has_text="net")).to_contain_text("8 (66.7%)")
    expect(plugins).to_contain_text("No call has said how long it took")
    tools = page.get_by_role("region", name="Calls of tools").first
    expect(tools).to_contain_text("No call has said how long it took")
    tools.get_by_role("button", name="Most failures").click()
    expect(tools.get_by_role("row").nth(1)).to_contain_text("8 (66.7%)")
    arms = page.get_by_role("region", name="Reliability of tools")
    expect(arms.get_by_role("row").nth(1)).to_contain_text("ping")  # the least reliable one
    expect(arms.get_by_role("img").first).to_have_attribute("aria-label", re.compile("% to "))
    unused = page.locator("section", has=page.get_by_role("heading", name="Unused tools"))
    unused.get_by_text("Never selected").click()
    expect(unused.get_by_role("link", name="browser_click", exact=True)).to_be_visible()
    experiment = page.get_by_role("region", name="ranking")
    expect(experiment.get_by_role("row").filter(has_text="learned")).to_contain_text("50%")


def test_analytics_show_which_plugins_and_tools_are_slow(service: PageService, open_page: Open) -> None:
    service.registry.sync([Tool("ping", "Asks whether a host is there")], plugin="net")
    service.registry.sync([Tool("transmit_fax", "Transmits a fax by telephone")], plugin="fax")
    with Toolroll.open(service.url) as roll:
        for turn in range(3):
            picked = roll.select("is the host there? ping it", Context(user=f"user {turn}"))
            roll.record(picked, {"ping": {"succeeded": True, "duration_ms": 40}})
            picked = roll.select("transmit a fax", Context(user=f"user {turn}"))
            roll.record(picked, {"transmit_fax": {"succeeded": turn > 0, "duration_ms": 90_000}})
    page = open_page(service, "analytics", "reader")
    plugins = page.get_by_role("region", name="Calls of plugins").first
    rows = plugins.get_by_role("row")
    expect(rows.nth(1)).to_contain_text("fax")  # it failed
    expect(rows.nth(1)).to_contain_text("1.5 min")
    expect(rows.nth(2)).to_contain_text("40 ms")
    title = plugins.get_by_role("columnheader", name="p95").first
    title.get_by_role("button").click()
    expect(title).to_have_attribute("aria-sort", "descending")
    expect(rows.nth(1)).to_contain_text("fax")
    title.get_by_role("button").press("Enter")
    expect(title).to_have_attribute("aria-sort", "ascending")
    expect(rows.nth(1)).to_contain_text("net")
    tools = page.get_by_role("region", name="Calls of tools").first
    expect(tools.get_by_role("row").nth(1)).to_contain_text("transmit_fax")
    tools.get_by_role("button", name="Most calls").click()
    expect(tools.get_by_role("button", name="Most calls")).to_have_attribute("aria-pressed", "true")


def test_an_empty_registry_says_what_to_do(database_url: str, open_page: Open) -> None:
    with page_service(database_url, has_tools=False) as service:
        page = open_page(service)
        expect(page.get_by_text("No selections in this period")).to_be_visible()
        page.get_by_role("link", name="Catalog").click()
        expect(page.get_by_text("The registry has no tools yet")).to_be_visible()
        expect(page.get_by_text("toolroll import")).to_be_visible()
        go_through_views(page, service)


def go_through_views(page: Page, service: PageService) -> None:
    """Opens each view; it must say something, and nothing that went wrong."""
    for view in VIEWS:
        if view.startswith("catalog/"):
            continue
        page.goto(f"{service.base}/admin/#/{view}")
        expect(page.locator("h1")).to_be_visible()
        expect(page.get_by_text("Loading…")).to_have_count(0)
        page.wait_for_load_state("networkidle")
        assert page.get_by_role("alert").count() == 0, view
        assert "NaN" not in page.locator("main").inner_text(), view


def test_an_organisation_with_nothing_sees_nothing_of_others(service: PageService, open_page: Open) -> None:
    page = open_page(service, key="acme")
    expect(page.get_by_text("No selections in this period")).to_be_visible()
    expect(page.get_by_label("Organisation")).to_have_count(0)
    page.get_by_role("link", name="Catalog").click()
    expect(page.get_by_text("acme has no tools of its own")).to_be_visible()
    expect(page.get_by_text("--org acme")).to_be_visible()
    go_through_views(page, service)


@pytest.mark.parametrize("key", ["acme", "admin"], ids=["its key", "chosen"])
def test_an_organisation_without_rules_is_told_that_the_platforms_apply(
    service: PageService, open_page: Open, key: str
) -> None:
    service.registry.rules.add(Rule("no air", "deny", "composite", {"all": []}, tool="get_air_quality"))
    page = open_page(service, "access", key)
    if key == "admin":
        page.get_by_label("Organisation").fill("acme")
        page.keyboard.press("Enter")
    expect(page.get_by_text("acme has no rules of its own")).to_be_visible()
    expect(page.get_by_text("The rules of the platform apply to it, too.")).to_be_visible()
    expect(page.get_by_text("Everybody sees every active tool")).to_have_count(0)


def test_a_tool_of_the_platform_is_read_and_not_edited_where_an_organisation_is_chosen(
    service: PageService, open_page: Open
) -> None:
    page = open_page(service)
    page.get_by_label("Organisation").fill("neworg")
    page.keyboard.press("Enter")
    page.evaluate("location.hash = '#/catalog/get_current_weather'")
    expect(page.get_by_text("a tool of the platform")).to_be_visible()
    expect(page.get_by_role("heading", name="Versions")).to_be_visible()
    assert page.get_by_role("button", name="Edit").count() == 0
    assert page.get_by_role("alert").count() == 0


def test_a_key_of_an_organisation_reads_the_platforms_tools_that_reach_it(
    service: PageService, open_page: Open
) -> None:
    service.registry.rules.add(
        Rule("no air", "deny", "org", {"org": "acme"}, tool="get_air_quality", priority=9)
    )
    page = open_page(service, "catalog", "acme")
    page.get_by_role("button", name="See the tools of the platform").click()
    tools = page.get_by_role("table", name="Tools")
    expect(tools.get_by_role("link", name="control_pc", exact=True)).to_be_visible()
    expect(page.get_by_role("status").filter(has_text="only the platform edits them")).to_be_visible()
    assert tools.get_by_role("checkbox").count() == 0
    page.get_by_label("Search names").fill("get_")
    expect(tools.get_by_role("link", name="control_pc", exact=True)).to_have_count(0)
    assert tools.get_by_role("link", name="get_air_quality", exact=True).count() == 0
    tools.get_by_role("link", name="get_current_weather", exact=True).click()
    expect(page.get_by_text("a tool of the platform")).to_be_visible()
    assert page.get_by_role("button", name="Edit").count() == 0
    assert page.get_by_role("heading", name="Versions").count() == 0  # they name people
    assert page.get_by_role("alert").count() == 0
    page.evaluate("location.hash = '#/catalog/get_air_quality'")
    expect(page.get_by_text("acme has no tool of this name")).to_be_visible()
    assert page.get_by_role("alert").count() == 0


def test_all_versions_of_a_tool_are_read(service: PageService, open_page: Open) -> None:
    for number in range(1, 60):
        service.registry.update("get_current_weather", {"summary": f"Summary {number}"}, version=number)
    page = open_page(service, "catalog/get_current_weather")
    versions = page.locator("section", has=page.get_by_role("heading", name="Versions"))
    expect(versions.get_by_role("heading")).to_contain_text("60")
    assert versions.locator("details").count() == 50
    page.get_by_role("button", name="Show older versions").click()
    expect(versions.locator("details")).to_have_count(60)
    expect(page.get_by_role("button", name="Show older versions")).to_have_count(0)


def test_a_box_fades_at_the_edges_beyond_which_there_is_more(service: PageService, open_page: Open) -> None:
    service.registry.pages.add(PageMapping("greenhouse*", ("weather",)))
    page = open_page(service, "access/pages")
    matrix = page.get_by_role("region", name="Toolkits by page")
    expect(matrix).to_have_attribute("data-more", "below")
    matrix.evaluate("element => element.scrollTo(0, element.scrollHeight)")
    expect(matrix).to_have_attribute("data-more", "")
    page.set_viewport_size({"width": 390, "height": 800})
    views = page.get_by_role("navigation", name="Views")
    expect(views).to_have_attribute("data-more", re.compile("right|left"))


def test_a_phone_shows_all_of_a_rule_a_score_and_a_past_selection(
    service: PageService, open_page: Open
) -> None:
    service.registry.rules.add(Rule("no weather", "deny", "role", {"role": "intern"}, toolkit="weather"))
    page = open_page(service, "access")
    page.set_viewport_size({"width": 390, "height": 800})
    rules = page.get_by_role("region", name="Rules")
    expect(rules.get_by_role("button", name="Edit no weather")).to_be_in_viewport(ratio=1)
    expect(rules).to_have_attribute("data-more", "")
    page.evaluate("location.hash = '#/playground'")
    page.get_by_role("button", name="Select", exact=True).click()
    expect(page.get_by_role("columnheader", name="Score")).to_be_visible()
    past = page.get_by_role("region", name="Past selections")
    past.scroll_into_view_if_needed()
    expect(past.get_by_role("button", name=re.compile("Replay")).first).to_be_in_viewport(ratio=1)
    expect(past).to_have_attribute("data-more", "below")


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_every_view_fits_a_narrow_phone_with_long_names(
    service: PageService, open_page: Open, colours: str
) -> None:
    long = "mcp_server_of_the_warehouse__getCurrentWeatherForecastOfTheNextFourteenDays"
    unbroken = "x" * 64
    tools = [
        Tool(
            long, "Should I bring an umbrella tomorrow?", examples=("Should I bring an umbrella tomorrow?",)
        ),
        Tool(
            unbroken, "Should I bring an umbrella?", toolkit="a_toolkit_of_the_weather_service_of_the_north"
        ),
    ]
    service.registry.sync(tools, plugin="weather-plugin-of-the-warehouse-in-the-north", review="auto")
    with Toolroll.open(service.url) as roll:
        for turn in range(8):
            picked = roll.select("Should I bring an umbrella tomorrow?", Context(user=f"user {turn}"))
            roll.record(picked, {long: turn > 0, unbroken: {"succeeded": True, "duration_ms": 61_000}})
    service.registry.rules.add(Rule(f"no {unbroken}", "deny", "role", {"role": "intern"}, tool=long))
    page = open_page(service, color_scheme=colours)
    page.set_viewport_size({"width": 360, "height": 740})
    for view in (*VIEWS, f"catalog/{long}"):
        page.goto(f"{service.base}/admin/#/{view}")
        expect(page.locator("h1")).to_be_visible()
        if view == "playground":
            page.get_by_role("button", name="Select", exact=True).click()
            page.get_by_role("button", name=re.compile("^All ")).click()
            page.get_by_label("Find a tool").fill(long[:12])
            found = page.get_by_role("table", name="All").get_by_role("link", name=long, exact=True)
            expect(found).to_be_visible()
            page.locator("summary", has_text="Stages").click()
        expect(page.get_by_text("Loading…")).to_have_count(0)
        page.wait_for_load_state("networkidle")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view
        spilled = page.evaluate(_SPILLED)
        assert spilled == [], view
        if PICTURES:
            path = Path(PICTURES) / f"{view.replace('/', '-')[:30]}-{colours}-360.png"
            page.screenshot(path=path, full_page=True)


# Texts that are drawn beyond the edge of their card, and cells that are narrower than one word of theirs.
_SPILLED = """() => [...document.querySelectorAll('main a.name, main td, main th, main h1, main h2, main dd, main .badge')]
  .filter((at) => {
    const box = at.closest('.scroll, .table') ? null : at.closest('.card, main').getBoundingClientRect()
    return box && at.getClientRects().length && at.getBoundingClientRect().right > box.right + 1
  })
  .map((at) => at.outerHTML.slice(0, 120))"""


def test_charts_begin_with_a_whole_day_or_hour(service: PageService, open_page: Open) -> None:
    page = open_page(service, "catalog")
    for period, start in (("7 days", r"T00%3A00%3A00\.000Z"), ("24 hours", r"T\d\d%3A00%3A00\.000Z")):
        with page.expect_request(re.compile("/analytics/timeline")) as request:
            if period == "7 days":
                page.get_by_role("link", name="Overview").click()
            else:
                page.get_by_role("button", name=period).click()
        assert re.search(start, request.value.url)


def test_an_author_without_a_name_is_known_by_the_address(service: PageService, open_page: Open) -> None:
    author = service.registry.with_actor(" from 127.0.0.1")
    author.update("get_current_weather", {"summary": "Rain or not"}, version=1)
    page = open_page(service, "catalog/get_current_weather")
    newest = page.locator("summary", has_text="Version 2")
    expect(newest).to_contain_text("from 127.0.0.1")
    expect(newest).not_to_contain_text("by")


def test_ten_thousand_tools_are_drawn_by_the_rows_in_sight(service: PageService, open_page: Open) -> None:
    service.registry.import_([Tool(f"made_{number:05}", f"Makes {number}") for number in range(10_000)])
    page = open_page(service, "catalog")
    table = page.get_by_role("table", name="Tools")
    expect(table).to_be_visible()
    in_all = service.registry.tools(limit=1).total
    assert in_all is not None
    expect(page.get_by_role("status").filter(has_text=f"{in_all:,} tools")).to_be_visible()
    expect(table).to_have_attribute("aria-rowcount", str(in_all + 1))
    page.get_by_label("Search names").fill("made_09")
    expect(page.get_by_role("status").filter(has_text="1,000 tools")).to_be_visible()
    page.get_by_label("Search names").fill("")
    expect(page.get_by_role("status").filter(has_text=f"{in_all:,} tools")).to_be_visible()
    for _ in range(120):
        table.evaluate("element => element.scrollTo(0, element.scrollHeight)")
        page.wait_for_timeout(100)
        assert table.get_by_role("row").count() < 80
        if page.get_by_role("link", name="made_09999", exact=True).count():
            break
        page.wait_for_load_state("networkidle")
    expect(table).to_have_attribute("aria-rowcount", str(in_all + 1))


@pytest.mark.skipif(not AXE.is_file(), reason="axe-core is not installed: npm ci in web/")
@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_in_any_view(
    service: PageService, open_page: Open, colours: str, width: int
) -> None:
    page = open_page(service, color_scheme=colours, bypass_csp=True)
    page.set_viewport_size({"width": width, "height": 800})
    for view in VIEWS:
        page.goto(f"{service.base}/admin/#/{view}")
        expect(page.locator("h1")).to_be_visible()
        if view == "playground":
            if width < 600:
                page.get_by_text("Context and limits").click()
            page.get_by_label("Compare with").select_option("learned")
            page.get_by_role("button", name="Select", exact=True).click()
            expect(page.get_by_role("region", name="Selection by default")).to_be_visible()
            page.locator("summary", has_text="Stages").first.click()
            page.get_by_text("What if…").click()
        if view == "access":
            page.get_by_role("button", name="New rule").click()
        if view == "catalog":
            page.get_by_label("Choose activate_scene").check()
        expect(page.get_by_text("Loading…")).to_have_count(0)
        page.wait_for_load_state("networkidle")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view
        if PICTURES:
            name = f"{view.replace('/', '-')}-{colours}-{width}.png"
            page.screenshot(path=Path(PICTURES) / name, full_page=True)
        page.add_script_tag(path=AXE)
        found = page.evaluate("axe.run()")["violations"]
        assert [(each["id"], each["nodes"][0]["html"]) for each in found] == [], view
