"""Tests each adapter with the real framework, each in a virtual environment of its own.

    python tools/test_adapters.py                  # all of them, one after another
    python tools/test_adapters.py langchain strands  # these
    python tools/test_adapters.py --lowest strands   # with the oldest version that the extra allows
    python tools/test_adapters.py --table          # measures the table of bench/README.md

The frameworks cannot be installed together. An environment is made once, in `--folder`, from the extra of the
same name in pyproject.toml, and is used again until that extra changes. The package itself is read from
python/ where its native module was built in place, and is installed from this checkout otherwise.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import tomllib

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "bench" / "README.md"
BEGIN, END = "<!-- table -->", "<!-- /table -->"
HEAD = """| adapter | tools sent | added | lines changed |
| --- | --- | --- | --- |"""
FRAMEWORKS = (
    "langchain",
    "pydantic-ai",
    "openai-agents",
    "clients",
    "litellm",
    "fastmcp",
    "llama-index",
    "haystack",
    "google-adk",
    "smolagents",
    "strands",
    "agent-framework",
    "semantic-kernel",
    "crewai",
    "agno",
)
# `clients` are the providers' own: an adapter without an extra, since it imports none of them.
CLIENTS = ("openai>=3", "anthropic>=2", "google-genai>=3")
TESTED_WITH = {"litellm": ("litellm[proxy]",)}  # what the tests need beside the extra
WITH_STORE = ("langchain",)  # whose page opens a registry
RUNNER = ("pytest>=8.2", "pytest-xdist>=3.6", "pytest-timeout>=2.3", "hypothesis>=6.100")


def requirements_of(name: str, lowest: bool) -> list[str]:
    """The packages of a framework's environment, those of toolroll among them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    own = list(CLIENTS) if name == "clients" else project["optional-dependencies"][name]
    if lowest:
        own = [requirement.replace(">=", "==") for requirement in own]
    store = project["optional-dependencies"]["store"] if name in WITH_STORE else ()
    return [*own, *store, *TESTED_WITH.get(name, ()), *project["dependencies"], *RUNNER]


def environment(name: str, folder: Path, lowest: bool) -> Path:
    """The interpreter of a framework's environment, which is made if need be."""
    place = folder / f"venv-adapters-{name}{'-lowest' if lowest else ''}"
    python = place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    requirements, made_from = requirements_of(name, lowest), place / "made-from.txt"
    if made_from.exists() and made_from.read_text("utf-8").splitlines() == requirements:
        return python
    subprocess.run([sys.executable, "-m", "venv", "--clear", place], check=True)
    subprocess.run([python, "-m", "pip", "install", "-q", *requirements], check=True)
    if not is_built_in_place():
        subprocess.run([python, "-m", "pip", "install", "-q", ROOT], check=True)
    made_from.write_text("\n".join(requirements), "utf-8")
    return python


def is_built_in_place() -> bool:
    """Whether python/toolroll has the native module of this interpreter."""
    return (ROOT / "python" / "toolroll" / f"_core{sysconfig.get_config_var('EXT_SUFFIX')}").exists()


def variables() -> dict[str, str]:
    """The environment variables of a run: no framework reports home, none asks the network for prices."""
    own = {
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "OTEL_SDK_DISABLED": "true",
        "CREWAI_DISABLE_TELEMETRY": "true",
        "CREWAI_TRACING_ENABLED": "false",
        "AGNO_TELEMETRY": "false",
        "HAYSTACK_TELEMETRY_ENABLED": "False",
        "LANGSMITH_TRACING": "false",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return os.environ | own | ({"PYTHONPATH": str(ROOT / "python")} if is_built_in_place() else {})


def run(python: Path, *arguments: str) -> int:
    return subprocess.run([python, *arguments], cwd=ROOT, env=variables(), check=False).returncode


def measured(python: Path, module: str) -> tuple[int, list[str]]:
    """The status of a measurement, and its row of the table."""
    command = [python, "-m", "tests.adapters.measure", module]
    done = subprocess.run(command, cwd=ROOT, env=variables(), check=False, stdout=subprocess.PIPE, text=True)
    rows = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    print(*rows, sep="\n", flush=True)
    return done.returncode, rows


def write_table(rows: list[str]) -> None:
    """Replaces the rows of these frameworks in the table of the page."""
    text = TABLE.read_text("utf-8")
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    known = [line for line in text[begin:end].splitlines() if line.startswith("| ")][2:]
    by_name = {row.split(" | ")[0]: row for row in (*known, *rows)}
    lines = [by_name[f"| {name}"] for name in FRAMEWORKS if f"| {name}" in by_name]
    TABLE.write_text("\n".join((text[:begin], HEAD, *lines, text[end:])), "utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(FRAMEWORKS))
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--lowest", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--install-only", action="store_true")
    given = parser.parse_args()
    if unknown := set(given.names) - set(FRAMEWORKS):
        parser.error(f"no adapter is named {', '.join(sorted(unknown))}")
    failed, rows = [], []
    for name in given.names or FRAMEWORKS:
        print(f"== {name}", flush=True)
        python = environment(name, given.folder, given.lowest)
        module = name.replace("-", "_")
        if given.install_only:
            continue
        if given.table:
            status, cells = measured(python, module)
            rows += cells
        else:
            tests = f"tests/adapters/test_{module}.py"
            status = run(python, "-m", "pytest", "-q", "-n", "0", "-m", "", tests)
        if status:
            failed.append(name)
    if rows and not failed:
        write_table(rows)
    print(f"failed: {', '.join(failed)}" if failed else "all passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
