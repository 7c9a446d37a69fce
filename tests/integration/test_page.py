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
from toolroll.server.page import FOLDER
from toolroll.tools import Tool

AXE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
expect.set_options(timeout=20_000)  # machines that build and test at once are slow
VIEWS = ("overview", "playground", "catalog", "catalog/get_current_weather", "analytics")
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
            expect(page.get_by_role("navigation")).to_be_visible()
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
    from toolroll.registry.accounts import Accounts

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

    mine.get_by_role("button", name=re.compile("Left out")).click()
    expect(mine.get_by_role("table", name="Left out").get_by_role("row").nth(1)).to_contain_text(
        re.compile("not among|cut|below|no settings")
    )
    mine.get_by_text("Stages").click()
    expect(mine.get_by_role("region", name="Stages").get_by_role("row").nth(1)).to_be_visible()


def test_the_catalog_is_searched_and_shows_a_tool(service: PageService, open_page: Open) -> None:
    page = open_page(service, "catalog")
    page.get_by_label("Search names").fill("umbrella, or nothing")
    expect(page.get_by_text("No tool meets these conditions")).to_be_visible()
    page.get_by_label("Search names").fill("get_current_weather")
    page.get_by_role("link", name="get_current_weather", exact=True).click()
    expect(page.get_by_role("heading", name="get_current_weather")).to_be_visible()
    expect(page.get_by_role("region", name="Parameters")).to_be_visible()


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
        "get_current_weather", {"description": "Theirs", "summary": "Their summary"}, version=1
    )
    page.get_by_role("button", name="Review the change").click()
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    conflict = page.get_by_role("alert")
    expect(conflict).to_contain_text("Version 2 by bob")
    expect(conflict).to_contain_text("Theirs")
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


def test_a_lost_connection_is_said_and_found_again(service: PageService, open_page: Open) -> None:
    page = open_page(service, "catalog")
    expect(page.get_by_role("table", name="Tools")).to_be_visible()
    service.stop()
    page.get_by_label("Search names").fill("weather")
    expect(page.get_by_role("alert")).to_contain_text("does not answer")
    expect(page.get_by_role("table", name="Tools")).to_be_visible()
    service.start_again()
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("alert")).to_have_count(0)


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


def test_an_empty_registry_says_what_to_do(database_url: str, open_page: Open) -> None:
    with page_service(database_url, has_tools=False) as service:
        page = open_page(service)
        expect(page.get_by_text("No selections in this period")).to_be_visible()
        page.get_by_role("link", name="Catalog").click()
        expect(page.get_by_text("The registry has no tools yet")).to_be_visible()
        expect(page.get_by_text("toolroll import")).to_be_visible()


def test_an_organisation_with_nothing_sees_nothing_of_others(service: PageService, open_page: Open) -> None:
    page = open_page(service, key="acme")
    expect(page.get_by_text("No selections in this period")).to_be_visible()
    expect(page.get_by_label("Organisation")).to_have_count(0)
    page.get_by_role("link", name="Catalog").click()
    expect(page.get_by_text("The registry has no tools yet")).to_be_visible()


def test_ten_thousand_tools_are_drawn_by_the_rows_in_sight(service: PageService, open_page: Open) -> None:
    service.registry.import_([Tool(f"made_{number:05}", f"Makes {number}") for number in range(10_000)])
    page = open_page(service, "catalog")
    table = page.get_by_role("table", name="Tools")
    expect(table).to_be_visible()
    for _ in range(40):
        table.evaluate("element => element.scrollTo(0, element.scrollHeight)")
        page.wait_for_timeout(100)
        assert table.get_by_role("row").count() < 80
        if page.get_by_role("link", name="made_09999", exact=True).count():
            break
        page.wait_for_load_state("networkidle")
    expect(table).to_have_attribute("aria-rowcount", re.compile(r"^1\d{4}$"))


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
            page.get_by_label("Compare with").select_option("learned")
            page.get_by_role("button", name="Select", exact=True).click()
            expect(page.get_by_role("region", name="Selection by default")).to_be_visible()
        expect(page.get_by_text("Loading…")).to_have_count(0)
        page.wait_for_load_state("networkidle")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view
        if PICTURES:
            name = f"{view.replace('/', '-')}-{colours}-{width}.png"
            page.screenshot(path=Path(PICTURES) / name, full_page=True)
        page.add_script_tag(path=AXE)
        found = page.evaluate("axe.run()")["violations"]
        assert [(each["id"], each["nodes"][0]["html"]) for each in found] == [], view
