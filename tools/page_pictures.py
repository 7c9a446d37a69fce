"""Takes the pictures of the admin page that docs/admin.md shows: `python tools/page_pictures.py`.

Serves demonstration data, opens each view in Chromium, light and dark, and writes docs/page/<view>-<theme>.png.
Needs the built page (docs/admin.md), the packages playwright and pillow, and a Chromium.
"""

from __future__ import annotations

import argparse
import io
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, expect, sync_playwright


def _select(page: Page) -> None:
    page.get_by_role("button", name="Select", exact=True).click()
    page.get_by_role("table", name="Selected").wait_for()


def _what_if(page: Page) -> None:
    page.get_by_label("Message").fill("do I need a coat?")
    page.get_by_text("What if…").click()
    page.get_by_role("button", name="With other texts").click()
    page.get_by_label("Tool", exact=True).fill("get_air_quality")
    page.keyboard.press("Enter")
    page.get_by_label("Description").fill("Says whether to take a coat, and what to wear")
    page.get_by_label("Examples").fill("do I need a jacket?")
    page.get_by_role("button", name="Select with and without it").click()
    page.get_by_role("region", name="Difference").wait_for()
    page.get_by_role("button", name="Select with and without it").scroll_into_view_if_needed()
    page.mouse.wheel(0, 420)


def _rule(page: Page) -> None:
    page.get_by_role("button", name="New rule").click()
    page.get_by_label("Name", exact=True).fill("interns send no campaigns")
    page.get_by_label("Toolkit", exact=True).fill("campaigns")
    page.get_by_label("Value").fill("intern")
    page.get_by_role("region", name="Callers who gain or lose tools").wait_for()
    page.get_by_text("loses").first.click()


def _nothing(_: Page) -> None:
    """Shows the view as it opens."""


# Name of the picture → the view, and what a person does there.
VIEWS: dict[str, tuple[str, Callable[[Page], None]]] = {
    "overview": ("overview", _nothing),
    "playground": ("playground", _select),
    "what-if": ("playground", _what_if),
    "catalog": ("catalog", _nothing),
    "approval": ("approval", _nothing),
    "rules": ("access", _rule),
    "analytics": ("analytics", _nothing),
}
FOLDER = Path(__file__).parents[1] / "docs" / "page"
MOST_BYTES = 150_000
_START_S = 120


def take(base: str, folder: Path, width: int, *, is_whole: bool) -> None:
    """Takes a picture of each view in both themes. is_whole: down to its end, not only one window of it."""
    executable = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        for theme in ("light", "dark"):
            page = browser.new_context(
                viewport={"width": width, "height": 900}, color_scheme=theme, reduced_motion="reduce"
            ).new_page()
            for name, (view, act) in VIEWS.items():
                page.goto("about:blank")  # so that two pictures of one view begin alike
                page.goto(f"{base}/admin/#/{view}")
                page.locator("h1").wait_for()
                act(page)
                _settle(page)
                _save(page.screenshot(full_page=is_whole), folder / f"{name}-{theme}.png")
        browser.close()


def _settle(page: Page) -> None:
    """Waits until the view has all that it reads."""
    page.wait_for_load_state("networkidle")
    expect(page.get_by_text("Loading…")).to_have_count(0)
    page.mouse.move(0, 0)
    page.wait_for_timeout(200)


def _save(png: bytes, path: Path) -> None:
    """Writes the picture with 256 colours, which a page of text and few colours does not miss."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    picture.quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
    if path.stat().st_size > MOST_BYTES:
        sys.exit(f"{path}: has {path.stat().st_size} bytes, must have at most {MOST_BYTES}")
    print(path.name, path.stat().st_size)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--to", type=Path, default=FOLDER, help="the folder of the pictures")
    parser.add_argument(
        "--base", help="a running service without keys; without it, one with demonstration data starts"
    )
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--whole", action="store_true", help="down to the end of each view")
    arguments = parser.parse_args()
    arguments.to.mkdir(parents=True, exist_ok=True)
    if arguments.base:
        take(arguments.base, arguments.to, arguments.width, is_whole=arguments.whole)
        return
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    base = f"http://127.0.0.1:{port}"
    service = subprocess.Popen([sys.executable, "-m", "toolroll", "serve", "--demo", "--port", str(port)])
    try:
        _wait_for(f"{base}/readyz", service)
        take(base, arguments.to, arguments.width, is_whole=arguments.whole)
    finally:
        service.terminate()
        service.wait()


def _wait_for(url: str, service: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_S
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError as error:
            if service.poll() is not None or time.monotonic() > deadline:
                raise SystemExit("the service does not start") from error
            time.sleep(0.2)


if __name__ == "__main__":
    main()
