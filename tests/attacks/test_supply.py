"""Supply: what a stranger gets into an installation by publishing a package, an image or an action.

Before there were locks, the image took the newest version of each of 59 packages on the day of its build, without a
hash, and base images and actions by tag; every floor but one allowed a version with a published hole.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.table import each_row

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))

# The first version without a published hole.
GOOD = {
    "aiohttp": ("3.14.1", "CVE-2026-54273"),
    "authlib": ("1.7.2", "CVE-2026-44681"),
    "certifi": ("2024.7.4", "CVE-2024-39689"),
    "click": ("8.3.3", "CVE-2026-7246"),
    "cryptography": ("50.0.0", "CVE-2026-69247"),
    "h11": ("0.16.0", "CVE-2025-43859"),
    "httpx": ("0.23.0", "CVE-2021-41945"),
    "idna": ("3.15", "CVE-2026-45409"),
    "jinja2": ("3.1.6", "CVE-2025-27516"),
    "joserfc": ("1.7.2", "GHSA-5jhw-7jv7-qcqq"),
    "langchain-core": ("1.4.9", "CVE-2026-45134"),
    "mako": ("1.3.12", "CVE-2026-44307"),
    "mcp": ("1.28.1", "CVE-2026-59950"),
    "pyarrow": ("23.0.1", "CVE-2026-25087"),
    "pydantic-settings": ("2.14.2", "GHSA-4xgf-cpjx-pc3j"),
    "pyjwt": ("2.13.0", "CVE-2026-48522"),
    "pytest": ("9.0.3", "CVE-2025-71176"),
    "python-multipart": ("0.0.31", "CVE-2026-53540"),
    "ray": ("2.55.0", "CVE-2026-32981"),
    "starlette": ("1.3.1", "CVE-2026-48710, CVE-2026-54283"),
    "urllib3": ("2.7.0", "CVE-2026-44431"),
    "uvicorn": ("0.11.7", "CVE-2020-7694"),
}
# What other packages bring, and what reads there what a stranger sends. Their own floors are lower.
BROUGHT = {
    "server": {"starlette", "h11", "idna"},
    "mcp": {"starlette", "h11", "idna", "python-multipart", "cryptography"},
    "oidc": {"joserfc", "cryptography"},
}


class Locked(NamedTuple):
    name: str
    version: Version
    text: str


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"tools_{name}", ROOT / "tools" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LOCK = tool("lock")
ENTRY = re.compile(
    r"(?P<name>[a-z0-9._-]+)==(?P<version>[a-z0-9.!+]+)(?: ; [^\\\n@]+)? \\\n"
    r"(?:    --hash=sha256:[0-9a-f]{64} \\\n)*    --hash=sha256:[0-9a-f]{64}\n"
)


def locked(name: str) -> list[Locked]:
    """The packages of a lock. Nothing may be left of the file but them and the comment that it begins with."""
    text = (ROOT / name).read_text("utf-8")
    left = ENTRY.sub("", re.sub(r"\A(#.*\n)+", "", text))
    assert left == "", f"{name}: {left[:200]!r} is no package with a version and hashes"
    return [Locked(each["name"], Version(each["version"]), each[0]) for each in ENTRY.finditer(text)]


def project() -> dict[str, list[str]]:
    """The requirements of each extra; those of toolroll itself under the empty name."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return {"": table["dependencies"], **table["optional-dependencies"]}


@each_row("name", LOCK.LOCKS)
def test_a_lock_is_made_from_what_pyproject_says_now(name):
    lock = LOCK.LOCKS[name]
    text = (ROOT / name).read_text("utf-8")
    assert text.startswith(LOCK.header(lock)), "run: python tools/lock.py"
    assert not re.search(r"://|(?<!--hash=sha256:)/(?:home|root|tmp|usr|work)", text), "an address or a path"


@each_row("name", LOCK.LOCKS)
def test_every_requirement_is_locked_at_versions_that_it_allows(name):
    versions: dict[str, set[Version]] = {}
    for each in locked(name):
        versions.setdefault(each.name, set()).add(each.version)
    for text in LOCK.wanted(LOCK.LOCKS[name]):
        wanted = Requirement(text)
        if wanted.marker and not wanted.marker.evaluate({"python_version": LOCK.LOCKS[name].python}):
            continue  # for Pythons that the lock does not serve
        found = versions.get(canonicalize_name(wanted.name), set())
        assert found, f"{name}: {text} is not locked; run: python tools/lock.py"
        assert all(wanted.specifier.contains(each, prereleases=True) for each in found), (name, text, found)


@each_row("name", LOCK.LOCKS)
def test_nothing_with_a_known_hole_is_locked(name):
    for each in locked(name):
        good, advisory = GOOD.get(each.name, ("0", ""))
        assert each.version >= Version(good), f"{name}: {each.name} {each.version} has {advisory}"


def floor(requirement: Requirement) -> Version:
    """The lowest version that it allows."""
    lowest = [Version(each.version) for each in requirement.specifier if each.operator in (">=", "==", "~=")]
    return max(lowest, default=Version("0"))


def test_no_requirement_allows_a_version_with_a_known_hole():
    seen = set()
    for extra, texts in project().items():
        for text in texts:
            requirement = Requirement(text)
            good, advisory = GOOD.get(canonicalize_name(requirement.name), ("0", ""))
            seen.add(canonicalize_name(requirement.name))
            assert floor(requirement) >= Version(good), f"[{extra}] {text}: must be >={good} ({advisory})"
    assert seen >= {"starlette", "mcp", "h11", "authlib", "cryptography", "pyjwt", "urllib3", "pyarrow"}


