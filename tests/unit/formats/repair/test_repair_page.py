from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import toolroll.formats.repair

PAGE = (Path(__file__).parents[4] / "docs" / "repair.md").read_text("utf-8")


def test_the_examples_of_the_page_run():
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 9
    exec(compile("\n".join(blocks), "docs/repair.md", "exec"), {})


def test_every_function_of_the_kit_is_on_the_page():
    functions = [
        name for name in toolroll.formats.repair.__all__ if name[0].islower() and name != "claims_action"
    ]
    for name in (*functions, "CostMonitor", "CostLimits", "Injection", "relax"):
        assert f"`{name}" in PAGE or f"{name}(" in PAGE, name


def test_the_kit_is_imported_by_nobody_who_does_not_ask_for_it():
    script = "import sys, toolroll; assert 'toolroll.formats.repair' not in sys.modules; import toolroll.formats.repair; assert 're2' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)
