from __future__ import annotations

import sys

from tests.table import each_row
from toolroll.cli import main


@each_row("words", ["doctor", "serve", "--mode all", "status", "import cursor"])
def test_without_the_extra_a_command_says_what_to_install(monkeypatch, capsys, words):
    for name in list(sys.modules):
        if name.startswith("toolroll.gateway"):
            monkeypatch.delitem(sys.modules, name)
    for package in ("anyio", "pydantic", "platformdirs"):
        monkeypatch.setitem(sys.modules, package, None)
    assert main(["mcp", *words.split()]) == 1
    assert "pip install 'toolroll[mcp]'" in capsys.readouterr().err