@pytest.mark.parametrize("extra", BROUGHT)
def test_an_extra_has_a_floor_for_what_reads_a_strangers_bytes(extra):
    names = {canonicalize_name(Requirement(text).name) for text in project()[extra]}
    assert BROUGHT[extra] <= names


def test_a_package_with_other_bytes_than_the_locked_ones_is_refused(tmp_path):
    """A mirror, or whoever took over the account of a maintainer, serves the locked version with another content."""
    victim = locked("deploy/requirements.lock")[0]
    served = tmp_path / "served"
    served.mkdir()
    stem = f"{victim.name.replace('-', '_')}-{victim.version}"
    with zipfile.ZipFile(served / f"{stem}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(
            f"{stem}.dist-info/METADATA",
            f"Metadata-Version: 2.1\nName: {victim.name}\nVersion: {victim.version}\n",
        )
        wheel.writestr(
            f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{stem}.dist-info/RECORD", "")
        wheel.writestr("evil.pth", "import os")
    lock = tmp_path / "one.lock"
    lock.write_text(victim.text)
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--isolated",
        "--no-index",
        "--no-deps",
        "--find-links",
        str(served),
    ]
    command += ["--target", str(tmp_path / "target"), "--disable-pip-version-check"]

    def installed(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, *more], capture_output=True, text=True, timeout=60)

    refused = installed("--require-hashes", "--only-binary", ":all:", "-r", str(lock))
    assert refused.returncode != 0 and "HASH" in refused.stderr.upper(), refused.stderr
    assert not (tmp_path / "target").exists()
    plain = installed(f"{victim.name}=={victim.version}")
    assert plain.returncode == 0 and (tmp_path / "target" / "evil.pth").exists(), "the attack itself works"


def images() -> Iterator[str]:
    """The images that the files of deploy/ begin with or run, but for our own."""
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text()
    arguments = dict(re.findall(r"^ARG (\w+)=(\S+)$", dockerfile, re.MULTILINE))
    stages = set(re.findall(r"^FROM \S+ AS (\w+)", dockerfile, re.MULTILINE))
    for image in re.findall(r"^FROM (?:--\S+ )*(\S+)", dockerfile, re.MULTILINE):
        yield re.sub(r"\$\{?(\w+)\}?", lambda match: arguments[match[1]], image)
    for image in re.findall(r"^COPY --from=(\S+)", dockerfile, re.MULTILINE):
        if image not in stages:
            yield image
    for name in ("compose.yaml", "kubernetes.yaml"):
        for image in re.findall(r"^\s*-? *image: (\S+)", (ROOT / "deploy" / name).read_text(), re.MULTILINE):
            if image != "toolroll":
                yield image


def test_base_images_are_named_by_digest():
    found = list(images())
    assert len(found) >= 4
    for image in found:
        assert re.fullmatch(r"[a-z0-9./-]+:[\w.-]+@sha256:[0-9a-f]{64}", image), image


@each_row("path", WORKFLOWS)
def test_actions_are_named_by_commit_and_packages_come_from_locks(path):
    text = path.read_text("utf-8")
    for action in re.findall(r"uses: (.+)", text):
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action
    for line in text.splitlines():
        assert not re.search(r"\b(pipx|uvx|npx|npm (install|i|update))\b", line), line
        assert "pip install" not in line or "--require-hashes --only-binary :all:" in line, line


@pytest.mark.parametrize("path", ["deploy/install.sh", ".ci/install"])
def test_an_installation_downloads_nothing_without_a_hash(path):
    lines = [line for line in (ROOT / path).read_text("utf-8").splitlines() if not line.startswith("#")]
    commands = [line for line in lines if re.match(r'\s*pip "?[$-]', line)]
    assert len(commands) >= 3
    for line in commands:
        assert "--require-hashes" in line or (
            "--no-deps" in line and "--no-" in line.replace("--no-deps", "")
        ), line
        assert "--require-hashes" not in line or "--only-binary :all:" in line or "headers.lock" in line, line


def test_hooks_run_what_the_gate_runs():
    """Both take the tools of the extra `lint`, and those whose mistakes depend on their version have one."""
    text = (ROOT / ".pre-commit-config.yaml").read_text("utf-8")
    entries = re.findall(r"entry: ([\w-]+)", text)
    assert re.findall(r"repo: (\S+)", text) == ["local"]
    assert text.count("language: system") == len(entries)
    lint = {each.name: str(each.specifier) for each in map(Requirement, project()["lint"])}
    assert {{"lint-imports": "import-linter"}.get(entry, entry) for entry in entries} == lint.keys() - {
        "pre-commit",
        "clang-tidy",  # it asks the build how a file is compiled: tools/check_native.sh lint
    }
    assert all(lint[name].startswith("==") for name in ("ruff", "mypy", "clang-format", "clang-tidy"))
    assert 'pre-commit" run --hook-stage pre-push --all-files' in (ROOT / ".ci" / "run").read_text("utf-8")


def test_the_pages_packages_have_hashes():
    packages = json.loads((ROOT / "web" / "package-lock.json").read_text("utf-8"))["packages"]
    assert packages and all(
        each.get("integrity", "").startswith("sha512-") for name, each in packages.items() if name
    )
