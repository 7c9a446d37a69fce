"""Writes the lock files: the exact versions, with their hashes, that the image and CI install.

Usage: python tools/lock.py [--upgrade]

Without `--upgrade`, a locked version stays while pyproject.toml allows it. Needs uv (`pip install uv`) and PyPI.
Each file serves every platform and every Python from the one that it names on, and begins with the requirements that
it was made from, so that a test can compare them with pyproject.toml without asking an index. Only wheels are locked:
pip builds a source distribution with whatever is newest. The one that has no wheel has a file of its own, and what
builds it is locked with the other build requirements.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
HEADERS = "assorthead"  # hnswlib's: no wheel on PyPI
BUILDS_HEADERS = ("setuptools>=46.1", "setuptools-scm>=5")  # what its source distribution asks for


class Lock(NamedTuple):
    """A lock file.

    Attributes:
        what: who installs it.
        extras: of pyproject.toml, whose requirements it has beside those of toolroll itself.
        builds: whether it also has what builds toolroll, but for the headers.
        others: requirements that stand in no file but here, or the name of a file that has them.
        wheels: whether its packages have wheels.
        python: the oldest Python that it serves.
    """

    what: str
    extras: tuple[str, ...] = ()
    builds: bool = False
    others: tuple[str, ...] = ()
    wheels: bool = True
    python: str = "3.10"


LOCKS = {
    "deploy/requirements.lock": Lock("The service", extras=("server", "oidc", "postgres")),
    "deploy/build.lock": Lock("What builds a wheel of toolroll", builds=True),
    "deploy/headers.lock": Lock("The headers that a wheel is built with", wheels=False),
    ".ci/test.lock": Lock("CI: the quick tier and the benchmarks", extras=("test",), builds=True),
    # From Python 3.11 on: duckdb 2 and zensical need it.
    ".ci/gate.lock": Lock(
        "CI: every test, lint, types and the documentation site",
        ("test", "test-all", "lint"),
        builds=True,
        others=("docs/requirements.txt",),
        python="3.11",
    ),
    ".ci/docs.lock": Lock("CI: the documentation site", others=("docs/requirements.txt",), python="3.11"),
    ".ci/release.lock": Lock(
        "CI: the source distribution", builds=True, others=("build", "twine"), python="3.11"
    ),
}


def wanted(lock: Lock) -> list[str]:
    """The requirements that a lock is made from, sorted."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found: set[str] = set()
    needed = project["build-system"]["requires"]
    headers = [each for each in needed if each.startswith(HEADERS)]
    if lock.extras:
        found.update(project["project"]["dependencies"])
    for extra in lock.extras:
        found.update(project["project"]["optional-dependencies"][extra])
    if lock.builds:
        cmake = project["tool"]["scikit-build"]["cmake"]["version"]
        found.update([*needed, f"cmake{cmake}", "ninja", *BUILDS_HEADERS])
        found.difference_update(headers)
    if not lock.wheels:
        found.update(headers)
    for other in lock.others:
        lines = (ROOT / other).read_text(encoding="utf-8").splitlines() if other.endswith(".txt") else [other]
        found.update(filter(None, (line.partition("#")[0].strip() for line in lines)))
    return sorted(found)


def header(lock: Lock) -> str:
    """The comment at the beginning of a lock file."""
    lines = [
        f"{lock.what}, from Python {lock.python} on. Written by tools/lock.py: do not edit. Made from",
        *wanted(lock),
    ]
    return "".join(f"# {line}\n" for line in lines)


def write(path: Path, lock: Lock, upgrade: bool) -> None:
    """Resolves the requirements of a lock and writes its file."""
    command = ["uv", "pip", "compile", "-", "--no-config", "--quiet", "--output-file", str(path)]
    command += ["--universal", "--python-version", lock.python, "--generate-hashes"]
    command += ["--only-binary", ":all:"] if lock.wheels else ["--no-deps"]
    command += ["--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links"]
    command += ["--upgrade"] if upgrade else []
    subprocess.run(command, input="\n".join(wanted(lock)), text=True, check=True)
    path.write_text(header(lock) + path.read_text(encoding="utf-8"), encoding="utf-8")


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--upgrade"]):
        print(__doc__, file=sys.stderr)
        return 2
    for name, lock in LOCKS.items():
        write(ROOT / name, lock, bool(arguments))
        print(name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
