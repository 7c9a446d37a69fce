"""The environments that peers run in: ``python -m bench setup`` makes them, from pinned requirements.

``main`` has toolroll itself and every peer that gets along with it; ``semantic-router`` is apart because it
brings litellm. TOOLROLL_BENCH_VENVS names another folder for them than ``bench/.venvs``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_REQUIREMENTS = {"main": "requirements.txt", "semantic-router": "requirements-semantic-router.txt"}


def folder() -> Path:
    """Where the environments are."""
    return Path(os.environ.get("TOOLROLL_BENCH_VENVS") or _HERE / ".venvs").absolute()


def interpreter(name: str) -> Path | None:
    """The Python of one environment, or None where it has not been made."""
    where = "Scripts/python.exe" if os.name == "nt" else "bin/python"
    path = folder() / name / where
    return path if path.exists() else None


def python_for(name: str) -> str:
    """The environment's Python; without it the one that runs now, which may have the peer too."""
    return str(interpreter(name) or sys.executable)


def built_from() -> str | None:
    """The commit that the toolroll in ``main`` was built from, as `setup` noted it."""
    note = folder() / "main" / "built-from"
    return note.read_text().strip() if note.exists() else None


def setup(names: list[str]) -> None:
    """Makes or completes the environments; ``main`` gets this source tree's toolroll, rebuilt."""
    for name in names or list(_REQUIREMENTS):
        if name not in _REQUIREMENTS:
            raise SystemExit(f"bench setup: no environment {name!r}, there are {', '.join(_REQUIREMENTS)}")
        if interpreter(name) is None:
            print(f"{name}: making the environment", flush=True)
            venv.create(folder() / name, with_pip=True)
        python = str(interpreter(name))
        print(f"{name}: installing {_REQUIREMENTS[name]}", flush=True)
        install = [python, "-m", "pip", "install", "-q"]
        subprocess.run([*install, "-r", str(_HERE / _REQUIREMENTS[name])], check=True)
        if name == "main":
            print("main: building toolroll", flush=True)
            again = ["--force-reinstall", "--no-deps", "--no-cache-dir"]  # dependencies: requirements.txt
            subprocess.run([*install, *again, str(_HERE.parent)], check=True)
            commit = [python, "-c", "import bench.machine; print(bench.machine.commit())"]
            built = subprocess.run(commit, cwd=_HERE.parent, capture_output=True, text=True, check=True)
            (folder() / "main" / "built-from").write_text(built.stdout)
