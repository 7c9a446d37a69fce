"""Files that commands replace."""

from __future__ import annotations

from pathlib import Path

from toolroll.runtime.files import replace_file


def test_a_replaced_file_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text("{}")
    file.chmod(0o600)
    replace_file(file, b"[]")
    assert file.read_text() == "[]"
    assert file.stat().st_mode & 0o777 == 0o600
