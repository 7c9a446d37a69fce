"""Installs packages of examples/ as a stranger would: with pip, from outside of the tree."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]


def install(folder: Path, *names: str) -> Mapping[str, str]:
    """Installs these packages of examples/ into a folder; the environment of a process that has them too.

    flit_core, which builds them, is in the extra `test`: nothing is downloaded.
    """
    sources = []
    for name in names:  # a copy: pip builds in the folder that it is given
        source = folder / "sources" / name
        source.mkdir(parents=True)
        for file in (ROOT / "examples" / name).iterdir():
            if file.is_file():
                (source / file.name).write_bytes(file.read_bytes())
        sources.append(str(source))
    target = folder / "site"
    command = [
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "--target",
        str(target),
    ]
    subprocess.run([sys.executable, *command, *sources], check=True, stdin=subprocess.DEVNULL)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(target), *filter(None, sys.path)])}
