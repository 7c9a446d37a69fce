"""Tests do not run with a package that is older than its sources."""

from __future__ import annotations

import os
from pathlib import Path

from tests.stale_core import complaint


def write(path: Path, changed: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.utime(path, (changed, changed))
    return path


def test_a_package_that_is_older_than_a_source_is_named_with_the_command_that_builds_it(tmp_path: Path):
    editable = write(tmp_path / "python" / "toolroll" / "__init__.py", 300)
    copied = tmp_path / ".venv" / "site-packages" / "toolroll" / "__init__.py"
    core = write(tmp_path / "_core.so", 200)
    source = write(tmp_path / "cpp" / "src" / "bm25.cpp", 100)

    assert complaint(editable, core, tmp_path) == ""
    assert f"older than {editable.relative_to(tmp_path)}; run: pip install" in complaint(
        copied, core, tmp_path
    )
    write(source, 400)
    assert f"older than {source.relative_to(tmp_path)}; run: pip install" in complaint(
        editable, core, tmp_path
    )
