"""The pictures in the docs are made by their command, and each of them is shown."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("playwright")
pytest.importorskip("PIL")

from tests.integration.test_page import CHROMIUM
from toolroll.server.page import FOLDER

ROOT = Path(__file__).parents[2]
PICTURES = os.environ.get("TOOLROLL_PICTURES", "")  # a folder for the pictures
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine"),
    pytest.mark.skipif(not (FOLDER / "index.html").is_file(), reason="the page is not built"),
]


@pytest.mark.timeout(300)
def test_the_pictures_of_the_docs_are_those_that_the_command_takes(tmp_path: Path) -> None:
    folder = Path(PICTURES) if PICTURES else tmp_path
    command = [sys.executable, str(ROOT / "tools" / "page_pictures.py"), "--to", str(folder)]
    subprocess.run(command, check=True, timeout=280, stdout=subprocess.DEVNULL)
    taken = {path.name for path in folder.glob("*-light.png")} | {
        path.name for path in folder.glob("*-dark.png")
    }
    there = {path.name for path in (ROOT / "docs" / "page").glob("*.png")}
    shown = set(re.findall(r"page/([\w-]+\.png)", (ROOT / "docs" / "admin.md").read_text()))
    assert taken >= there
    assert there == shown
